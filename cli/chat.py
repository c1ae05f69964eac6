"""python main.py chat: a console to play in. A prompt is continued, a line that begins with /
changes how.

Texts go to stdout; figures, notes and refusals to stderr. What a command answers goes to stdout in
a terminal, else to stderr, so that a pipe gets nothing but text. A refusal is one line, and the
session goes on.
"""

import re
import shlex
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass, fields, replace

from checkpoints.errors import InputError
from cli.exit_codes import UNUSABLE, print_error
from cli.flags import SEEDS, Drafting, Ending, Machine, Models, Sampling, Settings, Tracing, flag
from cli.from_flags import config_from, load_pair
from cli.hints import unknown_message
from cli.parser import flags_in
from cli.show import Stream, note_early_ends
from cli.trace import Trace
from decoding.load import Pair
from decoding.ngrams import NGrams
from decoding.prompt import Prompt


@dataclass(frozen=True)
class ChatSettings(Tracing, Machine, Sampling, Drafting, Ending):
    """What a session begins with."""

    seed: int = flag(
        123, "seed of the random numbers; each text starts from it again", limits=SEEDS
    )
    trace: bool = flag(False, "print what speculates round by round, every token marked")

    def as_generate_settings(self):
        """Return cli.flags.Settings, those of generate: these values, and defaults for the rest."""
        return Settings(**self.as_dict())


# {command: what it means}
DECODERS = {
    "speculative": "the draft model proposes, the target checks",
    "target": "the target alone, a token a pass",
    "draft": "the draft model alone",
    "ngram": "n-grams looked up in the text propose, the target checks",
}
ACTIONS = {
    "settings": "show all of the above",
    "reload": "read the models again, or others: /reload TARGET DRAFT",
    "stats": "what was generated in this session, and how fast",
    "help": "this",
    "quit": "end; so do quit, exit and Ctrl-D",
}
# the flags that decide which models are loaded, and how: /reload changes these
LOADED = {field.name for group in (Models, Machine) for field in fields(group)}
NAMES = {"n_tokens_to_generate": "length"}  # where a command is not called as its flag
# {command: the Flag that it changes}
FLAGS = {NAMES.get(f.name, f.name): f for f in flags_in(ChatSettings) if f.name not in LOADED}
SETTINGS = DECODERS | {name: flag.meaning for name, flag in FLAGS.items()}
COMMANDS = SETTINGS | ACTIONS
HEADINGS = {  # {the first command below it: heading}
    "speculative": "Type a prompt to see it continued; // begins one with a slash. Ctrl-C stops a "
    "text.\n\nDecoders, each on or off; every prompt goes to all that are on:",
    next(iter(FLAGS)): "\nSettings (in /stop, \\n is a line break, and /stop alone turns it off):",
    "settings": "\nAnd:",
}


def pairs_by_decoder(pair: Pair) -> dict[str, Pair]:
    """{decoder: the Pair that it runs with}, for each of the DECODERS that a Pair's models allow.
    "speculative" needs a draft that is not n-grams; "draft" needs a draft model that can decode
    alone.
    """
    pairs = {"target": replace(pair, draft=None), "ngram": replace(pair, draft=NGrams())}
    if not pair.draft.is_lookup:
        pairs["speculative"] = pair
    if pair.draft.standalone_model:  # the draft model as a target without a draft
        pairs["draft"] = Pair(pair.draft.standalone_model, draft=None, encoder=pair.encoder)
    return pairs


class Console:
    """A session of chat: its settings, its models, and totals of what it generated.

    running: whether the session goes on
    current: the present ChatSettings
    active: the set of DECODERS that are on: every prompt goes to all of them
    pairs: {decoder: Pair} of the decoders that the models allow
    totals: {decoder: Counter of texts, tokens, seconds, ...}
    """

    def __init__(self, settings, answers):
        """Load the models of ChatSettings. answers: the text file to which commands print."""
        self.answers = answers
        self.running = True
        self.active = {"speculative"}
        self.totals = {decoder: Counter() for decoder in DECODERS}
        self.load(settings)

    def load(self, settings):
        """Load the models of these ChatSettings, warm up each decoder, and print the models' names
        on stderr. Turns off the decoders that the models do not allow; if none is left on, turns
        on "speculative" or "ngram". Raises InputError, and changes nothing, if the models cannot be
        used.
        """
        generate_settings = settings.as_generate_settings()
        loaded = load_pair(generate_settings)
        pairs, config = pairs_by_decoder(loaded), config_from(generate_settings)
        # one token, any, to warm up with
        prompt = Prompt(1, "", [loaded.encoder.end_of_text or 0], settings.seed)
        for pair in pairs.values():
            config.new_run(pair, prompt).warm_up()
        # nothing can fail from here on
        self.current, self.pairs = settings, pairs
        self.active &= pairs.keys()
        if not self.active:
            self.active = {"speculative" if "speculative" in pairs else "ngram"}
        target, draft = settings.target_model_size, settings.draft_model_size
        print(f"target {target}, draft {draft}", file=sys.stderr)

    def answer(self, line):
        """Run one line of input, a str: a command if it begins with one slash, or is quit or exit;
        else a prompt, which "//" begins with one slash. An error that the user can put right is
        printed as one line on stderr.
        """
        try:
            if line.strip().lower() in ("quit", "exit", "/quit", "/exit"):
                self.running = False
            elif line.startswith("/") and not line.startswith("//"):
                word, _, argument = line[1:].partition(" ")
                self.run_command(word, argument)
            elif line.strip():
                self.continue_text(line.removeprefix("/"))
        except UNUSABLE as error:
            # the message names flags: name the commands that change them
            command_of = lambda match: NAMES.get(match[1], match[1])
            print_error(re.sub(r"(?<!\S)--(\w+)", command_of, str(error)))

    def continue_text(self, text):
        """Continue a text (str) with every decoder that is on. Prints what each writes; its figures
        go to stderr. Raises InputError if no decoder is on, or the text cannot be continued.
        """
        if not self.active:
            raise InputError("no decoder is on: try /target on")
        for decoder in DECODERS:  # in this order; the set `active` has no order
            if decoder not in self.active:
                continue
            if len(self.active) > 1:
                print(f"[{decoder}]")
            pair = self.pairs[decoder]
            prompt = Prompt.from_text(text, pair, self.current.seed)
            note_early_ends(self.current, pair, [prompt])
            opening = pair.encoder.decode(prompt.ids)
            traced = self.current.trace and pair.draft
            watcher = Trace(pair.encoder) if traced else Stream(pair.encoder, opening)
            config = config_from(self.current.as_generate_settings())
            result = config.new_run(pair, prompt).finish(watcher)
            if traced:  # a Stream has printed the text already
                print(opening + result["text"])
            self.add_to_totals(decoder, result)

    def add_to_totals(self, decoder, result):
        """Add a text to self.totals[decoder], and print a line on stderr with its figures: tokens,
        seconds, speed and acceptance.

        result: the dict that Run.finish returned for the text
        """
        n_tokens, seconds = len(result["token_ids"]), result["seconds"]
        # without drafts, a round writes one token
        total = {"texts": 1, "tokens": n_tokens, "seconds": seconds, "rounds": n_tokens}
        line = f"{decoder}: {n_tokens} tokens in {seconds:.2f} s, {n_tokens / seconds:.1f} tokens/s"
        if "examined" in result:  # it has drafted
            total |= {name: result[name] for name in ("rounds", "examined", "accepted")}
            line += ", {accepted} of {examined} examined drafted tokens accepted".format(**total)
            line += f", {result['tokens_per_target_pass']:.2f} tokens per target pass"
        self.totals[decoder].update(total)  # a Counter adds
        print(line, file=sys.stderr)

    # ------------------------------------------------------------ commands

    def run_command(self, word, argument):
        """Run the command "/word argument", and print its answer. The case of the word does not
        count. Raises InputError if the command is unknown, or does not take the argument.
        """
        name = {name.lower(): name for name in COMMANDS}.get(word.lower())
        if name is None:
            names = [f"/{name}" for name in COMMANDS]
            expected = "one of those that /help lists, or // to begin a prompt with a slash"
            raise InputError(unknown_message("command", f"/{word}", names, expected))
        if name == "reload":
            self.reload(argument)
        elif name in SETTINGS:
            self.change(name, argument)
            self.print_setting(name)
        elif argument.strip():
            raise InputError(f"{name} {argument.strip()!r}: expected nothing after it")
        else:
            getattr(self, f"print_{name}")()  # settings, stats or help

    def value(self, name):
        """The present value of a command in SETTINGS: for a decoder, a bool, whether it is on; else
        the value of the flag that the command changes.
        """
        if name in DECODERS:
            return name in self.active
        return getattr(self.current, FLAGS[name].name)

    def change(self, name, text):
        """Change the value of a command in SETTINGS: set its flag, or turn the decoder on or off.

        text: the new value, or "" to toggle a bool. Raises InputError, and changes nothing, for a
        value that is not allowed, and for a decoder whose draft model is not loaded.
        """
        value = parse_setting(name, text, self.value(name))
        if name in FLAGS:
            self.current = self.current.replace(**{FLAGS[name].name: value})
        elif not value:
            self.active.discard(name)
        elif name in self.pairs:
            self.active.add(name)
        else:  # a decoder to turn on, which self.pairs lacks
            advice = f"try /reload {self.current.target_model_size} and a draft's size"
            raise InputError(f"{name}: there is no draft model; {advice}")

    def print_answer(self, line):
        print(line, file=self.answers)

    def print_setting(self, name):
        """Print the present value of a command in SETTINGS, such as "top_k 0" or "draft off"."""
        value = self.value(name)
        shown = ("off", "on")[value] if isinstance(value, bool) else repr(value)
        self.print_answer(f"{name} {shown}")

    def print_settings(self):
        for name in SETTINGS:
            self.print_setting(name)

    def reload(self, argument):
        """Load the models that `argument` (str) names: "TARGET DRAFT", "TARGET" or "". A model that
        is not named stays. Raises InputError, and changes nothing, for more than two names, and for
        models that cannot be used.
        """
        try:
            sizes = shlex.split(argument)
        except ValueError:
            expected = "a second quotation mark, or a character after the backslash"
            raise InputError(f"reload {argument!r}: expected {expected}") from None
        if len(sizes) > 2:
            raise InputError(f"reload {argument!r}: expected a target, and a draft at most")
        names = "target_model_size", "draft_model_size"
        changes = dict(zip(names, sizes))  # zip ends with the shorter: no size, no change
        self.load(self.current.replace(**changes))

    def print_stats(self):
        """Print a table with a row for each decoder that has written a text: its totals, tokens
        per second, acceptance rate, and tokens per pass of the target.
        """
        row = "{:<12}{:>6}{:>8}{:>10}{:>10}{:>10}".format
        self.print_answer(row("", "texts", "tokens", "tokens/s", "accepted", "per pass"))
        for decoder, total in self.totals.items():
            if total:
                n_tokens, n_examined = total["tokens"], total["examined"]
                speed = f"{n_tokens / total['seconds']:.1f}"
                rate = f"{total['accepted'] / n_examined:.3f}" if n_examined else "-"
                per_pass = f"{n_tokens / total['rounds']:.2f}"
                self.print_answer(row(decoder, total["texts"], n_tokens, speed, rate, per_pass))

    def print_help(self):
        """Print every command with its meaning, below HEADINGS."""
        for name, meaning in COMMANDS.items():
            if name in HEADINGS:
                self.print_answer(HEADINGS[name])
            line = f"  /{name:<17} {meaning}"
            self.print_answer(textwrap.fill(line, 100, subsequent_indent=" " * 21))


def parse_setting(name, text, value):
    """Return the new value of a command in SETTINGS. name: the command; text: what stands behind
    it; value: the present value

    A bool takes "on" or "off"; an empty text toggles it. Other values are read as on the command
    line; an empty text keeps them, except --stop, which it turns off. Raises InputError for a text
    that is no value.
    """
    if name == "stop":  # an empty text is a value here: it turns --stop off
        return text.replace(r"\n", "\n")
    word = text.strip()
    if isinstance(value, bool):
        try:
            return {"on": True, "off": False, "": not value}[word]
        except KeyError:
            problem = "expected on or off, or nothing, which toggles it"
            raise InputError(f"{name} {word!r}: {problem}") from None
    return FLAGS[name].parse(word) if word else value


def install_line_editing():
    """Give input() line editing, history and completion of commands, if Python has readline."""
    try:
        import readline
    except ImportError:
        return

    def completion(text, n):
        """Command number n, from 0, of those that begin with a text; None if there are fewer.
        readline calls this for n = 0, 1, 2 ... until it gets None.
        """
        completions = [f"/{name}" for name in COMMANDS if f"/{name}".startswith(text)]
        return completions[n] if n < len(completions) else None

    readline.set_completer(completion)
    readline.set_completer_delims(" ")
    readline.parse_and_bind("tab: complete")


def chat(settings: ChatSettings):
    """Continue prompts as you type them, or as they come through a pipe, one a line; /help lists
    what can be changed.
    """
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    # a pipe is UTF-8; "sig": a byte-order mark is no text. A terminal keeps its own encoding.
    # Invalid bytes become lone surrogates: their prompt is refused, and the session goes on
    encoding = None if interactive else "utf-8-sig"
    sys.stdin.reconfigure(encoding=encoding, errors="surrogateescape")
    console = Console(settings, answers=sys.stdout if interactive else sys.stderr)
    if interactive:
        install_line_editing()
        print("Type a prompt, or /help.")
    while console.running:
        try:
            console.answer(input("> " if interactive else "").removesuffix("\r"))
        except EOFError:
            console.running = False
            print(end="\n" if interactive else "")
        except KeyboardInterrupt:
            if not interactive:
                raise
            print()
