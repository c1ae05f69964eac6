"""N-grams: a draft without a model. It proposes the tokens that followed the same tokens before."""

from decoding.drafts import Draft
from sampling import one_hot


class NGrams(Draft):
    """Drafts by looking up n-grams in the text so far, without a model."""

    is_lookup = True

    def new_drafter(self, target, to_probs, rng, confidence=0.0):
        """Make an NGramDrafter. Of the parameters, only the target's vocabulary size is used."""
        return NGramDrafter(target.config.n_vocab)

    def max_draft_length(self, target):
        """The most tokens that a round can draft: a match needs two tokens before the draft."""
        return max(0, target.config.n_ctx - 2)


class NGramDrafter:
    """Drafts by prompt look-up (Saxena 2023): finds where the last tokens, up to max_n, occurred
    before, and drafts what followed. Costs next to nothing; pays where a text repeats itself, such
    as in code and summaries.
    """

    def __init__(self, n_vocab, max_n=16):
        self.n_vocab, self.max_n = n_vocab, max_n

    def prefill(self, ids, target_cache):
        """Begin a text; there is nothing to prepare."""

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        """Draft up to k tokens after ids. Returns them and their one-hot q; none without a match.

        The longest n-gram with a match decides, and of its matches the latest. If fewer than k
        tokens follow the match, they are repeated, as the text may be looping.
        """
        draft = []
        string = as_string(ids) if k else ""  # one character for each id
        for n in range(min(self.max_n, len(string) - 1), 0, -1):
            # only matches that end before the last token: a token must follow
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
