"""From the words of a command line to the arguments of a function.

A command is a function. Its keyword parameters are its flags: the default gives the type, and the
line of the docstring that begins with the name is the help. A flag whose default is a tuple may be
given several times; `*names` takes words without a flag. Fire makes the call; what it would guess
(123, None or [1, 2] as Python values, a prompt as several) is settled here before.
"""

import inspect
import json
import os
import re
import signal
import sys
from functools import partial

import fire

from utils import InputError


def parse(name, default, text):
    """A value from the command line, as the type of the flag's default. Raises InputError."""
    try:
        if isinstance(default, tuple):
            return tuple(json.loads(text))
        return (
            {"True": True, "False": False}[text]
            if isinstance(default, bool)
            else type(default)(text)
        )
    except (ValueError, KeyError):
        expected = {bool: "no value", int: "one whole number", float: "one number"}[type(default)]
        raise InputError(f"--{name} {text!r}: expected {expected}") from None


def flags_of(command):
    """{flag: default} of a function."""
    parameters = inspect.signature(command).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.kind != parameter.VAR_POSITIONAL
    }


def joined(command, words):
    """["--K", "4", "--json"] -> ["--K=4", "--json=True"]: no value can be taken for a flag, or a
    flag for a value.

    None where one of them asks for help.
    """
    flags, rest, plain, found = flags_of(command), list(words), [], []
    several = {name: [] for name, default in flags.items() if isinstance(default, tuple)}
    takes_words = any(
        p.kind == p.VAR_POSITIONAL for p in inspect.signature(command).parameters.values()
    )
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if flag in ("--help", "-h"):
            return None
        if takes_words and not flag.startswith("-"):
            plain.append(flag + equals + value)
            continue
        if not flag.startswith("--") or name not in flags:
            what = "flag" if flag.startswith("-") else "argument"
            raise InputError(
                f"unknown {what} {flag!r}: expected {', '.join('--' + name for name in flags)}"
            )
        if not equals and isinstance(flags[name], bool):
            value = "True"
        elif not equals:
            if not rest:
                raise InputError(f"--{name}: expected a value after it")
            value = rest.pop(0)
        if name in several:
            several[name].append(value)
        else:
            found.append(f"--{name}={value}")
    return (
        plain
        + found
        + [f"--{name}={json.dumps(values)}" for name, values in several.items() if values]
    )


def usage(command):
    """The help text: the function's docstring, its arguments as flags with their defaults."""
    flags = flags_of(command)
    value = lambda name: (
        " ".join(map(repr, flags[name])) if isinstance(flags[name], tuple) else repr(flags[name])
    )
    line = lambda found: (
        f"    --{found[1]} (default {value(found[1])}):" if found[1] in flags else found[0]
    )
    return re.sub(r"(?m)^    (\w+):", line, inspect.getdoc(command))


def call(command, words):
    """Call the command as the words say, or print its help if they ask for that.

    Raises InputError for a flag it does not have or a value of another type.
    """
    words = joined(command, words)
    if words is None:
        return print(usage(command))
    for name, default in flags_of(command).items():
        command = fire.decorators.SetParseFn(partial(parse, name, default), name)(command)
    fire.Fire(fire.decorators.SetParseFn(str)(command), words, name="main.py")


def exit_code(run):
    """Of a program that is run(): 0, or 2 with one line on stderr for what its user can put right."""
    try:
        run()
        sys.stdout.flush()
        return 0
    except (InputError, MemoryError) as error:
        print("error:", "\\n".join(str(error).splitlines()), file=sys.stderr)
        return 2
    except ModuleNotFoundError as missing:
        print(
            f"error: {missing.name} is not installed: pip install -r requirements.txt",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # nobody reads our output any more, or its disk is full; leave nothing to be flushed later
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"error: {error}", file=sys.stderr)
        return 141 if isinstance(error, BrokenPipeError) else 1


def script(main):
    """End this program with the exit code that main() returns."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # the shell may have closed it
    sys.stdout.reconfigure(errors="replace")
    sys.exit(main())
