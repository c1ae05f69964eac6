"""From the words of a command line to the arguments of a function.

A command is a function. A parameter annotated with a group of flags, `settings: Settings`, stands
for all fields of that dataclass (experiments/decoding/settings.py); any other parameter is a flag
itself. The default of a flag gives the type of its value; one whose default is a tuple may be given
several times. `*names` takes words without a flag.

Fire finds the flags and makes the call. What it would guess is settled before: where a value ends
(a prompt may begin with --), that 123, None and [1, 2] are texts where a text is expected, and what
a flag is that the command does not have.
"""

import dataclasses
import difflib
import inspect
import json
from dataclasses import dataclass
from typing import Any, Callable

import fire

from experiments.cli.help import OWN, meanings, tables, usage
from experiments.data.values import SettingError
from utils import InputError

EXPECTED = {bool: "no value", int: "one whole number", float: "one number"}


@dataclass(frozen=True)
class Flag:
    """A flag of a command, and how to read its value if its type does not say that."""

    name: str
    default: Any
    meaning: str = ""
    heading: str = OWN  # under which --help shows it
    reader: Callable = None

    def parse(self, text):
        """The value of a text. Raises SettingError, also for an empty one: a shell makes that of a
        variable that is not set. Only a flag that may be given several times takes it.
        """
        kind = type(self.default)
        if not text:
            raise SettingError(self.name, "'': expected a value; give one, or leave the flag out")
        if self.reader:
            return self.reader(text)
        try:
            if kind is tuple:
                return tuple(json.loads(text))
            if kind is bool:
                return {"True": True, "False": False}[text]
            return kind(text)
        except (ValueError, KeyError):
            raise SettingError(self.name, f"{text!r}: expected {EXPECTED[kind]}") from None


def parameters_of(command):
    return inspect.signature(command).parameters.values()


def groups_of(command):
    """{parameter: dataclass} of those that stand for several flags."""
    kinds = {parameter.name: parameter.annotation for parameter in parameters_of(command)}
    return {name: kind for name, kind in kinds.items() if dataclasses.is_dataclass(kind)}


def flags_in(group):
    """The Flags of a dataclass, each under the heading of the class that declares it first; what
    a command declares itself, under a heading of its own.
    """
    flags = []
    for field in dataclasses.fields(group):
        classes = reversed(group.__mro__)
        first = next(kind for kind in classes if field.name in inspect.get_annotations(kind))
        own = first is group and "heading" not in vars(group)
        heading = OWN if own else first.heading
        meaning, reader = field.metadata["meaning"], field.metadata["parse"]
        flags.append(Flag(field.name, field.default, meaning, heading, reader))
    return flags


def flags_of(command):
    """{name: Flag} of a function."""
    flags, groups, described = [], groups_of(command), meanings(command)
    for parameter in parameters_of(command):
        name = parameter.name
        if name in groups:
            flags += flags_in(groups[name])
        elif parameter.kind != parameter.VAR_POSITIONAL:
            flags.append(Flag(name, parameter.default, described.get(name, "")))
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


def call(command, words):
    """Call the command as the words say, or print its help if they ask for that.

    Raises InputError for a flag it does not have or a value of another type.
    """
    flags = flags_of(command)
    if words == ["--help=markdown"]:
        print(tables(flags))
        return
    words = joined(command, words)
    if words is None:
        print(usage(command, flags))
        return

    def run(*words, **given):
        for name, group in groups_of(command).items():
            fields = [field.name for field in dataclasses.fields(group) if field.name in given]
            given[name] = group(**{field: given.pop(field) for field in fields})
        return command(*words, **given)

    run = fire.decorators.SetParseFn(str)(run)
    for name, flag in flags.items():
        run = fire.decorators.SetParseFn(flag.parse, name)(run)
    fire.Fire(run, words, name="main.py")
