"""Held-out text: the openings of its stories."""

from types import SimpleNamespace

import pytest

from experiments import corpus


@pytest.mark.parametrize("n_prompts, expected", [(1, "a"), (2, "ac"), (3, "acd"), (0, "acde")])
def test_openings_of_so_many_stories(tmp_path, n_prompts, expected):
    stories = [letter * (31 if letter == "b" else 40) for letter in "abcde"]  # b is too short
    (tmp_path / "x_valid.txt").write_text("\n<|endoftext|>\n".join(stories))
    found = corpus.openings(tmp_path, SimpleNamespace(encode=list), n_prompts, 32)
    assert found == [[letter] * 32 for letter in expected]
