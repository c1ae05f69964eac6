"""What generate prints for people: a block for each decoder, and what the two have in common."""

import json

from tqdm import tqdm

from checkpoints.files import note
from cli.files import write_whole


def title(text):
    return f"{text}\n{'-' * len(text)}"


def note_room(settings, pair, prompts):
    """Say on stderr where the context ends a text early, and of several prompts, which."""
    n_tokens = settings.n_tokens_to_generate
    for prompt in prompts:
        room = pair.target.config.n_ctx - len(prompt.ids)
        if room < n_tokens:
            which = f"prompt {prompt.number}: " if len(prompts) > 1 else ""
            note(f"{which}the context ends after {room} of {n_tokens} tokens")


# ---------------------------------------------------------------- watchers of a run
#
# Run.finish calls a watcher with each Round, its seconds and its coins; with None at the end.


class Bar:
    """A progress bar on stderr, when a text takes longer than a second."""

    def __init__(self, n_tokens):
        self.bar = tqdm(total=n_tokens, unit=" tokens", delay=1, leave=False, disable=None)

    def __call__(self, round, *moment):
        if round is None:
            self.bar.close()
        else:
            self.bar.update(len(round.tokens))


class Stream:
    """Prints the text as it comes, after what it begins with."""

    def __init__(self, encoder, begin):
        self.encoder = encoder
        self.decode = encoder.incremental_decoder()
        print(begin, end="", flush=True)

    def __call__(self, round, *moment):
        if round is None:
            print(self.decode([], final=True), flush=True)
        else:
            print(self.decode(self.encoder.without_end(round.tokens)), end="", flush=True)


class Screen:
    """What one prompt shows: a block for each decoder, and below them what they have in common.

    With --json nothing but the object at the end; with --report a page, too.
    """

    def __init__(self, settings, output, prompt, pair):
        self.settings, self.output, self.encoder = settings, output, pair.encoder
        self.opening = f"Text = {self.encoder.decode(prompt.ids)}"
        self.notes = None  # of the speculative run, for --report
        note_room(settings, pair, [prompt])

    def begin(self, run, decoder):
        """Begin the block of a decoder. Returns who watches its run."""
        speculates = run.pair.draft is not None
        watchers = []
        if self.settings.report and speculates:
            from page.rounds import Notes

            self.notes = Notes(run, self.settings.rule_name == "block")
            watchers.append(self.notes)
        if self.output.json:
            return [*watchers, Bar(run.n_tokens)]
        print(title(f"{decoder.capitalize()} Decode"))
        if self.settings.trace and speculates:
            from cli.trace import Trace

            return [*watchers, Trace(self.encoder)]
        if self.settings.stream:
            return [*watchers, Stream(self.encoder, self.opening)]
        return [*watchers, Bar(run.n_tokens)]

    def end(self, decoder, result):
        """End the block of a decoder."""
        if self.output.json:
            return
        times(result)
        streamed = self.settings.stream and not (self.settings.trace and decoder == "speculative")
        print("" if streamed else f"{self.opening}{result['text']}\n")

    def compare(self, summary):
        """What the two decoders have in common, as JSON or in words; and the report."""
        if self.output.json:
            print(json.dumps(summary))
        else:
            comparison(summary)
        if self.notes:
            from page.report import page_of, report_data

            data = report_data(self.settings, self.notes.notes, summary, self.encoder)
            write_whole(self.settings.report, page_of(data))
            if not self.output.json:
                print(f"Report: {self.settings.report}")


# ---------------------------------------------------------------- figures


def times(result):
    line = "Time = {seconds:.2f}s after {prefill_seconds:.2f}s of prefill, "
    print((line + "{tokens_per_second:.1f} tokens/s").format(**result))


def comparison(results):
    fast, difference = results["speculative"], results.get("difference")
    if fast and fast["examined"]:
        counts = "{accepted} of {examined} examined drafted tokens".format(**fast)
        print(f"Acceptance rate = {fast['acceptance_rate']:.3f} ({counts})")
        if "usual_acceptance_rate" in fast:
            rate = f"{fast['usual_acceptance_rate']:.3f} of the same drafted tokens"
            print(f"The token rule would accept {rate}, on average; docs/coupling.md says why.")
    if fast:
        print(f"Tokens per target pass = {fast['tokens_per_target_pass']:.2f}")
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
    keeps = "Of {drafted} drafts there it keeps {kept:.2f} on average, verify {by_verify:.2f}; "
    keeps += "the most that an exact round can keep is {most:.2f}"
    print(keeps.format(**results["rule_keeps"]))
    loop = results["own_loop"]
    if loop:
        print(far.format("Your loop", loop["distance"]))
        print(f"Its first {len(loop['token_ids'])} tokens: {loop['text']!r}")
