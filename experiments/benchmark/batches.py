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

    comparison: a Comparison, for its variants; name: what is measured, for the progress on stderr
    prompts: a list of lists of token ids, as many as the largest batch
    Returns {(batch size, variant): (median tokens per second of all texts, tokens per target pass)}
    """
    functions = {
        (n, variant): partial(measure_batch, comparison, variant, prompts[:n], settings.seed)
        for n in settings.batch_sizes()
        for variant in comparison.variants
    }
    turns = measure_in_turns(functions, settings.repeats, settings.seed, name)
    speeds = {}
    for key, figures in turns.items():
        median_speed = statistics.median(per_second for per_second, _ in figures)
        # the passes of every turn are the same, because the seed is the same
        _, tokens_per_pass = figures[0]
        speeds[key] = median_speed, tokens_per_pass
    return speeds


def measure_batch(comparison, variant, prompts, seed):
    """Decode all prompts together. Returns (tokens per second of all texts, tokens per target pass
    of a text); neither counts the prefill.

    prompts: a list of lists of token ids
    """
    runs = []
    for i, ids in enumerate(prompts):
        # a batch is as slow as its slowest text: synthetic coins are the same for all texts
        number = i if comparison.acceptance_probability is None else 0
        runs.append(comparison.run_of(variant, seed, number, ids=ids))
    timings = [*map_together(time_rounds, runs)]
    slowest = max(seconds for seconds, _ in timings)
    n_passes = sum(n for _, n in timings)
    n_tokens = len(prompts) * comparison.run.n_tokens
    return n_tokens / slowest, n_tokens / n_passes


def time_rounds(run):
    """Decode a text with a Run. Returns (seconds of all its rounds, number of target passes);
    neither counts the prefill.
    """
    rounds = run.timed_rounds()
    next(rounds)  # the prefill
    totals = [seconds.total for _, seconds in rounds]
    return sum(totals), len(totals)


def speed_rows(speeds, variants, sizes):
    """Yield a row (dict) for each variant and batch size, from what `measure_speeds` returns.

    "of_one" is None unless batches of one text were measured too.
    """
    for variant in variants:
        for n in sizes:
            plain, _ = speeds[n, PLAIN]
            speculative, tokens_per_pass = speeds[n, variant]
            of_one = plain / speeds[1, PLAIN][0] if 1 in sizes else None
            yield asdict(variant) | {
                "batch_size": n,
                "autoregressive": plain,
                "speculative": speculative,
                "of_one": of_one,
                "speedup": speculative / plain,
                "tokens_per_target_pass": tokens_per_pass,
            }
