"""python main.py chat: a console to play in. A prompt is continued, a line that begins with /
changes how.

Texts go to stdout; figures, notes and refusals to stderr. What a command answers goes to stdout in
a terminal, else to stderr, so that a pipe gets nothing but text. A refusal is one line, and the
session goes on.
"""

import shlex
import sys

import utils
from experiments.cli.exit_codes import UNUSABLE, print_error
from experiments.cli.flags import field_flags
from experiments.decoding.decoders import NGRAM
from experiments.decoding.recorder import Watch
from experiments.decoding.session import Prompt, Session, models_of
from experiments.decoding.settings import SettingError, Settings
from experiments.drafting.stored import is_head
from experiments.showing.text import Stream, note_room
from experiments.showing.trace import Trace
from utils import InputError

FLAGS = {flag.name: flag for flag in field_flags(Settings)}
MOST_CHARACTERS = 1 << 20  # of a line that comes through a pipe

DECODERS = {
    "speculative": "the draft model proposes, the target checks",
    "target": "the target alone, a token a pass",
    "draft": "the draft model alone",
    "ngram": "n-grams looked up in the text propose, the target checks",
}
SWITCHES = {
    **DECODERS,
    "trace": "print what speculates round by round",
    "coupled": "all decoders share the noise of each position",
}
VALUES = {
    "K": "tokens drafted in a round",
    "length": "tokens to generate",
    "temperature": "0 is greedy",
    "top_k": "sample from this many most likely tokens; 0 keeps all",
    "top_p": "sample from the smallest set of most likely tokens with this total probability",
    "seed": "of the random draws",
    "stop": r"end with the token that completes this; \n is a line break, nothing turns it off",
}
# what the console calls a setting by a shorter name
SETTINGS = {"length": "n_tokens_to_generate"}
NAMES = {setting: name for name, setting in SETTINGS.items()}
ACTIONS = {
    "settings": "show all of the above",
    "reload": "read the models again, or others: /reload TARGET DRAFT",
    "stats": "what was generated in this session, and how fast",
    "help": "this",
    "quit": "end; so does Ctrl-D",
}
HELP = """Type a prompt to see it continued; // begins one with a slash. Ctrl-C stops a text.

Decoders, each on or off; every prompt goes to all that are on:
{decoders}
Also on or off:
{others}
Values:
{values}
And:
{actions}"""


def help_text():
    def lines(table, value=""):
        return "".join(f"  /{name + value:<14} {meaning}\n" for name, meaning in table.items())

    others = {name: meaning for name, meaning in SWITCHES.items() if name not in DECODERS}
    tables = {
        "decoders": lines(DECODERS),
        "others": lines(others),
        "values": lines(VALUES, " X"),
        "actions": lines(ACTIONS),
    }
    return HELP.format(**tables).rstrip()


class Console:
    """The settings that its commands change, the models, and what was generated so far.

    answers: the file that its commands answer to.
    """

    def __init__(self, settings, answers):
        self.answers = answers
        self.switches = {decoder: decoder == "speculative" for decoder in DECODERS}
        self.totals, self.running, self.session = {}, True, None
        self.load(settings)

    def load(self, settings):
        """Read the models of these settings. Whatever it raises, all is then as it was."""
        session = Session(settings, models_of(settings))
        before = self.session, {**self.switches}
        try:
            self.use(session)
        except BaseException:
            self.session, self.switches = before
            raise
        target, draft = settings.target_model_size, settings.draft_model_size
        print(f"target {target}, draft {draft}", file=sys.stderr)

    def use(self, session):
        """Continue with these models, and whatever decoders they allow."""
        self.session = session
        lost = [name for name in DECODERS if self.switches[name] and not self.can(name)]
        if lost:
            self.switches |= dict.fromkeys(lost, False)
            self.switches["speculative" if self.can("speculative") else "ngram"] = True
        prompt = Prompt(1, "", [session.encoder.end_of_text or 0], session.settings.seed)
        for decoder in filter(self.can, DECODERS):
            loop, models = self.how(decoder)
            session.warm_up(loop, prompt, **models)

    def can(self, decoder):
        """Whether the models are there for it. A head of the target cannot write alone."""
        draft = self.session.draft
        if decoder == "draft":
            return draft != NGRAM and not is_head(draft)
        return decoder != "speculative" or draft != NGRAM

    # ------------------------------------------------------------ prompts

    def how(self, decoder):
        """(which loop, with which models) a decoder of the console is."""
        target, draft = self.session.target, self.session.draft
        return {
            "speculative": ("speculative", {"target": target, "draft": draft}),
            "target": ("autoregressive", {"target": target}),
            "draft": ("autoregressive", {"target": draft}),
            "ngram": ("speculative", {"target": target, "draft": NGRAM}),
        }[decoder]

    def prompt(self, text):
        """Continue a text with every decoder that is on."""
        on = [decoder for decoder in DECODERS if self.switches[decoder]]
        if not on:
            raise InputError("no decoder is on: try /target on")
        for decoder in on:
            self.continue_with(decoder, text, with_title=len(on) > 1)

    def continue_with(self, decoder, text, with_title):
        session, settings = self.session, self.session.settings
        loop, models = self.how(decoder)
        n_ctx = models["target"].config.n_ctx
        prompt = session.prompt(text, n_ctx=n_ctx)
        note_room(prompt, settings.n_tokens_to_generate, n_ctx)
        if with_title:
            print(f"[{decoder}]")
        watch = Watch(settings.coupled) if loop == "speculative" else None
        traced = settings.trace and loop == "speculative"
        begin = session.encoder.decode(prompt.ids)
        show = Trace(watch, session.encoder) if traced else Stream(session.encoder, begin)
        result = session.run(loop, prompt, show, watch, **models)
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
        name = {name.lower(): name for name in (*SWITCHES, *VALUES, *ACTIONS)}.get(word.lower())
        if name in SWITCHES:
            self.switch(name, rest.strip())
        elif name in VALUES:
            self.change(name, rest if name == "stop" else rest.strip())
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

    def switch(self, name, word):
        if word not in ("", "on", "off"):
            raise InputError(
                f"{name} {word!r}: expected on or off, or nothing, which turns it over"
            )
        on = word == "on" or not word and not self.is_on(name)
        if on and name in DECODERS and not self.can(name):
            target = self.session.settings.target_model_size
            raise InputError(
                f"{name}: there is no draft model; try /reload {target} and a draft's size"
            )
        if name in DECODERS:
            self.switches[name] = on
        else:
            self.set(name, on)
        self.say(f"{name} {'on' if on else 'off'}")

    def is_on(self, name):
        return self.switches[name] if name in DECODERS else getattr(self.session.settings, name)

    def value(self, name):
        return getattr(self.session.settings, SETTINGS.get(name, name))

    def change(self, name, word):
        if name == "stop":
            self.set("stop", word.replace(r"\n", "\n"))
        elif word:
            setting = SETTINGS.get(name, name)
            self.set(setting, FLAGS[setting].parse(word))
        self.say(f"{name} {self.value(name)!r}")

    def set(self, setting, value):
        """Change one setting. Raises InputError, and then all is as it was."""
        self.session = self.session.changed(**{setting: value})

    def reload(self, words):
        try:
            sizes = dict(zip(("target_model_size", "draft_model_size"), shlex.split(words)))
        except ValueError:
            raise InputError(f"reload {words!r}: expected a second quotation mark") from None
        self.load(self.session.settings.replace(**sizes))

    def settings(self):
        for name in SWITCHES:
            self.say(f"{name} {'on' if self.is_on(name) else 'off'}")
        for name in VALUES:
            self.say(f"{name} {self.value(name)!r}")

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
    names = [f"/{name}" for name in (*SWITCHES, *VALUES, *ACTIONS)]
    readline.set_completer(
        lambda text, n: dict(
            enumerate(name for name in names if text and name.startswith(text))
        ).get(n)
    )
    readline.set_completer_delims(" ")
    readline.parse_and_bind("tab: complete")


def chat(
    draft_model_size="0.7M-17M",
    target_model_size="17M",
    models_dir=utils.MODELS_DIR,
    K=4,
    n_tokens_to_generate=60,
    temperature=0.0,
    top_k=0,
    top_p=1.0,
    seed=123,
    stop="",
    trace=False,
    coupled=False,
    backend="numpy",
    kernels="auto",
):
    """Continue prompts as you type them, or as they come through a pipe, one a line; /help lists
    what can be changed.

    Args:
        draft_model_size: a size in models_dir, a folder, or ngram
        target_model_size: a size in models_dir, or a folder
        models_dir: the folder that holds a folder for each size
        K: how many tokens are drafted in a round
        n_tokens_to_generate: how many tokens to write after each prompt
        temperature: 0 is greedy decoding
        top_k: sample from this many most likely tokens; 0 keeps all
        top_p: sample from the smallest set of most likely tokens with this total probability
        seed: of the random draws, for each text anew
        stop: end with the token that completes this string
        trace: print what speculates round by round
        coupled: all decoders share the noise of each position
        backend: what computes: numpy, or cupy on a GPU
        kernels: auto, plain, or WIDTHxTHREADS
    """
    if sys.stdin is None:
        raise InputError("standard input is closed: give prompts through a pipe, or use a terminal")
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    # "sig": a byte-order mark is no text
    encoding = None if interactive else "utf-8-sig"
    sys.stdin.reconfigure(encoding=encoding, errors="surrogateescape")
    settings = Settings(
        draft_model_size=draft_model_size,
        target_model_size=target_model_size,
        models_dir=models_dir,
        K=K,
        n_tokens_to_generate=n_tokens_to_generate,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        stop=stop,
        trace=trace,
        coupled=coupled,
        backend=backend,
        kernels=kernels,
    )
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
