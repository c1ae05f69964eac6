"""--help of the real commands, also where Python drops docstrings; the lists of docs/usage.md."""

import importlib
import re
import subprocess
import sys

import pytest
from command_line import ENVIRONMENT, ROOT, assert_refused

import main
from cli.parser import flags_of


def function_of(name):
    if name == "generate":
        return main.generate
    return getattr(importlib.import_module(main.COMMANDS[name]), name)


def test_help_names_the_other_commands(cli):
    _, _, others = cli("--help").out.partition("Other commands")
    assert {*main.COMMANDS} - {"generate"} <= {*re.findall(r"\w+", others)}


@pytest.mark.parametrize("words", ["main.py", "main.py download"])
def test_help_does_not_need_docstrings(words):
    """Python may drop them."""
    command = [sys.executable, *words.split(), "--help"]
    plain, without = (
        subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, env=ENVIRONMENT | more)
        for more in ({}, {"PYTHONOPTIMIZE": "2"})
    )
    assert (plain.returncode, plain.stderr) == (0, b"") and len(plain.stdout) > 500
    assert (without.returncode, without.stdout) == (0, plain.stdout)


@pytest.mark.parametrize("name", list(main.COMMANDS))
def test_help_describes_every_flag_once_and_an_empty_value_is_refused(program, name):
    """A shell makes an empty value of a variable that is not set."""
    flags = flags_of(function_of(name))
    done = program(name, "--help")
    described = re.findall(r"(?m)^  --(\w+)\b.*\n      \S", done.out)
    assert done.code == 0 and sorted(described) == sorted(flags)
    for flag in flags.keys() - {"prompt"}:
        assert_refused(program(name, f"--{flag}="), f"--{flag} ''")


def test_the_lists_of_the_docs_are_those_that_are_printed(program):
    text = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
    assert f"\n\n{program('--help=markdown').out}\n" in text


@pytest.mark.parametrize("word, close", [("bogus", ""), ("benchmrk", "benchmark"), ("", "")])
def test_an_unknown_command_is_told_the_commands(program, word, close):
    done = program(word)
    assert_refused(done, repr(word), *([close] if close else main.COMMANDS))
    assert ("replay" in done.err) == (not close)


def test_a_command_that_does_not_come_first(program):
    done = program("--kernels", "plain", "check", "7M")
    assert_refused(done, "unknown argument 'check': ", "a command comes before them")


def test_version(cli, program):
    assert program("--version").out == main.VERSION + "\n"
    assert_refused(cli("--version"), "'--version'")
