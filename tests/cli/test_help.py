"""--help of the real commands, also where Python drops docstrings."""

import importlib
import os
import re
import subprocess
import sys

import pytest
from command_line import ENVIRONMENT, ROOT

import main
from experiments.cli.flags import flags_of
from utils import InputError

GROUPS = ["Text:", "Models:", "Speculation:", "Sampling:", "Output:", "Machine:"]


def help_of(*words, program="main.py", **environment):
    command = [sys.executable, program, *words, "--help"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, timeout=120, env=ENVIRONMENT | environment
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_generate_groups_its_flags(cli):
    text = cli("--help").out
    headings = re.findall(r"(?m)^[A-Z]\w*:$", text)
    assert headings == [*GROUPS, "Examples:"]
    described = re.findall(r"(?m)^  --(\w+)", text)
    assert sorted(described) == sorted(flags_of(main.generate))
    examples = text.partition("Examples:")[2].partition("Other commands:")[0]
    assert examples.count("python main.py ") == 2
    assert "known way to get speculative decoding wrong" in text
    for name in main.COMMANDS.keys() - {"generate"}:
        assert re.search(rf"\b{name}\b", text.partition("Other commands:")[2])


def test_no_line_of_help_is_long(cli):
    lines = cli("--help").out.splitlines()
    assert max(len(line) for line in lines if "--models_dir" not in line) <= 100


@pytest.mark.parametrize("command", [[], ["chat"], ["mistakes"], ["play"]])
def test_help_does_not_need_docstrings(command):
    assert help_of(*command, PYTHONOPTIMIZE="2") == help_of(*command)


@pytest.mark.parametrize("words", [[], ["target"]])
def test_help_of_a_program_does_not_need_docstrings(words):
    """It is printed, and no traceback, where Python drops them."""
    text = help_of(*words, program="experiments/training/train.py", PYTHONOPTIMIZE="2")
    assert ("Train a target on text" in text) and ("Commands, each" in text) == (not words)


@pytest.mark.parametrize("name", list(main.COMMANDS))
def test_every_command_has_help_for_every_flag(capsys, name):
    module = main if name == "generate" else importlib.import_module(main.COMMANDS[name])
    assert main.main([name, "--help"]) == 0
    text = capsys.readouterr().out
    for flag in flags_of(getattr(module, name)):
        assert re.search(rf"(?m)^  --{flag}\b.*\n      \S", text), flag


@pytest.mark.parametrize("name", list(main.COMMANDS))
def test_every_flag_but_prompt_refuses_an_empty_value(name):
    """A shell makes it of a variable that is not set."""
    module = main if name == "generate" else importlib.import_module(main.COMMANDS[name])
    for flag in flags_of(getattr(module, name)).values():
        if flag.name != "prompt":
            with pytest.raises(InputError, match=f"^--{flag.name} ''"):
                flag.parse("")


@pytest.mark.parametrize("word, close", [("bogus", ""), ("benchmrk", "benchmark"), ("", "")])
def test_an_unknown_command_is_told_the_commands(capsys, word, close):
    assert main.main([word]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and repr(word) in err
    assert all(name in err for name in main.COMMANDS)
    assert f"close to {close}:" in err if close else "close to" not in err


def test_version():
    done = subprocess.run(
        [sys.executable, "main.py", "--version"], cwd=ROOT, capture_output=True, timeout=120
    )
    assert (done.returncode, done.stdout.decode()) == (0, main.VERSION + "\n")


def test_a_python_that_does_not_look_beside_main_py_is_told_in_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, os.fspath(ROOT / "main.py"), "--help"],
        cwd=tmp_path,
        capture_output=True,
        timeout=120,
        env=ENVIRONMENT | {"PYTHONSAFEPATH": "1"},
    )
    if sys.version_info < (3, 11):
        assert done.returncode == 0
        return
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"unset PYTHONSAFEPATH" in done.stderr
