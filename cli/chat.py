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

    def of_texts(self):
        """The settings of generate that are the same, the others at their defaults."""
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
LOADED = {field.name for group in (Models, Machine) for field in fields(group)}
NAMES = {"n_tokens_to_generate": "length"}  # where a command is not called as its flag
FLAGS = {NAMES.get(one.name, one.name): one for one in flags_in(ChatSettings)}
FLAGS = {name: one for name, one in FLAGS.items() if one.name not in LOADED}
SETTINGS = DECODERS | {name: one.meaning for name, one in FLAGS.items()}
COMMANDS = SETTINGS | ACTIONS
HEADINGS = {  # {the first command below it: heading}
    "speculative": "Type a prompt to see it continued; // begins one with a slash. Ctrl-C stops a "
    "text.\n\nDecoders, each on or off; every prompt goes to all that are on:",
    next(iter(FLAGS)): "\nSettings (in /stop, \\n is a line break, and nothing turns it off):",
    "settings": "\nAnd:",
}


def pairs_by_decoder(pair):
    """{decoder: the Pair it runs with}, of the decoders that these models allow."""
    found = {"target": replace(pair, draft=None), "ngram": replace(pair, draft=NGrams())}
    if not pair.draft.is_lookup:
        found["speculative"] = pair
    if pair.draft.standalone_model:
        found["draft"] = Pair(pair.draft.standalone_model, None, pair.encoder)
    return found


class Console:
    """The settings that its commands change, the models, and what was generated so far.

    on: the decoders that prompts go to. answers: the file that commands answer to.
    """

    def __init__(self, settings, answers):
        self.answers, self.running, self.on = answers, True, {"speculative"}
        self.totals = {decoder: Counter() for decoder in DECODERS}
        self.load(settings)

    def load(self, settings):
        """Read the models of these settings, and continue with them and whatever decoders they
        allow. Where it raises InputError, all is as it was.
        """
        pair = load_pair(settings.of_texts())
        pairs, config = pairs_by_decoder(pair), config_from(settings.of_texts())
        prompt = Prompt(1, "", [pair.encoder.end_of_text or 0], settings.seed)
        for pair in pairs.values():
            config.new_run(pair, prompt).warm_up()
        self.current, self.pairs = settings, pairs
        self.on &= pairs.keys()
        self.on = self.on or {"speculative" if "speculative" in pairs else "ngram"}
        target, draft = settings.target_model_size, settings.draft_model_size
        print(f"target {target}, draft {draft}", file=sys.stderr)

    def answer(self, line):
        """Run one line of input, a command or a prompt; print an error as one line on stderr."""
        try:
            if line.strip() in ("quit", "exit", "/exit"):
                self.quit()
            elif line.startswith("/") and not line.startswith("//"):
                word, _, rest = line[1:].partition(" ")
                self.run_command(word, rest)
            elif line.strip():
                self.prompt(line.removeprefix("/"))
        except UNUSABLE as error:
            # it names flags; commands are called without dashes, and some otherwise
            called = lambda flag: NAMES.get(flag[1], flag[1])
            print_error(re.sub(r"(?<!\S)--(\w+)", called, str(error)))

    def prompt(self, text):
        """Continue a text with every decoder that is on."""
        if not self.on:
            raise InputError("no decoder is on: try /target on")
        for decoder in [decoder for decoder in DECODERS if decoder in self.on]:
            if len(self.on) > 1:
                print(f"[{decoder}]")
            pair = self.pairs[decoder]
            prompt = Prompt.from_text(text, pair, self.current.seed)
            note_early_ends(self.current, pair, [prompt])
            begin = pair.encoder.decode(prompt.ids)
            traced = self.current.trace and pair.draft
            show = Trace(pair.encoder) if traced else Stream(pair.encoder, begin)
            result = config_from(self.current.of_texts()).new_run(pair, prompt).finish(show)
            if traced:
                print(begin + result["text"])
            self.add_to_totals(decoder, result)

    def add_to_totals(self, decoder, result):
        """Add a result to the totals of its decoder, and print its figures on stderr."""
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

    def run_command(self, word, rest):
        """Run the command `word` with the text `rest`. Raises InputError if it cannot be run."""
        name = {name.lower(): name for name in COMMANDS}.get(word.lower())
        if name is None:
            expected = "one of those that /help lists, or // to begin a prompt with a slash"
            raise InputError(
                unknown_message("command", f"/{word}", [f"/{one}" for one in COMMANDS], expected)
            )
        if name == "reload":
            self.reload(rest)
        elif name in ACTIONS and rest.strip():
            raise InputError(f"{name} {rest.strip()!r}: expected nothing after it")
        elif name in ACTIONS:
            getattr(self, name)()
        else:
            self.change(name, rest)
            self.show(name)

    def value(self, name):
        if name in DECODERS:
            return name in self.on
        return getattr(self.current, FLAGS[name].name)

    def change(self, name, text):
        """Change a setting. Raises InputError and changes nothing if the text is not a value."""
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

    def show(self, name):
        value = self.value(name)
        self.print_answer(
            f"{name} {'on' if value is True else 'off' if value is False else repr(value)}"
        )

    def settings(self):
        for name in SETTINGS:
            self.show(name)

    def reload(self, rest):
        try:
            sizes = shlex.split(rest)
        except ValueError:
            raise InputError(f"reload {rest!r}: expected a second quotation mark") from None
        if len(sizes) > 2:
            raise InputError(f"reload {rest!r}: expected a target, and a draft at most")
        names = "target_model_size", "draft_model_size"
        self.load(self.current.replace(**dict(zip(names, sizes))))

    def stats(self):
        row = "{:<12}{:>6}{:>8}{:>10}{:>10}{:>10}".format
        self.print_answer(row("", "texts", "tokens", "tokens/s", "accepted", "per pass"))
        for decoder, n in self.totals.items():
            if n:
                rate = f"{n['accepted'] / n['examined']:.3f}" if n["examined"] else "-"
                speed, per_pass = n["tokens"] / n["seconds"], n["tokens"] / n["rounds"]
                figures = f"{speed:.1f}", rate, f"{per_pass:.2f}"
                self.print_answer(row(decoder, n["texts"], n["tokens"], *figures))

    def help(self):
        for name, meaning in COMMANDS.items():
            if name in HEADINGS:
                self.print_answer(HEADINGS[name])
            line = f"  /{name:<17} {meaning}"
            self.print_answer(textwrap.fill(line, 100, subsequent_indent=" " * 21))

    def quit(self):
        self.running = False


def parse_setting(name, text, value):
    """The new value of a setting, read as its flag is; without a text, the value it has, or the
    other one of on and off.
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


def edit_lines():
    """Line editing, history and completion of commands at the prompt, where Python has readline."""
    try:
        import readline
    except ImportError:
        return

    def completion(text, n):
        fitting = [f"/{name}" for name in COMMANDS if f"/{name}".startswith(text)]
        return [*fitting, None][n]

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
        edit_lines()
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
