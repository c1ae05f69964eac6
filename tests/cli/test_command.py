"""From words to the call of a command, and to an exit code."""

import importlib
import inspect
import io
import re
import sys
from typing import Literal

import pytest
from command_line import python, shell
from hypothesis import given, settings
from hypothesis import strategies as st

import main
from cli.command import flags_of, run
from cli.help import ELSEWHERE
from cli.messages import print_error, printable

called = []


def paint(
    *words: str,
    name: str = "x",
    width: int = 3,
    height: float = 1.5,
    K: int | Literal["auto"] = 4,
    colour: Literal["red", "dark blue"] = "red",
    fast: bool = False,
):
    """Paint words.

    Flags:
        name: of the painting, --width wide
        width: in metres
        height: in metres
        K: of it
        colour: of all
        fast: or not
    """
    called.append((words, name, width, height, K, colour, fast))


def frame(file: str, *, size: int = 1, width: int = 2):
    """Frame a file.

    Flags:
        size: of the frame
    """
    called.append((file, size))


COMMANDS = {"paint": paint, "frame": frame, "main": "main"}


def outcome(*words):
    """What the command was called with, or the error in one line."""
    called.clear()
    errors = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", errors)
        code = run([*words], COMMANDS)
    said = errors.getvalue()
    if code == 0:
        assert said == ""
        (found,) = called
        return found
    assert code == 2 and called == [] and said.startswith("error: ") and said.count("\n") == 1
    return said[7:-1]


DEFAULTS = ((), "x", 3, 1.5, 4, "red", False)


@pytest.mark.parametrize("words, expected", [
    ([], DEFAULTS),
    (["paint"], DEFAULTS),
    (["--width", "5"], ((), "x", 5, 1.5, 4, "red", False)),
    (["paint", "a", "--K=auto", "b"], (("a", "b"), "x", 3, 1.5, "auto", "red", False)),
    (["--K=7", "--colour=dark blue"], ((), "x", 3, 1.5, 7, "dark blue", False)),
    (["--fast", "--height", "-2e3"], ((), "x", 3, -2000.0, 4, "red", True)),
    (["--fast=False", "--width=-1"], ((), "x", -1, 1.5, 4, "red", False)),
    (["--width=1", "--width=2"], ((), "x", 2, 1.5, 4, "red", False)),  # the last counts
    (["paint", "123", "None", "[1]"], (("123", "None", "[1]"), *DEFAULTS[1:])),
    (["frame", "1e5"], ("1e5", 1)),
    (["frame", "--size", "2", "a=b"], ("a=b", 2)),
    (["paint", "-", "a", "-"], (("-", "a", "-"), *DEFAULTS[1:])),  # Fire's separator elsewhere
])  # fmt: skip
def test_words_become_the_values_of_their_annotations(words, expected):
    found = outcome(*words)
    assert found == expected and [*map(type, found)] == [*map(type, expected)]


# what a shell, or Fire, could take for something else
ODD = "123 -5 1e5 None [1,2] {'a':1} a=b = - -- --- --K --K=5 --help -h --fast --name frame".split()


WORDS = st.sampled_from(ODD) | st.text().filter(lambda text: "\0" not in text)  # no shell has it


@settings(max_examples=50)
@given(WORDS)
def test_a_text_is_text_whatever_it_looks_like(text):
    """The word after a flag is its value, as in --prompt --help."""
    for words in ([f"--name={text}"], ["--name", text], ["paint", "--name", text, "--fast"]):
        assert outcome(*words)[1] == text
    if not text.startswith("-"):
        assert outcome("frame", text) == (text, 1)


LONG_NUMBER = "expected a whole number of at most 4,300 digits"


@pytest.mark.parametrize("words, said", [
    ("--width", "--width: expected a value after it"),
    ("--width x", "--width 'x': expected a whole number"),
    ("--width 1.5", "--width '1.5': expected a whole number"),
    ("--width " + "9" * 5000, f"--width '{'9' * 40}...': {LONG_NUMBER}"),
    ("--K auto2", "--K 'auto2': expected a whole number or auto"),
    ("--colour blue", "--colour 'blue': expected red or dark blue"),
    ("--fast=maybe", "--fast 'maybe': expected no value"),
    ("--widht 3", "unknown flag '--widht': expected --width"),
    ("--quiet", "unknown flag '--quiet': expected one that --help lists"),
    ("--bru\x1b[2Jsh", r"unknown flag '--bru\x1b[2Jsh': expected one that --help lists"),
    ("--out=3", "unknown flag '--out': expected python main.py batch FILE --out NAME"),
    ("--model=3", "unknown flag '--model': expected one that --help lists"),  # no such flag here
    ("model", "unknown command 'model': expected one that --help lists"),
    ("frame", "frame: missing a required argument: 'file'; try --help"),
    ("frame a b", "frame a b: too many positional arguments; try --help"),
    ("nothing", "unknown command 'nothing': expected one that --help lists"),
])  # fmt: skip
def test_what_cannot_be_read_is_one_line_before_anything_runs(words, said):
    assert outcome(*words.split(" ")) == said


def test_help_is_the_docstring_with_the_flags(capsys):
    pages = []
    for words in (["--help"], ["-h"], ["help", "paint"], ["paint", "a", "--width", "3", "-h"]):
        called.clear()
        assert run(words, COMMANDS) == 0 and not called
        pages.append(capsys.readouterr().out)
    assert {*pages} == {pages[0]}
    assert pages[0].splitlines() == [
        "Paint words.", "", "Flags:",
        "    --name (x): of the painting, --width wide",
        "    --width (3): in metres", "    --height (1.5): in metres", "    --K (4): of it",
        "    --colour (red): of all", "    --fast: or not",
    ]  # fmt: skip


def test_a_flag_that_a_command_does_not_describe_means_what_it_means_for_the_first(capsys):
    assert run(["frame", "--help"], COMMANDS) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Frame a file.", "", "Flags:",
        "    --size (1): of the frame", "    --width (2): in metres",
    ]  # fmt: skip


def function_of(name):
    command = main.COMMANDS[name]
    return getattr(importlib.import_module(command), name) if isinstance(command, str) else command


@pytest.mark.parametrize("name", list(main.COMMANDS))
def test_every_command_describes_each_of_its_flags_once(program, name):
    flags, done = flags_of(function_of(name)), program(name, "--help")
    described = re.findall(r"(?m)^    --(\w+)\b.*: \S", done.out)
    assert done.code == 0 and sorted(described) == sorted(flags)
    for flag in flags.values():
        assert flag.annotation is not inspect.Parameter.empty
        assert flag.default is not inspect.Parameter.empty


def test_generate_names_the_other_commands_and_those_that_have_its_old_flags(program):
    _, _, others = program("--help").out.partition("Other commands")
    assert {*main.COMMANDS} - {"generate", "version"} <= {*re.findall(r"\w+", others)}
    assert len(flags_of(main.generate)) <= 20
    for flag, where in ELSEWHERE.items():
        assert flag not in flags_of(main.generate)
        for word in (f"--{flag}", f"--{flag.title().replace('_', '-')}"):
            refused = program(f"{word}=x")
            said = f"error: unknown flag '{word}': expected {where}\n"
            assert (refused.code, refused.err) == (2, said)
        _, _, command = where.rpartition("main.py ")
        name, *words = command.split()
        flags = flags_of(function_of(name)) if name in main.COMMANDS else flags_of(main.generate)
        assert all(word[2:] in flags for word in [name, *words] if word.startswith("--"))


def test_version(program):
    assert program("version").out == main.VERSION + "\n"


# ---------------------------------------------------------------- exit codes


@pytest.mark.parametrize("error, code", [
    (ValueError("a"), 2), (OSError(28, "full", "x"), 2), (MemoryError(), 2),
    (KeyboardInterrupt, 130), (BrokenPipeError(), 141),
    (ModuleNotFoundError("a", name="torch"), 2), (OverflowError("a"), 2), (UserWarning("a"), 2),
])  # fmt: skip
def test_what_its_user_can_put_right_is_one_line(capsys, error, code):
    def broken():
        raise error

    assert run([], {"broken": broken}) == code
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == (code == 2) and "Traceback" not in err


def test_a_bug_keeps_its_traceback():
    def broken():
        {}["a"]

    with pytest.raises(KeyError):
        run([], {"broken": broken})


@given(st.text(st.characters(exclude_categories=())))
def test_any_message_is_one_printable_line(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", errors := io.StringIO())
        print_error(ValueError(text))
    line = errors.getvalue()
    assert line.startswith("error: ") and line[:-1].isprintable() and line[-1] == "\n"
    assert printable(text).isprintable()


# ---------------------------------------------------------------- real processes

SHORT = "--n_tokens_to_generate=2", "--prompt=é 日"
WATCHED = """
import atexit, builtins, signal, sys, speculate

class Stdin:
    encoding = "utf-8"
    reconfigure = lambda self, **options: tell()

def watched(name, *more):
    if name == "speculate.main":
        tell()
    return load(name, *more)

tell = lambda: print(signal.getsignal(signal.SIGINT) == signal.SIG_DFL)
load, builtins.__import__, sys.stdin = builtins.__import__, watched, Stdin()
sys.argv = ["speculate", "version"]
atexit.register(tell)
speculate.command()
"""


def test_before_and_after_a_command_ctrl_c_just_ends_the_program():
    done = python("-c", WATCHED)
    assert done.stdout.split() == ["True", "True", main.VERSION, "True"], done.stderr


IN_A_FINALIZER = """
import signal, weakref
from cli.command import run_program

class Response: pass

def interrupted():
    response = Response()
    weakref.finalize(response, signal.raise_signal, signal.SIGINT)
    del response
    print("went on")

run_program({"interrupted": interrupted})
"""


def test_ctrl_c_in_a_finalizer_ends_the_program():
    done = python("-c", IN_A_FINALIZER)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_output_that_knows_only_ascii(pair):
    done = shell('PYTHONIOENCODING=ascii "$0" "$@" --stream', pair, *SHORT)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"Text = ? ?") == 2


@pytest.mark.parametrize("line, code, said", [
    ('"$0" "$@" --prompt=- <&- >&-', 0, b""),
    ('"$0" "$@" --K=0 2>&-', 2, b""),
    ('"$0" "$@" --K=0 2>/dev/full', 2, b""),
    ('"$0" "$@" --json >/dev/full', 2, b"error: output: No space left on device\n"),
    ('"$0" "$@" --stream >/dev/full', 2, b"error: output: No space left on device\n"),
    ('"$0" "$@" | true; exit ${PIPESTATUS[0]}', 141, b""),
])  # fmt: skip
def test_a_stream_that_is_closed_or_full(pair, line, code, said):
    done = shell(line, pair, *SHORT)
    assert (done.returncode, done.stderr) == (code, said)


AS_MAIN = "runpy.run_path('main.py', run_name='__main__')"
LACKING = {  # what a Python lacks: its words, the exit code, output and errors
    "a package": (["-c", f"import runpy, sys; sys.modules['regex'] = None; {AS_MAIN}"],
                  2, "", "error: regex is not installed: pip install regex\n"),
    "newer features": (["-c", "import sys; sys.version_info = 3, 9, 18, 'final', 0; import main"],
              2, "", "error: this Python is 3.9: use 3.10 or newer\n"),
    "docstrings": (["-OO", "main.py", "--help"], 0, "no help: python -OO strips it\n", ""),
    "the folder": (["-I", "main.py"], 2, "", "error: python -I and -P leave out the folder of "
                   "main.py; run it without them\n"),
}  # fmt: skip


@pytest.mark.parametrize("what", LACKING)
def test_a_python_that_lacks_something_is_told_so_in_one_line(what):
    words, *expected = LACKING[what]
    done = python(*words)
    assert [done.returncode, done.stdout, done.stderr] == expected


def test_an_installed_program_gives_its_own_name(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/speculate", "check", "124M"])
    print_error(ValueError("fetch it with python main.py download 124M"))
    assert capsys.readouterr().err == "error: fetch it with speculate download 124M\n"
