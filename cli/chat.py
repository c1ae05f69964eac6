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
from cli.hints import unknown_message
from cli.parser import flags_in
from cli.runs import config_from, load_pair
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
        """The Settings of generate with the same values, and defaults for its other flags."""
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
    next(iter(FLAGS)): "\nSettings (in /stop, \\n is a line break, and nothing turns it off):",
    "settings": "\nAnd:",
}


def pairs_by_decoder(pair):
    """{decoder: the Pair it runs with}, of the DECODERS that the models of a Pair allow."""
    pairs = {"target": replace(pair, draft=None), "ngram": replace(pair, draft=NGrams())}
    if not pair.draft.is_lookup:
        pairs["speculative"] = pair
    if pair.draft.standalone_model:
        pairs["draft"] = Pair(pair.draft.standalone_model, None, pair.encoder)
    return pairs


class Console:
    """A session of chat: its settings, its models, and totals of what it generated.

    running: whether the session goes on
    on: the set of DECODERS that prompts go to
    pairs: {decoder: Pair} of those that the models allow
    totals: {decoder: Counter of texts, tokens, seconds, ...}
    """

    def __init__(self, settings, answers):
        """Load the models of ChatSettings. answers: the file that commands answer to."""
        self.answers, self.running, self.on = answers, True, {"speculative"}
        self.totals = {decoder: Counter() for decoder in DECODERS}
        self.load(settings)

    def load(self, settings):
        """Load the models of these ChatSettings, and turn off decoders that they do not allow.
        Prints their names on stderr. If it raises InputError, the session is as it was.
        """
        pair = load_pair(settings.as_generate_settings())
        pairs, config = pairs_by_decoder(pair), config_from(settings.as_generate_settings())
        prompt = Prompt(1, "", [pair.encoder.end_of_text or 0], settings.seed)
        for pair in pairs.values():
            config.new_run(pair, prompt).warm_up()
        self.current, self.pairs = settings, pairs
        self.on &= pairs.keys()
        self.on = self.on or {"speculative" if "speculative" in pairs else "ngram"}
        target, draft = settings.target_model_size, settings.draft_model_size
        print(f"target {target}, draft {draft}", file=sys.stderr)

    def answer(self, line):
        """Run one line of input: a command, or a prompt. Prints an error as one line on stderr."""
        try:
            if line.strip() in ("quit", "exit", "/exit"):
                self.quit()
            elif line.startswith("/") and not line.startswith("//"):
                word, _, argument = line[1:].partition(" ")
                self.run_command(word, argument)
            elif line.strip():
                self.prompt(line.removeprefix("/"))
        except UNUSABLE as error:
            # the message names flags: name the commands that change them
            command_of = lambda match: NAMES.get(match[1], match[1])
            print_error(re.sub(r"(?<!\S)--(\w+)", command_of, str(error)))

    def prompt(self, text):
        """Continue a text with every decoder that is on, and print what they write. Raises
        InputError if none is on, or the text cannot be continued.
        """
        if not self.on:
            raise InputError("no decoder is on: try /target on")
        for decoder in [decoder for decoder in DECODERS if decoder in self.on]:
            if len(self.on) > 1:
                print(f"[{decoder}]")
            pair = self.pairs[decoder]
            prompt = Prompt.from_text(text, pair, self.current.seed)
            note_early_ends(self.current, pair, [prompt])
            opening = pair.encoder.decode(prompt.ids)
            traced = self.current.trace and pair.draft
            watcher = Trace(pair.encoder) if traced else Stream(pair.encoder, opening)
            config = config_from(self.current.as_generate_settings())
            result = config.new_run(pair, prompt).finish(watcher)
            if traced:
                print(opening + result["text"])
            self.add_to_totals(decoder, result)

    def add_to_totals(self, decoder, result):
        """Add what Run.finish returned to the totals of a decoder, and print it on stderr."""
        n_tokens, seconds = len(result["token_ids"]), result["seconds"]
        total = {"texts": 1, "tokens": n_tokens, "seconds": seconds, "rounds": n_tokens}
        line = f"{decoder}: {n_tokens} tokens in {seconds:.2f} s, {n_tokens / seconds:.1f} tokens/s"
        if "examined" in result:
            total |= {name: result[name] for name in ("rounds", "examined", "accepted")}
            line += ", {accepted} of {examined} examined drafted tokens accepted".format(**total)
            line += f", {result['tokens_per_target_pass']:.2f} tokens per target pass"
        self.totals[decoder].update(total)
        print(line, file=sys.stderr)

    # ------------------------------------------------------------ commands

    def run_command(self, word, argument):
        """Run the command "/word argument". Raises InputError if it cannot be run."""
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
            actions = {
                "settings": self.print_settings,
                "stats": self.print_stats,
                "help": self.print_help,
                "quit": self.quit,
            }
            actions[name]()

    def value(self, name):
        """The value of one of SETTINGS; of a decoder, whether it is on."""
        if name in DECODERS:
            return name in self.on
        return getattr(self.current, FLAGS[name].name)

    def change(self, name, text):
        """Change one of SETTINGS to the value in a text, as parse_setting reads it. Raises
        InputError, and changes nothing, if it cannot have that value.
        """
        value = parse_setting(name, text, self.value(name))
        if name in FLAGS:
            self.current = self.current.replace(**{FLAGS[name].name: value})
        elif not value:
            self.on.discard(name)
        elif name in self.pairs:
            self.on.add(name)
        else:
            advice = f"try /reload {self.current.target_model_size} and a draft's size"
            raise InputError(f"{name}: there is no draft model; {advice}")

    def print_answer(self, line):
        print(line, file=self.answers)

    def print_setting(self, name):
        value = self.value(name)
        if isinstance(value, bool):
            shown = "on" if value else "off"
        else:
            shown = repr(value)
        self.print_answer(f"{name} {shown}")

    def print_settings(self):
        for name in SETTINGS:
            self.print_setting(name)

    def reload(self, argument):
        """Load the models named in a text "TARGET DRAFT"; without one or both, the present ones.
        Raises InputError.
        """
        try:
            sizes = shlex.split(argument)
        except ValueError:
            raise InputError(f"reload {argument!r}: expected a second quotation mark") from None
        if len(sizes) > 2:
            raise InputError(f"reload {argument!r}: expected a target, and a draft at most")
        names = "target_model_size", "draft_model_size"
        self.load(self.current.replace(**dict(zip(names, sizes))))

    def print_stats(self):
        """Print a table of the totals of each decoder that has written a text."""
        row = "{:<12}{:>6}{:>8}{:>10}{:>10}{:>10}".format
        self.print_answer(row("", "texts", "tokens", "tokens/s", "accepted", "per pass"))
        for decoder, total in self.totals.items():
            if total:
                rate = "-"
                if total["examined"]:
                    rate = f"{total['accepted'] / total['examined']:.3f}"
                speed = f"{total['tokens'] / total['seconds']:.1f}"
                per_pass = f"{total['tokens'] / total['rounds']:.2f}"
                line = row(decoder, total["texts"], total["tokens"], speed, rate, per_pass)
                self.print_answer(line)

    def print_help(self):
        """Print every command with its meaning, below HEADINGS."""
        for name, meaning in COMMANDS.items():
            if name in HEADINGS:
                self.print_answer(HEADINGS[name])
            line = f"  /{name:<17} {meaning}"
            self.print_answer(textwrap.fill(line, 100, subsequent_indent=" " * 21))

    def quit(self):
        self.running = False


def parse_setting(name, text, value):
    """The new value of one of SETTINGS, from the text behind its command. value: the present one.

    A text is read as that of a flag, or is "on" or "off". Without a text, the value stays; one that
    is on or off changes to the other. Raises InputError for a text that is no value.
    """
    if name == "stop":
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
        """Completion number n of a text, or None behind the last, as readline asks for it."""
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
    # "sig": a byte-order mark is no text
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
