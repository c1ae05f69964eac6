"""python main.py chat: a console to play in. A prompt is continued, a line that begins with /
changes how.

Texts and what was asked for go to stdout; figures, notes and refusals to stderr, so that a pipe
gets nothing but text. A refusal is one line, and the session goes on.
"""

import shlex
import sys

import utils
from experiments.cli.flags import parse
from experiments.decoding.gumbel import Noisy
from experiments.decoding.recorder import Watch
from experiments.decoding.running import decode, speculation, streaming, timed_run
from experiments.decoding.settings import check_settings, prompt_ids, token_ids
from experiments.showing.trace import Trace
from sampling import Filter, stop_condition
from utils import InputError

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
    "top_k": "sample from this many of the likeliest tokens; 0 is all",
    "top_p": "sample from the fewest likeliest tokens that reach this probability",
    "seed": "of the random draws",
    "stop": r"end with the token that completes this; \n is a line break, nothing turns it off",
}
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
    """One session: the models, the settings that its commands change, and what it has generated."""

    def __init__(self, models, backend, switches, values):
        self.models, self.backend, self.switches, self.values = models, backend, switches, values
        self.totals, self.running = {}, True
        self.filter = self.checked(values)
        self.load(models)
        token_ids("stop", values["stop"], self.encoder)

    @staticmethod
    def checked(values):
        """The Filter of these values. Raises InputError."""
        return check_settings(n_tokens_to_generate=values["length"], **values)

    def load(self, models):
        """Read the models of these sizes. Raises InputError, and then all is as it was."""
        self.target, self.draft, self.encoder = utils.load_pair(**models, backend=self.backend)
        self.models = models
        if not self.draft:
            lost = self.switches["speculative"] or self.switches["draft"]
            self.switches |= {
                "speculative": False,
                "draft": False,
                "ngram": lost or self.switches["ngram"],
            }
        for decoder in DECODERS if self.draft else ("target", "ngram"):
            # new memory is slow the first time
            list(self.rounds(decoder, [self.encoder.end_of_text], 2, Watch()))
        print("target {target_size}, draft {draft_size}".format(**models), file=sys.stderr)

    # ------------------------------------------------------------ prompts

    def rounds(self, decoder, ids, n_tokens, watch):
        K, seed, filter, ended = (
            self.values["K"],
            self.values["seed"],
            self.filter,
            stop_condition(self.encoder, self.values["stop"]),
        )
        if decoder in ("speculative", "ngram"):
            draft = self.draft if decoder == "speculative" else None
            return watch.decode(self.target, draft, ids, n_tokens, K, filter, seed, ended)
        model = self.target if decoder == "target" else self.draft
        if watch.coupled:
            model, filter = Noisy(model, filter, seed), Filter()
        return decode("autoregressive", model, None, ids, n_tokens, K, filter, seed, ended)

    def prompt(self, text):
        """Continue a text with every decoder that is on."""
        on = [decoder for decoder in DECODERS if self.switches[decoder]]
        if not on:
            raise InputError("no decoder is on: try /target on")
        for decoder in on:
            n_ctx = (self.draft if decoder == "draft" else self.target).config.n_ctx
            ids = prompt_ids(text, self.encoder, n_ctx, self.values["length"])
            begin, watch = self.encoder.decode(ids), Watch(self.switches["coupled"])
            traced = self.switches["trace"] and decoder in ("speculative", "ngram")
            if len(on) > 1:
                print(f"[{decoder}]")
            show = Trace(watch, self.encoder) if traced else streaming(self.encoder, begin)
            rounds = self.rounds(decoder, ids, self.values["length"], watch)
            done, result = timed_run(rounds, self.values["length"], self.encoder, show, watch.clock)
            if traced:
                print(begin + result["text"])
            self.count(decoder, done, result)

    def count(self, decoder, done, result):
        """Add a text to the statistics, and say what it was."""
        counts = speculation(done)
        found = {"texts": 1, "tokens": len(result["token_ids"]), "seconds": result["seconds"]}
        found |= {name: counts[name] for name in ("rounds", "examined", "accepted")}
        total = self.totals.setdefault(decoder, dict.fromkeys(found, 0))
        for name, value in found.items():
            total[name] += value
        line = f"{decoder}: {found['tokens']} tokens in {found['seconds']:.2f} s, {result['tokens_per_second']:.1f} tokens/s"
        if decoder in ("speculative", "ngram"):
            line += f", {found['accepted']} of {found['examined']} examined drafts accepted"
            line += f", {counts['tokens_per_target_pass']:.2f} tokens per target pass"
        print(line, file=sys.stderr)

    # ------------------------------------------------------------ commands

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

    def switch(self, name, word):
        if word not in ("", "on", "off"):
            raise InputError(
                f"{name} {word!r}: expected on or off, or nothing, which turns it over"
            )
        on = word == "on" or not word and not self.switches[name]
        if on and name in ("speculative", "draft") and not self.draft:
            raise InputError(
                f"{name}: there is no draft model; try /reload {self.models['target_size']} and a draft's size"
            )
        self.switches[name] = on
        print(f"{name} {'on' if on else 'off'}")

    def change(self, name, word):
        if word or name == "stop":
            value = (
                word.replace(r"\n", "\n")
                if name == "stop"
                else parse(name, self.values[name], word)
            )
            token_ids(name, str(value), self.encoder)
            changed = self.values | {name: value}
            self.filter, self.values = self.checked(changed), changed
        print(f"{name} {self.values[name]!r}")

    def reload(self, words):
        try:
            sizes = dict(zip(("target_size", "draft_size"), shlex.split(words)))
        except ValueError:
            raise InputError(f"reload {words!r}: expected a second quotation mark") from None
        self.load(self.models | sizes)

    def settings(self):
        for name, on in self.switches.items():
            print(f"{name} {'on' if on else 'off'}")
        for name, value in self.values.items():
            print(f"{name} {value!r}")

    def stats(self):
        print(f"{'':<12}{'texts':>6}{'tokens':>8}{'tokens/s':>10}{'accepted':>10}{'per pass':>10}")
        for name, total in self.totals.items():
            rate = f"{total['accepted'] / total['examined']:.3f}" if total["examined"] else "-"
            speed, per_pass = total["tokens"] / total["seconds"], total["tokens"] / total["rounds"]
            print(
                f"{name:<12}{total['texts']:>6}{total['tokens']:>8}{speed:>10.1f}{rate:>10}{per_pass:>10.2f}"
            )

    def help(self):
        print(help_text())

    def quit(self):
        self.running = False


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
    draft_model_size="0.7M",
    target_model_size="7M",
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
        models_dir: where the folders of the sizes are
        K: how many tokens are drafted in a round
        n_tokens_to_generate: how many tokens after each prompt
        temperature: 0 is greedy decoding
        top_k: sample from this many of the likeliest tokens; 0 is all
        top_p: sample from the fewest likeliest tokens that reach this probability
        seed: of the random draws, for each text anew
        stop: end with the token that completes this string
        trace: print what speculates round by round
        coupled: all decoders share the noise of each position
        backend: numpy or cupy
        kernels: auto, plain, or WIDTHxTHREADS
    """
    if sys.stdin is None:
        raise InputError("standard input is closed: give prompts through a pipe, or use a terminal")
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    sys.stdin.reconfigure(encoding=None if interactive else "utf-8", errors="surrogateescape")
    values = {
        "K": K,
        "length": n_tokens_to_generate,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
    }
    switches = dict.fromkeys(DECODERS, False) | {
        "speculative": True,
        "trace": trace,
        "coupled": coupled,
    }
    models = {
        "target_size": target_model_size,
        "draft_size": draft_model_size,
        "models_dir": models_dir,
    }
    console = Console(
        models, utils.get_backend(backend, kernels), switches, values | {"seed": seed, "stop": stop}
    )
    if interactive:
        edit_lines()
        print("Type a prompt, or /help.")
    while console.running:
        try:
            console.obey(input("> " if interactive else ""))
        except InputError as error:
            line = (
                "\\n".join(str(error).splitlines())
                .removeprefix("--")
                .replace("n_tokens_to_generate", "length")
            )
            print("error:", line, file=sys.stderr)
        except (EOFError, KeyboardInterrupt) as end:
            console.running = isinstance(end, KeyboardInterrupt)
            if interactive:
                print()
            elif console.running:
                raise
