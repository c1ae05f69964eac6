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

In addition, "expected_acceptance" is the mean over all tokens of sum(min(p, q)), for drafts that
sample: no coin in it, but known only within bounds where the log keeps a rest.
"""

import statistics
from collections import defaultdict
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
from tqdm import tqdm

from checkpoints.files import name_of
from cli.values import AUTO
from decoding.load import NGRAM
from decoding.streams import Purpose, stream
from experiments.benchmark.intervals import (
    Estimate,
    acceptance_estimate,
    estimate_columns,
    round_columns,
)
from experiments.benchmark.results import read_rows
from experiments.replay.recordings import recorded_probabilities
from sampling import Rng, SamplingParams, one_hot, speculative


def record_text(run, top):
    """Decode a text with a Run. Returns its line of the log, a dict: prompt, tokens and, if they
    are sampled, the target's probabilities (of the `top` likeliest tokens).
    """
    tokens, rows = [], []
    for this_round in run.rounds():
        for token in this_round.tokens:
            tokens.append(token)
            rows.append(this_round.p[0])
    text = {"prompt": run.ids, "tokens": tokens}
    return text if run.to_probs.greedy else text | recorded_probabilities(rows, tokens, top)


# ---------------------------------------------------------------- stand-ins for the models


class RecordedTarget:
    """A target that predicts one text for certain: after each token comes the text's next token.

    Only the first drafted token that differs from the text is ever looked at, and it is refused.
    """

    def __init__(self, ids, n_vocab):
        self.ids, self.config = ids, SimpleNamespace(n_vocab=n_vocab, n_ctx=len(ids))

    def new_cache(self, n_positions=None):
        return None

    def read(self, text, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        return one_hot(self.ids[len(text) + 1 - n_last : len(text) + 1], self.config.n_vocab)


ACCEPTED = {
    "token": lambda coins, ratios: coins < ratios,
    # one coin decides a round: the first
    "block": lambda coins, ratios: coins[:1] < np.minimum.accumulate(np.cumprod(ratios)),
}


class CoinDrafter:
    """Drafts the token of a recorded text where it is accepted, and a wrong token elsewhere.

    ratios: q(x) / p(x) for each token x of the text; none beyond the draft's context
    coins: a number from 0 to 1 for each token, the same whatever K is
    """

    def __init__(self, ids, ratios, coins, rule, n_vocab):
        self.ids, self.ratios, self.coins, self.n_vocab = ids, ratios, coins, n_vocab
        self.accepted = ACCEPTED[rule]

    def prefill(self, ids, target_cache):
        """Do nothing: there is no model that has to read the prompt."""

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        """Return up to k drafted tokens after ids, and the distribution of each: certainty."""
        ahead = slice(len(ids), len(ids) + k)
        accepted = zip(self.ids[ahead], self.accepted(self.coins[ahead], self.ratios[ahead]))
        draft = [token if good else (token + 1) % self.n_vocab for token, good in accepted]
        return draft, one_hot(draft, self.n_vocab)


def measure_agreement(draft, text, to_probs):  # -> [n, 3]
    """Run a draft model over a RecordedText. Returns for each token x within its context: q(x) /
    p(x)
    and the lower and upper bound of sum(min(p, q)).
    """
    ids, n_prompt = text.ids[: draft.config.n_ctx + 1], len(text.prompt)
    n = len(ids) - n_prompt
    agreements = []
    if n > 0:
        Q = to_probs(draft.read(ids[:-1], draft.new_cache(), n_last=n))
        places = zip(Q, text.tokens, text.p, text.top_ids, text.top_p, text.rest)
        for q, token, p, top_ids, top_p, rest in places:
            common = np.minimum(q[top_ids], top_p).sum()
            # what the log does not keep may overlap as far as both have mass left
            most = common + min(rest, max(0, 1 - q[top_ids].sum()))
            agreements.append((q[token] / p, common, most))
    return np.reshape(agreements, (-1, 3))


class ReplayedDraft:
    """A draft that is tried on the texts of a log. rule: "token" or "block"

    expected_acceptance: bounds of it, None where the draft does not sample
    """

    def __init__(self, draft, log, seed, rule="token"):
        self.draft, self.log, self.seed, self.rule = draft, log, seed, rule
        self.agreements = self.expected_acceptance = None
        if draft.standalone_model and not log.to_probs.greedy:
            texts = tqdm(log.texts, desc="draft", leave=False, disable=None)
            self.agreements = [
                measure_agreement(draft.standalone_model, text, log.to_probs) for text in texts
            ]
            every = np.concatenate(self.agreements)
            if len(every):
                self.expected_acceptance = every[:, 1:].mean(axis=0).tolist()

    def drafter_of(self, i):
        """Return the drafter for the text of index i."""
        text, n_vocab = self.log.texts[i], self.log.n_vocab
        if self.agreements is None:
            return self.draft.new_drafter(
                RecordedTarget(text.ids, n_vocab), self.log.to_probs, Rng(0)
            )
        ratios = np.concatenate([np.zeros(len(text.prompt)), self.agreements[i][:, 0]])
        rng = np.random.default_rng(stream(Purpose.REPLAY, self.seed, i))
        coins = rng.random(len(ratios))
        return CoinDrafter(text.ids, ratios, coins, self.rule, n_vocab)

    def rounds(self, K):
        """Replay every text. Returns for each a list of the rounds that would have written it."""
        texts = enumerate(self.log.texts)
        return [replay_text(text, self.drafter_of(i), K) for i, text in texts]


def replay_text(text, drafter, K):
    """Return a list of the rounds in which this drafter and K would have written a RecordedText."""
    target, rng = RecordedTarget(text.ids, drafter.n_vocab), Rng(0)
    greedy = SamplingParams(0.0)
    rounds = speculative(target, drafter, text.prompt, len(text.tokens), K, greedy, rng)
    next(rounds)  # the prefill
    return [replace(this_round, q=None, p=None) for this_round in rounds]  # which take megabytes


# ---------------------------------------------------------------- what a round would cost


@dataclass(frozen=True)
class Latency:
    """What a round would cost with a target that is not there, in target passes over one row.

    A round that drafts n of up to K tokens costs n c(K) + v(n + 1): c for each drafted token, v for
    a target pass over that many rows, v(1) = 1. Between known points both are interpolated.

    points: {K: (c(K), v(K + 1))}, with growing K. unknown: why nothing is said beyond these
    """

    points: dict
    unknown: str = ""

    def missing(self, K):
        """Return why there is no projection for this K, or None."""
        return None if K <= max(self.points, default=0) else self.unknown

    def draft_cost(self, K):
        """Return c(K), the cost of a drafted token in target passes over one row."""
        c, _ = zip(*self.points.values())
        return float(np.interp(K, [*self.points], c))

    def verify_cost(self, n_drafted):
        """Return v(n_drafted + 1), the cost of a target pass over that many rows."""
        _, v = zip(*self.points.values())
        return float(np.interp(n_drafted, [0, *self.points], [1, *v]))

    def of_round(self, n_drafted, K):
        """Return the cost of a round that drafts n_drafted of up to K tokens."""
        return n_drafted * self.draft_cost(K) + self.verify_cost(n_drafted)


def read_latencies(path, drafts, target, rule):
    """Read costs from a results file of benchmark. Returns {draft: Latency}.

    Rows of this verification rule count; rows of the same K give medians.
    target: the name of the target; None if the log does not name it, and then the rows count only
    if the file has a single target. Raises InputError if the file is no results file.
    """
    rows = [row for row in read_rows(path) if row["K"] != AUTO and row["verification"] == rule]
    rows = [row for row in rows if target in (None, name_of(row["target"] or ""))]
    if len({row["target"] for row in rows}) > 1:
        rows = []  # of several targets that cannot be told apart
    latencies = {}
    for draft in drafts:
        costs = defaultdict(list)
        for row in rows:
            cost = row["draft_cost"], row["verify_cost"]
            if row["draft"] == draft and None not in cost:
                costs[row["K"]].append(cost)
        points = {K: tuple(map(statistics.median, zip(*costs[K]))) for K in sorted(costs)}
        pair = f"draft {draft} up to this K for {target or 'the target'}"
        latencies[draft] = Latency(points, f"{path} has no costs of {pair} with the {rule} rule")
    return latencies


# ---------------------------------------------------------------- rows


def replay_draft(name, draft, log, Ks, seed, latency, rule="token"):
    """Replay a log with one draft and every K. Returns a list of rows (dicts), one for each K."""
    drafting = ReplayedDraft(draft, log, seed, rule)
    about = {
        "draft": name,
        "target": log.target,
        "temperature": None if log.foreign else log.settings["temperature"],
        "verification": rule,
        "expected_acceptance": drafting.expected_acceptance,
    }
    progress = tqdm(Ks, desc=name, unit=" K", leave=False, disable=None)
    return [about | replay_row(drafting.rounds(K), K, latency) for K in progress]


def replay_row(runs, K, latency):
    """Return {column: value} for one K. runs: for each text the list of its rounds"""
    counts_of = lambda one: (len(one.draft), one.examined, one.accepted)
    rounds = [[*map(counts_of, run)] for run in runs]
    tokens = [sum(len(this_round.tokens) for this_round in run) for run in runs]
    unknown = latency.missing(K)
    costs = [0] * len(runs)
    if not unknown:
        costs = [sum(latency.of_round(drafted, K) for drafted, *_ in run) for run in rounds]
    ratios = {
        "acceptance_rate": acceptance_estimate(rounds),
        "tokens_per_target_pass": Estimate(tokens, [len(run) for run in runs]),
        "projected_speedup": Estimate(tokens, costs, withheld=unknown),
    }
    return {
        "K": K,
        "prompts": len(runs),
        "tokens": sum(tokens),
        **estimate_columns(ratios),
        "draft_cost": None if unknown else latency.draft_cost(K),
        "verify_cost": None if unknown else latency.verify_cost(K),
        **round_columns(rounds, K),
        "withheld": {"projected_speedup": unknown} if unknown else {},
    }


def describe_certainty(log, drafts):
    """Return a text that says which figures of a replay are exact and which are estimates."""
    if log.foreign:
        text = (
            "log of another program: encoded by the draft's tokenizer, drafted greedily; "
            "exact for a target with that tokenizer"
        )
    elif log.to_probs.greedy or {*drafts} == {NGRAM}:
        text = (
            "exact: the rounds are those of the live run on these prompts, "
            "up to ties that float rounding breaks"
        )
    else:
        text = (
            "sampled log: n-gram rounds are exact; a draft model's are one sample from the "
            "distribution of live rounds, and estimate its means"
        )
    return text + "; a projected speedup is an estimate, as good as its latency model"
