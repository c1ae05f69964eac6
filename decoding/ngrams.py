"""N-grams: a draft without a model, which proposes what followed the last tokens earlier."""

from decoding.drafts import Draft
from sampling import one_hot


class NGrams(Draft):
    """Drafts by looking up n-grams in the text so far, without a model."""

    is_lookup = True

    def new_drafter(self, target, to_probs, rng, confidence=0.0):
        return NGramDrafter(target.config.n_vocab)

    def max_draft_length(self, target):
        return max(0, target.config.n_ctx - 2)  # after two tokens, the first of which is found


class NGramDrafter:
    """Drafts by prompt look-up (Saxena 2023): where did the last tokens occur before, and what
    followed? Drafting costs next to nothing. It pays where text repeats itself: code, summaries.
    """

    def __init__(self, n_vocab, max_n=16):
        self.n_vocab, self.max_n = n_vocab, max_n

    def prefill(self, ids, target_cache):
        pass

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        """Up to k tokens, and one-hot q; no tokens if nothing matches.

        The longest n-gram with a match decides, and of its matches the latest. If fewer than k
        tokens follow the match, they are repeated, as the text may be looping.
        """
        draft = []
        string = as_string(ids) if k else ""
        for n in range(min(self.max_n, len(string) - 1), 0, -1):
            # an earlier match: one that ends before the last token
            start = string.rfind(string[-n:], 0, len(string) - 1)
            if start >= 0:
                following = ids[start + n :]
                draft = (following * k)[:k]
                break
        return draft, one_hot(draft, self.n_vocab)


def as_string(ids):
    """The ids as a string, one character each: nothing searches faster than str."""
    try:
        return "".join(map(chr, ids))
    except ValueError:  # an id above 0x10FFFF: wrap it around; a false match only drafts badly
        return "".join([chr(i % 0x110000) for i in ids])
