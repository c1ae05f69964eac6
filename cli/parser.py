"""From the words of a command line to the arguments of a command.

A command is a function of groups of flags. A parameter that is annotated with a group, `settings:
Settings`, stands for all fields of that dataclass (cli/flags.py); `*names` takes words without a
flag, `name: str` exactly one. The default of a flag gives the type of its value; one whose default
is a tuple may be given several times.

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
        """Convert a text (str) to the value of the flag: with `reader`, or without a reader to the
        type of the default. If the flag may be repeated, the text is a JSON list of its values, as
        normalize_words writes it, and the value is a tuple; its items may be empty.

        Raises SettingError if the text cannot be converted, or is empty, because a shell makes an
        empty text of a variable that is not set.
        """
        expected_type = type(self.default)
        if expected_type is tuple:  # the flag may be repeated
            return tuple(json.loads(text))
        if not text:
            raise SettingError(self.name, "'': expected a value; give one, or leave the flag out")
        if self.reader:
            return self.reader(text)
        try:
            if expected_type is bool:
                return {"True": True, "False": False}[text]
            return expected_type(text)
        except (ValueError, KeyError):
            problem = f"{text!r}: expected {EXPECTED[expected_type]}"
            raise SettingError(self.name, problem) from None


def flags_in(group):
    """The list of Flags of `group`, a dataclass of flags such as cli.flags.Settings.

    The heading of a Flag is that of the first base class that declares it; None if only `group`
    itself declares it, and has no heading.
    """
    flags = []
    for field in dataclasses.fields(group):
        bases = reversed(group.__mro__)  # the most general class first
        cls = next(base for base in bases if field.name in inspect.get_annotations(base))
        is_own = cls is group and "heading" not in vars(group)
        heading = None if is_own else cls.heading
        meaning, reader = field.metadata["meaning"], field.metadata["reader"]
        flags.append(Flag(field.name, field.default, meaning, heading, reader))
    return flags


def groups_of(command):
    """The parameters of a command function: ({parameter: the dataclass of flags that annotates it},
    whether there are others, which take words without a flag).
    """
    parameters = inspect.signature(command).parameters.values()
    groups = {p.name: p.annotation for p in parameters if dataclasses.is_dataclass(p.annotation)}
    return groups, len(groups) < len(parameters)


def flags_of(command):
    """{name: Flag} of all flags of a command function."""
    groups, _ = groups_of(command)
    return {flag.name: flag for group in groups.values() for flag in flags_in(group)}


def normalize_words(words, flags, takes_words):
    """Rewrite the words of a command line: words without a flag first, then one word for each flag.

    ["--K", "4", "a", "--json"] -> ["a", "--K=4", "--json=True"]

    words: a list of str; flags: {name: Flag}; takes_words: whether words without a flag are allowed
    Returns a list, or None to show help. Raises InputError for an unknown word or a missing value.
    """
    remaining, plain, values = list(words), [], {}
    while remaining:
        word, equals, value = remaining.pop(0).partition("=")
        if word in ("--help", "-h"):
            return None
        if takes_words and not word.startswith("-"):
            plain.append(word + equals + value)
            continue
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--") or name not in flags:
            refuse_word(word, flags)
        default = flags[name].default
        if not equals and isinstance(default, bool):
            value = "True"
        elif not equals:
            if not remaining:
                raise InputError(f"--{name}: expected a value after it")
            value = remaining.pop(0)
        if isinstance(default, tuple):  # a flag that may be repeated: all its values, as JSON
            earlier = json.loads(values.get(name, "[]"))
            value = json.dumps([*earlier, value])
        values[name] = value
    return plain + [f"--{name}={value}" for name, value in values.items()]


def refuse_word(word, flags):
    """Raise InputError for a word that is none of flags ({name: Flag}); it lists close names."""
    from cli.hints import unknown_message  # here: a word that is known needs no hint

    if not word.startswith("-"):
        expected = "flags; a command comes before them, as in python main.py check 7M"
        raise InputError(f"unknown argument {word!r}: expected {expected}")
    raise InputError(unknown_message("flag", word, [f"--{name}" for name in (*flags, "help")]))


def call(command, words, program=None):
    """Run a command function with the words of a command line (a list of str), or print its help if
    a word asks for it, as Markdown for --help=markdown. Returns None. Raises InputError for an
    unknown flag, a value that cannot be used, and too few or too many words.
    program: what stands after "python" in the help; None is main.py and the function's name
    """
    flags = flags_of(command)
    groups, takes_words = groups_of(command)
    asks_for_markdown = words == ["--help=markdown"]
    if not asks_for_markdown:
        words = normalize_words(words, flags, takes_words)  # None if a word asks for help
    if asks_for_markdown or words is None:
        from cli.help import format_help, format_markdown  # here: a run needs no help

        print(format_markdown(flags) if asks_for_markdown else format_help(command, flags, program))
        return

    def run(*plain, **values):
        """Call the command with its words and dataclasses, made from {name of a flag: value}."""
        arguments = {}
        for name, group in groups.items():
            fields = {field.name for field in dataclasses.fields(group)}
            arguments[name] = group(**{flag: values[flag] for flag in fields & values.keys()})
        try:
            inspect.signature(command).bind(*plain, **arguments)
        except TypeError:  # too few or too many words
            from cli.help import usage_line

            given = " ".join([command.__name__, *plain])
            raise InputError(f"{given}: expected {usage_line(command, program)}") from None
        command(*plain, **arguments)

    # for Fire: parse the value of each flag with Flag.parse, words without a flag with str
    run = fire.decorators.SetParseFn(str)(run)
    run = fire.decorators.SetParseFns(**{flag.name: flag.parse for flag in flags.values()})(run)
    fire.Fire(run, words, name="main.py")
