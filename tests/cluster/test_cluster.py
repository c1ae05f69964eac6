"""--cluster: the file is that of one machine, whatever becomes of the workers."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import pytest
from command_line import (
    COMMAND,
    ENVIRONMENT,
    ROOT,
    assert_refused,
    partial_lines,
    process,
    running,
    timeless,
)
from decoding.cluster.failed import Failed
from toys import write_checkpoint

from backends import autotune
from checkpoints.folder import read_config

cloudpickle = pytest.importorskip("cloudpickle", reason="distributed is not installed")
dask = pytest.importorskip("dask", reason="distributed is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")
psutil = pytest.importorskip("psutil", reason="comes with distributed")

from decoding.cluster.submit import Cluster  # noqa: E402
from decoding.load import ModelSpec  # noqa: E402

from cli import several_prompts  # noqa: E402
from decoding.cluster import submit, worker  # noqa: E402

pytestmark = pytest.mark.slow  # nearly each starts processes

# what a test sends to a worker, which has no tests
cloudpickle.register_pickle_by_value(sys.modules[__name__])
PROMPTS = ["hello", "the end", "a", "over there", "12", "the the", "hello again", "one", "other"]
SHORT = "--n_tokens_to_generate=12"
MEMORY = 500_000_000  # bytes of a worker
METHOD = "distributed.worker.multiprocessing-method"
LOST = "distributed.deploy.lost-worker-timeout"


def scheduler(n_workers):
    how = {"threads_per_worker": 1, "memory_limit": MEMORY, "dashboard_address": ":0"}
    return distributed.LocalCluster(n_workers=n_workers, silence_logs=50, **how)


@pytest.fixture(scope="module")
def address():
    """That of a scheduler with two workers, each a process that is started again when it dies."""
    # forkserver: a worker starts again in half the time
    settings = {"distributed.scheduler.allowed-failures": 2, METHOD: "forkserver"}
    settings[LOST] = "1 day"  # a worker that takes longer to start again is given up
    with dask.config.set(settings), scheduler(2) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(PROMPTS) + "\n")
    return path


@pytest.fixture
def write(cli, file, tmp_path):
    """A function (name of a file, *flags) -> what generate returned, and its lines, timeless."""

    def call(name, *flags):
        out = tmp_path / f"{name}.jsonl"
        how = f"--out={out}", SHORT, "--temperature=0.8", "--batch_size=4"
        done = cli(f"--prompts={file}", *how, *flags)
        lines = out.read_text().splitlines() if out.exists() else []
        lines = [json.loads(line) for line in lines]
        assert all(line["kernels"].keys() == {"17M", "0.7M-17M"} for line in lines)
        return done, [timeless(line) for line in lines]

    return call


@pytest.fixture
def expected(write):
    """The lines of one machine."""
    return write("here")[1]


# ---------------------------------------------------------------- the same as on one machine


@pytest.mark.parametrize("local", [True, False])
def test_texts(write, address, local):
    _, expected = write("here", "--coupled")
    where = "local:1" if local else address
    with dask.config.set({METHOD: "spawn"}):  # as outside of the tests
        done, found = write("there", "--coupled", f"--cluster={where}")
    assert done.code == 0 and "9 prompts in" in done.err
    for one in expected:
        rate = one["speculative"]["usual_acceptance_rate"]  # of logits from other batches
        one["speculative"]["usual_acceptance_rate"] = pytest.approx(rate, rel=1e-5)
    assert found == expected and len(found) == len(PROMPTS)


def test_a_log(cli, file, tmp_path, address):
    how = f"--prompts={file}", "--n_prompts=0", SHORT, "--temperature=0.8"
    for name, *cluster in (["one"], ["two", f"--cluster={address}"]):
        out = f"--out={tmp_path / name}.jsonl"
        assert cli(*how, out, *cluster, command=["record"]).code == 0
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


@pytest.mark.parametrize("exact", [False, True])
def test_the_choice_of_kernels_is_sent(pair, monkeypatch, exact):
    spec = ModelSpec("17M", ("0.7M-17M",), str(pair), exact=exact)
    choices = submit.choose_kernels_once(spec, [read_config(pair / size) for size in spec.sizes])
    few = {kernel.few.n_rows for found in choices.values() for kernel in found.values()}
    assert (few == {1}) == exact
    expected = spec.kernels_in(spec.load(choices))
    monkeypatch.setattr(autotune, "time_candidates", pytest.fail)
    assert spec.kernels_in(spec.load(choices)) == expected and len(expected) == 2


def divided(models, items):
    return [1 / item for item in items]


def test_results_come_in_order(pair, address, capsys):
    with Cluster(address, ModelSpec("17M", (), str(pair), kernels="plain")) as cluster:
        assert [*cluster.run(divided, range(1, 50), 3)] == [1 / i for i in range(1, 50)]
        assert "note: 49 prompts in " in capsys.readouterr().err
        assert [*cluster.run(divided, [1], 3)] == [1]
        assert "note: 1 prompt in " in capsys.readouterr().err
        zero = "ZeroDivisionError: division by zero"
        assert [*cluster.run(divided, [1, 0, 2], 2)] == [1, Failed(zero), 0.5]
        assert capsys.readouterr().err == ""


def test_without_a_cluster_nothing_of_dask_is_imported():
    code = "import sys, main, experiments.replay.record\n"
    code += "assert not {'dask', 'distributed', 'cloudpickle'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=ENVIRONMENT, check=True)


# ---------------------------------------------------------------- what goes wrong with workers


WRITTEN = several_prompts.decode_in_batches
NUMBER = 6  # of the prompt that is a worker's ruin


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def greedy():
    """Take all memory there is."""
    held = []
    while True:
        held.append(b"x" * 20_000_000)
        time.sleep(0.01)


def endless():
    while True:
        pass


def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)


def failing():
    raise ZeroDivisionError("of this one")


def ruined(ruin, when, models, prompts, **how):
    """Writes the texts, but ruins a worker at that NUMBER: always, or until the file `when` is."""
    for prompt in prompts:
        if prompt.number == NUMBER and not (when and Path(when).exists()):
            if when:
                Path(when).touch()
            ruin()
        yield from WRITTEN(models, [prompt], **how)


def let(monkeypatch, ruin, when):
    monkeypatch.setattr(several_prompts, "decode_in_batches", partial(ruined, ruin, str(when)))


@pytest.mark.parametrize("ruin", [killed, greedy])
def test_a_worker_is_lost(write, expected, address, tmp_path, monkeypatch, ruin):
    """It is started again, and its prompts are written by others."""
    let(monkeypatch, ruin, tmp_path / "lost")
    done, found = write("there", f"--cluster={address}")
    assert done.code == 0 and (tmp_path / "lost").exists() and found == expected


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs POSIX signals")
@pytest.mark.parametrize("ruin", [endless, stopped])
def test_the_only_worker_hangs(write, expected, tmp_path, monkeypatch, ruin):
    """It computes for ever, or does nothing at all: it is killed, and another one started."""
    monkeypatch.setattr(submit, "GROUP_TIMEOUT", 1 if ruin is endless else 600)
    monkeypatch.setattr(submit, "HEARTBEAT_TIMEOUT", 1)  # a little more, as Dask says it
    let(monkeypatch, ruin, tmp_path / "lost")
    with dask.config.set({METHOD: "forkserver"}):
        done, found = write("there", "--cluster=local:1", "--kernels=plain")
    assert done.code == 0 and (tmp_path / "lost").exists() and found == expected


def hoarding(models, prompts, **how):
    """Writes the texts with so much memory in use that Dask would pause the worker."""
    held = b"x" * int(0.88 * MEMORY - psutil.Process().memory_info().rss)
    time.sleep(0.25)  # time for Dask to see that
    yield from WRITTEN(models, prompts, **how)
    del held


def test_all_workers_are_short_of_memory(write, expected, address, monkeypatch):
    """If all were paused, the run would wait for ever."""
    monkeypatch.setattr(several_prompts, "decode_in_batches", hoarding)
    done, found = write("there", f"--cluster={address}")
    assert done.code == 0 and found == expected


@pytest.mark.parametrize(
    "ruin, failed, why",
    [
        (failing, [5], "1 prompt failed: prompt 6: ZeroDivisionError: of this one"),
        (killed, [4, 5, 6, 7], "4 prompts failed: prompt 5: every worker that tried its"),
        (endless, [4, 5, 6, 7], "4 prompts failed: prompt 5: every worker that tried its"),
    ],
)
def test_what_fails_is_named_and_the_rest_kept(
    write, expected, address, tmp_path, monkeypatch, ruin, failed, why
):
    """A prompt that raises, or the group of one that kills its worker or never ends."""
    monkeypatch.setattr(submit, "GROUP_TIMEOUT", 4 if ruin is endless else 600)
    let(monkeypatch, ruin, "")
    done, found = write("there", f"--cluster={address}")
    assert_refused(done, why)
    assert not found
    _, *kept = partial_lines(tmp_path / "there.jsonl.partial")
    kept = {place: timeless(line) for place, line in kept}
    assert kept == {i: line for i, line in enumerate(expected) if i not in failed}


def test_a_prompt_that_fails_is_named_and_a_worker_is_quiet(pair, tmp_path):
    """A model that overflows gives no warning of NumPy's, as on one machine."""
    flags = [f"--out={tmp_path / 'o.jsonl'}", "--target_model_size=huge", "--kernels=plain"]
    done = process(pair, "--prompt_ids=1,2", *flags, "--cluster=local:1")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"prompt 1: FloatingPointError" in done.stderr


def wait_for(happened, process=None):
    limit = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < limit and (process is None or process.poll() is None)
        time.sleep(0.05)


@pytest.mark.skipif(os.name != "posix", reason="needs a process group")
@pytest.mark.parametrize("when", ["workers begin", "workers decode"])
def test_an_interruption_is_quiet(pair, tmp_path, when):
    """That of Ctrl-C, which a terminal sends to the workers as well."""
    file, out = tmp_path / "many.txt", tmp_path / "o.jsonl"
    file.write_text("hello\n" * 9999)
    flags = [f"--models_dir={pair}", f"--prompts={file}", f"--out={out}", "--kernels=plain"]
    command = [*COMMAND, *flags, SHORT, "--cluster=local:2"]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with running(command, env=ENVIRONMENT, start_new_session=True, **streams) as decoder:
        begun = {
            # beside the workers there is multiprocessing's own process
            "workers begin": lambda: len(psutil.Process(decoder.pid).children()) > 1,
            "workers decode": lambda: any(one.stat().st_size for one in tmp_path.glob("*.partial")),
        }[when]
        wait_for(begun, decoder)
        os.killpg(decoder.pid, signal.SIGINT)
        said = decoder.communicate(timeout=60)[1]
    assert decoder.returncode == 130 and not out.exists()
    assert said == f"note: {file}: read 9999 prompts, one a line\n".encode()


def test_workers_that_cannot_be_started_are_one_line(cli, file, tmp_path):
    out = tmp_path / "o.jsonl"
    with dask.config.set({"temporary-directory": str(file / "no folder")}):
        done = cli(f"--prompts={file}", f"--out={out}", "--cluster=local:1")
    assert_refused(done, "--cluster local:1: Cluster failed to start: ", "cannot be started")
    assert [*tmp_path.iterdir()] == [file]


def test_workers_that_cannot_be_started_leave_ctrl_c_as_it_was(monkeypatch):
    monkeypatch.delattr(submit, "LocalCluster")
    with pytest.raises(NameError), submit.start_workers(1):
        pass
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_scheduler_without_the_project_and_when_it_disappears(
    write, expected, tmp_path, monkeypatch
):
    file, begun = tmp_path / "scheduler.json", tmp_path / "begun"
    common = ["--scheduler-file", str(file), "--dashboard-address", ":0"]
    scheduler = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common]
    # it waits for the file
    start = ["decoding.cluster.worker", "--nthreads", "1", "--no-nanny", *common]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with (
        running([sys.executable, "-m", *scheduler], cwd=tmp_path, **quiet) as process,
        running([sys.executable, "-m", *start], cwd=ROOT, **quiet) as one,
    ):
        wait_for(lambda: file.exists() and file.read_text(), process)
        address = json.loads(file.read_text())["address"]
        done, found = write("bare", f"--cluster={address}")
        assert done.code == 0 and found == expected
        let(monkeypatch, partial(end, process.pid), begun)
        monkeypatch.setattr(submit, "SCHEDULER_TIMEOUT", 1)
        done, found = write("there", f"--cluster={address}")
        assert one.wait(60) is not None  # the worker ends, too
    assert_refused(done, "the scheduler is gone, and its workers end; start both, ")
    assert not found
    done, found = write("there")
    assert done.code == 0 and found == expected


def end(pid):
    os.kill(pid, signal.SIGKILL)
    time.sleep(3600)


def test_a_worker_that_takes_long_to_start_again_is_not_given_up():
    """As on a busy machine: Dask's own time for it is made shorter than any start."""
    settings = {LOST: "1 ms", METHOD: "forkserver"}
    with dask.config.set(settings), submit.start_workers(1) as address:
        with distributed.Client(address) as client:
            ((worker_address, pid),) = client.run(os.getpid).items()
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: worker_address not in client.scheduler_info()["workers"])
            client.wait_for_workers(1, timeout=30)
            assert [*client.run(os.getpid).values()] != [pid]


# ---------------------------------------------------------------- workers that are refused


@contextmanager
def told_apart(address, function, *values):
    """Each of the two workers calls function(its value), and at last both function("")."""
    with distributed.Client(address) as client:
        client.wait_for_workers(2, timeout=120)
        for at, value in zip(client.scheduler_info()["workers"], values):
            client.run(function, value, workers=[at])
        yield
        client.run(function, "")


def test_no_worker_can_take_part(write, address, monkeypatch):
    done, _ = write("there", f"--cluster={address}", "--backend=cupy")
    assert_refused(done, "no worker can take part: ", "backend 'cupy'")
    loader = worker.Loader

    def old(name, data):
        spec, choices, expected = pickle.loads(data)
        return loader(name, pickle.dumps((spec, choices, expected | {"project": "old"})))

    monkeypatch.setattr(worker, "Loader", old)
    done, _ = write("there", f"--cluster={address}")
    assert_refused(done, "no worker can take part: ", "has other files of project")


def has_models_in(folder):
    """Let this process find the project's own models in a folder."""
    from checkpoints.registry import MODELS_DIR

    ModelSpec.models_dir = folder or MODELS_DIR


def test_one_of_two_workers_is_refused(write, pair, address, tmp_path, monkeypatch):
    """It has other files in its own place for models."""
    other = write_checkpoint(tmp_path / "other" / "17M").parent
    write_checkpoint(other / "0.7M-17M")
    monkeypatch.setattr("decoding.load.MODELS_DIR", str(pair))
    with told_apart(address, has_models_in, str(pair), str(other)):
        done, found = write("there", f"--cluster={address}")
    assert done.code == 0 and len(found) == len(PROMPTS)
    assert (
        "left out: " in done.err and "has other files of 17M; " in done.err and "1 x " in done.err
    )


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("cluster", ["local:0", "local:x", "local:9999", "tcp://host", "host:8786"])
def test_an_address_that_is_none(cli, file, cluster):
    done = cli(f"--prompts={file}", f"--cluster={cluster}")
    assert_refused(done, f"--cluster {cluster!r}: expected local:N")


@pytest.mark.parametrize("there, what", [(False, "trying to connect"), (True, "0/1 workers")])
def test_nobody_is_there(cli, file, monkeypatch, tmp_path, there, what):
    monkeypatch.setattr(submit, "SCHEDULER_TIMEOUT", 0.5)
    monkeypatch.setattr(submit, "FIRST_WORKER_TIMEOUT", 0.5)
    with scheduler(0) if there else nullcontext() as cluster:
        where = cluster.scheduler_address if there else "tcp://127.0.0.1:9"
        done = cli(f"--prompts={file}", f"--cluster={where}", f"--out={tmp_path / 'o'}.jsonl")
    assert_refused(done, f"--cluster {where}: ", what)
    assert [*tmp_path.iterdir()] == [file]


def test_the_extra_is_not_installed(cli, file, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "decoding.cluster.submit")
    done = cli(f"--prompts={file}", "--cluster=local:2")
    assert_refused(done, "distributed is not installed", "pip install distributed")


# ---------------------------------------------------------------- the container of a worker


def test_the_container_has_what_a_worker_compares_loads_and_starts():
    """Its fingerprint is that of the sources; one that lacks some would be refused."""
    dockerfile = (ROOT / "decoding" / "cluster" / "Dockerfile").read_text(encoding="utf-8")
    assert f'"-m", "{worker.__name__}"' in dockerfile
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()[1:]
    needed = [path for glob in worker.SOURCES for path in ROOT.glob(glob)]
    needed += ROOT / "requirements.txt", ROOT / "models" / "17M" / "model.safetensors"
    for path in needed:  # the lines of .dockerignore name what is at the top
        top = path.relative_to(ROOT).parts[0]
        assert path.exists() and not any(fnmatch(top, line) for line in ignored), path
