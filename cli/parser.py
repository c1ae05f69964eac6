"""From the words of a command line to the arguments of a command.

A command is a function of groups of flags. A parameter that is annotated with a group, `settings:
Settings`, stands for all fields of that dataclass (cli/flags.py); `*names` takes words without a
flag. The default of a flag gives the type of its value; one whose default is a tuple may be given
several times.

Fire makes the call. What it would guess is settled before: a value is whatever comes after its
flag (a prompt may begin with --), and 123, None and [1, 2] are texts where a text is expected.
"""

import dataclasses
import inspect
import json
from dataclasses import dataclass
from typing import Any, Callable

import fire

from checkpoints.errors import InputError, SettingError

EXPECTED = {bool: "no value", int: "one whole number", float: "one number"}


@dataclass(frozen=True)
class Flag:
    """A flag of a command, and how to read its value if its type does not say that."""

    name: str
    default: Any
    meaning: str
    heading: str | None  # under which --help shows it; None for a command's own flags
    reader: Callable | None

    def parse(self, text):
        """The value of a text. Raises SettingError, also for an empty one: a shell makes that of a
        variable that is not set. Only a flag that may be given several times takes it.
        """
        kind = type(self.default)
        if kind is tuple:
            return tuple(json.loads(text))
        if not text:
            raise SettingError(self.name, "'': expected a value; give one, or leave the flag out")
        if self.reader:
            return self.reader(text)
        try:
            return {"True": True, "False": False}[text] if kind is bool else kind(text)
        except (ValueError, KeyError):
            raise SettingError(self.name, f"{text!r}: expected {EXPECTED[kind]}") from None


def flags_in(group):
    """The Flags of a dataclass, each under the heading of the class that declares it first; what
    a command declares itself, under a heading of its own.
    """
    flags = []
    for field in dataclasses.fields(group):
        classes = reversed(group.__mro__)
        first = next(kind for kind in classes if field.name in inspect.get_annotations(kind))
        own = first is group and "heading" not in vars(group)
        heading = None if own else first.heading
        meaning, reader = field.metadata["meaning"], field.metadata["reader"]
        flags.append(Flag(field.name, field.default, meaning, heading, reader))
    return flags


def groups_of(command):
    """Return ({parameter: dataclass} of a command, whether it takes words without a flag)."""
    parameters = inspect.signature(command).parameters.values()
    groups = {p.name: p.annotation for p in parameters if p.kind != p.VAR_POSITIONAL}
    return groups, len(groups) < len(parameters)


def flags_of(command):
    """{name: Flag} of a command."""
    groups, _ = groups_of(command)
    return {flag.name: flag for group in groups.values() for flag in flags_in(group)}


def normalize_words(words, flags, takes_words):
    """["--K", "4", "--json"] -> ["--K=4", "--json=True"]: every value follows its flag
    after "=". Returns None if a word asks for help. Raises InputError for an unknown flag.
    """
    rest, plain, texts = list(words), [], {}
    while rest:
        word, equals, text = rest.pop(0).partition("=")
        if word in ("--help", "-h"):
            return None
        if takes_words and not word.startswith("-"):
            plain.append(word + equals + text)
            continue
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--") or name not in flags:
            from cli.hints import unknown_message  # here: a word that is known needs no hint

            names = [f"--{name}" for name in flags]
            if word.startswith("-"):
                raise InputError(unknown_message("flag", word, names))
            expected = "flags; a command comes before them, as in python main.py check 7M"
            raise InputError(unknown_message("argument", word, names, expected))
        default = flags[name].default
        if not equals and isinstance(default, bool):
            text = "True"
        elif not equals:
            if not rest:
                raise InputError(f"--{name}: expected a value after it")
            text = rest.pop(0)
        if isinstance(default, tuple):  # all its values, as JSON
            text = json.dumps([*json.loads(texts.get(name, "[]")), text])
        texts[name] = text
    return plain + [f"--{name}={text}" for name, text in texts.items()]


def call(command, words, program=None):
    """Run a command with the words of a command line, or print its help if a word asks for it.

    program: how the command is called, for its help; by default main.py and the command's name
    Raises InputError for a flag it does not have or a value of another type.
    """
    flags, (groups, takes_words) = flags_of(command), groups_of(command)
    asks_for_lists = words == ["--help=markdown"]
    if not asks_for_lists:
        words = normalize_words(words, flags, takes_words)
    if asks_for_lists or words is None:
        from cli.help import markdown, usage  # here: a command that runs needs no help

        print(markdown(flags) if asks_for_lists else usage(command, flags, program))
        return

    def run(*plain, **values):
        arguments = {}
        for name, group in groups.items():
            fields = {field.name for field in dataclasses.fields(group)}
            arguments[name] = group(**{flag: values[flag] for flag in fields & values.keys()})
        command(*plain, **arguments)

    run = fire.decorators.SetParseFn(str)(run)
    run = fire.decorators.SetParseFns(**{flag.name: flag.parse for flag in flags.values()})(run)
    fire.Fire(run, words, name="main.py")
