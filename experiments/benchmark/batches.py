"""Measure both decoders on several texts at once, in tokens per second of all texts together."""

import statistics
from dataclasses import asdict
from functools import partial

import numpy as np

from cli.values import check_length
from decoding.batching import require_cache_memory
from decoding.streams import Purpose, stream
from decoding.together import map_together
from experiments.benchmark.comparison import PLAIN, measure_in_turns

N_RANDOM = 13  # tokens of a random prompt


def measure_batches(settings, models, target):
    """Measure every variant with every batch size, after random prompts.

    settings: BenchmarkSettings. models: LoadedModels. target: the target's name, for the rows
    Returns a list of rows (dicts), one for each temperature, variant and batch size. Raises
    InputError if the context or the memory has no room for the texts.
    """
    n_tokens, sizes = settings.n_tokens_to_generate, settings.batch_sizes()
    check_length("n_tokens_to_generate", n_tokens, models.target.config.n_ctx - N_RANDOM)
    for draft in models.drafts:
        require_cache_memory(models.pair(draft).models, max(sizes), N_RANDOM + n_tokens)
    rng = np.random.default_rng(stream(Purpose.RANDOM_PROMPTS, settings.seed))
    n_vocab = models.target.config.n_vocab
    # without the last id, which is <|endoftext|>
    prompts = rng.integers(0, n_vocab - 1, (max(sizes), N_RANDOM)).tolist()
    rows = []
    for t, to_probs in settings.sampling_params().items():
        comparison = settings.comparison(models, to_probs)
        same = {"target": target, "temperature": t, **settings.label_columns()}
        speeds = measure_speeds(comparison, prompts, settings, f"{target} at temperature {t:g}")
        rows += [same | row for row in speed_rows(speeds, comparison.variants[1:], sizes)]
    return rows


def measure_speeds(comparison, prompts, settings, name):
    """Measure every batch size and variant in turns.

    prompts: a list of lists of token ids, as many as the largest batch; name: for the progress bar.
    Returns {(batch size, variant): (median tokens per second of all texts, tokens per target pass)}
    """
    ways = {
        (n, variant): partial(measure_batch, comparison, variant, prompts[:n], settings.seed)
        for n in settings.batch_sizes()
        for variant in comparison.variants
    }
    turns = measure_in_turns(ways, settings.repeats, settings.seed, name)
    speeds = {}
    for way, of_way in turns.items():
        per_second, per_pass = zip(*of_way)
        # with the same seed, the passes of every turn are the same
        speeds[way] = statistics.median(per_second), per_pass[0]
    return speeds


def measure_batch(comparison, variant, prompts, seed):
    """Decode all prompts together. Returns (tokens per second of all texts, tokens per target pass
    of a text); neither counts the prefill.
    """
    runs = []
    for i, ids in enumerate(prompts):
        # a batch is as slow as its slowest text: synthetic coins are the same for all of them
        number = i if comparison.acceptance_probability is None else 0
        runs.append(comparison.run_of(variant, seed, number, ids=ids))
    seconds, passes = zip(*map_together(time_rounds, runs))
    n_tokens = len(prompts) * comparison.run.n_tokens
    return n_tokens / max(seconds), n_tokens / sum(passes)


def time_rounds(run):
    """Decode a text. Returns (seconds of all its rounds, number of target passes); neither counts
    the prefill.
    """
    rounds = run.timed_rounds()
    next(rounds)  # the prefill
    seconds = [took.total for _, took in rounds]
    return sum(seconds), len(seconds)


def speed_rows(speeds, variants, sizes):
    """Yield a row (dict) for each variant and batch size, from what `measure_speeds` returns."""
    alone, _ = speeds.get((1, PLAIN), (None, None))
    for variant in variants:
        for n in sizes:
            plain, _ = speeds[n, PLAIN]
            fast, per_pass = speeds[n, variant]
            yield asdict(variant) | {
                "batch_size": n,
                "autoregressive": plain,
                "speculative": fast,
                "of_one": alone and plain / alone,
                "speedup": fast / plain,
                "tokens_per_target_pass": per_pass,
            }
