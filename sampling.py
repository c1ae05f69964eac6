"""Autoregressive and speculative decoding: the reason for this project.

Speculative decoding (Leviathan et al. 2023, arXiv 2211.17192; Chen et al. 2023, arXiv 2302.01318)
lets a cheap draft propose K tokens and has the target score them all in one pass. An accept/reject
rule then keeps the target's distribution exactly. Notation follows Leviathan et al.: p is the
target's distribution, q is the draft's.

Read `verify` first: it is the theorem. Then `speculative`, the loop around it, and `Filter`, where
p and q come from. Everything here is NumPy on the host; randomness comes in as `rng`; nothing here
prints or looks at a clock.
"""

from dataclasses import dataclass

import numpy as np

# ---------------------------------------------------------------- from logits to tokens


@dataclass(frozen=True)
class Filter:
    """Which distribution to sample from: temperature, then the top_k likeliest tokens, then the
    nucleus of mass top_p.

    Temperature 0 (or up to 1e-6) is greedy decoding; top_k None or 0 and top_p 1 keep every token.
    One filter is applied to draft and target alike: speculative decoding is exact for whatever p it
    is given, if q is what was drawn from. Raises ValueError for a temperature below 0, a top_k
    below 0 or a top_p outside (0, 1].
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self):
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature {self.temperature}: expected a number of 0 or more")
        if self.top_k is not None and self.top_k < 0:
            raise ValueError(f"top_k {self.top_k}: expected 1 or more, or 0 for all tokens")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p {self.top_p}: expected a number above 0 and up to 1")

    @property
    def greedy(self):
        return self.temperature <= 1e-6

    def __call__(self, logits):  # [n, n_vocab] -> [n, n_vocab]
        """Probabilities, float64, of each row of logits."""
        if self.greedy:
            return one_hot(logits.argmax(axis=-1), logits.shape[-1])
        with np.errstate(over="ignore"):
            # a logit far below the best may be minus infinity: its probability is 0
            p = np.exp((logits - logits.max(axis=-1, keepdims=True)) / self.temperature).astype(
                np.float64
            )
        for row in p:
            if self.top_k:
                keep_top_k(row, self.top_k)
            row /= row.sum()
            if self.top_p < 1:
                keep_top_p(row, self.top_p)
        return p


def one_hot(tokens, n_vocab):  # [n] -> [n, n_vocab]
    """The distribution of a choice that leaves nothing to chance: all mass on one token."""
    p = np.zeros((len(tokens), n_vocab))
    p[np.arange(len(tokens)), tokens] = 1
    return p


def keep_likeliest(p, k, threshold):  # [n_vocab], in place
    """Zero all but the k largest entries, the least of which is `threshold`; of equal ones those
    with the lower id stay.
    """
    ties = np.flatnonzero(p == threshold)
    keep = k - np.count_nonzero(p > threshold)
    p *= p >= threshold
    p[ties[keep:]] = 0


def keep_top_k(p, k):  # [n_vocab], in place
    """Zero all but the k largest entries."""
    if k < len(p):
        keep_likeliest(p, k, np.partition(p, -k)[-k])


def keep_top_p(p, top_p):  # [n_vocab], in place
    """Zero all but the nucleus, the fewest likeliest tokens that together reach top_p (Holtzman et
    al. 2019), and rescale.

    No sorting: split the candidates into a larger and a smaller half and go on with the one in
    which top_p is reached.
    """
    # k - 1 tokens, of that mass together, are likelier than all candidates
    candidates, k, mass = p[p > 0], 1, 0.0
    while len(candidates) > 1:
        half = len(candidates) // 2
        candidates = np.partition(candidates, half)
        larger = candidates[half:].sum()
        if mass + larger >= top_p:
            candidates = candidates[half:]
        else:
            k, mass, candidates = k + len(candidates) - half, mass + larger, candidates[:half]
    keep_likeliest(p, k, candidates[0])
    p /= p.sum()


def sample(p, rng, block=256):  # [n_vocab] -> token
    """A token drawn from p, by inverting the cumulative distribution. Never one of probability 0.

    First the block of tokens, then the token in it: adding up 50,257 numbers one after the other
    would take longer.
    """
    likeliest = int(p.argmax())
    if p[likeliest] == 1:  # nothing is left to chance: greedy decoding ends here
        return likeliest
    totals = np.add.reduceat(p, range(0, len(p), block)).cumsum()
    u = rng.random() * totals[-1]
    i = int(totals.searchsorted(u, side="right"))
    inside = p[i * block : (i + 1) * block].cumsum()
    # rounding must not lead out of the block
    u = min(u - (totals[i - 1] if i else 0), np.nextafter(inside[-1], 0))
    return i * block + int(inside.searchsorted(u, side="right"))


def toss(probability, rng):
    """True with the given probability."""
    return rng.random() < probability


# ---------------------------------------------------------------- the theorem


def residual(p, q):  # [n_vocab], [n_vocab] -> [n_vocab]
    """norm(max(0, p - q)): what a rejected token is replaced from; the part of p that drafting from
    q leaves uncovered.
    """
    rest = np.maximum(p - q, 0)
    total = rest.sum()
    # p <= q everywhere means p = q up to rounding: a rejection was a rounding error too, and p is
    # the answer
    return rest / total if total > 0 else p


def verify(draft, q, p, rng):  # [k], [k, n_vocab], [k + 1, n_vocab] -> number accepted, next token
    """Accept drafted tokens from the left, then draw one more token: Leviathan et al., algorithm 1.

    draft[i] was drawn from q[i], and p[i] is the target's distribution at the same place. The
    accepted tokens and the one after them are distributed exactly as if they had been drawn from p
    one by one, because for every token x

        q(x) min(1, p(x) / q(x))  +  P(rejected) norm(max(0, p - q))(x)  =  min(p(x), q(x)) + max(0,
        p(x) - q(x))  =  p(x)

    A deterministic draft is no special case: its q is one-hot.
    """
    for i, token in enumerate(draft):
        if not toss(p[i, token] / q[i, token], rng):
            return i, sample(residual(p[i], q[i]), rng)  # the correction
    # all accepted: the target's last row is a token for free, the bonus
    return len(draft), sample(p[len(draft)], rng)


# ---------------------------------------------------------------- drafters


class NeuralDrafter:
    """Drafts with a smaller model: draws up to k tokens from it, one pass each.

    confidence: where the model gives no token as much probability, at temperature 1, no more is
    drafted. The next token has not been drawn by then: to drop one because of what it is would
    change its law, and with it the text's.
    """

    def __init__(self, model, filter, rng, confidence=0.0):
        self.model, self.filter, self.rng, self.confidence = model, filter, rng, confidence
        self.n_vocab, self.cache = model.config.n_vocab, model.new_cache()

    def prefill(self, ids):
        if len(ids) <= self.model.config.n_ctx:
            self.model.read(ids, self.cache, n_last=0)

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        """Drafted tokens and the distribution each was drawn from; fewer than k where context or
        confidence end.
        """
        draft, q = [], [np.empty((0, self.n_vocab))]
        for _ in range(min(k, self.model.config.n_ctx + 1 - len(ids))):
            logits = self.model.read(ids + draft, self.cache)
            if self.confidence and 1 / np.exp(logits - logits.max()).sum() < self.confidence:
                break
            q.append(self.filter(logits))
            draft.append(sample(q[-1][0], self.rng))
        return draft, np.concatenate(q)


class NGramDrafter:
    """Drafts by looking up where the last tokens occurred before, and proposing what followed there
    (Saxena 2023).

    Costs next to nothing, and pays where a text repeats itself: code, summaries, loops.
    """

    def __init__(self, n_vocab, max_n=3):
        self.n_vocab, self.max_n = n_vocab, max_n

    def prefill(self, ids):
        pass

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        """Up to k tokens, one-hot q; none where nothing matches.

        The longest n-gram that matches decides; of its occurrences the latest that k tokens follow,
        else the earliest.
        """
        # a token, a character: nothing searches faster than str
        text, draft = "".join(map(chr, ids if k else [])), []
        for n in range(min(self.max_n, len(text) - 1), 0, -1):
            start = text.rfind(text[-n:], 0, max(0, len(ids) - k))
            if start < 0:
                start = text.find(text[-n:], 0, len(ids) - 1)
            if start >= 0:
                draft = ids[start + n : start + n + k]
                break
        return draft, one_hot(draft, self.n_vocab)


# ---------------------------------------------------------------- the two decoding loops


@dataclass(frozen=True)
class Round:
    """What one target pass added to the text: the accepted drafts, then one token of the target's
    own.

    The first round of a loop is the prefill, without tokens. The last may lack the target's token:
    a text ends inside an accepted run where its end is. Acceptance rate, here and everywhere:
    accepted / examined.
    """

    tokens: list
    drafted: int = 0
    accepted: int = 0

    @property
    def examined(self):
        """Drafts the rule looked at: up to the first rejection, or to the end of the text. The
        bonus is none of them.
        """
        return min(self.drafted, len(self.tokens))

    @property
    def sources(self):
        """Where each token came from: "draft", then "bonus", "correction", or "target" where
        nothing was drafted.
        """
        last = (
            "target"
            if not self.drafted
            else "bonus"
            if self.accepted == self.drafted
            else "correction"
        )
        return (["draft"] * self.accepted + [last])[: len(self.tokens)]


def never(generated):
    return False


def stop_condition(encoder, stop=None):
    """An `ended` for the loops: at <|endoftext|>, or with the token that completes the string
    `stop`.
    """
    # no token is shorter than a byte: the string cannot reach back further
    n_tail = len((stop or "").encode())

    def ended(generated):
        if generated[-1] == encoder.end_of_text:
            return True
        return bool(stop) and stop in encoder.decode(generated[-n_tail:])

    return ended


def prefill(target, ids, n_tokens):
    """What both loops begin with: the text so far, the length to stop at, and a cache that has read
    all but its last id.
    """
    if not 0 < len(ids) <= target.config.n_ctx:
        raise ValueError(f"a prompt of {len(ids)} tokens: expected 1 to {target.config.n_ctx}")
    length = min(len(ids) + n_tokens, target.config.n_ctx)
    cache = target.new_cache(length)
    target.read(ids[:-1], cache, n_last=0)
    return list(ids), length, cache


def autoregressive(target, ids, n_tokens, filter, rng, ended=never):
    """Yield Rounds of one token each, n_tokens in all, fewer where the context is full or
    ended(generated ids) is true.
    """
    text, length, cache = prefill(target, ids, n_tokens)
    yield Round([])
    while len(text) < length:
        p = filter(target.read(text, cache))
        text.append(sample(p[0], rng))
        yield Round(text[-1:])
        if ended(text[len(ids) :]):
            return


def speculative(target, drafter, ids, n_tokens, K, filter, rng, ended=never):
    """Yield Rounds of 1 to K + 1 tokens: the same number of tokens as `autoregressive`, with the
    same distribution.

    K is a number, or a function of the Round before that gives one, 0 to draft nothing: as long as
    it cannot know what the next draws will be, the law is the same. Raises ValueError for K below 1
    or a drafter with another vocabulary.
    """
    if not callable(K) and K < 1:
        raise ValueError(f"K = {K}: expected 1 or more")
    if drafter.n_vocab != target.config.n_vocab:
        raise ValueError(
            f"draft and target have vocabularies of {drafter.n_vocab} and {target.config.n_vocab} tokens"
        )
    text, length, cache = prefill(target, ids, n_tokens)
    drafter.prefill(text[:-1])
    yield (last := Round([]))
    while len(text) < length:
        # 1. the draft proposes, never more than the text has room for beside the target's own token
        k = K(last) if callable(K) else K
        draft, q = drafter.propose(text, min(k, length - len(text) - 1))
        # 2. the target scores all of it in one pass
        p = filter(target.read(text + draft, cache, n_last=len(draft) + 1))
        # 3. accept from the left; one more token is the target's own
        n_accepted, token = verify(draft, q, p, rng)
        # 4. keep them up to the end of the text; the next read forgets what was rejected
        n_text = len(text)
        for token in draft[:n_accepted] + [token]:
            text.append(token)
            if done := ended(text[len(ids) :]):
                break
        tokens = text[n_text:]
        yield (last := Round(tokens, len(draft), min(n_accepted, len(tokens))))
        if done:
            return
