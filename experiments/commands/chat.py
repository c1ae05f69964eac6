"""python main.py chat: a console to play in. A prompt is continued, a line that begins with /
changes how.

Texts go to stdout; figures, notes and refusals to stderr. What a command answers goes to stdout in
a terminal, else to stderr, so that a pipe gets nothing but text. A refusal is one line, and the
session goes on.
"""

import shlex
import sys
import textwrap
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

MOST_CHARACTERS = 1 << 20  # of a line that comes through a pipe
ON_OFF = {True: "on", False: "off"}


@dataclass(frozen=True)
class ChatSettings(Tracing, Machine, Sampling, Drafting, Ending):
    """What a session begins with."""

    seed: int = flag(123, "of the random numbers, for each text anew")
    trace: bool = flag(False, "print what speculates round by round, every token marked")
    speculates = True

    @property
    def watched(self):
        return self.trace or self.coupled


DECODERS = {
    "speculative": "the draft model proposes, the target checks",
    "target": "the target alone, a token a pass",
    "draft": "the draft model alone",
    "ngram": "n-grams looked up in the text propose, the target checks",
}
LOADED = {field.name for group in (Models, Machine) for field in fields(group)}
NAMES = {"n_tokens_to_generate": "length"}  # where a command is not called as its flag
SETTINGS = {
    NAMES.get(flag.name, flag.name): flag
    for flag in flags_in(ChatSettings)
    if flag.name not in LOADED
}
ACTIONS = {
    "settings": "show all of the above",
    "reload": "read the models again, or others: /reload TARGET DRAFT",
    "stats": "what was generated in this session, and how fast",
    "help": "this",
    "quit": "end; so does Ctrl-D",
}
COMMANDS = (*DECODERS, *SETTINGS, *ACTIONS)
HELP = r"""Type a prompt to see it continued; // begins one with a slash. Ctrl-C stops a text.

Decoders, each on or off; every prompt goes to all that are on:
{decoders}

Settings (in /stop, \n is a line break, and nothing turns it off):
{settings}

And:
{actions}"""


def lines_of(meanings):
    """A line for each command, or more where its meaning is long."""
    indent = " " * 21
    lines = [
        textwrap.fill(f"  /{name:<17} {meaning}", 100, subsequent_indent=indent)
        for name, meaning in meanings.items()
    ]
    return "\n".join(lines)


def help_text():
    settings = {name: flag.meaning for name, flag in SETTINGS.items()}
    return HELP.format(
        decoders=lines_of(DECODERS), settings=lines_of(settings), actions=lines_of(ACTIONS)
    )


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
        self.answers = answers
        self.switches = {decoder: decoder == "speculative" for decoder in DECODERS}
        self.totals, self.running = {}, True
        self.load(settings)

    def load(self, settings):
        """Read the models of these settings, and continue with them and whatever decoders they
        allow. Where it raises InputError, all is as it was.
        """
        session = Session(settings, load_pair(settings))
        pairs = pairs_of(session.pair)
        prompt = Prompt(1, "", [session.encoder.end_of_text or 0], settings.seed)
        for pair in pairs.values():
            session.run(prompt, pair).warm_up()
        self.session, self.pairs = session, pairs
        lost = [name for name, on in self.switches.items() if on and name not in pairs]
        if lost:
            self.switches |= dict.fromkeys(lost, False)
            self.switches["speculative" if "speculative" in pairs else "ngram"] = True
        target, draft = settings.target_model_size, settings.draft_model_size
        print(f"target {target}, draft {draft}", file=sys.stderr)

    # ------------------------------------------------------------ prompts

    def prompt(self, text):
        """Continue a text with every decoder that is on."""
        on = [decoder for decoder in DECODERS if self.switches[decoder]]
        if not on:
            raise InputError("no decoder is on: try /target on")
        for decoder in on:
            self.continue_with(decoder, text, with_title=len(on) > 1)

    def continue_with(self, decoder, text, with_title):
        session, settings, pair = self.session, self.session.settings, self.pairs[decoder]
        n_ctx = pair.target.config.n_ctx
        prompt = session.prompt(text, n_ctx=n_ctx)
        note_room([prompt], settings.n_tokens_to_generate, n_ctx)
        if with_title:
            print(f"[{decoder}]")
        run = session.run(prompt, pair)
        begin = session.encoder.decode(prompt.ids)
        traced = settings.trace and run.watch
        show = Trace(run.watch, session.encoder) if traced else Stream(session.encoder, begin)
        result = run.finish(show)
        if traced:
            print(begin + result["text"])
        self.count(decoder, result)

    def count(self, decoder, result):
        """Add a text to the statistics, and say what it was."""
        n_tokens = len(result["token_ids"])
        found = {
            "texts": 1,
            "tokens": n_tokens,
            "seconds": result["seconds"],
            "rounds": result.get("rounds", n_tokens),
            "examined": result.get("examined", 0),
            "accepted": result.get("accepted", 0),
        }
        total = self.totals.setdefault(decoder, dict.fromkeys(found, 0))
        for name, value in found.items():
            total[name] += value
        line = f"{decoder}: {n_tokens} tokens in {result['seconds']:.2f} s"
        line += f", {result['tokens_per_second']:.1f} tokens/s"
        if "examined" in result:
            line += f", {found['accepted']} of {found['examined']} examined drafted tokens accepted"
            line += f", {result['tokens_per_target_pass']:.2f} tokens per target pass"
        print(line, file=sys.stderr)

    # ------------------------------------------------------------ commands

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
        if name in DECODERS or name in SETTINGS:
            self.change(name, rest)
        elif name == "reload":
            self.reload(rest)
        elif name:
            getattr(self, name)()
        else:
            raise InputError(
                f"unknown command {'/' + word!r}: try /help, or // to begin a prompt with a slash"
            )

    def say(self, line):
        print(line, file=self.answers)

    def value(self, name):
        if name in DECODERS:
            return self.switches[name]
        return getattr(self.session.settings, SETTINGS[name].name)

    def show(self, name):
        value = self.value(name)
        self.say(f"{name} {ON_OFF[value] if isinstance(value, bool) else repr(value)}")

    def change(self, name, text):
        """Change a decoder or a setting. Raises InputError, and then all is as it was."""
        value = parsed(name, text, self.value(name))
        if name in SETTINGS:
            self.session = self.session.changed(**{SETTINGS[name].name: value})
        elif value and name not in self.pairs:
            target = self.session.settings.target_model_size
            raise InputError(
                f"{name}: there is no draft model; try /reload {target} and a draft's size"
            )
        else:
            self.switches[name] = value
        self.show(name)

    def reload(self, words):
        try:
            sizes = dict(zip(("target_model_size", "draft_model_size"), shlex.split(words)))
        except ValueError:
            raise InputError(f"reload {words!r}: expected a second quotation mark") from None
        self.load(self.session.settings.replace(**sizes))

    def settings(self):
        for name in (*DECODERS, *SETTINGS):
            self.show(name)

    def stats(self):
        self.say(
            f"{'':<12}{'texts':>6}{'tokens':>8}{'tokens/s':>10}{'accepted':>10}{'per pass':>10}"
        )
        for name, total in self.totals.items():
            rate = f"{total['accepted'] / total['examined']:.3f}" if total["examined"] else "-"
            speed, per_pass = total["tokens"] / total["seconds"], total["tokens"] / total["rounds"]
            counts = f"{total['texts']:>6}{total['tokens']:>8}"
            self.say(f"{name:<12}{counts}{speed:>10.1f}{rate:>10}{per_pass:>10.2f}")

    def help(self):
        self.say(help_text())

    def quit(self):
        self.running = False


def parsed(name, text, value):
    """The new value of a decoder or a setting; without a text, the other one of on and off."""
    if name == "stop":
        return text.replace(r"\n", "\n")
    word = text.strip()
    if not isinstance(value, bool):
        return SETTINGS[name].parse(word) if word else value
    if word not in ("", "on", "off"):
        raise InputError(f"{name} {word!r}: expected on or off, or nothing, which turns it over")
    return word == "on" or not word and not value


def piped_line():
    """The next line of standard input. Raises EOFError after the last, InputError for one without
    an end.
    """
    line = sys.stdin.readline(MOST_CHARACTERS + 1)
    if not line:
        raise EOFError
    if len(line) > MOST_CHARACTERS:
        raise InputError(
            f"standard input: a line has more than {MOST_CHARACTERS} characters; expected a prompt"
        )
    return line.removesuffix("\n").removesuffix("\r")


def edit_lines():
    """Line editing, history and completion of commands at the prompt, where Python has readline."""
    try:
        import readline
    except ImportError:
        return

    def completion(text, n):
        fitting = [f"/{name}" for name in COMMANDS if text and f"/{name}".startswith(text)]
        return fitting[n] if n < len(fitting) else None

    readline.set_completer(completion)
    readline.set_completer_delims(" ")
    readline.parse_and_bind("tab: complete")


def chat(settings: ChatSettings):
    """Continue prompts as you type them, or as they come through a pipe, one a line; /help lists
    what can be changed.
    """
    if sys.stdin is None:
        raise InputError("standard input is closed: give prompts through a pipe, or use a terminal")
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
            console.answer(input("> ") if interactive else piped_line())
        except (EOFError, KeyboardInterrupt) as end:
            console.running = isinstance(end, KeyboardInterrupt)
            if interactive:
                print()
            elif console.running:
                raise
