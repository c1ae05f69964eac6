"""What generate prints for people: a block for each decoder, and what the two have in common."""

import json

from tqdm import tqdm

from checkpoints.errors import note, plural
from cli.flags import DEFAULTS
from decoding.load import AUTO


def underlined(text):
    """The text (str), and below it a line of as many dashes."""
    return f"{text}\n{'-' * len(text)}"


def note_early_ends(settings, pair, prompts):
    """Note on stderr which texts of [Prompt] the context of the Pair's target will cut short."""
    n_tokens = settings.n_tokens_to_generate
    for prompt in prompts:
        n_left = pair.target.config.n_ctx - len(prompt.ids)
        if n_left < n_tokens:
            name = f"prompt {prompt.number}: " if len(prompts) > 1 else ""
            note(f"{name}the context ends after {n_left} of {n_tokens} tokens")


def note_mistake(settings):
    """If the mistake of these Settings cannot show, print on stderr flags that show it."""
    if settings.mistake:
        from proving.mistakes import case_flags, get_mistake  # here: a plain run needs neither

        if not get_mistake(settings.mistake).shows_with(settings.to_probs):
            command = f"python main.py --mistake {settings.mistake} {case_flags(settings.mistake)}"
            note(f"the mistake cannot show with these sampling parameters; try {command}")


# ---------------------------------------------------------------- watchers of a run
# Run.finish calls a watcher with each Round, its seconds and the Rng; with None at the end.


class Bar:
    """A watcher that draws a progress bar on stderr, if a text takes longer than a second."""

    def __init__(self, n_tokens):
        self.bar = tqdm(total=n_tokens, unit=" tokens", delay=1, leave=False, disable=None)

    def __call__(self, this_round, *moment):
        if this_round is None:
            self.bar.close()
        else:
            self.bar.update(len(this_round.tokens))


class Stream:
    """A watcher that prints the text as it is written, after an opening that it prints at once."""

    def __init__(self, encoder, opening):
        self.encoder = encoder
        self.decode = encoder.incremental_decoder()
        print(opening, end="", flush=True)

    def __call__(self, this_round, *moment):
        if this_round is None:
            print(self.decode([], final=True), flush=True)
        else:
            print(self.decode(self.encoder.without_end(this_round.tokens)), end="", flush=True)


class Screen:
    """Prints the run of one prompt: a block for each decoder, then what compares them. With --json
    it prints the JSON object alone; with --report it also writes a page.
    """

    def __init__(self, settings, output, prompt, pair):
        self.settings, self.output, self.pair = settings, output, pair
        self.opening = f"Text = {pair.encoder.decode(prompt.ids)}"
        self.notes = None  # of the speculative run, for --report
        note_early_ends(settings, pair, [prompt])
        note_mistake(settings)

    def begin(self, run, decoder):
        """Print the heading of a decoder ("autoregressive" or "speculative") before its Run. Return
        the list of watchers, functions that Run.finish calls with each Round.
        """
        speculates = run.pair.draft is not None
        if not self.output.json:
            print(underlined(f"{decoder.capitalize()} Decode"))
        if self.settings.trace and speculates:  # never with --json, nor is --stream
            from cli.trace import Trace  # here, as below: a plain run needs neither

            watchers = [Trace(self.pair.encoder)]
        elif self.settings.stream:
            watchers = [Stream(self.pair.encoder, self.opening)]
        else:
            watchers = [Bar(run.n_tokens)]
        if self.settings.report and speculates:
            from page.rounds import Notes

            self.notes = Notes(run, self.settings.rule_name == "block")
            watchers.append(self.notes)
        return watchers

    def end(self, decoder, result):
        """Print times, and text unless streamed, of the dict of Run.finish; nothing with --json."""
        if self.output.json:
            return
        print_times(result)
        traced = self.settings.trace and decoder == "speculative"  # it streams no text
        if self.settings.stream and not traced:
            print()  # the text is there already
        else:
            print(f"{self.opening}{result['text']}\n")

    def compare(self, summary):
        """Print `summary`, the prompt's JSON object (a dict), with --json, else what compares the
        decoders. With --report, write the page, and print its path unless with --json.
        """
        if self.output.json:
            print(json.dumps(summary))
        else:
            print_comparison(summary)
        if self.notes:
            from checkpoints.output import write_atomically  # here: a plain run writes no file
            from page.report import describe_run, page_of, report_data

            ids, kernels = summary["prompt_token_ids"], summary["kernels"]
            description = describe_run(summary["settings"], ids, DEFAULTS, kernels)
            data = report_data(description, summary, self.notes.notes, self.pair)
            write_atomically(self.settings.report, page_of(data))
            if not self.output.json:
                print(f"Report: {self.settings.report}")


# ---------------------------------------------------------------- figures


def print_times(result):
    """Print seconds and tokens per second, from the dict that Run.finish returned."""
    line = "Time = {seconds:.2f}s after {prefill_seconds:.2f}s of prefill, "
    line += "{tokens_per_second:.1f} tokens/s"
    if result["timed_runs"] > 1:
        line += ", the median of {timed_runs} runs"
    print(line.format(**result))


def print_comparison(results, alone=True):
    """Print the figures of the speculative run, and whether the two texts are equal.

    results: the JSON object of a prompt, as a dict
    alone: whether the prompt was decoded alone; in a batch, other prompts add to its times
    """
    if results["speculative"]:
        print_speculation(results["speculative"], results["settings"]["K"])
    if results["speedup"] and alone:
        how = "one prompt; python main.py benchmark averages over several"
        print(f"Speedup = {results['speedup']:.2f} ({how})")
    rule_is_exact = judge_own_rule(results) if "rule_distance" in results else True
    if results["identical"] is None:  # there is only one text
        return
    if results["identical"]:
        print("The two texts are identical.")
    elif "difference" in results:  # they should be equal
        line = "The two texts differ from token {position} on, which is a {verdict}: the two best "
        line += "logits there are {gap:.2g} apart, rounding errors {float_error:.2g}."
        print(line.format(**results["difference"]))
    else:  # samples may differ
        temperature = results["settings"]["temperature"]
        mistake = results["settings"].get("mistake")
        if mistake:
            reason = f"as without the mistake; how wrong it is: python main.py mistakes {mistake}"
        elif not rule_is_exact:
            reason = "as they would with a right rule; the distance above says how wrong yours is"
        else:
            reason = f"as two samples from one distribution do at temperature {temperature}"
        print(f"The two texts differ, {reason}.")


def print_speculation(result, K):
    """Print acceptance and tokens per pass, from the dict of Run.finish. K: the value of --K."""
    if result["examined"]:
        counts = "{accepted} of {examined} examined drafted tokens".format(**result)
        print(f"Acceptance rate = {result['acceptance_rate']:.3f} ({counts})")
        if "usual_acceptance_rate" in result:
            rate = f"{result['usual_acceptance_rate']:.3f} of the same drafted tokens"
            print(f"The token rule would accept {rate}, on average; docs/coupling.md says why.")
    print(f"Tokens per target pass = {result['tokens_per_target_pass']:.2f}")
    if K == AUTO:
        lengths = result["draft_lengths"].items()
        rounds = ", ".join(f"{length} in {plural(n, 'round')}" for length, n in lengths)
        print(f"Drafted tokens, as --K auto chose = {rounds}")


def judge_own_rule(results):
    """Print the figures of --rule from a prompt's JSON object; return whether the rule is exact."""
    from proving.verdict import ROUNDING, format_distance  # here: only --rule needs it

    distance = "{}: total variation distance from the target = {}, exact, on a toy pair"
    print(distance.format("Your rule", format_distance(results["rule_distance"])))
    line = "Of {drafted} drafts there it keeps {kept:.2f} on average, verify {by_verify:.2f}; "
    line += "the most that an exact round can keep is {most:.2f}"
    print(line.format(**results["rule_keeps"]))
    loop = results["own_loop"]
    if loop:  # None if the reader has no loop of their own
        print(distance.format("Your loop", format_distance(loop["distance"])))
        print(f"Its first {len(loop['token_ids'])} tokens: {loop['text']!r}")
    return results["rule_distance"] <= ROUNDING
