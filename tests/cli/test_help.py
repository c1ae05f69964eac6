"""--help of the real commands, also where Python drops docstrings; the tables of docs/usage.md."""

import importlib
import re
import subprocess
import sys

import pytest
from command_line import ENVIRONMENT, ROOT, assert_refused

import main
from experiments.cli.flags import flags_of
from experiments.cli.help import HEADINGS


def function_of(name):
    if name == "generate":
        return main.generate
    return getattr(importlib.import_module(f"experiments.commands.{name}"), name)


def test_generate_groups_its_flags(cli):
    text = cli("--help").out
    headings = re.findall(r"(?m)^([A-Z]\w*):$", text)
    assert headings == [*HEADINGS[1:], "Examples"]
    assert text.partition("Examples:")[2].count("python main.py ") == 2
    for name in {*main.COMMANDS} - {"generate"}:
        assert re.search(rf"\b{name}\b", text.partition("Other commands:")[2])
    lines = text.splitlines()
    assert max(len(line) for line in lines if "--models_dir" not in line) <= 100


@pytest.mark.parametrize(
    "words", [["main.py"], ["main.py", "download"], ["experiments/training/train.py", "target"]]
)
def test_help_does_not_need_docstrings(words):
    """Python may drop them."""
    command = [sys.executable, *words, "--help"]
    plain, without = (
        subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, env=ENVIRONMENT | more)
        for more in ({}, {"PYTHONOPTIMIZE": "2"})
    )
    assert (plain.returncode, plain.stderr) == (0, b"") and len(plain.stdout) > 500
    assert (without.returncode, without.stdout) == (0, plain.stdout)


@pytest.mark.parametrize("name", list(main.COMMANDS))
def test_help_describes_every_flag_once_and_an_empty_value_is_refused(capsys, name):
    """A shell makes an empty value of a variable that is not set."""
    flags = flags_of(function_of(name))
    assert main.main([name, "--help"]) == 0
    text = capsys.readouterr().out
    described = re.findall(r"(?m)^  --(\w+)\b.*\n      \S", text)
    assert sorted(described) == sorted(flags)
    for flag in flags.keys() - {"prompt"}:
        assert main.main([name, f"--{flag}="]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and f"--{flag} ''" in err


def test_the_tables_of_the_docs_are_those_that_are_printed(capsys):
    assert main.main(["--help=markdown"]) == 0
    text = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
    assert f"\n\n{capsys.readouterr().out}\n" in text


@pytest.mark.parametrize("word, close", [("bogus", ""), ("benchmrk", "benchmark"), ("", "")])
def test_an_unknown_command_is_told_the_commands(capsys, word, close):
    assert main.main([word]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and repr(word) in err
    assert all(name in err for name in main.COMMANDS)
    assert f"close to {close}:" in err if close else "close to" not in err


def test_version(cli, capsys):
    assert main.main(["--version"]) == 0 and capsys.readouterr().out == main.VERSION + "\n"
    assert_refused(cli("--version"), "'--version'")
