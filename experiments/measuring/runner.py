"""Runs of both decoders, taking turns on the same prompts: the raw material of the benchmark.

Every text runs to its full number of tokens, past <|endoftext|> too, so that all sides write
equally many. Prefill is timed apart. Each prompt is first run once under the ledger, which is the
warm-up and says where the time goes; those runs do not count for the speed. Then all contenders
take turns, in another order each time.
"""

import statistics
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import utils
from experiments.decoding.adaptive_k import AdaptiveK, round_costs
from experiments.decoding.decoders import NGRAM, decode
from experiments.decoding.metrics import explain_difference
from experiments.decoding.timing import Clock, clocked
from experiments.drafting.stored import HEADS, load_head
from gpt2 import KVCache
from sampling import toss
from utils import SIZES, InputError

N_GRAM = 8  # repeated runs of this many tokens are a loop, not a coincidence


def load_draft(size, models_dir, arrays, tokenizer, other):
    """The model of a draft by size or path, or NGRAM. Raises InputError if its tokenizer
    has another fingerprint.
    """
    if size == NGRAM:
        return NGRAM
    folder = utils.find_folder(size, models_dir)
    encoder, n_vocab = utils.load_encoder(folder), utils.read_config(folder).n_vocab
    if encoder.fingerprint != tokenizer:
        raise InputError(f"draft {size} and {other} have different vocabularies: they cannot pair")
    if n_vocab != encoder.n_vocab:
        found = f"the model has {n_vocab} tokens, its vocabulary {encoder.n_vocab}"
        raise InputError(f"{folder}: {found}; use the files of one model")
    return utils.load_model(folder, arrays)


def load(target_size, draft_sizes, models_dir, weights, arrays):
    """(target, {draft size: model or NGRAM}, encoder). Raises InputError.

    With random weights, a size without a folder is one of utils.SIZES, and prompts are cut by the
    embedded tokenizer.
    """
    if weights == "checkpoint":
        tokenizer = utils.load_encoder(utils.find_folder(target_size, models_dir)).fingerprint
        other = f"target {target_size}"
        drafts = {
            size: load_draft(size, models_dir, arrays, tokenizer, other)
            for size in draft_sizes
            if size not in HEADS
        }
        target, _, encoder = utils.load_pair(target_size, None, models_dir, arrays)
        folder = utils.find_folder(target_size, models_dir)
        heads = {size: load_head(size, folder, target) for size in draft_sizes if size in HEADS}
        return target, drafts | heads, encoder

    def config_of(size):
        return (
            SIZES[size] if size in SIZES else utils.read_config(utils.find_folder(size, models_dir))
        )

    config, drafts = config_of(target_size), {}
    embedded = Path(utils.__file__).resolve().parent / "models" / "7M"
    encoder = utils.load_encoder(
        embedded if target_size in SIZES else utils.find_folder(target_size, models_dir)
    )
    for i, size in enumerate(draft_sizes, 1):
        if size != NGRAM and (n_vocab := config_of(size).n_vocab) != config.n_vocab:
            raise InputError(
                f"draft {size} has {n_vocab} tokens, target {target_size} {config.n_vocab}: they cannot pair"
            )
        drafts[size] = (
            NGRAM if size == NGRAM else utils.random_model(config_of(size), arrays, seed=i)
        )
    return utils.random_model(config, arrays), drafts, encoder


class Coin:
    """A drafter and a filter that have drafts accepted with a given probability, whatever the
    models say.

    All passes are run, so the time is real; only the verdict is not. In place of the target's
    distribution at each drafted token comes certainty: of that token with the given probability,
    else of another. `verify` cannot but agree.
    """

    def __init__(self, drafter, filter, acceptance, rng):
        self.drafter, self.filter, self.acceptance, self.rng = drafter, filter, acceptance, rng
        self.n_vocab, self.prefill = drafter.n_vocab, drafter.prefill

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        self.draft, q = self.drafter.propose(ids, k)
        return self.draft, q

    def __call__(self, logits):  # [k + 1, n_vocab] -> [k + 1, n_vocab]
        p = self.filter(logits)
        for row, token in zip(p, self.draft):
            row[:] = 0
            row[token if toss(self.acceptance, self.rng) else (token + 1) % self.n_vocab] = 1
        return p


def rounds_of(
    target, draft, K, ids, n_tokens, filter, seed, acceptance=None, wrap=lambda *pair: pair
):
    """The rounds of a contender: autoregressive where K is 0; `acceptance`, if given, decides by
    coin.
    """

    def wrap_all(drafter, filter):
        if acceptance is not None:
            drafter = filter = Coin(drafter, filter, acceptance, np.random.default_rng([*seed, 1]))
        return wrap(drafter, filter)

    return decode(
        "speculative" if K else "autoregressive",
        target,
        draft,
        ids,
        n_tokens,
        K=K,
        filter=filter,
        seed=seed,
        wrap=wrap_all,
    )


def recorded(function, calls, size):
    """The function, with (size(result), seconds) of each call added to `calls`."""

    def call(*arguments, **named):
        begin = time.perf_counter()
        result = function(*arguments, **named)
        calls.append((size(result), time.perf_counter() - begin))
        return result

    return call


def observed(
    target, draft, K, ids, n_tokens, filter, seed, acceptance, timed=lambda part, function: function
):
    """(rounds of a contender, [(rows, seconds)] of the target's passes, [(tokens, seconds)] of the
    drafter's proposals).

    The lists grow as the rounds are consumed; keeping them costs less than a thousandth of a pass.
    timed(part, function) may put a clock around the calls into the models, their caches and the
    filter.
    """
    passes, proposals = [], []

    def watched(model, part):
        def new_cache(*n_positions):
            cache = model.new_cache(*n_positions)
            if isinstance(cache, KVCache):
                cache.write = timed("cache", cache.write)
            return cache

        return SimpleNamespace(
            config=model.config, new_cache=new_cache, read=timed(part, model.read)
        )

    def wrap(drafter, filter):
        propose = recorded(timed("draft", drafter.propose), proposals, lambda found: len(found[0]))
        return SimpleNamespace(
            n_vocab=drafter.n_vocab, prefill=drafter.prefill, propose=propose
        ), filter

    K = AdaptiveK(round_costs(target, draft, filter)) if K == "auto" else K
    target = watched(target, "verify")
    if draft not in (None, NGRAM):
        draft = watched(draft, "draft")
    target.read = recorded(target.read, passes, len)
    return (
        rounds_of(
            target, draft, K, ids, n_tokens, timed("sampling", filter), seed, acceptance, wrap
        ),
        passes,
        proposals,
    )


def ledger(*arguments):
    """Where the seconds of one run after its prefill go (arguments as `observed` takes them).

    draft, verify, cache (keys and values copied into place), and sampling: all the rest, that is
    the filter, the accept/reject rule and the loop.
    """
    clock = Clock()
    rounds, *_ = observed(*arguments, clock.timed)
    next(rounds)  # the prefill
    clock.seconds.clear()
    begin = time.perf_counter()
    n_rounds = len(list(rounds))
    seconds = time.perf_counter() - begin
    split = {part: clock.seconds[part] for part in ("draft", "verify", "cache")}
    return {"rounds": n_rounds, "split": split | {"sampling": seconds - sum(split.values())}}


def repeated(ids):
    """(8-grams that occurred before, all 8-grams) of a text: a loop shows as a share near 1."""
    grams = [tuple(ids[i : i + N_GRAM]) for i in range(len(ids) - N_GRAM + 1)]
    return len(grams) - len({*grams}), len(grams)


def warm_up(target, drafts, contenders, ids, filter):
    """A few rounds of every contender: new memory is slow the first time, which the first in turn
    would pay for all.
    """
    for draft, K in contenders:
        list(rounds_of(target, drafts.get(draft), 4 if K == "auto" else K, ids, 6, filter, [0]))


def measure(
    target,
    drafts,
    contenders,
    ids,
    n_tokens,
    filter,
    seed,
    repeats,
    acceptance=None,
    tick=lambda: None,
):
    """One prompt, all contenders [(draft's name, K)], of which the first is (None, 0),
    autoregressive: a list of results.

    A result holds what JSON can: of every repeat the seconds, the number of tokens and of rounds,
    and its speculative rounds as [drafted, examined, accepted]; over all repeats the median seconds
    of the target's passes over K + 1 rows and of a drafted token, its sampling included (None where
    there was none); the ledger; and at temperature 0 whether and why its text differs from the
    autoregressive one. tick() is called after every run.
    """
    runs, texts, calls = [], {}, [([], []) for _ in contenders]
    for draft, K in contenders:
        costs = ledger(target, drafts.get(draft), K, ids, n_tokens, filter, [*seed, 0], acceptance)
        empty = {name: [] for name in ("seconds", "prefill_seconds", "tokens", "passes", "rounds")}
        runs.append(
            {
                "draft": draft,
                "K": K,
                **empty,
                "repeated": [0, 0],
                "ledger": costs,
                "difference": None,
            }
        )
        tick()
    for repeat in range(repeats):
        for i in np.random.default_rng([*seed, repeat]).permutation(len(contenders)):
            (draft, K), run, of_run = contenders[i], runs[i], [*seed, repeat]
            rounds, passes, proposals = observed(
                target, drafts.get(draft), K, ids, n_tokens, filter, of_run, acceptance
            )
            done, prefill_seconds, seconds = clocked(rounds)
            texts[i] = [int(token) for one in done for token in one.tokens]
            calls[i][0].extend(elapsed for rows, elapsed in passes if K != "auto" and rows == K + 1)
            calls[i][1].extend(elapsed / n for n, elapsed in proposals if n)
            run["seconds"].append(seconds)
            run["prefill_seconds"].append(prefill_seconds)
            run["tokens"].append(len(texts[i]))
            run["passes"].append(len(done))
            run["rounds"].append(
                [[one.drafted, one.examined, one.accepted] for one in done] if K else []
            )
            run["repeated"] = [a + b for a, b in zip(run["repeated"], repeated(texts[i]))]
            tick()
    for run, of_calls in zip(runs, calls):
        for name, seconds in zip(("pass_seconds", "draft_seconds"), of_calls):
            run[name] = statistics.median(seconds) if seconds else None
    for i, run in enumerate(runs):
        if filter.greedy and acceptance is None and texts[i] != texts[0]:
            run["difference"] = explain_difference(target, ids, texts[0], texts[i])
    return runs
