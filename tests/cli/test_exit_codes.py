"""How a program ends: exit codes, and one line on stderr that no terminal obeys."""

import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.cli.exit_codes import exit_code, print_error
from utils import InputError

NASTY = "\x1b[2J\x07\r\n\x9b31m\u202e\u2028\0\udcff\t"


def raiser(error):
    def run():
        raise error

    return run


@pytest.mark.parametrize(
    "error, code",
    [
        (InputError("a"), 2),
        (MemoryError("a"), 2),
        (FloatingPointError("a"), 2),
        (ModuleNotFoundError("a", name="a"), 2),
        (KeyboardInterrupt(), 130),
    ],
)
def test_codes(capsys, error, code):
    assert exit_code(raiser(error)) == code
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == (code == 2)


def test_a_bug_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        exit_code(lambda: 1 / 0)


def test_what_ends_well_has_no_code(capsys):
    assert exit_code(lambda: print("é")) == 0 and capsys.readouterr().out == "é\n"


@pytest.mark.parametrize("kind", [InputError, MemoryError, FloatingPointError])
def test_control_characters_never_reach_the_terminal(capsys, kind):
    assert exit_code(raiser(kind(f"file: {NASTY} é"))) == 2
    err = capsys.readouterr().err
    assert err[:-1].isprintable() and err.endswith(" é\n") and r"\x1b[2J" in err


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=())))
def test_any_message_is_one_printable_line(capsys, text):
    print_error(text)
    line = capsys.readouterr().err
    assert line.startswith("error: ") and line[:-1].isprintable() and line[-1] == "\n"


@pytest.mark.parametrize("name", ["vocab.json", "config.json"])
def test_the_keys_of_a_file_are_shown_escaped(cli, pair, tmp_path, name):
    """A model folder whose JSON has control characters in its keys."""
    folder = tmp_path / "evil"
    shutil.copytree(pair / "17M", folder)
    content = json.loads((folder / name).read_text())
    if name == "config.json":
        content["n_head"] = NASTY
    else:
        first = next(iter(content))
        content = {NASTY if key == first else key: i for key, i in content.items()}
    (folder / name).write_text(json.dumps(content))
    done = cli("--target_model_size", folder)
    assert done.code == 2 and done.err[:-1].isprintable() and done.err.count("\n") == 1
