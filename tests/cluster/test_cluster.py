"""--cluster: the file is that of one machine, whatever becomes of the workers."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import COMMAND, ENVIRONMENT, ROOT, assert_refused, process, timeless
from toys import TINY, random_tensors, write_checkpoint

from experiments.commands import benchmark as benchmarking
from experiments.commands import record as recording
from experiments.data.lines import Failed
from experiments.showing import tables
from experiments.training import evaluate as evaluating
from utils import InputError

cloudpickle = pytest.importorskip("cloudpickle", reason="distributed is not installed")
dask = pytest.importorskip("dask", reason="distributed is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")

from experiments.cluster import connect, models, submit, worker  # noqa: E402
from experiments.cluster.models import Wanted  # noqa: E402
from experiments.cluster.submit import Cluster  # noqa: E402

# what a test sends to a worker, which has no tests
cloudpickle.register_pickle_by_value(sys.modules[__name__])
TEXTS = ["hello", "the end", "a", "over there", "12", "the the", "hello again", "one", "other"]
SHORT = "--n_tokens_to_generate=12"
DEATHS = 1  # that a group survives, here
MEMORY = 500_000_000  # bytes of a worker
METHOD = "distributed.worker.multiprocessing-method"


def scheduler(n_workers):
    return distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        memory_limit=MEMORY,
        dashboard_address=":0",
        silence_logs=50,
    )


@pytest.fixture(scope="module")
def address():
    """That of a scheduler with two workers, each a process that is started again when it dies."""
    settings = {"distributed.scheduler.allowed-failures": DEATHS}
    if "forkserver" in multiprocessing.get_all_start_methods():
        settings[METHOD] = "forkserver"  # a worker starts again in half the time
    with dask.config.set(settings), scheduler(2) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


@pytest.fixture
def record(cli, file, tmp_path):
    """A function (*flags) -> what record returned, and the bytes of its log."""

    def call(*flags, name="log.jsonl"):
        out = tmp_path / name
        short = [SHORT, "--n_prompts=0", "--temperature=0.8"]
        done = cli(f"--prompts={file}", f"--out={out}", *short, *flags, command=["record"])
        return done, out.read_bytes() if out.exists() else None

    return call


# ---------------------------------------------------------------- the same as on one machine


@pytest.mark.parametrize("local", [True, False])
def test_texts(cli, file, tmp_path, address, local):
    flags = [f"--prompts={file}", SHORT, "--temperature=0.8", "--coupled"]
    lines, rates = [], []
    for cluster in ([], [f"--cluster={'local:1' if local else address}"]):
        out = tmp_path / f"{len(lines)}.jsonl"
        with dask.config.set({METHOD: "spawn"}):  # as outside of the tests
            assert cli(*flags, f"--out={out}", "--batch_size=2", *cluster).code == 0
        lines.append([timeless(json.loads(line)) for line in out.read_text().splitlines()])
        rates.append([one["speculative"].pop("usual_acceptance_rate") for one in lines[-1]])
    assert lines[0] == lines[1] and len(lines[0]) == len(TEXTS)
    assert rates[0] == pytest.approx(rates[1], rel=1e-5)  # of logits from other batches


def test_a_log(record, address):
    (alone, one), (together, two) = record(), record(f"--cluster={address}", name="two.jsonl")
    assert one == two and one and alone.code == together.code == 0
    assert "9 prompts in" in together.err and "2 x " in together.err


@pytest.fixture
def benchmark(cli, file):
    flags = [f"--prompts={file}", "--n_tokens_to_generate=10", "--repeats=1", "--K=3"]
    flags += ["--n_prompts=3", "--temperature=1"]
    return lambda *more: cli(*flags, *more, command=["benchmark"])


def called(node):
    """Let this process think that its machine has this name."""
    import platform

    platform.node = lambda: node


@pytest.fixture
def two_machines(address):
    """The address of the scheduler, while each of its workers says it is a machine of its own."""
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(2)
        for at, node in zip(client.scheduler_info()["workers"], ("fast", "slow")):
            client.run(called, node, workers=[at])
        yield address
        client.run(called, "here")


def test_a_benchmark(benchmark, two_machines):
    """The figures that do not depend on time are those of one machine; each row has the speeds of
    both, and says which are those of both together.
    """
    results = []
    for cluster in ([], [f"--cluster={two_machines}"]):
        done = benchmark("--json", *cluster)
        assert done.code == 0
        results.append(json.loads(done.out))
    for one, two in zip(*(result["rows"] for result in results)):
        for name in ("draft", "K", "temperature", "prompts", "tokens", "accepted_histogram"):
            assert one[name] == two[name]
        assert len(one["machines"]) == 1 and "machines:" not in str(one["flags"])
        # the prompts of each machine, and its own times: together they give those of the row
        parts = two["machines"]
        assert sorted(name.split()[0] for name in parts) == ["fast", "slow"]
        assert sorted(part["prompts"] for part in parts.values()) == [1, 2]
        for speed in ("tokens_per_second", "autoregressive_tokens_per_second"):
            seconds = [part["prompts"] * 10 / part[speed] for part in parts.values()]
            assert two[speed] == pytest.approx(two["tokens"] / sum(seconds))
        note = next(flag for flag in two["flags"] if flag.startswith("machines:"))
        assert all(f"{part['prompts']} on {name}" in note for name, part in parts.items())
        assert f". {note}\n" in tables.markdown(results[1])
    alone, together = (result["machine"] for result in results)
    assert "workers" not in alone and [*together["workers"].values()] == [1, 1]
    assert together["workers"].keys() == parts.keys()
    assert alone["kernels"] == together["kernels"]


@pytest.fixture
def evaluate(pair, tmp_path, capsys):
    """A function (cluster) -> the JSON object that evaluate prints of two stories, its error."""
    story = "the old king then thanked the other thing " * 3
    (tmp_path / "a_valid.txt").write_text(f"{story}\n<|endoftext|>\n{story[4:]}\n")
    how = {"models_dir": str(pair), "K": "1,3", "n_tokens": 8, "repeats": 1}

    def call(cluster):
        error = None
        try:
            evaluating.evaluate(str(tmp_path), **how, cluster=cluster)
        except InputError as found:
            error = str(found)
        return json.loads(capsys.readouterr().out.splitlines()[-1]), error

    return call


def test_held_out_text(evaluate, address):
    (one, none), (two, nothing) = evaluate(""), evaluate(address)
    assert none is nothing is None
    assert one["bits_per_byte"] == pytest.approx(two["bits_per_byte"], rel=1e-5)
    for key in ("T=0 K=1", "T=1 K=3"):
        assert one[key]["acceptance_by_position"] == two[key]["acceptance_by_position"]


@pytest.mark.parametrize("exact", [False, True])
def test_the_choice_of_kernels_is_sent(pair, monkeypatch, exact):
    wanted = Wanted("17M", ("0.7M-17M",), str(pair), exact=exact)
    choices = wanted.choices()
    one_by_one = {
        kernel.together == (1, 1, 1) for found in choices.values() for kernel in found.values()
    }
    assert one_by_one == {exact}
    expected = models.kernels_in(wanted.load(choices), "17M")
    monkeypatch.setattr(models.autotune, "chosen_kernels", pytest.fail)
    assert models.kernels_in(wanted.load(choices), "17M") == expected and len(expected) == 2


def test_without_a_cluster_nothing_of_dask_is_imported():
    code = "import sys, main; from experiments.commands import record, benchmark\n"
    code += "from experiments.training import evaluate\n"
    code += "assert not {'dask', 'distributed', 'cloudpickle'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=ENVIRONMENT, check=True)


# ---------------------------------------------------------------- what goes wrong with workers


RECORDED = recording.recorded


def once(path):
    """Whether this is the first time that it is asked."""
    try:
        Path(path).open("x").close()
        return True
    except FileExistsError:
        return False


def deadly(path, settings, pairs, items):
    """Records, but the first worker that meets the sixth prompt is killed."""
    for item in items:
        if item[0] == 5 and once(path):
            os.kill(os.getpid(), signal.SIGKILL)
        yield from RECORDED(settings, pairs, [item])


def greedy(path, settings, pairs, items):
    """Records, but the first worker that meets the sixth prompt takes all memory it can get."""
    held = []
    for item in items:
        while item[0] == 5 and (held or once(path)):
            held.append(b"x" * 20_000_000)
            time.sleep(0.01)
        yield from RECORDED(settings, pairs, [item])


def hold(share):
    """Let this process hold so much of a worker's memory, until it is asked again."""
    import builtins

    import psutil

    builtins.held = None
    used = psutil.Process().memory_info().rss
    builtins.held = b"x" * max(0, int(share * MEMORY) - used)


def hoarding(settings, pairs, items):
    hold(0.88)
    time.sleep(0.25)  # time for Dask to see that
    yield from RECORDED(settings, pairs, items)


def always_deadly(settings, pairs, items):
    for item in items:
        if item[0] == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        yield from RECORDED(settings, pairs, [item])


def hanging(path, settings, pairs, items):
    for item in items:
        if item[0] == 5 and once(path):
            time.sleep(3600)
        yield from RECORDED(settings, pairs, [item])


def raising(settings, pairs, items):
    for item in items:
        if item[0] in (2, 5):
            raise ZeroDivisionError(f"of {item[0]}")
        yield from RECORDED(settings, pairs, [item])


def patched(monkeypatch, function, *first):
    """recording.recorded is this function, its first arguments given."""
    if first:
        from functools import partial

        function = partial(function, *first)
    monkeypatch.setattr(recording, "recorded", function)


def test_a_worker_is_killed(record, address, tmp_path, monkeypatch):
    _, expected = record()
    patched(monkeypatch, deadly, str(tmp_path / "killed"))
    done, found = record(f"--cluster={address}", name="two.jsonl")
    assert done.code == 0 and (tmp_path / "killed").exists() and found == expected


def test_a_worker_runs_out_of_memory(record, address, tmp_path, monkeypatch):
    _, expected = record()
    patched(monkeypatch, greedy, str(tmp_path / "greedy"))
    done, found = record(f"--cluster={address}", name="two.jsonl")
    assert done.code == 0 and (tmp_path / "greedy").exists() and found == expected


def test_all_workers_are_short_of_memory(record, address, monkeypatch):
    """Dask would pause them, and the run would wait for ever."""
    _, expected = record()
    patched(monkeypatch, hoarding)
    done, found = record(f"--cluster={address}", name="two.jsonl")
    with distributed.Client(address, set_as_default=False) as client:
        client.run(hold, 0)
    assert done.code == 0 and found == expected


def test_a_worker_hangs(record, address, tmp_path, monkeypatch):
    _, expected = record()
    patched(monkeypatch, hanging, str(tmp_path / "hung"))
    for name in ("FIRST_LIMIT", "LEAST_LIMIT"):
        monkeypatch.setattr(submit, name, 1.5)
    done, found = record(f"--cluster={address}", name="two.jsonl")
    assert done.code == 0 and (tmp_path / "hung").exists() and found == expected


@pytest.mark.parametrize("function, places", [(raising, [2, 5]), (always_deadly, [5])])
def test_what_fails_three_times_is_named_and_the_rest_kept(
    record, address, tmp_path, monkeypatch, function, places
):
    _, expected = record()
    with monkeypatch.context() as patch:
        patched(patch, function)
        done, found = record(f"--cluster={address}", name="two.jsonl")
    assert_refused(done, f"{len(places)} prompt", " failed three times: ")
    for place in places:
        assert f"prompt {place + 1}: " in done.err
    assert found is None
    kept = (tmp_path / "two.jsonl.partial").read_bytes().splitlines(keepends=True)
    lines = expected.splitlines(keepends=True)
    assert [i for i, line in enumerate(kept[1:]) if line != lines[1 + i]] == places
    # the same command tries them again, here or on the cluster, and them alone
    calls = []

    def counted(settings, pairs, items):
        calls.extend(items)
        return RECORDED(settings, pairs, items)

    monkeypatch.setattr(recording, "recorded", counted)
    done, found = record(name="two.jsonl")
    assert done.code == 0 and found == expected
    assert [i for i, _ in calls] == places


def test_token_ids_that_fail_are_named_and_a_worker_is_quiet(pair, tmp_path):
    """A model that overflows gives no warning of NumPy's, as on one machine."""
    flags = [f"--out={tmp_path / 'o.jsonl'}", "--target_model_size=huge", "--kernels=plain"]
    done = process(pair, "--prompt_ids=1,2", *flags, "--cluster=local:1")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"prompt 1 ([1, 2]): FloatingPointError" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs a process group")
@pytest.mark.parametrize("when, lines", [("workers begin", {0, 1}), ("workers decode", {1})])
def test_an_interruption_is_one_line_at_most(pair, tmp_path, when, lines):
    """Of Ctrl-C, which a terminal sends to the workers as well."""
    import psutil  # comes with distributed

    file, out = tmp_path / "many.txt", tmp_path / "o.jsonl"
    file.write_text("hello\n" * 9999)
    flags = [f"--models_dir={pair}", f"--prompts={file}", f"--out={out}", "--kernels=plain"]
    command, quiet = [*COMMAND, *flags, SHORT, "--cluster=local:2"], {"stdout": subprocess.DEVNULL}
    with subprocess.Popen(
        command, env=ENVIRONMENT, stderr=subprocess.PIPE, start_new_session=True, **quiet
    ) as running:
        begun = {
            # beside the workers there is multiprocessing's own process
            "workers begin": lambda: len(psutil.Process(running.pid).children()) > 1,
            "workers decode": lambda: any(one.stat().st_size for one in tmp_path.glob("*.partial")),
        }[when]
        while not begun():
            assert running.poll() is None
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)
        said = running.communicate(timeout=60)[1]
    assert running.returncode == 130 and not out.exists()
    assert said.count(b"\n") in lines and b"Traceback" not in said


MEASURED = benchmarking.measured


def unmeasured(settings, pairs, items):
    for t, i, ids in items:
        if i == 1:
            raise ZeroDivisionError("of prompt 2")
        yield from MEASURED(settings, pairs, [(t, i, ids)])


def test_a_benchmark_without_a_prompt_that_fails(benchmark, address, tmp_path, monkeypatch):
    """The table is that of the others. With --out, --resume measures it alone."""
    where, out = f"--cluster={address}", tmp_path / "results.json"
    name = "17M at temperature 1, prompt 2"
    with monkeypatch.context() as patch:
        patch.setattr(benchmarking, "measured", unmeasured)
        done = benchmark(where)
        stored = benchmark(where, "--json", f"--out={out}")
    for one in (done, stored):
        assert one.code == 2 and f"error: 1 prompt failed three times: {name}: Zero" in one.err
    assert "2 prompts (0 skipped" in done.out and f"Not measured: {name} (Zero" in done.out
    result = json.loads(stored.out)
    assert [row["prompts"] for row in result["rows"]] == [2, 2]
    assert [*result["failed"]] == [name] and "kept 2 measured prompts" in stored.err
    assert not out.exists()
    resumed = json.loads(benchmark("--json", f"--out={out}", "--resume").out)
    assert out.exists() and "failed" not in resumed
    assert [row["prompts"] for row in resumed["rows"]] == [3, 3]
    assert resumed["machine"]["prompts_measured_before_resuming"] == 2


def test_a_benchmark_of_which_nothing_is_left(benchmark, address, monkeypatch):
    monkeypatch.setattr(benchmarking, "measured", lambda settings, pairs, items: [1 / 0])
    assert_refused(benchmark(f"--cluster={address}"), "3 prompts failed three times")


BITS_IN, CONTINUED = evaluating.bits_in, evaluating.measured


def scored(pairs, texts):
    return [1 / 0] if any(text.startswith("old") for text in texts) else BITS_IN(pairs, texts)


def continued(n_tokens, repeats, pairs, items):
    for item in items:
        if item.temperature == 0 and (item.number == 1 or item.K == 3):
            raise ZeroDivisionError("of this one")
        yield from CONTINUED(n_tokens, repeats, pairs, [item])


def test_held_out_text_of_which_some_fails(evaluate, address, monkeypatch):
    whole, _ = evaluate("")
    monkeypatch.setattr(evaluating, "bits_in", scored)
    monkeypatch.setattr(evaluating, "measured", continued)
    found, error = evaluate(address)
    named = [
        "bits per byte of the story 'old king then thanked the othe'",
        "story 2 at K 1 and temperature 0",
        "story 1 at K 3 and temperature 0",
        "story 2 at K 3 and temperature 0",
    ]
    assert [*found["failed"]] == named and error.startswith("4 prompts failed three times: bits")
    assert found["bits_per_byte"] == pytest.approx(whole["bits_per_byte"], rel=0.1)
    assert "T=0 K=1" in found and "T=0 K=3" not in found
    places = "acceptance_by_position"
    assert found["T=1 K=3"][places] == whole["T=1 K=3"][places]


def squares(pairs, items):
    for item in items:
        yield item * item


def failing(pairs, items):
    return [1 / item for item in items]


def test_results_come_in_order(pair, address):
    with Cluster(address, Wanted("17M", (), str(pair), kernels="plain")) as cluster:
        assert [*cluster.run(squares, range(50), 3, str)] == [i * i for i in range(50)]
        assert [*cluster.run(squares, [], 3, str)] == []
        results = cluster.run(failing, [1, 0, 2], 2, str)
        assert [next(results) for _ in range(3)][1:] == [
            Failed("ZeroDivisionError: division by zero"),
            0.5,
        ]
        with pytest.raises(InputError, match="1 prompt failed three times: 0: ZeroDivisionError"):
            next(results)


def vanishing(stop, settings, pairs, items):
    """Records, but after the fourth prompt the scheduler ends."""
    for item in items:
        if item[0] == 4:
            os.kill(stop, signal.SIGKILL)
            time.sleep(3600)
        yield from RECORDED(settings, pairs, [item])


def test_the_scheduler_disappears(record, tmp_path, monkeypatch):
    _, expected = record()
    file = tmp_path / "scheduler.json"
    common = ["--scheduler-file", str(file), "--dashboard-address", ":0"]
    script = "from distributed.cli.dask_scheduler import main; main()"
    flags = ["--host", "127.0.0.1", "--port", "0", *common]
    quiet = {"cwd": ROOT, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    # a worker waits for the file
    start = ["-m", "experiments.cluster.worker", "--nthreads", "1", "--no-nanny", *common]
    with (
        subprocess.Popen([sys.executable, "-c", script, *flags], **quiet) as process,
        subprocess.Popen([sys.executable, *start], **quiet) as one,
    ):
        while not file.exists() or not file.read_text():
            assert process.poll() is None, "the scheduler ended"
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        patched(monkeypatch, vanishing, process.pid)
        monkeypatch.setattr(connect, "TIMEOUT", 1)
        done, found = record(f"--cluster={address}", name="two.jsonl")
        one.kill()
        process.kill()
    assert_refused(done, "the scheduler is gone; give the same command again to go on")
    assert found is None
    monkeypatch.undo()
    done, found = record(name="two.jsonl")
    assert done.code == 0 and found == expected


# ---------------------------------------------------------------- workers that are refused


@pytest.fixture
def texts(cli, file, address):
    return lambda *flags: cli(f"--prompts={file}", SHORT, f"--cluster={address}", *flags)


def test_another_version_is_refused(texts, monkeypatch):
    loader = worker.Loader
    monkeypatch.setattr(worker, "Loader", lambda name, project, data: loader(name, "old", data))
    assert_refused(texts(), "no worker can take part: has another version of the project")


def test_other_model_files_are_refused(texts, monkeypatch):
    found = Wanted.fingerprints
    monkeypatch.setattr(Wanted, "fingerprints", lambda self: found(self) | {"17M": "other"})
    assert_refused(texts(), "no worker can take part: has other files of the model 17M")


def test_a_fingerprint_is_of_the_bytes(pair, tmp_path):
    def of(folder):
        return Wanted("17M", (), str(folder)).fingerprints()

    for name, seed in (("same", 0), ("again", 0), ("other", 1)):
        write_checkpoint(tmp_path / name / "17M", tensors=random_tensors(TINY, seed))
    assert of(tmp_path / "same") == of(tmp_path / "again") != of(tmp_path / "other")
    with (tmp_path / "again" / "17M" / "merges.txt").open("a") as merges:
        merges.write("x y\n")
    assert of(tmp_path / "same") != of(tmp_path / "again")


def test_one_of_two_workers_is_refused(cli, file, pair, address, tmp_path, monkeypatch):
    """It has other files in its own place for models."""
    other = write_checkpoint(tmp_path / "other" / "17M").parent
    write_checkpoint(other / "0.7M-17M")
    monkeypatch.setattr(models, "MODELS_DIR", str(pair))
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(2)
        places = dict(zip(client.scheduler_info()["workers"], (str(pair), str(other))))
        for at, folder in places.items():
            client.run(has_models_in, folder, workers=[at])
        done = cli(f"--prompts={file}", SHORT, f"--cluster={address}", "--json", "--batch_size=1")
        client.run(has_models_in, utils_models_dir())
    assert done.code == 0 and done.out.count("\n") == len(TEXTS)
    assert "is refused: it has other files of the model 17M" in done.err and "1 x " in done.err


def utils_models_dir():
    import utils

    return utils.MODELS_DIR


def has_models_in(folder):
    from experiments.cluster import models

    models.MODELS_DIR = folder


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "cluster", ["local:0", "local:x", "local:257", "local", "tcp://host", "host:8786", "local:-1"]
)
def test_an_address_that_is_none(cli, file, cluster):
    done = cli(f"--prompts={file}", f"--cluster={cluster}")
    assert_refused(done, cluster, "expected local:N, with 1 to 256 workers, or tcp://HOST:PORT")


def test_a_scheduler_that_is_not_there(cli, file, monkeypatch, tmp_path):
    monkeypatch.setattr(connect, "TIMEOUT", 0.5)
    done = cli(
        f"--prompts={file}", SHORT, "--cluster=tcp://127.0.0.1:9", f"--out={tmp_path / 'o'}.jsonl"
    )
    assert_refused(done, "--cluster tcp://127.0.0.1:9: no scheduler answers there")
    assert [*tmp_path.iterdir()] == [file]


def test_a_scheduler_without_workers(cli, file, monkeypatch):
    monkeypatch.setattr(connect, "PATIENCE", 0.5)
    with scheduler(0) as cluster:
        done = cli(f"--prompts={file}", SHORT, f"--cluster={cluster.scheduler_address}")
    assert_refused(done, "has no worker", "python -m experiments.cluster.worker")


def test_the_extra_is_not_installed(cli, file, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = cli(f"--prompts={file}", "--cluster=local:2")
    assert_refused(done, "distributed is not installed", "requirements-cluster.txt")


def test_no_gpu_on_a_worker(texts):
    assert_refused(texts("--backend=cupy"), "no worker can take part: backend 'cupy'")


def test_a_single_prompt_needs_no_cluster(cli):
    assert_refused(cli("--cluster=local:2"), "--cluster local:2: expected several prompts")


def test_kernels_of_workers_are_not_shown(cli, file):
    done = cli(f"--prompts={file}", "--cluster=local:2", "--verbose")
    assert_refused(done, "--verbose with --cluster local:2", "the workers choose")
