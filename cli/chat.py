"""python main.py chat: a console. A line is a prompt to be continued; /K 6 changes a flag."""

import inspect
import sys
from functools import partial
from typing import Any, Literal

from checkpoints.registry import MODELS_DIR
from cli import trace
from cli.command import ERRORS, flags_of, read, values_of
from cli.help import unknown
from cli.messages import print_error, say
from decoding.decode import begin, decode, decoders_of, encode_prompt, options_of, pair_of

try:
    import readline  # noqa: F401, gives input() line editing and a history
except ImportError:  # Windows
    pass


def chat(
    *,
    n_tokens_to_generate: int = 60,
    stop: str = "",
    mode: Literal["both", "autoregressive", "speculative"] = "speculative",
    target_model_size: str = "17M",
    draft_model_size: str = "0.7M-17M",
    models_dir: str = MODELS_DIR,
    K: int | Literal["auto"] = 4,
    verification: Literal["token", "block"] = "token",
    coupled: bool = False,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 123,
    trace: bool = False,
    backend: Literal["numpy", "cupy", "cupy-float16"] = "numpy",
) -> None:
    """Continue prompts as you type them, or as they come through a pipe, one a line. A line /K 6
    changes a flag (/trace turns it on or off), / shows all of them, // begins a prompt with a
    slash. Ctrl-C stops a text, Ctrl-D ends. Texts and traces go to stdout, all else to stderr.

    All its flags are flags of generate, too, and mean the same.
    """
    settings = values_of(chat, locals())  # {flag: value} of all flags above
    require_usable(settings)
    is_console = sys.stdin.isatty()  # else a pipe or a file
    if is_console:
        answer(settings, "/help")
    is_open = True
    while is_open:
        try:
            is_open = answer_next(settings, is_console)
        except KeyboardInterrupt:
            if not is_console:
                raise  # which ends the program
            print()  # only this line or text ends


def answer_next(settings: dict[str, Any], is_console: bool) -> bool:
    """Read a line from stdin, and do what it asks for (`answer`); an error of the user's is printed
    on stderr. Returns whether there was a line. Raises OSError if stdin or stdout is gone or full.

    settings: {flag: value} of all flags of `chat`, which a line may change in place
    is_console: whether a user types the lines, behind a "> ": then help and ? mean /help
    """
    try:
        line = input("> " if is_console else "")
        if is_console and line.strip() in ("help", "?"):
            line = "/help"
        answer(settings, line)
    except EOFError:
        return False
    except ERRORS as error:
        if isinstance(error, OSError) and not error.filename:
            raise  # of a stream: the next line would fail, too
        print_error(error)
    return True


def answer(settings: dict[str, Any], line: str) -> None:
    """Do what a line asks for: /help says what `chat` is; /NAME VALUE changes a setting, and /
    shows all; any other line but an empty one is a prompt, to be continued, as is one that begins
    with //, which stands for /. Raises ValueError for a setting or a prompt that cannot be used.
    """
    if line.strip() in ("/help", "/?"):
        page = inspect.getdoc(chat) or ""  # python -OO strips it
        first_paragraph = page.partition("\n\n")[0]
        say(*first_paragraph.splitlines())
    elif line.startswith("//"):  # a prompt that begins with a slash
        continue_text(settings, line[1:])
    elif line.startswith("/"):
        change(settings, line[1:])
    elif line.strip():
        continue_text(settings, line)


def change(settings: dict[str, Any], words: str) -> None:
    """Change one of the settings, {flag: value}, in place, by words such as "K 6", or by the name
    of one that is on or off, such as "trace", and show it on stderr; show all if there are no
    words. Raises ValueError for a name that is no setting, and for a value or a model that cannot
    be used: then all stay.
    """
    name, _, text = words.strip().partition(" ")
    if not name:
        say(*(f"/{flag} {value}" for flag, value in settings.items()))
        return
    flags = flags_of(chat)
    if name not in flags:
        names = [f"/{flag}" for flag in flags]
        raise unknown("setting", f"/{name}", names, lister="/")  # "expected one that / lists"
    if flags[name].annotation is bool and not text:
        text = str(not settings[name])
    try:
        value = read(flags[name], text.strip())
        require_usable(settings | {name: value})
    except ValueError as error:
        raise ValueError(f"/{words.strip()}: {error}") from None
    settings[name] = value
    say(f"/{name} {value}")


def require_usable(settings: dict[str, Any]) -> None:
    """Raise ValueError for a value or a model that cannot be used. The models are loaded, and kept
    for the texts to come.
    """
    options_of(settings)  # this and the next line raise ValueError
    pair_of(settings)


def continue_text(settings: dict[str, Any], prompt: str) -> None:
    """Continue a prompt with each decoder of the mode: the text is printed on stdout, its time on
    stderr. settings: {flag: value} of all flags of `chat`. Raises ValueError for a prompt that
    fills the context.
    """
    target, draft_model, encoder = pair_of(settings)
    ids = encode_prompt(prompt, encoder, target)
    options = options_of(settings)
    for decoder in decoders_of(settings["mode"]):
        is_traced = settings["trace"] and decoder == "speculative"
        watch = trace.trace if is_traced else trace.stream
        rounds = begin(decoder, target, draft_model, encoder, ids, **options)
        result = decode(rounds, encoder, partial(watch, encoder, prompt))
        figures = "{seconds:.2f} s, {tokens_per_second:.1f} tokens/s, "
        figures += "{tokens_per_target_pass:.2f} tokens per target pass"
        say(f"{decoder}: {figures.format(**result)}")
