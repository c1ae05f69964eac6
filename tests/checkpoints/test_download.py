"""Models from both sources, from a cache and from folders; what the command line says of them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import ROOT, assert_refused
from file_server import once
from make_tf_fixture import FOLDER
from toys import NUMPY, TINY, random_tensors, refusal, write_checkpoint, write_shards

import utils
from checkpoints import download, locks, transfer
from checkpoints.folder import SHARDS_INDEX
from checkpoints.registry import TF_DATA as DATA
from checkpoints.search import find_cached, find_folder, locate

pytestmark = pytest.mark.usefixtures("alone")


# ---------------------------------------------------------------- whole models


@pytest.fixture
def sources(server, monkeypatch, tmp_path):
    """Both have 124M, Hugging Face also a model in one file, in several, and as a pickle."""
    files = {"/openai/124M/checkpoint": b'model_checkpoint_path: "model.ckpt"\n'}
    for path in FOLDER.iterdir():
        files[f"/openai/124M/{path.name}"] = path.read_bytes()
    whole = write_checkpoint(tmp_path / "theirs")
    shards = write_shards(whole, random_tensors(TINY))
    weights = {
        "openai-community/gpt2": ["model.safetensors"],
        "distilbert/distilgpt2": ["model.safetensors"],
        "some-body/tiny.gpt2": ["model.safetensors"],
        "some-body/shards": [SHARDS_INDEX, *shards],
        "some-body/pickle": [],
    }
    for repository, names in weights.items():
        for name in ["config.json", "vocab.json", "merges.txt", *names]:
            files[f"/hf/{repository}/resolve/main/{name}"] = (whole / name).read_bytes()
    server.files = files
    monkeypatch.setenv("GPT2_OPENAI_ENDPOINT", server.url + "/openai/")
    monkeypatch.setenv("HF_ENDPOINT", server.url + "/hf")
    monkeypatch.setattr(transfer, "sleep", lambda seconds: None)
    return server


@pytest.fixture
def models(tmp_path):
    return tmp_path / "m"


@pytest.fixture
def run(program, models):
    """A function (command, *words) -> code, out, err of main.py with that models_dir."""
    return lambda command, *words: program(command, f"--models_dir={models}", *words)


def behave(at, fault, first_only=False):
    """A behaviour with this fault for the files whose path has `at` in it."""
    return lambda path, first: fault if at in path and not (first and first_only) else {}


def test_from_openai_first(sources, run, models):
    done = run("download", "124M")
    assert (done.code, done.err) == (0, "") and str(models / "124M") in done.out
    names = {path.name for path in (models / "124M").iterdir()}
    assert names == {*download.OPENAI_FILES, transfer.RECORD}
    utils.load_models(["124M"], models, NUMPY)
    sources.requests.clear()
    assert run("download", "124M").code == 0 and not sources.requests


@pytest.mark.parametrize("fault", [{"status": 404}, {"status": 500}, {"cut": 0}])
def test_hugging_face_where_openai_fails(sources, run, models, fault):
    sources.behave = behave("data", fault)
    assert run("download", "124M").code == 0
    assert not list((models / "124M").glob("*.part"))
    assert utils.load_model(models / "124M", NUMPY).config == TINY


@pytest.mark.parametrize("source, host", [("openai", "openai"), ("huggingface", "hf")])
def test_one_source_only(sources, run, source, host):
    assert run("download", "124M", f"--source={source}").code == 0
    assert {path.split("/")[1] for path, _ in sources.requests} == {host}


def test_both_sources_fail(sources, run, models):
    sources.behave = lambda path, first: {"status": 403}
    done = run("download", "124M")
    assert_refused(done, "OpenAI: checkpoint: ", "Hugging Face: config.json: ")
    assert not (models / "124M").exists()


@pytest.mark.parametrize("size", ["some-body/tiny.gpt2", "some-body/shards", "82M"])
def test_hugging_face_only(sources, run, models, size):
    assert run("download", size).code == 0
    model = utils.load_model(find_folder(size, models), NUMPY)
    np.testing.assert_array_equal(model.params["wte"], random_tensors(TINY)["wte.weight"])
    assert run("download", size, "--source=openai").code == 2


def test_what_is_never_fetched(sources, run, models):
    assert_refused(run("download", "some-body/pickle"), "pickle")
    index = b'{"weight_map": {"wte": "../../x.safetensors"}}'
    sources.files[f"/hf/some-body/shards/resolve/main/{SHARDS_INDEX}"] = index
    assert_refused(run("download", "some-body/shards"), "weight_map")
    assert not list(models.rglob("x.safetensors"))


def test_credentials_are_used_and_never_kept(sources, run, models, monkeypatch):
    with_secret = sources.url.replace("//", "//user:sec@ret@")
    monkeypatch.setenv("GPT2_OPENAI_ENDPOINT", with_secret + "/openai")
    sources.behave = once({"cut": 3})
    done = run("download", "124M")
    assert done.code == 0 and sources.requests[1][1] == 3  # still the same address
    shown = run("check", "124M")
    assert f"vocab.bpe: size as {sources.url}/openai/124M stated\n" in shown.out
    record = (models / "124M" / transfer.RECORD).read_text()
    for word in ("user", "sec@", "ret@"):
        assert word not in record + done.out + done.err + shown.out + shown.err


@pytest.mark.parametrize("host", ["http://user:secret@127.0.0.1:9", "user:secret@host"])
def test_credentials_are_not_in_errors(sources, run, monkeypatch, host):
    monkeypatch.setenv("HF_ENDPOINT", host)
    done = run("download", "82M")
    assert_refused(done)
    assert "secret" not in done.err


# ---------------------------------------------------------------- what the command line says


@pytest.mark.parametrize("words, said", [
    ([], "error: download: expected sizes"),
    (["3B"], "error: download '3B': expected sizes"),
    (["124M", "x/../y"], "'x/../y'"),
    (["../gpt2"], "'../gpt2'"),
    (["124M", "--source=mars"], "'mars'"),
])  # fmt: skip
def test_words_that_are_no_download(run, models, words, said):
    assert_refused(run("download", *words), said)
    assert not models.exists()


def test_a_half_downloaded_folder_is_not_a_model(sources, run):
    """Nor is one that is not there; both errors say how to get it, and --download does."""
    generate = ["generate", "--target_model_size=124M", "--draft_model_size=ngram", "--prompt=a"]
    generate += ["--n_tokens_to_generate=2", "--kernels=plain"]
    assert_refused(run(*generate), "download 124M")
    sources.behave = lambda path, first: {"cut": 0} if "data" in path or "hf" in path else {}
    assert run("download", "124M").code == 2
    assert_refused(run(*generate), DATA, "download 124M")
    sources.behave, sources.requests[:] = once(), []
    assert run(*generate, "--download").code == 0
    assert {path for path, _ in sources.requests} == {f"/openai/124M/{DATA}"}


@pytest.mark.parametrize("answer, wanted", [("y\n", True), ("\n", False), ("", False)])
def test_at_a_terminal_it_asks(sources, capsys, models, monkeypatch, answer, wanted):
    terminal = SimpleNamespace(isatty=lambda: True, readline=lambda: answer)
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    if wanted:
        assert find_folder("124M", models) == models / "124M"
    else:
        refusal(find_folder, "124M", models)
    out, err = capsys.readouterr()
    assert "download 124M (0.5 GB)?" in err and out == ""


# ---------------------------------------------------------------- finding a model


def test_the_advice_for_a_missing_model_is_a_command_that_every_command_can_name(tmp_path):
    """Few commands have the flag --download."""
    message = refusal(find_folder, "124M", tmp_path)
    assert message.endswith("python main.py download 124M") and "--download" not in message


NAMES, PATHS = ["a", "b"], ["./a", "a/", "./b", "../a", ".", "..", "./.", "b/..", "o/n", "./o/n"]


@pytest.mark.parametrize("inside", [(), ("a", "o/n")])
@pytest.mark.parametrize("outside", [(), ("a", "o/n")])
def test_what_can_only_be_a_path_names_nothing_in_the_models_directory(
    tmp_path, monkeypatch, inside, outside
):
    """But for a download of owner/name, where there is no such path."""
    models, here = tmp_path / "models", tmp_path / "here"
    for folder in (models, here, *(models / x for x in inside), *(here / x for x in outside)):
        folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(here)
    for word in NAMES + PATHS:
        places = [Path(word)] if word in PATHS else [models / word, Path(word)]
        places += [models / word] if word == "o/n" else []
        expected = next((place for place in places if place.is_dir()), None)
        assert locate(word, models) == expected, word


@pytest.mark.parametrize("size", ["125M", "", "no/such/folder", "two\nlines", "\0"])
def test_an_unknown_size_lists_what_is_there(tmp_path, size):
    assert "there are none)" in refusal(find_folder, size, tmp_path)
    names = ["model.ckpt.index", "model.safetensors", "model.safetensors.index.json", "other"]
    for folder, name in zip("abcd", names):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()
    message = refusal(find_folder, size, tmp_path)
    assert repr(size) in message and f"{tmp_path} (there are a, b, c)" in message


CACHES = {  # of the variable that names it: where a model then is
    "HF_HOME": "x/hub/models--openai-community--gpt2",
    "HF_HUB_CACHE": "x/models--gpt2",
    "XDG_CACHE_HOME": "x/huggingface/hub/models--gpt2",
}


def in_cache(model, commit=b"abc\n"):
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_bytes(commit)
    return write_checkpoint(model / "snapshots" / "abc")


@pytest.mark.parametrize("variable", CACHES)
def test_the_cache_of_hugging_face(server, run, models, tmp_path, monkeypatch, variable):
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv(variable, str(tmp_path / "x"))
    folder = in_cache(tmp_path / CACHES[variable])
    assert find_folder("124M", models) == folder
    done = run("download", "124M")
    assert done.code == 0 and str(folder) in done.out and not server.requests
    (folder / "merges.txt").unlink()  # incomplete: as if it were not there
    refusal(find_folder, "124M", models)


@pytest.mark.parametrize("commit", [b"abd", b"", b"\xff\xfe", b"\0\0"])
def test_a_damaged_cache_is_skipped(tmp_path, commit):
    """And the repository's older name in the same cache is tried."""
    hub = tmp_path / "hf" / "hub"
    in_cache(hub / "models--openai-community--gpt2", commit)
    assert find_cached("124M") is None
    whole = in_cache(hub / "models--gpt2")
    assert find_cached("124M") == whole


# ---------------------------------------------------------------- processes


SCRIPT = """
import sys
from checkpoints import download, transfer
transfer.CHUNK, transfer.sleep = 256, lambda seconds: None
print(download.fetch_model("124M", sys.argv[1]))
"""


def start(models):
    command, pipe = [sys.executable, "-c", SCRIPT, str(models)], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.skipif(locks.fcntl is None, reason="no file locks on this system")
def test_two_processes_fetch_a_file_once(sources, models):
    sources.behave = behave("data", {"cut": 2000, "stall": 0.5}, first_only=True)
    processes = [start(models) for _ in range(2)]
    ends = [process.communicate(timeout=60) for process in processes]
    assert all(process.returncode == 0 for process in processes), ends
    assert len(sources.requests) == len(download.OPENAI_FILES) + 1  # the one that went on
    assert (models / "124M" / DATA).read_bytes() == (FOLDER / DATA).read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="no signals on this system")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_download_is_resumed(sources, models, number):
    sources.behave = behave("data", {"cut": 3000, "stall": 30}, first_only=True)
    process, part = start(models), models / "124M" / (DATA + ".part")
    for _ in range(600):
        if part.is_file() and part.stat().st_size >= 2000:
            break
        time.sleep(0.05) if process.poll() is None else pytest.fail(process.communicate()[1])
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0 and part.is_file()
    sources.requests.clear()
    assert download.fetch_model("124M", models) == models / "124M"
    assert len(sources.requests) == 1 and sources.requests[0][1] >= 2000


@pytest.mark.parametrize("command", ["download", "generate"])
def test_a_folder_that_cannot_be_written_says_what_to_do(command, program, tmp_path):
    (tmp_path / "file").write_text("")
    place = f"--models_dir={tmp_path / 'file'}"
    words = {"download": ["124M"], "generate": ["--target_model_size=124M", "--download"]}
    done = program(command, place, *words[command])
    assert_refused(done, str(tmp_path / "file"), "use another --models_dir")
