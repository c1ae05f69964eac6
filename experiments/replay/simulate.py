"""Try drafts, and every K, on what a target wrote, without the target.

Whatever the draft, speculative decoding writes the target's text. The draft only decides how the
text is divided into rounds. So the real loop is run again on a recorded text, with a stand-in for
the target that predicts this text:

- A deterministic draft (a greedy one, or n-grams) is accepted exactly where it agrees with the
  recorded token, at any temperature of the target. Its rounds are exactly those of the live run.
- A draft that samples from q is accepted, given that the text went on with x, with probability
  min(p(x), q(x)) / p(x) = min(1, q(x) / p(x)): the probability that x is drafted and accepted, over
  the probability that x is written. One coin for each token, the same for every K, gives rounds
  with exactly the distribution of live ones: a replay is one sample of it.
- With block verification, at least t drafts of a round are accepted, given the text, with a
  probability that is the smallest of 1 and the products of the first 1, 2, ..., t ratios
  q(x) / p(x). (It is Q P[t] of `verify_block`, with Q the probability of the draft, divided by the
  probability of the text.) One coin decides a round.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from tqdm import tqdm

from decoding.load import NGRAM
from decoding.streams import Purpose, stream
from experiments.benchmark.intervals import (
    Estimate,
    acceptance_estimate,
    estimate_columns,
    round_columns,
)
from sampling import Rng, SamplingParams, one_hot, speculative

# ---------------------------------------------------------------- stand-ins for the models


class RecordedTarget:
    """Stands in for a model in `speculative`: it predicts the tokens of one text with certainty.

    It ignores drafted tokens. That is enough, because the loop uses no prediction after the first
    rejected one. ids: the token ids of prompt and text
    """

    def __init__(self, ids, n_vocab):
        self.ids, self.config = ids, SimpleNamespace(n_vocab=n_vocab, n_ctx=len(ids))

    def new_cache(self, n_positions=None):
        """Return None: there are no keys and values to keep."""
        return None

    def read(self, text, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        """Return in place of logits a one-hot row for each of the last n_last positions of text."""
        next_tokens = self.ids[len(text) + 1 - n_last : len(text) + 1]
        return one_hot(next_tokens, self.config.n_vocab)


def accepted_by_token(coins, ratios):  # [k], [k] -> [k] of bool
    """Return which drafted tokens of a round the token rule accepts, each by its own coin.

    coins: numbers from 0 to 1; ratios: q(x) / p(x) of the recorded tokens
    """
    return coins < ratios


def accepted_by_block(coins, ratios):  # [k], [k] -> [k] of bool
    """Return which drafted tokens of a round the block rule accepts, all by the first coin."""
    return coins[:1] < np.minimum.accumulate(np.cumprod(ratios))


ACCEPTED = {"token": accepted_by_token, "block": accepted_by_block}


class CoinDrafter:
    """A drafter that drafts a recorded text's token where coins accept it, else a wrong token.

    ids: the token ids of prompt and text
    ratios: q(x) / p(x) for each of these ids (0 in the prompt); it ends where the draft's context
        does, and from there on nothing is drafted
    coins: a number from 0 to 1 for each ratio, the same whatever K is
    rule: "token" or "block"
    """

    def __init__(self, ids, ratios, coins, rule, n_vocab):
        self.ids, self.ratios, self.coins, self.n_vocab = ids, ratios, coins, n_vocab
        self.accepted = ACCEPTED[rule]

    def prefill(self, ids, target_cache):
        """Do nothing: there is no model that has to read the prompt."""

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        """Return up to k drafted tokens after ids, and a one-hot distribution for each."""
        ahead = slice(len(ids), len(ids) + k)
        draft = []
        accepted = self.accepted(self.coins[ahead], self.ratios[ahead])
        for token, is_accepted in zip(self.ids[ahead], accepted):
            wrong_token = (token + 1) % self.n_vocab
            draft.append(token if is_accepted else wrong_token)
        return draft, one_hot(draft, self.n_vocab)


def measure_ratios(model, text, to_probs):  # -> [n]
    """Run a draft model over a RecordedText, and return q(x) / p(x) for each of its tokens x.

    n: the number of tokens, or fewer if the model's context ends before the text
    """
    ids, n_prompt = text.ids[: model.config.n_ctx + 1], len(text.prompt)
    n = len(ids) - n_prompt
    if n <= 0:
        return np.zeros(0)
    q = to_probs(model.read(ids[:-1], model.new_cache(), n_last=n))  # [n, n_vocab]
    return q[np.arange(n), text.tokens[:n]] / text.p[:n]


class ReplayedDraft:
    """A Draft that is tried on the texts of a Log. rule: "token" or "block"

    If the draft samples, it reads all texts when this object is made, with a bar on the terminal.
    """

    def __init__(self, draft, log, seed, rule="token"):
        self.draft, self.log, self.seed, self.rule = draft, log, seed, rule
        self.ratios = None  # of each text, if the draft samples
        model = draft.standalone_model
        if model and not log.to_probs.greedy:
            texts = tqdm(log.texts, desc="draft", leave=False, disable=None)
            self.ratios = [measure_ratios(model, text, log.to_probs) for text in texts]

    def drafter_of(self, i):
        """Return a new drafter for the text of index i."""
        text, n_vocab = self.log.texts[i], self.log.n_vocab
        if self.ratios is None:
            return self.draft.new_drafter(
                RecordedTarget(text.ids, n_vocab), self.log.to_probs, Rng(0)
            )
        ratios = np.concatenate([np.zeros(len(text.prompt)), self.ratios[i]])
        rng = np.random.default_rng(stream(Purpose.REPLAY, self.seed, i))
        coins = rng.random(len(ratios))
        return CoinDrafter(text.ids, ratios, coins, self.rule, n_vocab)

    def rounds(self, K):
        """Replay every text. Returns for each the list of Rounds that would have written it."""
        texts = enumerate(self.log.texts)
        return [replay_text(text, self.drafter_of(i), K) for i, text in texts]


def replay_text(text, drafter, K):
    """Return the list of Rounds in which this drafter and K would have written a RecordedText.

    The Rounds have no p and q, which would take megabytes.
    """
    target, greedy = RecordedTarget(text.ids, drafter.n_vocab), SamplingParams(0.0)
    rounds = speculative(target, drafter, text.prompt, len(text.tokens), K, greedy, Rng(0))
    next(rounds)  # the prefill
    return [replace(this_round, q=None, p=None) for this_round in rounds]


# ---------------------------------------------------------------- rows


def replay_draft(name, draft, log, Ks, seed, latency, rule="token"):
    """Replay a Log with one draft and every K. Returns a list of rows (dicts), one for each K.

    name: the draft's, for the rows and the bar on the terminal; Ks: a list of numbers;
    latency: the Latency of this draft, for projected speedups
    """
    replayed = ReplayedDraft(draft, log, seed, rule)
    about = {
        "draft": name,
        "target": log.target,
        "temperature": None if log.foreign else log.settings["temperature"],
        "verification": rule,
    }
    progress = tqdm(Ks, desc=name, unit=" K", leave=False, disable=None)
    return [about | replay_row(replayed.rounds(K), K, latency) for K in progress]


def replay_row(rounds_of_texts, K, latency):
    """Return {column: value} for one K. rounds_of_texts: for each text the list of its Rounds"""
    counts, tokens, costs = [], [], []  # an entry for each text
    unknown = latency.why_unknown(K)
    for rounds in rounds_of_texts:
        counts.append([(len(one.draft), one.examined, one.accepted) for one in rounds])
        tokens.append(sum(len(one.tokens) for one in rounds))
        costs.append(0 if unknown else sum(latency.of_round(len(one.draft), K) for one in rounds))
    figures = {
        "acceptance_rate": acceptance_estimate(counts),
        "tokens_per_target_pass": Estimate(tokens, [len(rounds) for rounds in rounds_of_texts]),
        "projected_speedup": Estimate(tokens, costs, withheld=unknown),
    }
    return {
        "K": K,
        "prompts": len(rounds_of_texts),
        "tokens": sum(tokens),
        **estimate_columns(figures),
        "draft_cost": None if unknown else latency.draft_cost(K),
        "verify_cost": None if unknown else latency.verify_cost(K),
        **round_columns(counts, K),
        "withheld": {"projected_speedup": unknown} if unknown else {},
    }


def describe_certainty(log, drafts):
    """Return a text that says which figures of a replay are exact and which are estimates.

    log: a Log; drafts: the list of the names of the drafts
    """
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
