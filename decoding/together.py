"""Several prompts with the same settings: batches of runs, and the JSON object of each prompt."""

import time
from dataclasses import replace
from functools import partial

from decoding.batching import decode_together, require_room
from decoding.metrics import summary
from decoding.run import Run


def all_together(task, runs):
    """[task(run)] of Runs that share a Pair, all decoded at the same time."""

    def of(run, target, draft):  # models that take part in the passes of the batch
        return task(replace(run, pair=replace(run.pair, target=target, draft=draft)))

    pair = runs[0].pair
    tasks = [partial(of, run) for run in runs]
    return list(decode_together(tasks, pair.target, pair.draft, len(runs)))


def finish_together(runs):
    """What `finish` of each Run returns."""
    return all_together(Run.finish, runs)


def results_of(settings, pair, prompts, batch_size, totals):
    """Yield the JSON object of each Prompt, in their order. batch_size of them are decoded together
    by one decoder, then by the other; then all of them are yielded.

    Each is what it would be alone. Its seconds are those in which its neighbours were decoded as
    well; the tokens and seconds of all together are added up in totals, {decoder: (tokens,
    seconds)}.
    """
    if not prompts:
        return
    longest = max(len(prompt.ids) for prompt in prompts) + settings.n_tokens_to_generate
    n_texts = min(batch_size, len(prompts))
    require_room(pair.models, n_texts, longest)
    for decoder in settings.decoders:
        Run.of(settings, pair, prompts[0], decoder, n_texts).warm_up()
        totals[decoder] = 0, 0.0
    for start in range(0, len(prompts), batch_size):
        batch = prompts[start : start + batch_size]
        results = []
        for decoder in settings.decoders:
            runs = [Run.of(settings, pair, prompt, decoder, len(batch)) for prompt in batch]
            runs = [replace(run, K=runs[0].K) for run in runs]  # one that learns learns from all
            begin = time.perf_counter()
            results.append(finish_together(runs))
            seconds = time.perf_counter() - begin
            n_tokens = sum(len(result["token_ids"]) for result in results[-1])
            totals[decoder] = totals[decoder][0] + n_tokens, totals[decoder][1] + seconds
        # no clock runs now: texts can be compared, and results stored
        for prompt, *of_decoders in zip(batch, *results):
            yield summary(settings, pair, prompt, dict(zip(settings.decoders, of_decoders)))
