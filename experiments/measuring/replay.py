"""Try drafts, and every K, on what a target wrote, without the target.

The text that speculative decoding writes is the target's, whatever the draft; only how it falls
into rounds is the draft's doing. So a recorded text can be put through the real loop again, with a
target that says what is in the log:

- A deterministic draft (a greedy one, or n-grams) is accepted exactly where it agrees with the
  recorded token, at any temperature of the target. Its rounds are exactly those of the live run.
- A draft that samples from q is accepted, given that the text went on with x, with probability
  min(p(x), q(x)) / p(x) = min(1, q(x) / p(x)): of the ways to write x, the share that comes from an
  accepted draft. One coin for each token, the same for every K, gives rounds with exactly the
  distribution of live ones; how they fall is one sample of it.
- With block verification, at least t drafts of a round are accepted, given the text, with a
  probability that is the least of 1 and the products of the first 1, 2, ..., t ratios q(x) / p(x).
  (It is Q P[t] of `verify_block`, with Q the probability of the draft, divided by that of the
  text.) One coin decides a round.

Beside that, "expected_acceptance" is the mean over all tokens of sum(min(p, q)), for drafts that
sample: no coin in it, but known only within bounds where the log keeps a rest.
"""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from tqdm import tqdm

from experiments.data.recordings import probabilities
from experiments.decoding.job import Job, decode
from experiments.drafting.load import NGRAM
from experiments.measuring.statistics import counts_by_position, interval, ratio
from sampling import Filter, one_hot, speculative

GREEDY = Filter(0.0)


class KeepingFilter:
    """A filter that keeps the distributions it makes."""

    def __init__(self, filter):
        self.filter = filter
        self.kept = []

    def __call__(self, logits):  # [1, n_vocab] -> [1, n_vocab]
        p = self.filter(logits)
        self.kept.append(p[0])
        return p


def record_text(target, ids, n_tokens, filter, seed, top):
    """What the log keeps of a text: its tokens and, where they are sampled, probabilities."""
    keeping = KeepingFilter(filter)
    rounds = decode(target, None, Job(ids, n_tokens, filter=keeping, seed=seed))
    tokens = [int(token) for one in rounds for token in one.tokens]
    text = {"prompt": ids, "tokens": tokens}
    return text if filter.greedy else text | probabilities(keeping.kept, tokens, top)


# ---------------------------------------------------------------- stand-ins for the models


class RecordedTarget:
    """A target that knows one text: after each of its tokens comes the next. Of what differs from
    it, only the first token is ever looked at, and refused."""

    def __init__(self, ids, n_vocab):
        self.ids, self.config = ids, SimpleNamespace(n_vocab=n_vocab, n_ctx=len(ids))

    def new_cache(self, n_positions=None):
        return None

    def read(self, text, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        return one_hot(self.ids[len(text) + 1 - n_last : len(text) + 1], self.config.n_vocab)


class CoinDrafter:
    """Drafts the recorded tokens that a coin accepts, else others; up to the end of the draft's
    context.

    accepts(begin, end): for these positions of the text, whether each of its tokens is accepted
    """

    def __init__(self, ids, accepts, n_vocab, n_ctx):
        self.ids, self.accepts, self.n_vocab, self.n_ctx = ids, accepts, n_vocab, n_ctx

    def prefill(self, ids):
        pass

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        begin, end = len(ids), min(len(ids) + k, self.n_ctx + 1)
        accepted = zip(self.ids[begin:end], self.accepts(begin, end))
        draft = [token if good else (token + 1) % self.n_vocab for token, good in accepted]
        return draft, one_hot(draft, self.n_vocab)


def token_coins(ratios, rng):
    """`accepts` of the token rule: one coin for each token, whatever K is.

    ratios: q(x) / p(x) for each token x of a text, by position
    """
    accepted = rng.random(len(ratios)) < ratios
    return lambda begin, end: accepted[begin:end]


def block_coins(ratios, rng):
    """`accepts` of block verification: one coin for each round."""

    def accepts(begin, end):
        products = np.cumprod(ratios[begin:end])
        return rng.random() < np.minimum.accumulate(products)

    return accepts


COINS = {"token": token_coins, "block": block_coins}


# ---------------------------------------------------------------- acceptance of a sampled text


@dataclass(frozen=True)
class Acceptance:
    """Of a draft on one text.

    ratios: q(x) / p(x) for each token x of the text, 0 in its prompt and beyond the draft's context
    low, high: bounds of the sum over tokens of sum(min(p, q))
    n: how many tokens are within the draft's context
    """

    ratios: np.ndarray
    low: float = 0.0
    high: float = 0.0
    n: int = 0


def acceptance_of(draft, text, filter):
    """The Acceptance of a draft that samples through this filter."""
    ids, n_prompt = text["prompt"] + text["tokens"], len(text["prompt"])
    ratios = np.zeros(len(ids))
    ids = ids[: draft.config.n_ctx + 1]
    n = len(ids) - n_prompt
    if n <= 0:
        return Acceptance(ratios)
    low = high = 0.0
    for i, q in enumerate(filter(draft.read(ids[:-1], draft.new_cache(), n_last=n))):
        token, kept = text["tokens"][i], text["top_ids"][i]
        ratios[n_prompt + i] = q[token] / text["p"][i]
        common = np.minimum(q[kept], text["top_p"][i]).sum()
        low += common
        # what the log does not keep may overlap as far as both have mass left
        high += common + min(text["rest"][i], max(0, 1 - q[kept].sum()))
    return Acceptance(ratios, low, high, n)


def expected_acceptance(found):
    """[low, high] of the mean of sum(min(p, q)) over all tokens; None without a token."""
    n = sum(one.n for one in found)
    if not n:
        return None
    return [float(sum(one.low for one in found) / n), float(sum(one.high for one in found) / n)]


class Drafting:
    """A draft on the texts of a log. rule: "token" or "block"

    expected_acceptance: bounds of it, None where the draft does not sample
    """

    def __init__(self, draft, log, seed, rule="token"):
        self.draft, self.log, self.seed, self.rule = draft, log, seed, rule
        self.expected_acceptance = None
        self.samples = draft.alone is not None and not log.filter.greedy
        if self.samples:
            texts = tqdm(log.texts, desc="draft", leave=False, disable=None)
            self.found = [acceptance_of(draft.alone, text, log.filter) for text in texts]
            self.expected_acceptance = expected_acceptance(self.found)

    def drafter_of(self, i):
        """The drafter for text i."""
        ids, n_vocab = self.log.texts[i]["prompt"] + self.log.texts[i]["tokens"], self.log.n_vocab
        if not self.samples:
            return self.draft.drafter(RecordedTarget(ids, n_vocab), self.log.filter, None)
        accepts = COINS[self.rule](self.found[i].ratios, np.random.default_rng([self.seed, i]))
        return CoinDrafter(ids, accepts, n_vocab, self.draft.n_ctx)

    def rounds(self, K):
        """For each text, the rounds in which this draft and K would have written it."""
        texts = enumerate(self.log.texts)
        return [replay_text(text, self.drafter_of(i), K) for i, text in texts]


def replay_text(text, drafter, K):
    """The rounds in which this drafter and K would have written the text."""
    ids = text["prompt"] + text["tokens"]
    target = RecordedTarget(ids, drafter.n_vocab)
    rng = np.random.default_rng(0)
    rounds = speculative(target, drafter, text["prompt"], len(text["tokens"]), K, GREEDY, rng)
    next(rounds)  # the prefill
    return list(rounds)


# ---------------------------------------------------------------- rows


def replay_draft(name, draft, log, Ks, seed, latency, rule="token"):
    """The rows of one draft, for every K."""
    drafting = Drafting(draft, log, seed, rule)
    what = {
        "draft": name,
        "target": log.target,
        "temperature": None if log.foreign else log.settings["temperature"],
        "verification": rule,
        "expected_acceptance": drafting.expected_acceptance,
    }
    progress = tqdm(Ks, desc=name, unit=" K", leave=False, disable=None)
    return [what | figures(drafting.rounds(K), name, K, latency) for K in progress]


def figures(runs, name, K, latency):
    """What a row says of the rounds of each text."""
    rounds = [(one.drafted, one.examined, one.accepted) for run in runs for one in run]
    examined = [sum(one.examined for one in run) for run in runs]
    accepted = [sum(one.accepted for one in run) for run in runs]
    tokens = [sum(len(one.tokens) for one in run) for run in runs]
    passes = [len(run) for run in runs]
    n_drafted = sum(drafted for drafted, _, _ in rounds)
    examined_at, by_position, histogram = counts_by_position(rounds, K)

    # project the speedup where the costs of a round are known
    reason = latency.missing(name, K)
    costs = None if reason else latency.costs[name, K]
    projected = projected_interval = None
    if costs:
        seconds = [sum(costs.of_round(one.drafted) for one in run) for run in runs]
        projected, projected_interval = ratio(tokens, seconds), interval(tokens, seconds)

    return {
        "K": K,
        "prompts": len(runs),
        "tokens": sum(tokens),
        "acceptance_rate": ratio(accepted, examined),
        "tokens_per_target_pass": ratio(tokens, passes),
        "projected_speedup": projected,
        "intervals": {
            "acceptance_rate": interval(accepted, examined, most=1),
            "tokens_per_target_pass": interval(tokens, passes),
            "projected_speedup": projected_interval,
        },
        "draft_cost": costs.draft_cost if costs else None,
        "verify_cost": costs.of_pass(K + 1) if costs else None,
        "acceptance_by_position": by_position,
        "examined_by_position": examined_at,
        "accepted_histogram": histogram,
        "drafted": n_drafted,
        "wasted_drafts": n_drafted - sum(accepted),
        "withheld": {"projected_speedup": reason} if reason else {},
    }


def certainty(log, drafts):
    """What of the result is exact, and what an estimate."""
    if log.foreign:
        text = (
            "log of another program: encoded by the draft's tokenizer, drafted greedily; "
            "exact for a target with that tokenizer"
        )
    elif not log.filter.greedy and set(drafts) != {NGRAM}:
        text = (
            "sampled log: n-gram rounds are exact; a draft model's are one sample from the "
            "distribution of live rounds, and estimate its means"
        )
    else:
        text = (
            "exact: the rounds are those of the live run on these prompts, "
            "up to ties that float rounding breaks"
        )
    return text + "; a projected speedup is an estimate, as good as its latency model"
