"""--cluster: the file is that of one machine, whatever becomes of the workers."""

import gc
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from command_line import COMMAND, ENVIRONMENT, ROOT, lines_in, python, running, wait_until

distributed = pytest.importorskip("distributed", reason="distributed is not installed")
dask = pytest.importorskip("dask", reason="distributed is not installed")
cloudpickle = pytest.importorskip("cloudpickle", reason="distributed is not installed")

from cli import batch as module  # noqa: E402
from cli import cluster  # noqa: E402

pytestmark = pytest.mark.slow  # nearly each starts processes

# what a test sends to a worker, which has no tests
cloudpickle.register_pickle_by_value(sys.modules[__name__])
PROMPTS = ["hello", "the end", "a", "x" * 64, "12", "the the", "hello again", "one", "other"]
FLAGS = "--n_tokens_to_generate=12", "--temperature=0.8", "--batch_size=2"


@pytest.fixture(autouse=True)
def quick_to_start():
    """Workers that are forked, which start in half the time."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        yield


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(PROMPTS) + "\n")
    return path


@pytest.fixture
def write(cli, file, tmp_path):
    """A function (name of a file, *flags) -> what batch returned, and its lines, timeless."""

    def call(name, *flags):
        out = tmp_path / f"{name}.jsonl"
        done = cli(file, f"--out={out}", *FLAGS, *flags, command=["batch"])
        return done, lines_in(out.read_text() if out.exists() else "")

    return call


# ---------------------------------------------------------------- the same as on one machine


def test_as_many_workers_as_asked_for():
    with cluster.connect("local:1") as map_groups:
        assert len({*map_groups(lambda _: os.getpid(), range(8))}) == 1


@pytest.mark.parametrize("n", [1, 2])
def test_the_file_is_that_of_one_process_but_for_times(write, pair, file, tmp_path, n):
    _, expected = write("here")
    out = tmp_path / "there.jsonl"
    flags = f"--models_dir={pair}", f"--out={out}", *FLAGS, f"--cluster=local:{n}"
    done = python("main.py", "batch", str(file), *flags)
    said = "note: 1 of 9 prompts were refused: see the error in each\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", said)
    assert lines_in(out.read_text()) == expected


def test_a_run_on_a_cluster_is_gone_on_with_here(write, tmp_path):
    _, expected = write("file", "--cluster=local:1")
    out = tmp_path / "file.jsonl"
    out.write_bytes(out.read_bytes()[:-50])
    assert write("file") == (write("file")[0], expected)


def test_results_come_in_order():
    with cluster.connect("local:2") as map_groups:
        assert [*map_groups(partial(pow, 2), range(20))] == [2**i for i in range(20)]
        assert [*map_groups(partial(pow, 2), [])] == []
        with pytest.raises(ZeroDivisionError):
            [*map_groups(partial(divmod, 1), [1, 0])]


def test_without_a_cluster_nothing_of_dask_is_imported():
    code = "import sys, main, cli.batch\n"
    code += "assert not {'dask', 'distributed', 'cloudpickle'} & {*sys.modules}"
    assert python("-c", code).returncode == 0


# ---------------------------------------------------------------- what goes wrong with workers

WRITTEN = module.decode_jobs


def ruined(ruin, lost, *work):
    """Writes the texts, but ruins the worker at "12", until the file `lost` is there."""
    if any(job["prompt"] == "12" for job in work[-1]) and not (lost and Path(lost).exists()):
        if lost:
            Path(lost).touch()
        ruin()
    return WRITTEN(*work)


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def failing():
    raise ValueError("of this one")


@pytest.mark.parametrize("n", [1, 2])
def test_a_killed_worker_costs_no_text(write, tmp_path, monkeypatch, n):
    """It is started again, and its prompts are written by it or by another."""
    _, expected = write("here")
    lost = tmp_path / "lost"
    monkeypatch.setattr(module, "decode_jobs", partial(ruined, killed, str(lost)))
    done, found = write("there", f"--cluster=local:{n}")
    assert done.code == 0 and lost.exists() and found == expected


@pytest.mark.parametrize("ruin, said", [(killed, "workers"), (failing, "of this one")])
def test_what_ruins_every_worker_is_one_line_and_the_lines_before_it_are_kept(
    write, monkeypatch, ruin, said
):
    _, expected = write("here")
    monkeypatch.setattr(module, "decode_jobs", partial(ruined, ruin, ""))
    done, found = write("there", "--cluster=local:1")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and said in done.err
    # the groups before; of a killed worker, those whose lines had been fetched
    assert found == expected[: len(found) if ruin is killed else 4] and len(found) <= 4


@pytest.mark.skipif(os.name != "posix", reason="needs a process group")
def test_an_interruption_is_quiet(pair, tmp_path):
    """That of Ctrl-C, which a terminal sends to the workers as well."""
    file, out = tmp_path / "many.txt", tmp_path / "o.jsonl"
    file.write_text("hello\n" * 9999)
    flags = [str(file), f"--models_dir={pair}", f"--out={out}", *FLAGS, "--cluster=local:2"]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    options = {"env": ENVIRONMENT, "start_new_session": True}
    with running([*COMMAND, "batch", *flags], **options, **streams) as decoder:
        wait_until(lambda: out.exists() and out.stat().st_size, decoder)
        os.killpg(decoder.pid, signal.SIGINT)
        said = decoder.communicate(timeout=60)[1]
    assert (decoder.returncode, said) == (130, b"")


# ---------------------------------------------------------------- schedulers


NOWHERE = "local:x local: local:0 local:99999 tcp://127.0.0.1:1 tls://[::1]:1 nonsense".split()


@pytest.mark.parametrize("address", NOWHERE)
def test_a_scheduler_that_is_not_there_is_one_line(write, monkeypatch, address):
    monkeypatch.setattr(cluster, "TIMEOUT", 1)
    gc.collect()
    gc.disable()  # no client that failed is deleted while another starts, where Dask would hang
    try:
        done, found = write("there", f"--cluster={address}")
    finally:
        gc.enable()
        gc.collect()
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and not found
    assert f"error: --cluster {address}: " in done.err and "expected local:N" in done.err


@contextmanager
def scheduler(tmp_path, knows_the_project=True):
    """(its process, its address) of a scheduler with one worker."""
    file = tmp_path / "scheduler.json"
    common = ["--scheduler-file", str(file), "--dashboard-address", ":0"]
    start = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common]
    worker = ["distributed.cli.dask_worker", "--nthreads", "1", *common]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    python = [sys.executable, "-m"]
    folders = [ROOT, ROOT / "tests", ROOT / "tests" / "support"] if knows_the_project else []
    quiet["env"] = ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    with (
        running([*python, *start], cwd=tmp_path, **quiet) as process,
        running([*python, *worker], cwd=tmp_path, **quiet),
    ):
        wait_until(lambda: file.exists() and file.read_text(), process)
        yield process, json.loads(file.read_text())["address"]


def test_a_scheduler_elsewhere(write, tmp_path):
    _, expected = write("here")
    with scheduler(tmp_path) as (_, address):
        done, found = write("there", f"--cluster={address}")
    assert done.code == 0 and found == expected


def test_a_scheduler_without_the_project_is_one_line(write, tmp_path):
    with scheduler(tmp_path, knows_the_project=False) as (_, address):
        done, found = write("there", f"--cluster={address}")
    assert (done.code, found, done.err.count("\n")) == (2, [], 1)
    assert f"error: --cluster {address}: it cannot read the job; pip install ." in done.err


def end(pid):
    os.kill(pid, signal.SIGKILL)
    time.sleep(3600)


def test_a_scheduler_that_disappears_is_one_line(write, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "TIMEOUT", 1)
    with scheduler(tmp_path) as (process, address):
        ruin = partial(end, process.pid)
        monkeypatch.setattr(module, "decode_jobs", partial(ruined, ruin, ""))
        done, found = write("there", f"--cluster={address}")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"error: --cluster {address}: " in done.err
    monkeypatch.setattr(module, "decode_jobs", WRITTEN)
    assert write("there")[1][: len(found)] == found
