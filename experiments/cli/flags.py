"""From the words of a command line to the arguments of a function.

A command is a function, its keyword parameters are its flags, and the default of each gives the
type. A parameter annotated with a dataclass, `settings: Settings`, stands for all fields of that
class. A flag whose default is a tuple may be given several times; `*names` takes words without a
flag. Fire makes the call; what it would guess (123, None or [1, 2] as Python values, a prompt as
several) is settled here before.
"""

import dataclasses
import difflib
import inspect
import json
from dataclasses import dataclass
from typing import Any, Callable

import fire

from experiments.cli.help import usage
from experiments.decoding.settings import SettingError
from utils import InputError


@dataclass(frozen=True)
class Flag:
    """A flag of a command: its name, its default, and how to read its value if not by type."""

    name: str
    default: Any
    reader: Callable = None

    def parse(self, text):
        """The value of a text. Raises SettingError, also for an empty one: a shell makes that of a
        variable that is not set. Only a flag that may be given several times takes it.
        """
        if not text:
            raise SettingError(self.name, "'': expected a value; give one, or leave the flag out")
        if self.reader:
            return self.reader(text)
        kind = type(self.default)
        try:
            if kind is tuple:
                return tuple(json.loads(text))
            if kind is bool:
                return {"True": True, "False": False}[text]
            return kind(text)
        except (ValueError, KeyError):
            expected = {bool: "no value", int: "one whole number", float: "one number"}[kind]
            raise SettingError(self.name, f"{text!r}: expected {expected}") from None


def parameters_of(command):
    return inspect.signature(command).parameters.values()


def field_flags(kind):
    """The Flags of a dataclass."""
    return [
        Flag(field.name, field.default, field.metadata.get("parse"))
        for field in dataclasses.fields(kind)
    ]


def flags_of(command):
    """{name: Flag} of a function."""
    flags = []
    for parameter in parameters_of(command):
        if dataclasses.is_dataclass(parameter.annotation):
            flags += field_flags(parameter.annotation)
        elif parameter.kind != parameter.VAR_POSITIONAL:
            flags.append(Flag(parameter.name, parameter.default))
    return {flag.name: flag for flag in flags}


def takes_words(command):
    return any(parameter.kind == parameter.VAR_POSITIONAL for parameter in parameters_of(command))


def unknown(what, word, names):
    """What to tell a person whose word is none of these names."""
    close = difflib.get_close_matches(word, names, cutoff=0.75)
    hint = f", close to {' and '.join(close)}" if close else ""
    return f"unknown {what} {word!r}{hint}: expected {', '.join(names)}"


def joined(command, words):
    """["--K", "4", "--json"] -> ["--K=4", "--json=True"]: no value can be taken for a flag, or a
    flag for a value.

    None where one of them asks for help.
    """
    flags, rest, plain, found = flags_of(command), list(words), [], []
    several = {name: [] for name, flag in flags.items() if isinstance(flag.default, tuple)}
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        name = word.removeprefix("--").replace("-", "_")
        if word in ("--help", "-h"):
            return None
        if takes_words(command) and not word.startswith("-"):
            plain.append(word + equals + value)
            continue
        if not word.startswith("--") or name not in flags:
            what = "flag" if word.startswith("-") else "argument"
            raise InputError(unknown(what, word, [f"--{name}" for name in flags]))
        if not equals and isinstance(flags[name].default, bool):
            value = "True"
        elif not equals:
            if not rest:
                raise InputError(f"--{name}: expected a value after it")
            value = rest.pop(0)
        if name in several:
            several[name].append(value)
        else:
            found.append(f"--{name}={value}")
    lists = [f"--{name}={json.dumps(values)}" for name, values in several.items() if values]
    return plain + found + lists


def flattened(command):
    """The command as a function of its flags alone, which makes its dataclasses out of them."""
    kinds = {
        parameter.name: parameter.annotation
        for parameter in parameters_of(command)
        if dataclasses.is_dataclass(parameter.annotation)
    }

    def run(*words, **given):
        for name, kind in kinds.items():
            fields = [field.name for field in dataclasses.fields(kind) if field.name in given]
            given[name] = kind(**{field: given.pop(field) for field in fields})
        return command(*words, **given)

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=flag.default)
        for name, flag in flags_of(command).items()
    ]
    if takes_words(command):
        parameters.insert(0, inspect.Parameter("words", inspect.Parameter.VAR_POSITIONAL))
    run.__signature__ = inspect.Signature(parameters)
    return run


def call(command, words):
    """Call the command as the words say, or print its help if they ask for that.

    Raises InputError for a flag it does not have or a value of another type.
    """
    words = joined(command, words)
    if words is None:
        print(usage(command, flags_of(command)))
        return
    run = fire.decorators.SetParseFn(str)(flattened(command))
    for name, flag in flags_of(command).items():
        run = fire.decorators.SetParseFn(flag.parse, name)(run)
    fire.Fire(run, words, name="main.py")
