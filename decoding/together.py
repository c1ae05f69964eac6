"""Decodes several prompts in batches, all with the same GenerationConfig."""

import time
from dataclasses import replace

from decoding.batching import decode_together, require_cache_memory
from decoding.metrics import summary
from decoding.run import Run


def map_together(task, runs):
    """[task(run)] for Runs that share a Pair, called at the same time, with shared passes."""
    tasks = [lambda pair, run=run: task(replace(run, pair=pair)) for run in runs]
    return decode_together(tasks, runs[0].pair)


def finish_together(runs):
    """[run.finish()] for Runs that share a Pair, decoded at the same time."""
    return map_together(Run.finish, runs)


def decode_in_batches(models, prompts, draft, config, decoders, batch_size, totals):
    """Yield the `metrics.summary` of each Prompt, in order. Each batch of batch_size prompts is
    decoded by one decoder after the other, with the named draft; then its summaries follow.

    A text is the same as without a batch. Its seconds include the decoding of its neighbours.
    totals: a dict that is filled with {decoder: (tokens, seconds)} of all prompts together. Raises
    InputError if a batch does not fit in memory.
    """
    if not prompts:
        return
    pair = models.pair(draft)
    longest = max(len(prompt.ids) for prompt in prompts) + config.n_tokens
    n_texts = min(batch_size, len(prompts))
    require_cache_memory(pair.models, n_texts, longest)
    for decoder in decoders:
        config.new_run(pair, prompts[0], decoder).warm_up()
        totals[decoder] = 0, 0.0
    for start in range(0, len(prompts), batch_size):
        batch = prompts[start : start + batch_size]
        results = []
        for decoder in decoders:
            runs = [config.new_run(pair, prompt, decoder) for prompt in batch]
            begin = time.perf_counter()
            results.append(finish_together(runs))
            seconds = time.perf_counter() - begin
            n_tokens = sum(len(result["token_ids"]) for result in results[-1])
            totals[decoder] = totals[decoder][0] + n_tokens, totals[decoder][1] + seconds
        # no clock runs now: texts can be compared, and results stored
        for prompt, *prompt_results in zip(batch, *results):
            yield summary(config, pair, prompt, dict(zip(decoders, prompt_results)))
