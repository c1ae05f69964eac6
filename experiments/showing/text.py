"""What generate prints for people: a block for each decoder, and what the two have in common."""

import json as json_format
import sys
from contextlib import nullcontext

from tqdm import tqdm

from experiments.data.lines import Failed, Lines
from experiments.decoding.gumbel import WHY_LOWER
from experiments.decoding.timing import visible
from experiments.showing.trace import Trace


def title(text):
    return f"{text}\n{'-' * len(text)}"


def begin_of(session, prompt):
    """How a text is shown to begin."""
    return f"Text = {session.encoder.decode(prompt.ids)}"


def note_room(prompt, n_tokens, n_ctx):
    """Say on stderr where the context ends a text early."""
    room = n_ctx - len(prompt.ids)
    if room < n_tokens:
        print(f"note: the context ends after {room} of {n_tokens} tokens", file=sys.stderr)


class Stream:
    """A `show` of timed_run that prints the text as it comes, after what it begins with, and a line
    break at the end.
    """

    def __init__(self, encoder, begin):
        self.encoder = encoder
        self.decode = encoder.incremental_decoder()
        print(begin, end="", flush=True)

    def __call__(self, one):
        if one is None:
            print(self.decode([], final=True), flush=True)
        else:
            print(self.decode(visible(one.tokens, self.encoder)), end="", flush=True)


def new_show(session, decoder, prompt, watch):
    """What shows a text while it is written, as the settings say; None where nothing does."""
    if session.settings.trace and decoder == "speculative":
        return Trace(watch, session.encoder)
    if session.settings.stream:
        return Stream(session.encoder, begin_of(session, prompt))
    return None


def show_run(session, prompt, result, show=None):
    """A decoder's block below its title; the text is left out if `show` has streamed it."""
    times = "Time = {seconds:.2f}s after {prefill_seconds:.2f}s of prefill, "
    print((times + "{tokens_per_second:.1f} tokens/s").format(**result))
    if isinstance(show, Stream):
        print()
    else:
        print(f"{begin_of(session, prompt)}{result['text']}\n")


def show_comparison(results):
    """What the two decoders have in common, below their blocks."""
    one, difference = results["speculative"], results.get("difference")
    if one and one["examined"]:
        counts = "{accepted} of {examined} examined drafted tokens".format(**one)
        print(f"Acceptance rate = {one['acceptance_rate']:.3f} ({counts})")
        if "usual_acceptance_rate" in one:
            rate = f"{one['usual_acceptance_rate']:.3f}"
            print(f"The token rule would accept {rate} of the same drafted tokens, on average.")
            print(WHY_LOWER)
    if one:
        print(f"Tokens per target pass = {one['tokens_per_target_pass']:.2f}")
    if results["speedup"]:
        print(f"Speedup = {results['speedup']:.2f}")
    if results["identical"]:
        print("The two texts are identical.")
    elif difference:
        where = "The two texts differ from token {position} on, which is a {verdict}: "
        why = "the two best logits there are {gap:.2g} apart, rounding errors {float_error:.2g}."
        print((where + why).format(**difference))
    elif results["identical"] is False:
        temperature = results["settings"]["temperature"]
        print(
            "The two texts differ, as two samples from one distribution do at temperature "
            f"{temperature}."
        )


def show_one_of_many(session, prompt, results):
    """The blocks of one of several prompts."""
    print(title(f"Prompt {prompt.number}"))
    for decoder in session.settings.decoders:
        print(title(f"{decoder.capitalize()} Decode"))
        show_run(session, prompt, results[decoder])
    show_comparison(results)
    print()


def show_together(session, prompts, batch_size, out, json):
    """Several prompts: a line of JSON each, on stdout or in a file, or blocks for people; and the
    speed of all together.
    """
    settings = [session.settings.as_json(one.text, one.seed, one.ids) for one in prompts]
    models = session.fingerprints() if out else None
    same = [{"settings": one, "fingerprints": models} for one in settings]
    with Lines(out, expected=same) if out else nullcontext() as lines:
        todo = lines.todo(len(prompts)) if lines else range(len(prompts))
        n_done, hidden = len(prompts) - len(todo), None if out else True
        bar = tqdm(total=len(prompts), initial=n_done, unit=" prompts", leave=False, disable=hidden)
        rest = [prompts[i] for i in todo]
        try:
            for results, i in zip(session.run_together(rest, batch_size), todo):
                bar.update()
                if lines:
                    lines.put(i, results, **same[i])
                elif isinstance(results, Failed):
                    continue  # which, will be said at the end
                elif json:
                    print(json_format.dumps(results), flush=True)
                else:
                    show_one_of_many(session, prompts[i], results)
        finally:  # some prompts may have failed
            if lines and json:
                for results in lines.results():
                    print(json_format.dumps(results))
        bar.close()
        if lines:
            lines.close()
    if not json:
        if rest:
            show_totals(session.totals, min(batch_size, len(rest)))
        if out:
            print(f"Written: {out}")


def show_totals(totals, batch_size):
    """The speed of all texts together, for each decoder."""
    for decoder, (n_tokens, seconds) in totals.items():
        speed = f"{n_tokens / seconds:.1f} tokens/s"
        line = f"{n_tokens} tokens in {seconds:.2f}s with prefill, {speed}"
        prompts = f"{batch_size} prompt{'s' if batch_size > 1 else ''}"
        print(f"{decoder.capitalize()}, {prompts} at a time: {line}")
