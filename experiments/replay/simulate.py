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
from experiments.benchmark.results import read_rows
from experiments.benchmark.statistics import Figure, acceptance, as_columns, counts
from experiments.replay.recordings import probabilities
from sampling import Chance, Filter, one_hot, speculative


def record_text(run, top):
    """What the log keeps of a text: its tokens and, where they are sampled, probabilities."""
    tokens, rows = [], []
    for round in run.rounds():
        for token in round.tokens:
            tokens.append(token)
            rows.append(round.p[0])
    text = {"prompt": run.ids, "tokens": tokens}
    return text if run.filter.greedy else text | probabilities(rows, tokens, top)


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


ACCEPTED = {
    "token": lambda coins, ratios: coins < ratios,
    # one coin decides a round: the first
    "block": lambda coins, ratios: coins[:1] < np.minimum.accumulate(np.cumprod(ratios)),
}


class CoinDrafter:
    """Drafts the tokens of a recorded text where they are accepted, else others.

    ratios: q(x) / p(x) for each token x of the text; none beyond the draft's context
    coins: a number from 0 to 1 for each token, the same whatever K is
    """

    def __init__(self, ids, ratios, coins, rule, n_vocab):
        self.ids, self.ratios, self.coins, self.n_vocab = ids, ratios, coins, n_vocab
        self.accepted = ACCEPTED[rule]

    def prefill(self, ids):
        pass

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        ahead = slice(len(ids), len(ids) + k)
        accepted = zip(self.ids[ahead], self.accepted(self.coins[ahead], self.ratios[ahead]))
        draft = [token if good else (token + 1) % self.n_vocab for token, good in accepted]
        return draft, one_hot(draft, self.n_vocab)


def agreement(draft, text, filter):  # -> [n, 3]
    """For each token within the draft's context: q(x) / p(x), and bounds of sum(min(p, q))."""
    ids, n_prompt = text.ids[: draft.config.n_ctx + 1], len(text.prompt)
    n = len(ids) - n_prompt
    agreements = []
    if n > 0:
        Q = filter(draft.read(ids[:-1], draft.new_cache(), n_last=n))
        places = zip(Q, text.tokens, text.p, text.top_ids, text.top_p, text.rest)
        for q, token, p, top_ids, top_p, rest in places:
            common = np.minimum(q[top_ids], top_p).sum()
            # what the log does not keep may overlap as far as both have mass left
            most = common + min(rest, max(0, 1 - q[top_ids].sum()))
            agreements.append((q[token] / p, common, most))
    return np.reshape(agreements, (-1, 3))


class Drafting:
    """A draft on the texts of a log. rule: "token" or "block"

    expected_acceptance: bounds of it, None where the draft does not sample
    """

    def __init__(self, draft, log, seed, rule="token"):
        self.draft, self.log, self.seed, self.rule = draft, log, seed, rule
        self.agreements = self.expected_acceptance = None
        if draft.alone and not log.filter.greedy:
            texts = tqdm(log.texts, desc="draft", leave=False, disable=None)
            self.agreements = [agreement(draft.alone, text, log.filter) for text in texts]
            every = np.concatenate(self.agreements)
            if len(every):
                self.expected_acceptance = every[:, 1:].mean(axis=0).tolist()

    def drafter_of(self, i):
        """The drafter for text i."""
        text, n_vocab = self.log.texts[i], self.log.n_vocab
        if self.agreements is None:
            return self.draft.drafter(RecordedTarget(text.ids, n_vocab), self.log.filter, Chance(0))
        ratios = np.concatenate([np.zeros(len(text.prompt)), self.agreements[i][:, 0]])
        coins = np.random.default_rng([self.seed, i]).random(len(ratios))
        return CoinDrafter(text.ids, ratios, coins, self.rule, n_vocab)

    def rounds(self, K):
        """For each text, the rounds in which this draft and K would have written it."""
        texts = enumerate(self.log.texts)
        return [replay_text(text, self.drafter_of(i), K) for i, text in texts]


def replay_text(text, drafter, K):
    """The rounds in which this drafter and K would have written the Text."""
    target, chance = RecordedTarget(text.ids, drafter.n_vocab), Chance(0)
    rounds = speculative(target, drafter, text.prompt, len(text.tokens), K, Filter(0.0), chance)
    next(rounds)  # the prefill
    return [replace(round, q=None, p=None) for round in rounds]  # which take megabytes


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
        """Why there is no projection, or None."""
        return None if K <= max(self.points, default=0) else self.unknown

    def draft_cost(self, K):
        c, _ = zip(*self.points.values())
        return float(np.interp(K, [*self.points], c))

    def verify_cost(self, n_drafted):
        """Of a pass over one row more than were drafted."""
        _, v = zip(*self.points.values())
        return float(np.interp(n_drafted, [0, *self.points], [1, *v]))

    def of_round(self, n_drafted, K):
        return n_drafted * self.draft_cost(K) + self.verify_cost(n_drafted)


def stored_latencies(path, drafts, target, rule):
    """{draft: Latency} from a results file of benchmark, of which rows of this verification rule
    are taken, medians over those of the same K. target: its name; None if the log does not tell,
    then the file's only one will do.
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
    """The rows of one draft, for every K."""
    drafting = Drafting(draft, log, seed, rule)
    about = {
        "draft": name,
        "target": log.target,
        "temperature": None if log.foreign else log.settings["temperature"],
        "verification": rule,
        "expected_acceptance": drafting.expected_acceptance,
    }
    progress = tqdm(Ks, desc=name, unit=" K", leave=False, disable=None)
    return [about | figures(drafting.rounds(K), K, latency) for K in progress]


def figures(runs, K, latency):
    """What a row says of the rounds of each text."""
    rounds = [[(len(round.draft), round.examined, round.accepted) for round in run] for run in runs]
    tokens = [sum(len(round.tokens) for round in run) for run in runs]
    unknown = latency.missing(K)
    costs = [0] * len(runs)
    if not unknown:
        costs = [sum(latency.of_round(drafted, K) for drafted, *_ in run) for run in rounds]
    ratios = {
        "acceptance_rate": acceptance(rounds),
        "tokens_per_target_pass": Figure(tokens, [len(run) for run in runs]),
        "projected_speedup": Figure(tokens, costs, withheld=unknown),
    }
    return {
        "K": K,
        "prompts": len(runs),
        "tokens": sum(tokens),
        **as_columns(ratios),
        "draft_cost": None if unknown else latency.draft_cost(K),
        "verify_cost": None if unknown else latency.verify_cost(K),
        **counts(rounds, K),
        "withheld": {"projected_speedup": unknown} if unknown else {},
    }


def certainty(log, drafts):
    """What of the result is exact, and what an estimate."""
    if log.foreign:
        text = (
            "log of another program: encoded by the draft's tokenizer, drafted greedily; "
            "exact for a target with that tokenizer"
        )
    elif log.filter.greedy or {*drafts} == {NGRAM}:
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
