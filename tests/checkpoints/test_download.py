"""Downloads over connections and from servers that fail in every way, and finding a model."""

import hashlib
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
from file_server import CONTENT, OTHER, md5_of, once
from make_tf_fixture import FOLDER
from toys import NUMPY, TINY, random_tensors, refusal, write_checkpoint, write_shards

import utils
from checkpoints import download
from checkpoints.search import find_cached, find_folder, locate

pytestmark = pytest.mark.usefixtures("alone")
DATA = "model.ckpt.data-00000-of-00001"
INDEX = "model.safetensors.index.json"

# ---------------------------------------------------------------- one file


@pytest.fixture
def get(server, tmp_path, monkeypatch):
    """A function () -> the bytes as fetched; .waits are the seconds it would have slept."""

    def get(folder=server.url):
        get.waits.clear()
        download.fetch(folder, get.path)
        return get.path.read_bytes()

    get.waits = []
    monkeypatch.setattr(download, "sleep", get.waits.append)
    get.path = tmp_path / "file.bin"
    server.files["/file.bin"] = CONTENT
    return get


def test_every_wait_says_the_server_the_attempt_and_the_seconds(get, server):
    server.behave = once({"status": 429}, {"status": 503})
    with pytest.warns(UserWarning) as notes:
        get()
    one, two = (str(note.message) for note in notes)
    assert "127.0.0.1" in one and one.endswith("429; attempt 2 of 6 in 1 s")
    assert two.endswith("503; attempt 3 of 6 in 2 s")


# as Hugging Face states the checksum of a large file
SHA256 = {"X-Linked-Etag": f'"{hashlib.sha256(OTHER).hexdigest()}"'}
ELSEWHERE = {"status": 302, "headers": SHA256 | {"Location": "/file.bin"}}
CHUNKED = {"headers": {"Content-Length": None, "Transfer-Encoding": "chunked"}}
# what goes wrong, one after the other: the first bytes asked for (the last that came once more: a
# request for none is an error), the waits
OVERCOME = {
    "nothing": ([], [0], []),
    "cut twice": ([{"cut": 3000}, {"cut": 3000}], [0, 2999, 5998], [1, 1]),
    "another file": ([{"cut": 4000, "content": OTHER}], [0, 3999], [1]),
    "the rest of another file": (
        [{"cut": 4000, "content": OTHER}, {"ignores_if_range": True}],
        [0, 3999, 0],
        [1, 2],
    ),
    "another part comes": ([{"cut": 4000}, {"shifted": 7}], [0, 3999, 0], [1, 2]),
    # without a tag that stands for the very same bytes, only beginning again is safe
    "no tag": ([{"cut": 4000, "tag": None, "content": OTHER}], [0, 3999], [1]),
    "a weak tag": ([{"cut": 4000, "tag": 'W/"x"'}, {"tag": 'W/"x"'}], [0, 3999], [1]),
    "a part unasked": ([{"status": 206, "headers": {"Content-Range": "bytes 5-8/9"}}], [0, 0], [1]),
    "no length": ([{"headers": {"Content-Length": None}}], [0, 0], [1]),
    "a length too small": ([{"length": -9, "headers": md5_of(CONTENT)}], [0, 0], [1]),
    "another md5": ([{"headers": md5_of(OTHER)}], [0, 0], [1]),
    "no md5 where one should be": ([{"headers": {"Content-MD5": "unknown"}}], [0], []),
    "another sha256": ([ELSEWHERE], [0, 0, 0], [1]),  # stated where it redirects
    "chunks": ([CHUNKED], [0], []),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", OVERCOME)
def test_a_fault_that_passes(get, server, fault):
    faults, asked, waits = OVERCOME[fault]
    server.behave = once(*faults)
    assert get() == CONTENT and get.waits == waits and not [*get.path.parent.glob("*.part")]
    assert [first for _, first in server.requests] == asked


REFUSED = {  # what always goes wrong: what is said, the number of requests
    "forbidden": ({"status": 403}, "403", 1),
    "not there": ({"status": 404}, "404", 1),
    "a login": ({"headers": {"Content-Type": "text/html; charset=utf-8"}}, "login", 1),
    "compressed": ({"headers": {"Content-Encoding": "gzip"}}, "something else", 1),
    "sent nowhere": ({"status": 302, "headers": {"Location": "http://[::1/x"}}, "not valid", 1),
    "a broken server": ({"status": 503}, "503, 6 times", 6),
    "never the checksum": ({"headers": md5_of(OTHER)}, "md5", 6),
    "always more than there is": ({"length": 100}, "6 times", 7),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", REFUSED)
def test_a_fault_that_stays(get, server, fault):
    behaviour, said, n_requests = REFUSED[fault]
    server.behave = lambda path, first: behaviour
    with pytest.raises(download.Refused, match=said):
        get()
    assert not get.path.exists() and len(server.requests) <= n_requests


@pytest.mark.filterwarnings("ignore")
def test_nobody_answers_or_somebody_falls_silent(get, server, monkeypatch):
    with pytest.raises(download.Refused, match="ConnectionError, 6 times in a row; try again"):
        get("http://127.0.0.1:9")
    assert get.waits == [1, 2, 4, 8, 16]
    monkeypatch.setattr(download, "TIMEOUT", (5, 0.2))
    server.behave = once({"cut": 3000, "stall": 30}, {"cut": 0, "stall": 30})
    assert get() == CONTENT and len(get.waits) == 2


def test_a_full_disk_is_seen_before(get, monkeypatch):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    assert "make room" in refusal(get)
    assert not get.path.exists()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
def test_no_wrong_byte_is_ever_taken_as_whole(server, get, seed):
    """Faults at random; lengths are too small only where the source states a checksum."""
    rng, md5 = np.random.default_rng(seed), md5_of(CONTENT)

    def fault():
        cut = int(rng.integers(9000))
        faults = [
            {"cut": cut},
            {"cut": cut, "tag": None},
            {"length": int(rng.integers(1, 500))},
            {"length": -int(rng.integers(1, 500)), "headers": md5},
            {"status": int(rng.choice([408, 429, 500, 503]))},
            {"ignores_range": True, "cut": cut},
            {"content": OTHER, "headers": md5, "cut": cut},
            {"content": OTHER, "headers": md5, "ignores_if_range": True},
            {"ignores_if_range": True, "shifted": int(rng.integers(1, 50))},
            {"content": OTHER[:cut], "cut": int(rng.integers(100))},
        ]
        return faults[rng.integers(len(faults))]

    for _ in range(12):
        for file in get.path.parent.glob("file.bin*"):
            file.unlink()
        server.behave = once(*(fault() for _ in range(rng.integers(1, 9))))
        for _ in range(3):
            try:
                assert get() == CONTENT
                break
            except download.Refused:  # too many in a row; the next call goes on
                assert not get.path.exists()
        else:
            pytest.fail("it never came to an end")


# ---------------------------------------------------------------- whole models


@pytest.fixture
def sources(server, monkeypatch, tmp_path):
    """Both have 124M, Hugging Face also models in several files, and with other tokenizers."""
    files = {"/openai/124M/checkpoint": b'model_checkpoint_path: "model.ckpt"\n'}
    for path in FOLDER.iterdir():
        files[f"/openai/124M/{path.name}"] = path.read_bytes()
    whole = write_checkpoint(tmp_path / "theirs")
    (whole / "added_tokens.json").write_text("{}")
    shards = write_shards(whole, random_tensors(TINY))
    weights = {
        "openai-community/gpt2": ["model.safetensors"],
        "distilbert/distilgpt2": ["model.safetensors", "added_tokens.json"],
        "some-body/tiny.gpt2": ["model.safetensors"],
        "some-body/shards": [INDEX, *shards],
        "some-body/onnx": [],
    }
    for repository, names in weights.items():
        for name in ["config.json", "vocab.json", "merges.txt", *names]:
            files[f"/hf/{repository}/resolve/main/{name}"] = (whole / name).read_bytes()
    server.files = files
    monkeypatch.setenv("GPT2_OPENAI_ENDPOINT", server.url + "/openai/")
    monkeypatch.setenv("HF_ENDPOINT", server.url + "/hf")
    monkeypatch.setattr(download, "sleep", lambda seconds: None)
    return server


@pytest.fixture
def models(tmp_path):
    return tmp_path / "m"


@pytest.fixture
def run(program, models):
    """A function (command, *words) -> code, out, err of main.py with that models_dir."""
    return lambda command, *words: program(command, f"--models_dir={models}", *words)


@pytest.mark.parametrize("name", ["124M", "gpt2"])
def test_from_openai_first(sources, run, models, name):
    done = run("download", name)
    assert (done.code, done.err) == (0, "") and str(models / "124M") in done.out
    assert {path.name for path in (models / "124M").iterdir()} == {*download.OPENAI_FILES}
    utils.load_models([name], models, NUMPY)
    sources.requests.clear()
    assert run("download", name).code == 0 and not sources.requests


@pytest.mark.parametrize("fault", [{"status": 404}, {"status": 500}, {"cut": 0}])
def test_hugging_face_where_openai_fails(sources, run, models, fault):
    sources.behave = lambda path, first: fault if "data" in path else {}
    assert run("download", "124M").code == 0
    assert utils.load_model(models / "124M", NUMPY).config == TINY


@pytest.mark.parametrize("size", ["some-body/tiny.gpt2", "some-body/shards", "82M"])
def test_hugging_face_only(sources, run, models, size):
    assert run("download", size).code == 0
    model = utils.load_model(find_folder(size, models), NUMPY)
    np.testing.assert_array_equal(model.params["wte"], random_tensors(TINY)["wte.weight"])


def test_what_cannot_be_downloaded(sources, run, models):
    assert_refused(run("download", "some-body/onnx"), "has none of model.safetensors")
    assert_refused(run("download", "some-body/else"), "there is no such public model", "404")
    index = b'{"weight_map": {"wte": "../../x.safetensors"}}'
    sources.files[f"/hf/some-body/shards/resolve/main/{INDEX}"] = index
    assert_refused(run("download", "some-body/shards"), "weight_map")
    sources.behave = lambda path, first: {"status": 403}
    done = run("download", "124M")
    assert_refused(done, "OpenAI: checkpoint: ", "Hugging Face: there is no such")
    assert not (models / "124M").exists() and not list(models.rglob("x.safetensors"))


@pytest.mark.parametrize("host", ["http://user:secret@127.0.0.1:9", "user:secret@host"])
def test_credentials_are_not_in_errors(sources, run, monkeypatch, host):
    monkeypatch.setenv("HF_ENDPOINT", host)
    done = run("download", "82M")
    assert_refused(done)
    assert "secret" not in done.err


@pytest.mark.parametrize("words, said", [
    ([], "error: download: expected sizes"),
    (["3B"], "error: download '3B': expected sizes"),
    (["124M", "x/../y"], "'x/../y'"),
    (["../gpt2"], "'../gpt2'"),
])  # fmt: skip
def test_words_that_are_no_download(run, models, words, said):
    assert_refused(run("download", *words), said)
    assert not models.exists()


def test_a_half_downloaded_folder_is_not_a_model(sources, run):
    """Nor is one that is not there; both errors say how to get it, and --download does."""
    generate = ["generate", "--target_model_size=124M", "--draft_model_size=ngram", "--prompt=a"]
    generate += ["--n_tokens_to_generate=2"]
    assert_refused(run(*generate), "download 124M")
    sources.behave = lambda path, first: {"cut": 0} if "data" in path or "hf" in path else {}
    assert run("download", "124M").code == 2
    assert_refused(run(*generate), DATA, "download 124M")
    sources.behave, sources.requests[:] = once(), []
    assert run(*generate, "--download").code == 0
    assert {path for path, _ in sources.requests} == {f"/openai/124M/{DATA}"}


# ---------------------------------------------------------------- finding a model

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
    for folder, name in zip("abc", ["config.json", "hparams.json", "other"]):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()
    message = refusal(find_folder, size, tmp_path)
    assert repr(size) in message and f"{tmp_path} (there are a, b)" in message


@pytest.mark.parametrize("name, size", [
    ("gpt2", "124M"), ("openai-community/gpt2", "124M"), ("distilgpt2", "82M"), ("124m", "124M"),
    ("some-body/model", "some-body/model"),
])  # fmt: skip
def test_names_of_hugging_face_lead_to_the_command_that_downloads(tmp_path, name, size):
    message = refusal(find_folder, name, tmp_path)
    assert message.endswith(f"fetch it with python main.py download {size}")
    folder = write_checkpoint(tmp_path / size)
    assert find_folder(name, tmp_path) == folder


def test_a_file_is_not_a_folder(tmp_path):
    path = write_checkpoint(tmp_path / "model") / "model.safetensors"
    message = refusal(find_folder, str(path), tmp_path)
    assert message.endswith(f"expected the folder of a model: {path.parent}")


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
    with pytest.warns(UserWarning, match="is passed over: .*merges.txt"):
        refusal(find_folder, "124M", models)


@pytest.mark.parametrize("commit", [b"abd", b"", b"\xff\xfe", b"\0\0"])
@pytest.mark.filterwarnings("ignore")
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
from checkpoints import download
download.CHUNK, download.sleep = 256, lambda seconds: None
print(download.fetch_model("124M", sys.argv[1]))
"""


def start(models):
    command, pipe = [sys.executable, "-c", SCRIPT, str(models)], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


def test_two_processes_that_fetch_the_same_end_with_whole_files(sources, models):
    """They write the same bytes to the same places; one renames them first."""
    sources.behave = lambda path, first: {"cut": 2000, "stall": 0.3} if "data" in path else {}
    processes = [start(models) for _ in range(2)]
    ends = [process.communicate(timeout=60) for process in processes]
    assert all(process.returncode == 0 for process in processes), ends
    for path in FOLDER.iterdir():
        assert (models / "124M" / path.name).read_bytes() == path.read_bytes()
    assert not [*models.rglob("*.part")]


@pytest.mark.skipif(os.name == "nt", reason="no signals on this system")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_download_is_resumed(sources, models, number):
    cut = {"cut": 3000, "stall": 30}
    sources.behave = lambda path, first: cut if "data" in path and not first else {}
    process, part = start(models), None
    for _ in range(600):
        part = next((models / "124M").glob(f"{DATA}.*.part"), None)
        if part and part.stat().st_size >= 2000:
            break
        time.sleep(0.05) if process.poll() is None else pytest.fail(process.communicate()[1])
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0 and part.is_file()
    sources.requests.clear()
    assert download.fetch_model("124M", models) == models / "124M"
    assert len(sources.requests) == 1 and sources.requests[0][1] >= 1999


@pytest.mark.parametrize("command", ["download", "generate"])
def test_a_folder_that_cannot_be_written_is_named(command, program, tmp_path):
    (tmp_path / "file").write_text("")
    place = f"--models_dir={tmp_path / 'file'}"
    words = {"download": ["124M"], "generate": ["--target_model_size=124M", "--download"]}
    done = program(command, place, *words[command])
    assert done.code == 2 and str(tmp_path / "file") in done.err and done.err.count("\n") == 1
