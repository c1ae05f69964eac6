"""Decodes several prompts in batches, all with the same GenerationConfig."""

import time

from decoding.batching import decode_together, require_cache_memory
from decoding.metrics import summary
from decoding.run import Run


def decode_in_batches(models, prompts, draft, config, decoders, batch_size, totals):
    """Yield one `metrics.summary` (a dict) for each Prompt of a list, in order. Each batch of
    batch_size prompts is decoded by one decoder after the other; then its summaries follow.

    models: LoadedModels; draft: the name of one of its drafts; config: a GenerationConfig
    decoders: a list of "autoregressive", "speculative" or both; a summary has the results of all
    totals: a dict that is filled with {decoder: (tokens, seconds)} of all prompts together

    A text is the same as without a batch. Its seconds include the other texts of its batch.
    Raises InputError if a batch does not fit in memory.
    """
    if not prompts:
        return
    pair = models.pair(draft)
    max_length = max(len(prompt.ids) for prompt in prompts) + config.n_tokens
    n_texts = min(batch_size, len(prompts))
    require_cache_memory(pair.models, n_texts, max_length)
    for decoder in decoders:
        config.new_run(pair, prompts[0], decoder).warm_up()
        totals[decoder] = 0, 0.0
    for start in range(0, len(prompts), batch_size):
        batch = prompts[start : start + batch_size]
        results = {}  # {decoder: [result of each prompt of the batch]}
        for decoder in decoders:
            runs = [config.new_run(pair, prompt, decoder) for prompt in batch]
            begin = time.perf_counter()
            results[decoder] = decode_together(Run.finish, runs)
            seconds = time.perf_counter() - begin
            n_tokens = sum(len(result["token_ids"]) for result in results[decoder])
            total_tokens, total_seconds = totals[decoder]
            totals[decoder] = total_tokens + n_tokens, total_seconds + seconds
        # no clock runs now: texts can be compared, and results stored
        for i, prompt in enumerate(batch):
            of_prompt = {decoder: results[decoder][i] for decoder in decoders}
            yield summary(config, pair, prompt, of_prompt)
