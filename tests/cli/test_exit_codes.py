"""How a program ends: exit codes, and one line on stderr that no terminal obeys."""

import errno
import os
import signal
import subprocess
import sys

import pytest
from command_line import ENVIRONMENT, ROOT, running
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from checkpoints.errors import InputError, with_filename
from cli.exit_codes import run_for_exit_code

NASTY = "\x1b[2J\x07\r\n\x9b31m\u202e\u2028\0\udcff\t"


def ending_with(error):
    """What run_for_exit_code does of a program that ends so."""

    def run():
        raise error

    return run_for_exit_code(run)


@pytest.mark.parametrize("error", [MemoryError("a"), ModuleNotFoundError("a", name="a")])
def test_what_its_user_can_put_right_is_one_line(capsys, error):
    assert ending_with(error) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1


@pytest.mark.parametrize("number, advice", [(errno.ENOSPC, "make room"), (errno.EACCES, "use")])
def test_a_file_that_cannot_be_used_is_named(capsys, number, advice):
    def run():
        with with_filename("a file"):
            raise OSError(number, os.strerror(number))

    assert run_for_exit_code(run) == 2
    line = f"error: a file: {os.strerror(number)}; {advice}"
    assert capsys.readouterr().err.startswith(line)


def test_a_bug_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        run_for_exit_code(lambda: 1 / 0)


WRITING = """
import time
from cli.exit_codes import run_program
from checkpoints.output import create_atomically

def write():
    with create_atomically("result") as part:
        part.touch()
        print("begun", flush=True)
        time.sleep(60)

run_program(write)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs POSIX signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_what_is_half_written_is_cleared_away(tmp_path, name):
    number = getattr(signal, name)
    environment = ENVIRONMENT | {"PYTHONPATH": str(ROOT)}
    options = {"cwd": tmp_path, "env": environment, "stdout": subprocess.PIPE}
    # a test run may ignore the signal, as under nohup
    options["preexec_fn"] = lambda: signal.signal(number, signal.SIG_DFL)
    with running([sys.executable, "-c", WRITING], **options) as writer:
        assert writer.stdout.readline() == b"begun\n" and len([*tmp_path.iterdir()]) == 1
        writer.send_signal(number)
        writer.wait(60)
    assert (writer.returncode, [*tmp_path.iterdir()]) == (128 + number, [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(f"file: {NASTY} é")
@given(st.text(st.characters(exclude_categories=())))
def test_any_message_is_one_printable_line(capsys, text):
    assert ending_with(InputError(text)) == 2
    line = capsys.readouterr().err
    assert line.startswith("error: ") and line[:-1].isprintable() and line[-1] == "\n"
