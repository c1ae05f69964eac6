"""N-grams: a draft without a model. It proposes the tokens that followed the same tokens before."""

from collections.abc import Sequence
from typing import Any

from sampling import one_hot


class NGramDrafter:
    """Drafts by prompt look-up (Saxena 2023): finds where the last tokens, up to max_n, occurred
    before, and drafts what followed. Costs next to nothing; pays where a text repeats itself, such
    as in code and summaries.
    """

    def __init__(self, n_vocab: int, max_n: int = 16):
        self.n_vocab, self.max_n = n_vocab, max_n

    def prefill(self, ids: Sequence[int], target_cache: Any) -> None:
        """Begin a text; there is nothing to prepare."""

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        """Draft up to k tokens after ids. Returns them and their one-hot q; none without a match.

        The longest n-gram with a match decides, and of its matches the latest. If fewer than k
        tokens follow the match, they are repeated, as the text may be looping.
        """
        draft = self.look_up(ids, as_string(ids), k) if k else []
        return draft, one_hot(draft, self.n_vocab)

    def look_up(self, ids: list[int], string: str, k: int) -> list[int]:
        """Up to k tokens that followed where the longest n-gram at the end of ids occurred last,
        repeated if they are fewer than k; [] without a match. string: the ids, a
        character each (as_string)
        """
        for n in range(min(self.max_n, len(string) - 1), 0, -1):
            # only matches that end before the last token: a token must follow
            start = string.rfind(string[-n:], 0, len(string) - 1)
            if start >= 0:
                following = ids[start + n :]
                return (following * k)[:k]  # k times is long enough
        return []


def as_string(ids: list[int]) -> str:
    """The ids as a string, one character each: nothing searches faster than str. (An id above
    0x10FFFF is wrapped around; a false match only drafts badly.)
    """
    return "".join([chr(i % 0x110000) for i in ids])
