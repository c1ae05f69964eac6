"""From words to arguments: the groups of a command, and its own parameters, become flags."""

from dataclasses import dataclass

import pytest

from experiments.cli.flags import call, flags_of
from experiments.cli.help import tables
from experiments.decoding.settings import Group, flag
from utils import InputError


@dataclass(frozen=True)
class Shape(Group):
    heading = "Models"

    width: int = flag(3, "how wide; see --height")
    height: float = flag(1.5, "how high", lambda text: float(text) * 2)
    colour: str = flag("red", "which colour")


@dataclass(frozen=True)
class Painting(Shape):
    colour: str = flag("blue", "which colour here | there")
    layers: int = flag(1, "how many layers")


def paint(shape: Painting, name=("a", "b"), fast=False, n=4):
    """Paint it.

    Args:
        name: may be
            given again
        fast: or not
        n: how often

    Examples:
        paint --fast
    """
    called.append((shape, name, fast, n))


def say(*words, loud=False):
    """Say words.

    Args:
        loud: louder
    """
    called.append((words, loud))


called = []
DEFAULTS = (Painting(), ("a", "b"), False, 4)


@pytest.fixture(autouse=True)
def nothing_called():
    called.clear()


@pytest.mark.parametrize(
    "words, expected",
    [
        ([], DEFAULTS),
        (["--width", "7", "--fast"], (Painting(width=7), ("a", "b"), True, 4)),
        (["--height=2", "--n=-3"], (Painting(height=4.0), ("a", "b"), False, -3)),
        (["--name", "x", "--name=--n"], (Painting(), ("x", "--n"), False, 4)),
        (["--colour", "--fast", "--n", "1"], (Painting(colour="--fast"), ("a", "b"), False, 1)),
        (["--name="], (Painting(), ("",), False, 4)),
        (["--colour=[1, 2]"], (Painting(colour="[1, 2]"), ("a", "b"), False, 4)),
        (["--colour", "None"], (Painting(colour="None"), ("a", "b"), False, 4)),
    ],
)
def test_a_parameter_that_is_a_group_stands_for_its_fields(words, expected):
    call(paint, words)
    assert called == [expected]


def test_words_without_a_flag_go_to_a_command_that_takes_them():
    call(say, ["one", "--loud", "two=3", "4"])
    assert called == [(("one", "two=3", "4"), True)]


@pytest.mark.parametrize(
    "words, message",
    [
        (["--depth=1"], "unknown flag '--depth': expected --width, --height, --colour, --layers"),
        (["word"], "unknown argument 'word'"),
        (["--shape=1"], "unknown flag '--shape'"),
        (["--colr=1"], "unknown flag '--colr', close to --colour: expected --width"),
        (["--width"], "--width: expected a value after it"),
        (["--width=x"], "--width 'x': expected one whole number"),
        (["--fast=yes"], "--fast 'yes': expected no value"),
        *(([f"--{name}="], f"--{name} '': ") for name in ("width", "height", "colour", "fast")),
    ],
)
def test_what_cannot_be_read_is_named(words, message):
    with pytest.raises(InputError, match=f"^{message}"):
        call(paint, words)
    assert called == []


def test_help_begins_with_the_command_and_its_own_flags(capsys):
    call(paint, ["--n=1", "--help"])
    assert called == []
    assert capsys.readouterr().out == (
        "Paint it.\n\n"
        "Flags:\n"
        "  --layers (default 1)\n      how many layers\n"
        "  --name (default a b)\n      may be given again\n"
        "  --fast\n      or not\n"
        "  --n (default 4)\n      how often\n\n"
        "Models:\n"
        "  --width (default 3)\n      how wide; see --height\n"
        "  --height (default 1.5)\n      how high\n"
        "  --colour (default blue)\n      which colour here | there\n\n"
        "Examples:\n    paint --fast\n"
    )


def test_tables_of_markdown():
    text = tables(flags_of(paint))
    assert text.startswith("**Flags**\n\n| flag | default | meaning |\n| --- | --- | --- |\n")
    assert "\n\n**Models**\n\n" in text
    assert "\n| `--width` | 3 | how wide; see `--height` |\n" in text
    assert text.endswith("\n| `--colour` | blue | which colour here \\| there |")
