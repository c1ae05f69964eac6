"""Several prompts, decoded together: a block or a line of JSON for each, or a file of results."""

import json
import time
from functools import partial

from tqdm import tqdm

from checkpoints.errors import note, plural
from cli import show
from cli.from_flags import config_from, json_of, pair_spec
from cli.resumable_output import ResumableLines
from decoding.cluster.executor import new_executor, run_prompts
from decoding.cluster.failed import Failed
from decoding.load import AUTO
from decoding.several_prompts import decode_in_batches


def generate_several(texts, settings, output):
    """Load the models, decode several prompts in batches, and print their results or write them to
    the file of --out. texts, settings, output: the Texts, Settings and Output of `generate`

    Raises InputError if a model or prompt cannot be used, or if prompts failed on a cluster.
    """
    config, draft = config_from(settings), settings.draft_model_size
    batch_size = usable_batch_size(settings, output)
    executor = new_executor(output.cluster, pair_spec(settings), output.download)
    pair = executor.models.pair(draft)
    prompts = texts.encode(pair, settings.seed)
    if settings.K == AUTO and batch_size < min(output.batch_size, len(prompts)):
        note("--K auto decodes one text at a time")
    show.note_early_ends(settings, pair, prompts)
    show.note_mistake(settings)
    begin = time.perf_counter()
    # decode_in_batches fills totals, {decoder: (tokens, seconds)}; workers would fill copies of it,
    # so the tokens of a cluster are counted here, for each text
    totals, text_lengths = {}, []
    function = partial(
        decode_in_batches,
        draft=draft,
        config=config,
        decoders=settings.decoders,
        batch_size=batch_size,
        totals=totals,
    )

    prompt_name = lambda prompt: f"prompt {prompt.number}"

    def decode(prompts):
        """Decode a list of Prompts. Yields for each its JSON object as a dict, or Failed. Adds the
        number of tokens of each text to text_lengths. Raises InputError at the end if any failed.
        """
        summaries = run_prompts(executor, function, prompts, batch_size, prompt_name)
        # `summaries` stands first, so that zip asks it for one more item, and it raises that error
        for summary, prompt in zip(summaries, prompts):
            if not isinstance(summary, Failed):
                token_ids = [summary[name]["token_ids"] for name in settings.decoders]
                text_lengths.extend(map(len, token_ids))
                summary = json_of(settings, config, pair, prompt, summary, executor.kernels)
            yield summary

    if output.out:
        write_results(decode, settings, prompts, output)
    else:
        for results, prompt in zip(decode(prompts), prompts):
            if not isinstance(results, Failed):
                print_result(settings, pair, prompt, results, output, alone=batch_size == 1)
    if output.json:
        return
    if output.cluster:
        print_speed_of_workers(sum(text_lengths), time.perf_counter() - begin)
    elif totals:  # not if an interrupted run had decoded all
        print_totals(totals, min(batch_size, len(prompts)))
    if output.out:
        print(f"Written: {output.out}")


def usable_batch_size(settings, output):
    """How many prompts to decode together: --batch_size, but 1 with --K auto or --mistake."""
    # K auto is chosen for one text, and a mistake changes this process's code during one run
    if settings.mistake or (settings.K == AUTO and settings.speculates):
        return 1
    return output.batch_size


def print_speed_of_workers(n_tokens, seconds):
    """Print how many tokens a cluster wrote in how many seconds, with prefill and waiting."""
    speed = f"{n_tokens / seconds:.1f} tokens/s, with prefill and waiting"
    print(f"All workers together: {n_tokens} tokens in {seconds:.2f}s, {speed}")


def print_totals(totals, n):
    """Print each decoder's speed; the ratio of two; and if n > 1, that batches lessen the gain.

    totals: {decoder: (number of tokens, seconds)} of all prompts together
    n: how many prompts were decoded at a time
    """
    print(f"{plural(n, 'prompt')} at a time, with prefill:")
    speeds = {decoder: n_tokens / seconds for decoder, (n_tokens, seconds) in totals.items()}
    for decoder, (n_tokens, seconds) in totals.items():
        figures = f"{n_tokens} tokens in {seconds:.2f}s, {speeds[decoder]:.1f} tokens/s"
        print(f"{decoder.capitalize()}: {figures}")
    if len(speeds) == 2:
        print(f"Speedup = {speeds['speculative'] / speeds['autoregressive']:.2f}")
    if n > 1:
        print("Speculation gains less in a batch; --batch_size 1 decodes one prompt at a time.")


def print_result(settings, pair, prompt, results, output, alone):
    """Print the results of one Prompt: its JSON object with --json, else a block of text.

    results: the JSON object, a dict; settings, output: the Settings and Output of generate
    alone: whether the prompt was decoded alone; in a batch, other prompts add to its times
    """
    if output.json:
        print(json.dumps(results), flush=True)
        return
    print(show.underlined(f"Prompt {prompt.number}"))
    for decoder in settings.decoders:
        print(show.underlined(f"{decoder.capitalize()} Decode"))
        if alone:
            show.print_times(results[decoder])
        print(f"Text = {pair.encoder.decode(prompt.ids)}{results[decoder]['text']}\n")
    show.print_comparison(results, alone)
    print()


def write_results(decode, settings, prompts, output):
    """Write the file of --out, a line for each Prompt. Decodes only the Prompts whose results an
    interrupted run has not stored. Draws a progress bar; with --json, prints the lines, too.

    decode: a function, list of Prompts -> iterator with a dict or Failed for each Prompt, which
        raises InputError at its end if a prompt failed; all other results are then stored
    settings, output: the Settings and Output of `generate`
    """
    prompt_settings = [settings.as_json(prompt.text, prompt.seed, prompt.ids) for prompt in prompts]
    fingerprints = pair_spec(settings).fingerprints()
    with ResumableLines(output.out, [prompt_settings, fingerprints]) as lines:
        missing = lines.missing_places(len(prompts))
        decoded = decode([prompts[i] for i in missing])
        bar = {"initial": len(lines.stored), "total": len(prompts), "unit": " prompts"}
        try:
            # `decoded` stands first, so that zip asks it for one more item: at its end, it raises
            # InputError if prompts failed
            for results, i in zip(tqdm(decoded, **bar, leave=False, disable=None), missing):
                # a Failed is not written
                lines.write(i, results, settings=prompt_settings[i], fingerprints=fingerprints)
        finally:  # also if some prompts failed: print those that did not
            if output.json:
                for results in lines.lines_in_order:
                    print(json.dumps(results))
        lines.finish()
