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
from functools import partial
from types import SimpleNamespace

import numpy as np
from decoding.load import NGRAM
from tqdm import tqdm

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
        """Return a one-hot row for each of the last n_last positions of text, a list of token ids:
        the recorded token after this position. The rows stand for logits. cache: not used
        """
        next_tokens = self.ids[len(text) + 1 - n_last : len(text) + 1]
        return one_hot(next_tokens, self.config.n_vocab)


def accepted_by_token(coins, ratios):  # [k], [k] -> [k] of bool
    """Return which drafted tokens of a round the token rule accepts, given that the text goes on as
    it was recorded: each with probability min(p(x), q(x)) / p(x) = min(1, q(x) / p(x)), as the
    module's docstring explains.

    coins: random numbers from 0 to 1, of which each decides one token
    ratios: q(x) / p(x) of the recorded tokens x
    """
    return coins < ratios


def accepted_by_block(coins, ratios):  # [k], [k] -> [k] of bool
    """Return which drafted tokens of a round the block rule accepts, given that the text, a sample
    from p, goes on as it was recorded.

    coins: random numbers from 0 to 1, of which the first decides all tokens
    ratios: q(x) / p(x) of the recorded tokens x
    """
    # The probability that t tokens or more are accepted is the smallest of 1 and the products of
    # the first 1, ..., t ratios: the module's docstring says why. The 1 is left out, because every
    # coin is below 1.
    return coins[:1] < np.minimum.accumulate(np.cumprod(ratios))


ACCEPTED = {"token": accepted_by_token, "block": accepted_by_block}


class CoinDrafter:
    """A drafter for replay. It drafts the recorded text's token if random numbers (coins) and the
    rule accept it, else a wrong token, which RecordedTarget then rejects.

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
        """Draft up to k tokens after ids: the recorded one where the coins and the rule accept it,
        else a wrong one. Returns (a list of ids, a one-hot row for each).
        """
        positions = slice(len(ids), len(ids) + k)
        accepted = self.accepted(self.coins[positions], self.ratios[positions])
        draft = []
        for token, is_accepted in zip(self.ids[positions], accepted):
            wrong_token = (token + 1) % self.n_vocab  # any but the recorded one is rejected
            draft.append(token if is_accepted else wrong_token)
        return draft, one_hot(draft, self.n_vocab)


def measure_ratios(model, text, to_probs):  # -> [n]
    """Run a draft model over a RecordedText, and return q(x) / p(x) for each of its tokens x: the
    model's probability over the target's, which the text holds. They are fewer than the tokens if
    the model's context ends before the text.

    model: a gpt2.Model; to_probs: the SamplingParams that make q of its logits
    """
    ids = text.ids[: model.config.n_ctx + 1]  # the last id is predicted, but not read
    n = len(ids) - len(text.prompt)
    if n <= 0:
        return np.zeros(0)
    q = to_probs(model.read(ids[:-1], model.new_cache(), n_last=n))  # [n, n_vocab]
    return q[np.arange(n), text.tokens[:n]] / text.p[:n]


def prepare_drafters(draft, log, seed, rule="token"):
    """Prepare a Draft for the texts of a Log. Returns a list with a function for each text; called
    without arguments, it returns a new drafter of this text.

    If the draft samples, the drafters are CoinDrafters, and the draft reads all texts now, with a
    bar on the terminal. seed: of their coins; rule: "token" or "block"
    """
    n_vocab, to_probs, model = log.n_vocab, log.to_probs, draft.standalone_model
    if model is None or to_probs.greedy:
        # the Rng is not used, because nothing is sampled
        targets = [RecordedTarget(text.ids, n_vocab) for text in log.texts]
        return [partial(draft.new_drafter, target, to_probs, Rng(0)) for target in targets]
    new_drafters = []
    bar = tqdm(log.texts, desc="draft", leave=False, disable=None)
    for i, text in enumerate(bar):
        # for each token id of prompt and text a coin, and its ratio q / p: a draft is the recorded
        # token if the coin is below the ratio. Nothing in the prompt is drafted
        in_prompt = np.zeros(len(text.prompt))
        ratios = np.concatenate([in_prompt, measure_ratios(model, text, to_probs)])
        coins = np.random.default_rng(stream(Purpose.REPLAY, seed, i)).random(len(ratios))
        new_drafters.append(partial(CoinDrafter, text.ids, ratios, coins, rule, n_vocab))
    return new_drafters


def replay_text(text, drafter, K):
    """Run the speculative loop on a RecordedText. Returns the list of Rounds in which this drafter
    and K would have written it. Their p and q are None, because they take megabytes.

    drafter: a new drafter of this text, from prepare_drafters; K: up to how many tokens a round
        drafts
    """
    target = RecordedTarget(text.ids, drafter.n_vocab)
    greedy = SamplingParams(0.0)  # which leaves one-hot rows as they are: nothing is random
    rounds = speculative(target, drafter, text.prompt, len(text.tokens), K, greedy, Rng(0))
    next(rounds)  # the prefill
    return [replace(this_round, q=None, p=None) for this_round in rounds]


# ---------------------------------------------------------------- rows


def replay_draft(name, draft, log, Ks, seed, latency, rule="token"):
    """Replay a Log with one Draft and every K of a list. Returns a list of rows (dicts), one for
    each K. Shows a progress bar.

    name: the draft's, for the rows and the bar; seed: of the random decisions of a sampled log
    latency: the Latency of this draft, for projected speedups; rule: "token" or "block"
    """
    new_drafters = prepare_drafters(draft, log, seed, rule)
    about = {
        "draft": name,
        "target": log.target,
        "temperature": None if log.foreign else log.settings["temperature"],
        "verification": rule,
    }
    rows = []
    for K in tqdm(Ks, desc=name, unit=" K", leave=False, disable=None):
        texts = zip(log.texts, new_drafters)
        rounds_of_texts = [replay_text(text, new_drafter(), K) for text, new_drafter in texts]
        rows.append(about | replay_row(rounds_of_texts, K, latency))
    return rows


def replay_row(rounds_of_texts, K, latency):
    """Return {column: value} for one K: acceptance rate, tokens per target pass, projected speedup,
    with their intervals, costs and counts, over all texts. If the Latency does not know K, speedup
    and costs are None, and "withheld" is {"projected_speedup": why}.

    rounds_of_texts: for each text the list of its Rounds; latency: the Latency of the draft
    """
    counts, tokens, costs = [], [], []  # an entry for each text
    unknown = latency.why_unknown(K)
    for rounds in rounds_of_texts:
        drafted = [len(this_round.draft) for this_round in rounds]
        examined = [this_round.examined for this_round in rounds]
        accepted = [this_round.accepted for this_round in rounds]
        counts.append(list(zip(drafted, examined, accepted)))
        tokens.append(sum(len(this_round.tokens) for this_round in rounds))
        # a sum of 0 makes the projected speedup None
        costs.append(0 if unknown else sum(latency.of_round(n, K) for n in drafted))
    estimates = {
        "acceptance_rate": acceptance_estimate(counts),
        "tokens_per_target_pass": Estimate(tokens, [len(rounds) for rounds in rounds_of_texts]),
        # the target alone would write a token for each pass over one row
        "projected_speedup": Estimate(tokens, costs, withheld=unknown),
    }
    return {
        "K": K,
        "prompts": len(rounds_of_texts),
        "tokens": sum(tokens),
        **estimate_columns(estimates),
        "draft_cost": None if unknown else latency.draft_cost(K),
        "verify_cost": None if unknown else latency.verify_cost(K),
        **round_columns(counts, K),
        "withheld": {"projected_speedup": unknown} if unknown else {},
    }


def describe_certainty(log, drafts):
    """Return a text that says which figures of a replay of a Log are exact and which are estimates.

    drafts: the list of the names of the drafts
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
