"""Autoregressive and speculative decoding: the reason for this project.

In speculative decoding (Leviathan et al. 2023, arXiv 2211.17192; Chen et al. 2023, arXiv
2302.01318) a cheap draft model proposes K tokens, and the target model scores all of them in one
pass. A rule that accepts or rejects each of them keeps the target's distribution exactly. As in
Leviathan et al., p is the target's distribution and q the draft model's (Chen et al. swap them).

Read `verify` first: it is the accept/reject rule. Then `speculative`, the loop around it, and
`SamplingParams`, where p and q come from. All of it is NumPy on the host. Every random choice is
made by one object, an `Rng`; nothing here prints or looks at a clock. A drafter proposes `draft`, a
list of drafted tokens: K of them in a round, or k, which is smaller near the end of the text.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# ---------------------------------------------------------------- the accept/reject rule


def residual(p, q):  # [n_vocab], [n_vocab] -> [n_vocab]
    """The distribution of a rejected token's replacement: norm(max(0, p - q)), or p if p = q."""
    rest = np.maximum(p - q, 0)
    total = rest.sum()
    # p <= q everywhere means p = q up to rounding. Then the rejection was rounding, too: keep p.
    return rest / total if total > 0 else p


def verify(draft, p, q, rng):  # [k], [k + 1, n_vocab], [k, n_vocab] -> n_accepted, token
    """Accept drafted tokens up to a rejection, then sample one (Leviathan et al., algorithm 1).

    draft[i] was sampled from q[i]; p[i] is the target's distribution at the same position. The
    tokens that come out have the distribution of tokens sampled from p one by one. For each token x

        P(x is drafted and accepted)  =  q(x) min(1, p(x) / q(x))  =  min(p(x), q(x))
        P(x replaces a rejected one)  =  P(rejected) residual(x)   =  max(0, p(x) - q(x))

    and the two add up to p(x). (As p and q both sum to 1, P(rejected), the sum of max(0, q - p), is
    also that of max(0, p - q), the residual's divisor.) A one-hot q gets no special case.
    """
    for i, token in enumerate(draft):
        # a ratio above 1 always accepts; q > 0, because the token was sampled from q
        if not rng.accept(p[i, token] / q[i, token]):
            return i, rng.sample(residual(p[i], q[i]))  # the correction
    # all are accepted: the target's last row gives a token for free, the bonus
    return len(draft), rng.sample(p[len(draft)])


def verify_block(draft, p, q, rng):  # [k], [k + 1, n_vocab], [k, n_vocab] -> n_accepted, token
    """Accept drafted tokens as a block: Sun et al. 2024, arXiv 2403.10444. Called as `verify`; the
    tokens have the same distribution, and on average at least as many of the draft are kept.

    Claim: given the first t drafted tokens, at least t are accepted with probability w[t]. The
    proof goes from t = k down to 0. Let S be the sum of max(0, w[t] p - q) at the next position;
    the coin for t falls on "accept" with probability S / (S + 1 - w[t]). For t = k nothing is
    drafted there: q = 0, so S = w[k], and the coin's probability is w[k], as claimed. If the claim
    is true for t + 1, the next token x is drafted and accepted with probability

        q(x) w[t + 1]  =  q(x) min(1, w[t] p(x) / q(x))  =  min(q(x), w[t] p(x)).

    Over all x these add up to w[t] - S. In every other case fewer than t + 1 are accepted, and the
    coin for t is tossed: it adds (1 - w[t] + S) S / (S + 1 - w[t]) = S. The total is w[t].

    The residual spreads that S over max(0, w[t] p - q). So the next token is x with probability
    min(q(x), w[t] p(x)) + max(0, w[t] p(x) - q(x)) = w[t] p(x): given that t are accepted, p(x).
    """
    w = [1.0]  # the weights: products of the ratios p / q, limited to 1 at each position
    for i, token in enumerate(draft):
        w.append(min(1.0, w[-1] * p[i, token] / q[i, token]))
    for t in reversed(range(len(draft) + 1)):  # the longest block first
        q_next = q[t] if t < len(draft) else 0.0  # after the last nothing is drafted
        S = np.maximum(w[t] * p[t] - q_next, 0).sum()
        # w[0] = 1, so the loop ends in a return; and with w[t] = 1 the coin is S / S, or 0 / 0
        if w[t] == 1 or rng.accept(S / (S + 1 - w[t])):
            return t, rng.sample(residual(w[t] * p[t], q_next))


RULES = {"token": verify, "block": verify_block}  # as --verification names them


# ---------------------------------------------------------------- the two decoding loops


@dataclass(frozen=True)
class Round:
    """What one pass of the target adds to the text: the accepted drafted tokens, then one token of
    the target's own.

    The first round of a loop is the prefill, without tokens. The last may lack the target's token,
    if the text ends at an accepted one. The acceptance rate is accepted / examined.

    p, q: [k + 1, n_vocab], [k, n_vocab], the distributions that the rule was given. Those of GPT-2
    take megabytes: add up what you need of a Round, and let it go.
    """

    tokens: list[int]
    draft: list[int] = field(default_factory=list)
    accepted: int = 0
    p: Any = field(default=None, compare=False, repr=False)
    q: Any = field(default=None, compare=False, repr=False)

    @property
    def examined(self) -> int:
        """How many drafted tokens count as examined: the accepted ones, and the first rejected one
        unless the text ends before it.

        `verify` looks at no others. `verify_block` looks at all of them, but is counted in the same
        way, so that acceptance rates can be compared.
        """
        return min(len(self.draft), len(self.tokens))  # tokens: those accepted, then one more


IsDone = Callable[[Sequence[int]], bool]  # whether the text ends after these new ids


def never(generated: Sequence[int]) -> bool:
    return False


def stop_condition(encoder: Any, stop: str = "") -> IsDone:
    """The function is_done(ids) for the loops, of the ids generated so far, at least one: true if
    the last is in encoder.ends, as <|endoftext|> is, or if their text holds `stop`, unless "".
    """

    def is_done(generated):
        if generated[-1] in encoder.ends:
            return True
        decode = encoder.incremental_decoder()  # which holds back an unfinished character
        return bool(stop) and stop in decode(generated)

    return is_done


def prefill(target: Any, ids: Sequence[int], n_tokens: int) -> tuple[list[int], int, Any]:
    """Let the target read all ids but the last into a new cache. Returns (list of the ids, length
    of the text with n_tokens more, at most n_ctx, cache). Raises ValueError for no ids or too many.
    """
    n_ctx = target.config.n_ctx
    if not 0 < len(ids) <= n_ctx:
        raise ValueError(f"a prompt of {len(ids)} tokens: expected 1 to {n_ctx}")
    length = min(len(ids) + n_tokens, n_ctx)
    cache = target.new_cache(length)
    target.read(ids[:-1], cache, n_last=0)  # no logits: the first round reads the last id
    return list(ids), length, cache


def autoregressive(
    target: Any,
    ids: Sequence[int],
    n_tokens: int,
    to_probs: "SamplingParams",
    rng: "Rng",
    is_done: IsDone = never,
) -> Iterator[Round]:
    """Continue the text `ids`: yield a Round without tokens, the prefill, then Rounds of one token
    each, n_tokens in all, or fewer if the target's context is full or is_done(the new ids) is true.
    Raises ValueError for no ids or more than the context holds.

    target: a gpt2.Model; to_probs: makes p of its logits; rng: samples each token from p
    """
    text, length, cache = prefill(target, ids, n_tokens)
    yield Round([])  # the prefill
    while len(text) < length:
        p = to_probs(target.read(text, cache))
        text.append(rng.sample(p[0]))
        yield Round(text[-1:], p=p)
        if is_done(text[len(ids) :]):
            return


def speculative(
    target: Any,
    drafter: Any,
    ids: Sequence[int],
    n_tokens: int,
    K: int | Callable[[Round], int],
    to_probs: "SamplingParams",
    rng: "Rng",
    is_done: IsDone = never,
    rule: Callable = verify,
) -> Iterator[Round]:
    """Continue the text `ids` as `autoregressive` does, with the same arguments and the same
    distribution, but in Rounds of 1 to K + 1 tokens. Raises ValueError, too, for a drafter of
    another vocabulary, or one that proposes more than it was asked for.

    drafter: its propose(ids, k) returns a draft of up to k tokens, and q
    K: a number, 0 to draft nothing, or a function that gets the last Round and returns a number:
        K is chosen before the next tokens are sampled, so the distribution stays the same
    rule: rule(draft, p, q, rng) returns (n_accepted, token), as `verify` and `verify_block` do
    """
    if drafter.n_vocab != target.config.n_vocab:
        sizes = f"{drafter.n_vocab} and {target.config.n_vocab} tokens"
        raise ValueError(f"draft and target have vocabularies of {sizes}: expected the same")
    text, length, cache = prefill(target, ids, n_tokens)
    drafter.prefill(text[:-1], cache)
    last_round = Round([])
    yield last_round  # the prefill
    while len(text) < length:
        # 1. The drafter proposes up to k tokens. One place is left for the target's own token.
        k = K(last_round) if callable(K) else K
        max_k = min(k, length - len(text) - 1)
        draft, q = drafter.propose(text, max_k)
        if not len(q) == len(draft) <= max_k:
            got = f"{len(draft)} tokens with {len(q)} rows of q"
            raise ValueError(f"the drafter: {got}; expected up to {max_k}, with a row for each")
        # 2. The target scores them in one pass: row i is for draft[i], the last for what follows.
        p = to_probs(target.read([*text, *draft], cache, n_last=len(draft) + 1))
        # 3. The rule accepts the first n_accepted of them, and samples the token that follows.
        n_accepted, next_token = rule(draft, p, q, rng)
        # 4. The text grows by these, up to its end. The next read forgets what was rejected.
        n_before = len(text)
        for token in [*draft[:n_accepted], next_token]:
            text.append(int(token))  # a reader's own rule or drafter may return NumPy's
            done = is_done(text[len(ids) :])
            if done:
                break
        tokens = text[n_before:]  # fewer than were accepted, if the text ended among them
        last_round = Round(tokens, draft, min(n_accepted, len(tokens)), p, q)
        yield last_round
        if done:
            return


# ---------------------------------------------------------------- drafters
#
# A drafter has n_vocab, propose(ids, k) -> draft, q, and prefill(ids, target_cache), which begins a
# text. Only a head of the target reads the target's cache (decoding/heads.py).


class NeuralDrafter:
    """Drafts with a smaller model: samples up to k tokens from it, one pass each."""

    def __init__(self, model: Any, to_probs: "SamplingParams", rng: "Rng"):
        self.model, self.to_probs, self.rng = model, to_probs, rng
        self.n_vocab, self.cache = model.config.n_vocab, model.new_cache()

    def prefill(self, ids: Sequence[int], target_cache: Any) -> None:
        """Begin a text: read ids, the prompt without its last token. target_cache is not used."""
        if len(ids) <= self.model.config.n_ctx:  # after a longer text, `propose` drafts nothing
            self.model.read(ids, self.cache, n_last=0)

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        """Draft k tokens after ids, fewer if the context is full. Returns them, and the
        distribution that each was sampled from.
        """
        draft, q = [], []
        # + 1: the last drafted token is never read, so it needs no place in the context
        room = self.model.config.n_ctx + 1 - len(ids)
        for _ in range(min(k, room)):
            q.append(self.to_probs(self.model.read(ids + draft, self.cache))[0])  # its one row
            draft.append(self.rng.sample(q[-1]))
        return draft, np.reshape(q, (len(q), self.n_vocab))  # with 0 rows, too, where q is []


# ---------------------------------------------------------------- from logits to tokens

N_COLUMNS = 256  # of the table that a search for the k-th largest logit begins with


@dataclass(frozen=True)
class SamplingParams:
    """Turns logits into probabilities: divides by the temperature, keeps the top_k likeliest
    tokens, then of these the nucleus of mass top_p.

    Temperature 0 (or up to 1e-6) is greedy decoding. top_k None or 0 and top_p 1 keep every token.
    Draft and target use the same, but need not: speculative decoding is exact for any p and q,
    as long as q is the distribution that the drafted tokens were sampled from.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self):
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature {self.temperature}: expected a finite number from 0 on")
        if self.top_k is not None and self.top_k < 0:
            raise ValueError(f"top_k {self.top_k}: expected 1 or more, or 0 for all tokens")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p {self.top_p}: expected a number above 0 and up to 1")

    @property
    def greedy(self) -> bool:
        return self.temperature <= 1e-6

    def __call__(self, logits):  # [n, n_vocab] -> [n, n_vocab]
        """The probabilities of each row, in float64. Raises FloatingPointError for NaN."""
        best = largest(logits)  # raises the error, also for a greedy choice
        if self.greedy:
            return one_hot(logits.argmax(axis=-1), logits.shape[-1])
        p = np.exp((logits - best) / self.temperature)  # below the best: exp cannot overflow
        if self.top_k:
            for row, row_logits in zip(p, logits):  # a row of p is changed in place
                keep_top_k(row, row_logits, self.top_k)
        p /= p.sum(axis=-1, keepdims=True)
        if self.top_p < 1:
            for row in p:
                keep_top_p(row, self.top_p)
        return p


def largest(logits):  # [n, n_vocab] -> [n, 1]
    """The largest logit of each row, in float64. Raises FloatingPointError if it is not finite:
    such logits have no distribution.
    """
    best = logits.max(axis=-1, keepdims=True)  # NaN counts as the largest
    if not np.isfinite(best).all():
        problem = "the largest logit is NaN or infinite"
        raise FloatingPointError(f"{problem}: expected a finite number; check the weights")
    return best.astype(np.float64)


def one_hot(tokens, n_vocab):  # [n] -> [n, n_vocab]
    """One distribution per token, with all its mass on that token."""
    p = np.zeros((len(tokens), n_vocab))
    p[np.arange(len(tokens)), tokens] = 1
    return p


def keep_best(p, scores, k, threshold):  # [n_vocab], [n_vocab], in place
    """Zero p except at the k best scores; `threshold` is the k-th. Of ties, the lowest ids stay."""
    ties = np.flatnonzero(scores == threshold)
    n_ties_kept = k - np.count_nonzero(scores > threshold)
    p *= scores >= threshold
    p[ties[n_ties_kept:]] = 0


def keep_top_k(p, logits, k):  # [n_vocab], [n_vocab], in place
    """Zero p except at the k largest logits. (Not the k largest p: rounding makes some equal.)"""
    if k < len(p):
        keep_best(p, logits, k, kth_largest(logits, k))


def kth_largest(x, k):  # [n] -> number
    """The k-th largest number in x, for k from 1 to n."""
    if k <= N_COLUMNS <= len(x):  # most of a vocabulary need not be sorted
        n_rows = len(x) // N_COLUMNS
        table = x[: n_rows * N_COLUMNS].reshape(n_rows, N_COLUMNS)
        # at least k numbers, one in each of k columns, reach this bound: so does the k-th largest
        bound = np.partition(table.max(axis=0), -k)[-k]
        return np.partition(x[x >= bound], -k)[-k]
    return np.partition(x, -k)[-k]


def keep_top_p(p, top_p):  # [n_vocab], in place
    """Keep only the nucleus of p, the fewest likeliest tokens whose sum reaches top_p (Holtzman et
    al. 2019), and rescale it to sum to 1.
    """
    candidates = p[p >= 1 / len(p)]  # enough, unless p is flat
    if candidates.sum() <= top_p:
        # fewer than len(p) tokens are below this limit, together less than 1 - top_p: not needed
        candidates = p[p >= (1 - top_p) / len(p)]
    ranked = np.sort(candidates)[::-1]
    k = min(1 + ranked.cumsum().searchsorted(top_p), len(ranked))
    keep_best(p, scores=p, k=k, threshold=ranked[k - 1])
    p /= p.sum()


class Rng:
    """The random choices of a decoding, all of them: tokens and biased coins, from a seed."""

    def __init__(self, seed: Any):
        self.random = np.random.default_rng(seed).random

    def sample(self, p):  # [n_vocab] -> token
        """Sample a token from p, by inverting the cumulative distribution; none with p = 0."""
        best = int(p.argmax())
        if p[best] == 1:  # no choice: greedy decoding ends here
            return best
        cumulative = p.cumsum()
        u = self.random() * cumulative[-1]
        u = min(u, np.nextafter(cumulative[-1], 0))  # rounding must not lead out of it
        return int(cumulative.searchsorted(u, side="right"))

    def accept(self, ratio: float) -> bool:
        """Toss a biased coin: True with probability min(1, ratio)."""
        return bool(self.random() < ratio)
