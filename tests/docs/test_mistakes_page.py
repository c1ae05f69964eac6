"""docs/mistakes.md: every mistake stands there once, says where it was seen, and is true."""

import numpy as np
import pytest
from command_line import ROOT

from proof.enumerate import distribution
from proving.mistakes import MISTAKES
from proving.mistakes_page import GROUPS, REFERENCE, STORIES, page_blocks
from proving.patching import apply_mistake
from sampling import verify


def test_the_gallery_has_every_mistake_once_and_says_where():
    names = [name for group in GROUPS.values() for name in group]
    assert sorted(names) == sorted(MISTAKES) and STORIES.keys() < MISTAKES.keys()
    for mistake in MISTAKES.values():
        # an issue, a pull request, or a file of a commit
        assert REFERENCE.search(mistake.seen_in) or mistake.seen_in.startswith("not seen")


@pytest.mark.slow
def test_the_gallery_is_what_its_command_prints():
    page = (ROOT / "docs" / "mistakes.md").read_text(encoding="utf-8")
    assert page.endswith("\n\n".join(["", *page_blocks()]) + "\n")


def test_replacing_from_p_gives_what_the_rule_s_page_says():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])

    def one_token(rng):
        token = rng.sample(q)
        n, last = verify([token], np.stack([p, p]), q[None], rng)
        return token if n else last

    assert distribution(one_token) == pytest.approx(dict(enumerate(p)))
    with apply_mistake(MISTAKES["resample-from-p"]):
        assert distribution(one_token) == pytest.approx({0: 0.4, 1: 0.32, 2: 0.28})
