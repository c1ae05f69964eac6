"""From the words of a command line to the call of a command, and to an exit code.

A command is a function. Its keyword-only parameters are flags, with a type and a default; its other
parameters are words without a flag; its docstring is the help. Fire makes the call. Before that,
flags are read here, by their annotations: Fire refuses an unknown flag only after the command has
run, takes a flag without a value for True, and reads any text as Python would, 123 or None.
"""

import inspect
import os
import signal
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import fire
import numpy as np

# {name of a command: its function, or the name of the module that has a function of this name}
Commands = dict[str, Callable | str]
# what a user can cause, warnings by python -W error
ERRORS = (ValueError, OSError, ImportError, MemoryError, ArithmeticError, Warning)


def print_note(message: Warning | str, *where: Any) -> None:
    """Print a warning as one line on stderr; takes the place of warnings.showwarning."""
    from cli.messages import say

    say(f"note: {message}")


def end_if_interrupted(ignored: Any) -> None:
    """Exit if Ctrl-C came in a finalizer, or else print what did; replaces sys.unraisablehook."""
    if ignored.exc_type is KeyboardInterrupt:
        os._exit(130)
    sys.__unraisablehook__(ignored)


def flags_of(command: Callable) -> dict[str, inspect.Parameter]:
    """{name: parameter} of the flags of a command."""
    parameters = inspect.signature(command).parameters.values()
    return {p.name: p for p in parameters if p.kind == p.KEYWORD_ONLY}


def values_of(command: Callable, names: dict[str, Any]) -> dict[str, Any]:
    """{flag: value} of a command that was called. names: {parameter: value}, its first locals()."""
    return {flag: names[flag] for flag in flags_of(command)}


def kinds_of(annotation: Any) -> list:
    """The types and texts that an annotation allows: int | Literal["auto"] -> [int, "auto"]."""
    kinds = [kind for part in get_args(annotation) for kind in kinds_of(part)]
    return kinds or [annotation]  # a type or a text has no parts


def read(flag: inspect.Parameter, text: str) -> Any:
    """The value of a flag, from its text. Its annotation is str, int, float, bool, a Literal of
    texts, or a union of these. Raises ValueError for a text that is no such value.
    """
    kinds = kinds_of(flag.annotation)
    for kind in kinds:
        if kind == text:  # one of the texts of a Literal
            return text
        if kind is bool and text in ("True", "False"):
            return text == "True"
        if kind in (int, float, str):
            try:
                return kind(text)
            except ValueError:
                continue  # with the next kind
    from cli.help import wrong_value

    raise wrong_value(flag.name, text, kinds)


def split(
    words: list[str], flags: dict[str, inspect.Parameter]
) -> tuple[list[str], dict[str, str]]:
    """Split words: ["a", "--top-k", "5", "--json"] -> ["a"], {"top_k": "5", "json": "True"}. flags:
    {name: parameter} of all that there are

    The word after a flag is its value, whatever it looks like: a prompt may be "-h". -h and --help
    give {"help": "True"} alone. Raises ValueError for an unknown flag, or one without its value.
    """
    plain: list[str] = []
    texts: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--help"):
            return plain, {"help": "True"}
        if not word.startswith("-") or word == "-":
            plain.append(word)
            continue
        name, equals, text = word.partition("=")
        flag = name.removeprefix("--").replace("-", "_")
        if flag not in flags:
            from cli.help import unknown

            raise unknown("flag", name, [f"--{known}" for known in flags])
        if equals:
            texts[flag] = text
        elif flags[flag].annotation is bool:
            texts[flag] = "True"
        elif rest:
            texts[flag] = rest.pop(0)
        else:
            raise ValueError(f"--{flag}: expected a value after it")
    return plain, texts


def call(command: Callable, words: list[str], documented: Callable) -> None:
    """Call a command with the words that follow its name on the command line; with -h or --help
    among them, print its help. Raises ValueError for words or flags that the command does not take,
    or lacks, for a value that a flag cannot have, and whatever the command raises.

    documented: the command whose docstring has the lines for flags that `command`'s own lacks
    """
    flags = flags_of(command)
    plain, texts = split(words, flags)
    if "help" in texts:  # -h or --help
        from cli.help import help_page

        print(help_page(command, flags, documented))
        return
    try:
        inspect.signature(command).bind(*plain, **texts)
    except TypeError as error:  # words are missing, or too many
        given = " ".join([command.__name__] + plain)
        raise ValueError(f"{given}: {error}; try --help") from None
    # these note on the command how Fire reads a text: as the flag's annotation says, others as is
    readers = {name: partial(read, flag) for name, flag in flags.items()}
    fire.decorators.SetParseFn(str)(command)
    fire.decorators.SetParseFns(**readers)(command)
    named = [f"--{name}={text}" for name, text in texts.items()]
    # without a separator of its own, which no word has, Fire would take a word - for one
    fire.Fire(command, plain + named + ["--", "--separator=\0"])


def find(name: str, commands: Commands) -> Callable:
    """The function of the command of this name; its module is imported if need be. Raises
    ValueError, which says what may be meant, for a name that `commands` lacks.
    """
    if name not in commands:
        from cli.help import unknown

        raise unknown("command", name, commands)
    command = commands[name]
    if not isinstance(command, str):
        return command
    return getattr(__import__(command, fromlist=[name]), name)  # as `from cli.batch import batch`


def run(words: list[str], commands: Commands) -> int:
    """Run the command that the words of a command line begin with, or the first of `commands` if
    they begin with a flag; `help NAME` is `NAME --help`. Returns the exit code: 0; 2 after an error
    that a user can cause (ERRORS), which is printed; 130 after Ctrl-C; 141 where nobody reads the
    output. A command may exit with others. Any other error is raised, and all under python -X dev.
    """
    first_name = next(iter(commands))
    if words[:1] == ["help"]:
        words = words[1:] + ["--help"]
    if not words or words[0].startswith("-"):
        words = [first_name] + words
    try:
        command, documented = find(words[0], commands), find(first_name, commands)
        # a model that overflows is reported once, where its logits are used
        with np.errstate(over="ignore", invalid="ignore"):
            call(command, words[1:], documented)
        sys.stdout.flush()
        return 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141
    except ERRORS as error:
        if sys.flags.dev_mode:
            raise
        from cli.messages import print_error

        print_error(error)
        return 2


def prepare_streams() -> None:
    """Let the standard streams of this process take whatever comes. A stream that the shell has
    closed is replaced by an empty one. On stdin, a byte that is no text becomes a surrogate, so
    that only its line is refused; a byte order mark is left out; CR LF is read as LF. On stdout,
    "?" stands for a character that the terminal cannot write.
    """
    sys.stdin = sys.stdin or open(os.devnull)  # Python has None for a closed stream
    sys.stdout = sys.stdout or open(os.devnull, "w")
    sys.stderr = sys.stderr or open(os.devnull, "w")
    encoding = sys.stdin.encoding.lower()
    if encoding == "utf-8":
        encoding = "utf-8-sig"  # without a byte order mark
    sys.stdin.reconfigure(encoding=encoding, errors="surrogateescape", newline=None)  # type: ignore
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]


def run_program(commands: Commands) -> None:
    """Call `run` for the command line of this process, and end it with the exit code. Changes the
    streams (prepare_streams), prints warnings as notes of one line, and takes SIGINT: Ctrl-C is an
    exception during `run`, which catches it; after it, and in a finalizer, it ends the program.
    """
    prepare_streams()
    warnings.showwarning = print_note  # type: ignore[assignment]
    sys.unraisablehook = end_if_interrupted
    signal.signal(signal.SIGINT, signal.default_int_handler)  # raises KeyboardInterrupt
    code = run(sys.argv[1:], commands)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends the program at once
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # Python would try once more at its end, and complain
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)
