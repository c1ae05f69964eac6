"""What generate prints for people: a block for each decoder, and what the two have in common."""

import json
from contextlib import contextmanager, nullcontext

from tqdm import tqdm

from checkpoints.files import note
from experiments.cli.trace import Trace
from experiments.data.lines import Failed, Lines
from experiments.decoding.session import visible, wanted
from experiments.page.report import report_data, write_page


def title(text):
    return f"{text}\n{'-' * len(text)}"


def note_room(session, prompts):
    """Say on stderr where the context ends a text early."""
    n_tokens = session.settings.n_tokens_to_generate
    for prompt in prompts:
        room = session.pair.target.config.n_ctx - len(prompt.ids)
        if room < n_tokens:
            note(f"the context ends after {room} of {n_tokens} tokens")


class Stream:
    """A `show` of Run.finish that prints the text as it comes, after what it begins with."""

    def __init__(self, encoder, begin):
        self.encoder = encoder
        self.decode = encoder.incremental_decoder()
        print(begin, end="", flush=True)

    def __call__(self, one):
        if one is None:
            print(self.decode([], final=True), flush=True)
        else:
            print(self.decode(visible(one.tokens, self.encoder)), end="", flush=True)


def live(run, decoder):
    """Decode, with a block for the decoder on stdout: what the JSON object says of it."""
    print(title(f"{decoder.capitalize()} Decode"))
    settings, encoder, show = run.session.settings, run.pair.encoder, None
    begin = f"Text = {encoder.decode(run.job.ids)}"
    traced = settings.trace and run.watch
    streamed = settings.stream and not traced
    if traced:
        show = Trace(run.watch, encoder)
    elif streamed:
        show = Stream(encoder, begin)
    result = run.finish(show)
    show_times(result)
    print("" if streamed else f"{begin}{result['text']}\n")
    return result


def show_times(result):
    times = "Time = {seconds:.2f}s after {prefill_seconds:.2f}s of prefill, "
    print((times + "{tokens_per_second:.1f} tokens/s").format(**result))


def comparison(summary, run, output):
    """What the two decoders have in common: as JSON, or below their blocks. Then the report, which
    a full disk may prevent.
    """
    report = run.session.settings.report
    if output.json:
        print(json.dumps(summary))
    else:
        show_comparison(summary)
    if report:
        write_page(report, report_data(run.job.ids, run.watch.notes, summary, run.pair.encoder))
        if not output.json:
            print(f"Report: {report}")


def show_comparison(results):
    one, difference = results["speculative"], results.get("difference")
    if one and one["examined"]:
        counts = "{accepted} of {examined} examined drafted tokens".format(**one)
        print(f"Acceptance rate = {one['acceptance_rate']:.3f} ({counts})")
        if "usual_acceptance_rate" in one:
            rate = f"{one['usual_acceptance_rate']:.3f} of the same drafted tokens"
            print(f"The token rule would accept {rate}, on average; docs/coupling.md says why.")
    if one:
        print(f"Tokens per target pass = {one['tokens_per_target_pass']:.2f}")
    if results["speedup"]:
        print(f"Speedup = {results['speedup']:.2f}")
    if "rule_distance" in results:
        show_own(results)
    if results["identical"]:
        print("The two texts are identical.")
    elif difference:
        where = "The two texts differ from token {position} on, which is a {verdict}: "
        why = "the two best logits there are {gap:.2g} apart, rounding errors {float_error:.2g}."
        print((where + why).format(**difference))
    elif results["identical"] is False:
        temperature = results["settings"]["temperature"]
        why = f"as two samples from one distribution do at temperature {temperature}"
        print(f"The two texts differ, {why}.")


def show_own(results):
    far = "{}: total variation distance from the target = {:.4f}, exact, on a toy pair"
    print(far.format("Your rule", results["rule_distance"]))
    loop = results["own_loop"]
    if loop:
        print(far.format("Your loop", loop["distance"]))
        print(f"Its first {len(loop['token_ids'])} tokens: {loop['text']!r}")


# ---------------------------------------------------------------- several prompts


def several(session, prompts, output):
    """Several prompts: a line of JSON or a block each, or a file; and the speed of all together."""

    def show(i, results):
        if isinstance(results, Failed):
            return  # which, will be said at the end
        if output.json:
            print(json.dumps(results), flush=True)
        else:
            show_one_of_many(session, prompts[i], results)

    total = len(prompts)
    shown = nullcontext((range(total), show))
    with into_file(session, prompts, output) if output.out else shown as (todo, put):
        found = session.run_together([prompts[i] for i in todo], output.batch_size)
        done = {"initial": total - len(todo), "total": total, "unit": " prompts"}
        bar = tqdm(found, **done, leave=False, disable=None if output.out else True)
        for results, i in zip(bar, todo):
            put(i, results)
    if output.json:
        return
    n = min(output.batch_size, total)
    for decoder, (n_tokens, seconds) in session.totals.items():
        line = f"{decoder.capitalize()}, {n} prompt{'s' if n > 1 else ''} at a time: {n_tokens} "
        print(f"{line}tokens in {seconds:.2f}s with prefill, {n_tokens / seconds:.1f} tokens/s")
    if output.out:
        print(f"Written: {output.out}")


def show_one_of_many(session, prompt, results):
    print(title(f"Prompt {prompt.number}"))
    for decoder in session.settings.decoders:
        print(title(f"{decoder.capitalize()} Decode"))
        show_times(results[decoder])
        print(f"Text = {session.encoder.decode(prompt.ids)}{results[decoder]['text']}\n")
    show_comparison(results)
    print()


@contextmanager
def into_file(session, prompts, output):
    """(the places that are to do, a function that writes a result into its place)."""
    settings = [session.settings.as_json(one.text, one.seed, one.ids) for one in prompts]
    models = wanted(session.settings).fingerprints()

    def put(i, results):
        lines.put(i, results, settings=settings[i], fingerprints=models)

    with Lines(output.out, [settings, models]) as lines:
        try:
            yield lines.todo(len(prompts)), put
        finally:  # some prompts may have failed
            if output.json:
                for results in lines.done:
                    print(json.dumps(results))
        lines.close()
