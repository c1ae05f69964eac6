"""N-grams: which place of the text they find, and what they draft from there."""

import numpy as np
import pytest

from decoding.ngrams import NGramDrafter

LAST = [*range(1, 17)]  # sixteen tokens: so many are looked up


@pytest.mark.parametrize("ids, k, expected", [
    ([1, 2, 3, 4, 1, 2, 3], 2, [4, 1]),  # the longest match
    ([1, 2, 9, 1, 2, 8, 1, 2], 2, [8, 1]),  # the latest of two
    ([1, 9, 5, 9, 9, 7, 5, 9], 2, [9, 7]),  # two tokens before one
    ([1, 7, 2, 9, 1, 8, 1], 3, [8, 1, 8]),  # the latest of two, though fewer than three follow
    ([1, 2, 3, 4, 5, 0, 9, 2, 3, 4], 2, [5, 0]),  # three agree, a fourth does not
    # the sixteenth token from the end decides between two places, the seventeenth does not
    ([*LAST, 20, 18, *LAST[1:], 21, *LAST], 1, [20]),
    ([17, *LAST, 20, 18, *LAST, 21, 17, *LAST], 1, [21]),
    ([4], 4, []),
    ([1, 2, 1], 0, []),
])  # fmt: skip
def test_ngram_drafts(ids, k, expected):
    draft, q = NGramDrafter(30).propose(ids, k)
    assert draft == expected and np.array_equal(q, np.eye(30)[expected].reshape(-1, 30))


def test_ngrams_of_ids_that_are_no_characters():
    """From 0x110000 on an id has no character of its own; two ids that share one may match."""
    ids = [0x110000, 0x110001, 0xD800, 0xFEFF, 0x110000, 0x110001]
    assert NGramDrafter(0x110002).propose(ids, 2)[0] == [0xD800, 0xFEFF]
    assert NGramDrafter(0x110002).propose([0, 5, 0x110000], 1)[0] == [5]
