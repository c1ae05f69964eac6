"""From words to arguments: functions and dataclasses become flags."""

from dataclasses import dataclass, field

import pytest

from experiments.cli.flags import call, flags_of
from utils import InputError


@dataclass(frozen=True)
class Shape:
    """A shape.

    Size:
        width: how wide
        height: how high

    Look:
        colour: which colour
    """

    width: int = 3
    height: float = field(default=1.5, metadata={"parse": lambda text: float(text) * 2})
    colour: str = "red"


def paint(shape: Shape, name=("a", "b"), fast=False, n=4):
    """Paint it.

    Look:
        name: may be given again
        fast: or not
    Other:
        n: how often
    """
    called.append((shape, name, fast, n))


def say(*words, loud=False):
    """Say words.

    Args:
        loud: louder
    """
    called.append((words, loud))


called = []


@pytest.fixture(autouse=True)
def nothing_called():
    called.clear()


@pytest.mark.parametrize(
    "words, expected",
    [
        ([], (Shape(), ("a", "b"), False, 4)),
        (["--width", "7", "--fast"], (Shape(width=7), ("a", "b"), True, 4)),
        (["--height=2", "--n=-3"], (Shape(height=4.0), ("a", "b"), False, -3)),
        (["--name", "x", "--name=--n"], (Shape(), ("x", "--n"), False, 4)),
        (["--colour", "--fast", "--n", "1"], (Shape(colour="--fast"), ("a", "b"), False, 1)),
        (["--name="], (Shape(), ("",), False, 4)),
        (["--colour=[1, 2]"], (Shape(colour="[1, 2]"), ("a", "b"), False, 4)),
    ],
)
def test_a_parameter_that_is_a_dataclass_stands_for_its_fields(words, expected):
    call(paint, words)
    assert called == [expected]


def test_words_without_a_flag_go_to_a_command_that_takes_them():
    call(say, ["one", "--loud", "two=3"])
    assert called == [(("one", "two=3"), True)]


@pytest.mark.parametrize(
    "words, message",
    [
        (["--depth=1"], "unknown flag '--depth': expected --width, --height, --colour, --name"),
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


def test_flags_know_their_defaults():
    defaults = {name: flag.default for name, flag in flags_of(paint).items()}
    assert defaults == {
        "width": 3,
        "height": 1.5,
        "colour": "red",
        "name": ("a", "b"),
        "fast": False,
        "n": 4,
    }


def test_help_puts_sections_of_one_name_together(capsys):
    call(paint, ["--n=1", "--help"])
    assert called == []
    assert capsys.readouterr().out == (
        "Paint it.\n\n"
        "Size:\n"
        "  --width (default 3)\n      how wide\n"
        "  --height (default 1.5)\n      how high\n\n"
        "Look:\n"
        "  --name (default a b)\n      may be given again\n"
        "  --fast\n      or not\n"
        "  --colour (default red)\n      which colour\n\n"
        "Other:\n"
        "  --n (default 4)\n      how often\n"
    )
