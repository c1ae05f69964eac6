"""Held-out text: the openings of its stories, and bits per byte."""

from types import SimpleNamespace

import numpy as np
import pytest

from experiments.data import corpus
from experiments.drafting.load import Pairs


def uniform(ids, cache, n_last):
    """What is scored follows half a context, unless the text begins with the window."""
    assert len(ids) <= 12 and (ids[0] == 258 or len(ids) - n_last == 6)
    return np.zeros((n_last, 259))


@pytest.mark.parametrize("length", [1, 5, 6, 7, 11, 12, 13, 40])
def test_every_token_is_scored_once(length):
    """With every token as likely as any other: log2(n_vocab) bits each."""
    config = SimpleNamespace(n_vocab=259, n_ctx=12)
    target = SimpleNamespace(config=config, new_cache=lambda: None, read=uniform)
    encoder = SimpleNamespace(end_of_text=258, encode=str.encode)
    bits = [*corpus.bits_in(Pairs(target, {}, encoder), ["x" * length, "y"])]
    assert bits == pytest.approx([length * np.log2(259), np.log2(259)])


@pytest.mark.parametrize("n_prompts, expected", [(1, "a"), (2, "ac"), (3, "acd"), (0, "acde")])
def test_openings_of_so_many_stories(tmp_path, n_prompts, expected):
    stories = [letter * (31 if letter == "b" else 40) for letter in "abcde"]  # b is too short
    (tmp_path / "x_valid.txt").write_text("\n<|endoftext|>\n".join(stories))
    found = corpus.openings(tmp_path, SimpleNamespace(encode=list), n_prompts, 32)
    assert found == [[letter] * 32 for letter in expected]
