"""Several prompts, decoded together: a block or a line of JSON for each, or a file of results."""

import json
from functools import partial

from tqdm import tqdm

from checkpoints.files import counted
from cli import show
from cli.lines import Lines
from decoding.cluster.failed import Failed
from decoding.load import ModelNames, load_pair
from decoding.together import results_of


def generate_several(texts, settings, output):
    """What `generate` does with several prompts. Raises InputError."""
    # a mistake is made in the code of this process, so in one text at a time
    batch_size = 1 if settings.mistake else output.batch_size
    totals = {}
    if output.cluster:
        from decoding.cluster.place import place, spread

        workers = place(output.cluster, ModelNames.of(settings), output.download)
        pair, decode = workers.pairs.pair(), partial(spread, workers, settings)
    else:
        pair = load_pair(settings, output.download)
        decode = partial(results_of, settings, pair, totals=totals)
    prompts = texts.read(settings, pair)
    show.note_room(settings, pair, prompts)
    if output.out:
        into_file(decode, settings, prompts, batch_size, output)
    else:
        # the results come first in zip: at their end they say which prompts failed
        for results, prompt in zip(decode(prompts, batch_size), prompts):
            if not isinstance(results, Failed):
                show_one(settings, pair, prompt, results, output)
    if output.json:
        return
    n = min(batch_size, len(prompts))
    for decoder, (n_tokens, seconds) in totals.items():
        line = f"{decoder.capitalize()}, {counted(n, 'prompt')} at a time: {n_tokens} "
        print(f"{line}tokens in {seconds:.2f}s with prefill, {n_tokens / seconds:.1f} tokens/s")
    if output.out:
        print(f"Written: {output.out}")


def show_one(settings, pair, prompt, results, output):
    """The block of one of several prompts, or its line of JSON."""
    if output.json:
        print(json.dumps(results), flush=True)
        return
    print(show.title(f"Prompt {prompt.number}"))
    for decoder in settings.decoders:
        print(show.title(f"{decoder.capitalize()} Decode"))
        show.times(results[decoder])
        print(f"Text = {pair.encoder.decode(prompt.ids)}{results[decoder]['text']}\n")
    show.comparison(results)
    print()


def into_file(decode, settings, prompts, batch_size, output):
    """Store the results; those that an interrupted run has stored stay as they are."""
    of_prompts = [settings.as_json(prompt.text, prompt.seed, prompt.ids) for prompt in prompts]
    fingerprints = ModelNames.of(settings).fingerprints()
    with Lines(output.out, [of_prompts, fingerprints]) as lines:
        todo = lines.todo(len(prompts))
        found = decode([prompts[i] for i in todo], batch_size)
        done = {"initial": len(prompts) - len(todo), "total": len(prompts), "unit": " prompts"}
        try:
            for results, i in zip(tqdm(found, **done, leave=False, disable=None), todo):
                lines.put(i, results, settings=of_prompts[i], fingerprints=fingerprints)
        finally:  # some prompts may have failed
            if output.json:
                for results in lines.done:
                    print(json.dumps(results))
        lines.close()
