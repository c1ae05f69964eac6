"""From words to arguments: the fields of a command's groups become flags, and --help of them."""

import importlib.util
from dataclasses import dataclass, fields

import pytest

import main
from cli.flags import Group, flag
from cli.parser import call


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
    name: tuple = flag(("a", "b"), "may be given again")


@dataclass(frozen=True)
class Speed(Group):
    heading = "Output"

    fast: bool = flag(False, "or not")


def paint(*words, shape: Painting, speed: Speed):
    """Paint it.

    Examples:
        paint --fast
    """
    called.append((words, shape, speed.fast))


called = []


def subclasses(group):
    """A list of all classes that inherit from a class, also indirectly."""
    return [cls for child in group.__subclasses__() for cls in (child, *subclasses(child))]


def test_a_flag_that_a_command_declares_anew_keeps_its_limits():
    for name in main.COMMANDS.values():
        importlib.import_module(name)
    if importlib.util.find_spec("torch"):
        importlib.import_module("experiments.training.train")
    n_limits = 0
    for group in subclasses(Group):
        for setting in fields(group):
            for parent in group.__bases__:
                inherited = getattr(parent, "__dataclass_fields__", {}).get(setting.name)
                if inherited and inherited.metadata["limits"]:
                    n_limits += 1
                    assert setting.metadata["limits"], (group, setting.name)
    assert n_limits > 10


@pytest.mark.parametrize(
    "words, plain, expected, fast",
    [
        ([], (), {}, False),
        (["--width", "7", "--fast"], (), {"width": 7}, True),
        (["--height=2", "--layers=-3"], (), {"height": 4.0, "layers": -3}, False),
        (["--name", "x", "--name=--n", "--name="], (), {"name": ("x", "--n", "")}, False),
        (["--colour", "--fast", "--width", "1"], (), {"colour": "--fast", "width": 1}, False),
        (["--colour=[1]", "--width=1", "--width=2"], (), {"colour": "[1]", "width": 2}, False),
        (["one", "--fast", "two=3", "4"], ("one", "two=3", "4"), {}, True),
    ],
)
def test_words_become_the_fields_of_groups(words, plain, expected, fast):
    called.clear()
    call(paint, words)
    assert called == [(plain, Painting(**expected), fast)]


def test_help_begins_with_the_command_and_its_own_flags(capsys):
    call(paint, ["--width=1", "--help"])
    assert capsys.readouterr().out == (
        "Usage: python main.py paint [WORDS ...] [--FLAG VALUE ...]\n\n"
        "Paint it.\n\n"
        "Flags:\n"
        "  --layers (default 1)\n      how many layers\n"
        "  --name (default a b)\n      may be given again\n\n"
        "Models:\n"
        "  --width (default 3)\n      how wide; see --height\n"
        "  --height (default 1.5)\n      how high\n"
        "  --colour (default blue)\n      which colour here | there\n\n"
        "Output:\n  --fast\n      or not\n\n"
        "Examples:\n    paint --fast\n"
    )
