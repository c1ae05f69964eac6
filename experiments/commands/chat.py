"""python main.py chat: a console to play in. A prompt is continued, a line that begins with /
changes how.

Texts go to stdout; figures, notes and refusals to stderr. What a command answers goes to stdout in
a terminal, else to stderr, so that a pipe gets nothing but text. A refusal is one line, and the
session goes on.
"""

import shlex
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass, fields, replace

from experiments.cli.exit_codes import UNUSABLE, print_error
from experiments.cli.flags import flags_in
from experiments.cli.show import Stream, note_room
from experiments.cli.trace import Trace
from experiments.data.values import SettingError
from experiments.decoding.session import Prompt, Session, load_pair
from experiments.decoding.settings import Drafting, Ending, Machine, Models, Sampling, Tracing, flag
from experiments.drafting.drafts import NGrams
from experiments.drafting.load import Pair
from utils import InputError

OFF_ON = ("off", "on")


@dataclass(frozen=True)
class ChatSettings(Tracing, Machine, Sampling, Drafting, Ending):
    """What a session begins with."""

    seed: int = flag(123, "of the random numbers, for each text anew")
    trace: bool = flag(False, "print what speculates round by round, every token marked")
    speculates = True

    @property
    def watched(self):
        return self.trace or self.coupled


@dataclass(frozen=True)
class ConsoleSettings(ChatSettings):
    """And its decoders, each on or off."""

    speculative: bool = flag(True, "the draft model proposes, the target checks")
    target: bool = flag(False, "the target alone, a token a pass")
    draft: bool = flag(False, "the draft model alone")
    ngram: bool = flag(False, "n-grams looked up in the text propose, the target checks")


DECODERS = ("speculative", "target", "draft", "ngram")
LOADED = {field.name for group in (Models, Machine) for field in fields(group)}
NAMES = {"n_tokens_to_generate": "length"}  # where a command is not called as its flag
FLAGS = sorted(flags_in(ConsoleSettings), key=lambda flag: flag.name not in DECODERS)
SETTINGS = {NAMES.get(flag.name, flag.name): flag for flag in FLAGS if flag.name not in LOADED}
ACTIONS = {
    "settings": "show all of the above",
    "reload": "read the models again, or others: /reload TARGET DRAFT",
    "stats": "what was generated in this session, and how fast",
    "help": "this",
    "quit": "end; so does Ctrl-D",
}
COMMANDS = (*SETTINGS, *ACTIONS)
HELP = {
    "Type a prompt to see it continued; // begins one with a slash. Ctrl-C stops a text.\n\n"
    "Decoders, each on or off; every prompt goes to all that are on:": DECODERS,
    "\nSettings (in /stop, \\n is a line break, and nothing turns it off):": [
        name for name in SETTINGS if name not in DECODERS
    ],
    "\nAnd:": ACTIONS,
}


def pairs_of(pair):
    """{decoder: the Pair it runs with}, of the decoders that these models allow."""
    found = {"target": replace(pair, draft=None), "ngram": replace(pair, draft=NGrams())}
    if not pair.draft.looks_up:
        found["speculative"] = pair
    if pair.draft.alone:
        found["draft"] = Pair(pair.draft.alone, None, pair.encoder)
    return found


class Console:
    """The settings that its commands change, the models, and what was generated so far.

    answers: the file that its commands answer to.
    """

    def __init__(self, settings, answers):
        self.answers, self.running = answers, True
        self.totals = {decoder: Counter() for decoder in DECODERS}
        self.load(ConsoleSettings(**settings.as_dict()))

    def load(self, settings):
        """Read the models of these settings, and continue with them and whatever decoders they
        allow. Where it raises InputError, all is as it was.
        """
        session = Session(settings, load_pair(settings))
        pairs = pairs_of(session.pair)
        prompt = Prompt(1, "", [session.encoder.end_of_text or 0], settings.seed)
        for pair in pairs.values():
            session.run(prompt, pair).warm_up()
        on = {decoder: getattr(settings, decoder) and decoder in pairs for decoder in DECODERS}
        if not any(on.values()):
            on["speculative" if "speculative" in pairs else "ngram"] = True
        self.session, self.pairs = session.changed(**on), pairs
        target, draft = settings.target_model_size, settings.draft_model_size
        print(f"target {target}, draft {draft}", file=sys.stderr)

    def answer(self, line):
        """Obey one line of input, or say in one line why not."""
        try:
            self.obey(line)
        except SettingError as error:
            print_error(f"{NAMES.get(error.name, error.name)} {error.problem}")
        except UNUSABLE as error:
            print_error(error)

    def obey(self, line):
        """One line of input. Raises InputError for what cannot be done."""
        if not line.strip():
            return
        if not line.startswith("/") or line.startswith("//"):
            return self.prompt(line.removeprefix("/"))
        word, _, rest = line[1:].partition(" ")
        name = {name.lower(): name for name in COMMANDS}.get(word.lower())
        if name in SETTINGS:
            self.change(name, rest)
        elif name == "reload":
            self.reload(rest)
        elif name:
            getattr(self, name)()
        else:
            raise InputError(
                f"unknown command {'/' + word!r}: try /help, or // to begin a prompt with a slash"
            )

    # ------------------------------------------------------------ prompts

    def prompt(self, text):
        """Continue a text with every decoder that is on."""
        on = [decoder for decoder in DECODERS if self.value(decoder)]
        if not on:
            raise InputError("no decoder is on: try /target on")
        for decoder in on:
            if len(on) > 1:
                print(f"[{decoder}]")
            self.continue_with(decoder, text)

    def continue_with(self, decoder, text):
        session = Session(self.session.settings, self.pairs[decoder])
        prompt = session.prompt(text)
        note_room(session, [prompt])
        run = session.run(prompt, session.pair)
        begin = session.encoder.decode(prompt.ids)
        traced = session.settings.trace and run.watch
        show = Trace(run.watch, session.encoder) if traced else Stream(session.encoder, begin)
        result = run.finish(show)
        if traced:
            print(begin + result["text"])
        self.count(decoder, result)

    def count(self, decoder, result):
        """Add a text to the statistics, and say what it was."""
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

    def say(self, line):
        print(line, file=self.answers)

    def value(self, name):
        return getattr(self.session.settings, SETTINGS[name].name)

    def show(self, name):
        value = self.value(name)
        self.say(f"{name} {OFF_ON[value] if isinstance(value, bool) else repr(value)}")

    def change(self, name, text):
        """Change a setting, or show it. Raises InputError, and then all is as it was."""
        value = parsed(name, text, self.value(name))
        if name in DECODERS and value and name not in self.pairs:
            target = self.session.settings.target_model_size
            raise InputError(
                f"{name}: there is no draft model; try /reload {target} and a draft's size"
            )
        self.session = self.session.changed(**{SETTINGS[name].name: value})
        self.show(name)

    def reload(self, words):
        try:
            sizes = dict(zip(("target_model_size", "draft_model_size"), shlex.split(words)))
        except ValueError:
            raise InputError(f"reload {words!r}: expected a second quotation mark") from None
        self.load(self.session.settings.replace(**sizes))

    def settings(self):
        for name in SETTINGS:
            self.show(name)

    def stats(self):
        head = "texts", "tokens", "tokens/s", "accepted", "per pass"
        self.say("{:<12}{:>6}{:>8}{:>10}{:>10}{:>10}".format("", *head))
        for name, total in self.totals.items():
            if total:
                rate = f"{total['accepted'] / total['examined']:.3f}" if total["examined"] else "-"
                speed = total["tokens"] / total["seconds"]
                row = f"{name:<12}{total['texts']:>6}{total['tokens']:>8}{speed:>10.1f}{rate:>10}"
                self.say(f"{row}{total['tokens'] / total['rounds']:>10.2f}")

    def help(self):
        meanings = {name: flag.meaning for name, flag in SETTINGS.items()} | ACTIONS
        for heading, names in HELP.items():
            self.say(heading)
            for name in names:
                line = f"  /{name:<17} {meanings[name]}"
                self.say(textwrap.fill(line, 100, subsequent_indent=" " * 21))

    def quit(self):
        self.running = False


def parsed(name, text, value):
    """The new value of a setting; without a text, the other one of on and off."""
    if name == "stop":
        return text.replace(r"\n", "\n")
    word = text.strip()
    if not isinstance(value, bool):
        return SETTINGS[name].parse(word) if word else value
    if word not in ("", *OFF_ON):
        raise InputError(f"{name} {word!r}: expected on or off, or nothing, which turns it over")
    return word == "on" if word else not value


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
