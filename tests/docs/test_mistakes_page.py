"""docs/mistakes.md: every mistake stands there once, with its lines, its distance, and where it was
seen.
"""

import re

import pytest
from command_line import ROOT

from proof.mistakes import MISTAKES, measure

PAGE = (ROOT / "docs" / "mistakes.md").read_text(encoding="utf-8")
STORIES = dict(re.findall(r"(?ms)^### (\S+)$(.*?)(?=^##)", PAGE))
ROWS = dict(re.findall(r"(?m)^\| `(\S+)` \| (.*) \|$", PAGE))


def test_every_mistake_stands_there_once():
    assert sorted([*STORIES, *ROWS]) == sorted(MISTAKES)
    for name, row in ROWS.items():
        assert row.startswith(MISTAKES[name].what)
    for name, story in STORIES.items():
        assert f"```diff\n{MISTAKES[name].diff}\n```" in story


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_its_distance_is_what_the_page_says(name):
    mistake, found = MISTAKES[name], measure(MISTAKES[name])
    stated = (
        ROWS[name].split(" | ")[1]
        if name in ROWS
        else STORIES[name].split("Distance ")[1].split(". ")[0]
    )
    if mistake.cost:
        assert stated == "0" and found["distance"] < 1e-12
    else:
        assert stated == ("always an error" if found["problem"] else f"{found['distance']:.4f}")
        assert found["problem"] or found["first_wrong"]


@pytest.mark.parametrize("name", MISTAKES)
def test_it_links_to_where_it_was_seen(name):
    seen_in = MISTAKES[name].seen_in
    found = re.findall(r"[\w.-]+/[\w.-]+(?:#\d+|/blob/\w+/[\w./-]*\w)", seen_in)
    assert found or seen_in.startswith("no public code")
    entry = ROWS.get(name) or STORIES[name]
    for reference in found:
        assert f"(https://github.com/{reference.replace('#', '/issues/')})" in entry
