"""Measure both decoders on several texts at once, in tokens per second of all texts together."""

import statistics
from dataclasses import asdict
from functools import partial

import numpy as np
from cli.values import check_length

from decoding.batching import decode_together, require_cache_memory
from decoding.streams import Purpose, stream
from experiments.benchmark.comparison import PLAIN, measure_in_turns

N_RANDOM = 13  # tokens of a random prompt


def measure_batches(settings, models, target):
    """Measure every Variant (a draft, K and rule) with every batch size, after random prompts.
    Prints progress on stderr.

    settings: BenchmarkSettings; models: LoadedModels; target: the target's name, for the rows
    Returns a list of rows (dicts), one for each temperature, Variant with a draft and batch size.
    Raises InputError if the context or the memory has no room for the texts.
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
    for temperature, to_probs in settings.sampling_params().items():
        comparison = settings.comparison(models, to_probs)
        name = f"{target} at temperature {temperature:g}"
        speeds = measure_speeds(comparison, prompts, settings, name)
        about = {"target": target, "temperature": temperature, **settings.label_columns()}
        # the first variant is plain decoding, which every row is compared with
        rows += [about | row for row in speed_rows(speeds, comparison.variants[1:], sizes)]
    return rows


def measure_speeds(comparison, prompts, settings, name):
    """Measure every batch size and variant in turns. Prints progress on stderr.

    comparison: a Comparison, whose variants are measured
    prompts: a list of lists of token ids, as many as the largest batch
    settings: BenchmarkSettings; name: what is measured, for the progress
    Returns {(batch size, variant): (median tokens per second of all texts, tokens per target pass)}
    """
    functions = {
        (n, variant): partial(measure_batch, comparison, variant, prompts[:n], settings.seed)
        for n in settings.batch_sizes()
        for variant in comparison.variants
    }
    turns = measure_in_turns(functions, settings.repeats, settings.seed, name)
    speeds = {}
    for key, results in turns.items():
        median_speed = statistics.median(per_second for per_second, _ in results)
        # the passes of every turn are the same, because the seed is the same
        _, tokens_per_pass = results[0]
        speeds[key] = median_speed, tokens_per_pass
    return speeds


def measure_batch(comparison, variant, prompts, seed):
    """Decode all prompts in one batch. Returns (tokens per second of all texts together, tokens per
    target pass of a text), two floats; neither counts the prefill.

    comparison: a Comparison, which makes the Run of each text; variant: the Variant to decode with
    prompts: a list of lists of token ids; seed: of the random numbers
    """
    runs = []
    for i, ids in enumerate(prompts):
        # The number of a text decides its random numbers. With synthetic acceptance all texts get
        # the same, so that all accept alike: one unlucky text would slow the whole batch.
        number = i if comparison.acceptance_probability is None else 0
        runs.append(comparison.run_of(variant, seed, number, ids=ids))
    timings = decode_together(time_rounds, runs)  # [(seconds, target passes)]
    # the texts are decoded at the same time: the batch takes as long as its slowest text
    slowest = max(seconds for seconds, _ in timings)
    n_passes = sum(passes_of_text for _, passes_of_text in timings)
    n_tokens = len(prompts) * comparison.run.n_tokens
    return n_tokens / slowest, n_tokens / n_passes


def time_rounds(run):
    """Decode the text of a Run. Returns (seconds of all its rounds, number of target passes).
    Neither counts the prefill.
    """
    rounds = run.timed_rounds()
    next(rounds)  # the prefill
    totals = [seconds.total for _, seconds in rounds]
    return sum(totals), len(totals)


def speed_rows(speeds, variants, sizes):
    """Yield a row (dict) for each Variant and batch size. It compares the Variant with plain
    decoding in batches of the same size. Column "of_one" is the plain speed over that of one text
    alone, None if batch size 1 was not measured.

    speeds: {(batch size, Variant): (tokens per second, tokens per target pass)}, PLAIN included
    variants: a list of Variants with a draft; sizes: a list of batch sizes
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
