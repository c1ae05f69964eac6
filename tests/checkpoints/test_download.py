"""Downloads over connections and from servers that fail in every way, and finding a model."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from command_line import ROOT, assert_refused, wait_until
from file_server import CONTENT, OTHER, once, sha256_of
from requests import ConnectTimeout
from toys import NUMPY, TINY, random_tensors, refusal, write_checkpoint, write_shards
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError

import utils
from checkpoints import download
from checkpoints.elsewhere import find_cached
from checkpoints.registry import INCLUDED
from checkpoints.search import find_folder, locate

pytestmark = pytest.mark.usefixtures("alone")
WEIGHTS = "model.safetensors"
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
    server.files["/file.bin"] = server.files["/elsewhere/file.bin"] = CONTENT
    return get


def test_every_wait_says_why_and_how_long(get, server):
    server.behave = once({"status": 429}, {"status": 503})
    with pytest.warns(UserWarning) as notes:
        get()
    one, two = (str(note.message) for note in notes)
    assert one == "file.bin: the server answers 429; the next attempt is in 1 s"
    assert two.endswith("503; the next attempt is in 2 s")


CHUNKED = {"headers": {"Content-Length": None, "Transfer-Encoding": "chunked"}}
PART = {"Content-Range": "bytes 3999-4998/*"}
LOGIN = {"content": b"who?", "headers": {"Content-Type": "text/html"}}
UNASKED = {"status": 206, "headers": {"Content-Range": "bytes 5-8/9"}}
WITHOUT_REDIRECTION = {"headers": sha256_of(OTHER)["headers"] | {"Location": None}}
# what goes wrong, one after the other: the first bytes asked for, of redirections too (the last
# that came once more: a request for none is an error)
OVERCOME = {
    "nothing": ([], [0]),
    "cut twice": ([{"cut": 3000}, {"cut": 3000}], [0, 2999, 5998]),
    "another file": ([{"cut": 4000, "content": OTHER}], [0, 3999]),
    "the rest of another file": (
        [{"cut": 4000, "content": OTHER}, {"ignores_if_range": True}], [0, 3999, 0]
    ),
    "an error in between": ([{"cut": 4000}, {"status": 503}], [0, 3999, 3999]),
    "a login in between": ([{"cut": 4000}, LOGIN], [0, 3999, 3999]),
    "another part comes": ([{"cut": 4000}, {"shifted": 7}], [0, 3999, 0]),
    "a piece of the rest": ([{"cut": 4000}, {"piece": 1000}], [0, 3999, 4998]),
    "a piece, who knows of what": (
        [{"cut": 4000}, {"piece": 1000, "headers": PART}], [0, 3999, 0]
    ),
    # without a tag that stands for the very same bytes, only beginning again is safe
    "no tag": ([{"cut": 4000, "tag": None, "content": OTHER}], [0, 3999]),
    "a weak tag": ([{"cut": 4000, "tag": 'W/"x"'}, {"tag": 'W/"x"'}], [0, 3999]),
    "a tag too long for a name": (
        [{"cut": 4000, "tag": f'"{400 * "x"}"', "content": OTHER}], [0, 3999]
    ),
    "a tag too long once quoted": ([{"cut": 4000, "tag": f'"{90 * "/"}"'}], [0, 3999]),
    "a part unasked": ([UNASKED], [0, 0]),
    "a length too small": ([sha256_of(CONTENT), {"length": -9}], [0, 0, 0]),
    "another sha256": ([sha256_of(OTHER)], [0, 0, 0]),
    "another sha256, without a redirection": ([WITHOUT_REDIRECTION], [0, 0]),
    "the right sha256": ([sha256_of(CONTENT)], [0, 0]),
    "chunks": ([CHUNKED], [0]),
    "a half of no length": ([{"headers": {"Content-Length": None}, "cut": 3000}], [0, 0]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", OVERCOME)
def test_a_fault_that_passes(get, server, fault):
    faults, asked = OVERCOME[fault]
    server.behave = once(*faults)
    assert get() == CONTENT and not [*get.path.parent.glob("*.part")]
    assert [first for _, first in server.requests] == asked
    attempts = [path for path, _ in server.requests if path == "/file.bin"]
    assert get.waits == [1, 2][: len(attempts) - 1]


REFUSED = {  # what always goes wrong: what is said, the number of requests
    "forbidden": ({"status": 403}, "file.bin: the server answers 403", 1),
    "not there": ({"status": 404}, "file.bin: the server answers 404", 1),
    "sent nowhere": ({"status": 302, "headers": {"Location": "http://[::1/x"}}, "HF_ENDPOINT", 1),
    "a login": ({"headers": {"Content-Type": "text/html; charset=utf-8"}}, "login; try again", 6),
    "a broken server": ({"status": 503}, "503; try again", 6),
    "compressed": ({"headers": {"Content-Encoding": "gzip"}}, "compressed; try again", 6),
    "nothing in it": ({"content": b""}, "an empty one; try again", 6),
    "always more than there is": ({"length": 100}, "try again", 6),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", REFUSED)
def test_a_fault_that_stays(get, server, fault):
    behaviour, said, n_requests = REFUSED[fault]
    server.behave = lambda path, first: behaviour
    assert said in refusal(get)
    assert not get.path.exists() and len(server.requests) == n_requests


@pytest.mark.filterwarnings("ignore")
def test_a_server_that_was_never_reached_is_named_soon(get, server, monkeypatch):
    """Nobody listens; there is no such host; nobody answers in time; a proxy does not listen."""
    unreached = "cannot be reached; try again"
    assert refusal(get, "http://127.0.0.1:9/x").startswith(f"127.0.0.1: {unreached}")
    assert refusal(get, "http://nobody.invalid/x").startswith(f"nobody.invalid: {unreached}")
    assert get.waits == [1]
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert unreached in refusal(get, "http://nobody.invalid/x") and get.waits == [1]
    late = MaxRetryError(None, "x", ConnectTimeoutError())
    monkeypatch.setattr(download.requests, "get", Mock(side_effect=ConnectTimeout(late)))
    assert unreached in refusal(get, "http://nobody.invalid/x") and get.waits == [1]


@pytest.mark.filterwarnings("ignore")
def test_somebody_falls_silent(get, server, monkeypatch):
    server.behave = lambda path, first: {"status": 503} if first else {"cut": 3000}
    assert "503; try again, it goes on where it stopped" in refusal(get)
    monkeypatch.setattr(download, "TIMEOUT", (5, 0.5))
    server.behave = once({"cut": 3000, "stall": 30}, {"cut": 0, "stall": 30})
    assert get() == CONTENT and len(get.waits) == 2


@pytest.mark.filterwarnings("ignore")
def test_a_network_that_goes_away_may_come_back(get, server, monkeypatch):
    """Once a server was reached, all attempts are made."""
    server.behave, real, begun = once({"cut": 3000}), download.requests.get, []

    def request(url, **options):
        begun.append(url)
        return real("http://127.0.0.1:9/" if 1 < len(begun) < 6 else url, **options)

    monkeypatch.setattr(download.requests, "get", request)
    assert get() == CONTENT and get.waits == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("headers", [CHUNKED["headers"], {}])
def test_a_small_file_has_a_limit_while_it_comes(get, server, monkeypatch, headers):
    """However long a server says that it is, or does not say."""
    get.path = get.path.with_name("config.json")
    server.files["/config.json"] = CONTENT
    server.behave = lambda path, first: {"headers": headers}
    monkeypatch.setattr(download, "TEXT_LIMIT", 5000)
    assert refusal(get).startswith("config.json: more than 5,000 bytes came; use")
    assert not [*get.path.parent.glob("config.json*")] and get.waits == []
    monkeypatch.setattr(download, "TEXT_LIMIT", len(CONTENT))
    assert get() == CONTENT


def test_a_full_disk_is_seen_before(get, monkeypatch):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    assert "make room" in refusal(get)
    assert not get.path.exists()


def test_a_disk_that_fills_up_is_an_error_of_the_file(get, full_disk):
    with full_disk(1000), pytest.raises(OSError) as full:
        get()
    assert full.value.filename == str(get.path) and get.waits == []
    assert get() == CONTENT


FAULTS = [  # replies that agree with each other, as the source states no checksum
    {"cut": 3000},
    {"cut": 5000, "tag": None},
    {"cut": 5000, "content": OTHER},
    {"length": 100},
    {"cut": 3000, "ignores_range": True},
    {"ignores_if_range": True, "shifted": 20},
    {"piece": 1000},
    sha256_of(CONTENT) | {"ignores_if_range": True},
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", FAULTS)
def test_after_any_two_faults_the_file_is_of_one_version(server, get, first):
    for second in FAULTS:
        for third in ({}, {"content": OTHER}):
            server.behave = once(first, second, third)
            assert get() in (CONTENT, OTHER)
            get.path.unlink()


# ---------------------------------------------------------------- whole models


@pytest.fixture
def sources(server, monkeypatch, tmp_path):
    """Hugging Face has models in one file, in several, and as ONNX only."""
    whole = write_checkpoint(tmp_path / "theirs")
    (whole / "generation_config.json").write_text('{"eos_token_id": 7}')
    weights = {
        "openai-community/gpt2": [WEIGHTS],
        "distilbert/distilgpt2": [WEIGHTS, "generation_config.json"],
        "some-body/tiny.gpt2": [WEIGHTS],
        "some-body/shards": [INDEX, *write_shards(whole, random_tensors(TINY))],
        "some-body/onnx": [],
    }
    for repository, names in weights.items():
        for name in ["config.json", "vocab.json", "merges.txt", *names]:
            path = f"/hf/{repository}/resolve/main/{name}"
            server.files[path] = (whole / name).read_bytes()
    monkeypatch.setenv("HF_ENDPOINT", server.url + "/hf/")
    monkeypatch.setattr(download, "sleep", lambda seconds: None)
    return server


@pytest.fixture
def models(tmp_path):
    return tmp_path / "m"


@pytest.fixture
def run(program, models):
    """A function (command, *words) -> code, out, err of main.py with that models_dir."""
    return lambda command, *words: program(command, f"--models_dir={models}", *words)


@pytest.mark.parametrize("name", ["124M", "gpt2", "some-body/tiny.gpt2", "some-body/shards", "82M"])
def test_a_model_is_downloaded_once(sources, run, models, name):
    done = run("download", name)
    folder = find_folder(name, models)
    assert (done.code, done.err) == (0, "") and str(folder) in done.out
    (model,), encoder = utils.load_models([name], models, NUMPY)
    np.testing.assert_array_equal(model.params["wte"], random_tensors(TINY)["wte.weight"])
    assert encoder.ends == ({7} if name == "82M" else {258})
    assert not [*models.rglob("*.part")]
    sources.requests.clear()
    (folder / "config.json.0.part").write_bytes(bytes(10**6))  # of another run; not in the size
    again = run("download", name)
    assert again.out == done.out and again.code == 0 and not sources.requests


OLD, NEW = "a" * 40, "b" * 40  # commits


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("redirects", [False, True])
@pytest.mark.parametrize("n", range(7))
def test_all_files_are_of_one_version(sources, run, models, n, redirects):
    """After n files the server breaks down, and when it is back, the model has another version."""
    got = []  # [(name, version)]
    is_broken = False

    def behave(path, first):
        nonlocal is_broken
        is_broken = is_broken or len(got) == n
        newest = OLD if len(got) < n else NEW
        *_, version, name = path.split("/")
        version = newest if version == "main" else version
        content = sources.files.get(f"/hf/some-body/shards/resolve/main/{name}")
        if is_broken or content is None:
            return {"status": 503 if is_broken else 404}
        headers = {"X-Repo-Commit": version}
        if redirects and "elsewhere" not in path:
            headers["Location"] = f"/elsewhere/{version}/{name}"
            return {"status": 302, "content": b"moved", "headers": headers}
        got.append((name, version))
        return {"content": content, "headers": {} if redirects else headers}

    sources.behave = behave
    assert run("download", "some-body/shards").code == 2
    n, is_broken = -1, False
    assert run("download", "some-body/shards").code == 0
    assert len(got) == 7 and len({version for _, version in got}) == 1


def versions(sources, got, newest):
    """A behaviour of a server that has a model in the version newest(name), or one asked for."""

    def behave(path, first):
        *_, version, name = path.split("/")
        content = sources.files.get(f"/hf/some-body/tiny.gpt2/resolve/main/{name}")
        if content is None:
            return {"status": 404}
        version = newest(name) if version == "main" else version
        got.append((name, version))
        cut = {"cut": 50} if len(got) == 1 else {}
        tag = f'"{version}"'
        return {"content": content, "headers": {"X-Repo-Commit": version}, "tag": tag} | cut

    return behave


@pytest.mark.filterwarnings("ignore")
def test_another_attempt_at_the_first_file_gets_the_same_version(sources, run):
    got = []
    sources.behave = versions(sources, got, lambda name: NEW if got else OLD)
    assert run("download", "some-body/tiny.gpt2").code == 0
    assert got[0] == ("config.json", OLD) and {version for _, version in got} == {OLD}


@pytest.mark.filterwarnings("ignore")
def test_a_version_that_another_process_has_begun_is_gone_on_with(sources, run, models):
    """It writes commit.txt after this process has asked for the newest version."""
    got = []
    commit = models / "some-body" / "tiny.gpt2" / "commit.txt"

    def newest(name):
        if not commit.exists():
            commit.write_text(OLD)
        return NEW

    sources.behave = versions(sources, got, newest)
    assert run("download", "some-body/tiny.gpt2").code == 0
    assert [version for _, version in got].count(NEW) == 1 and got[0][1] == NEW
    assert not [*models.rglob("*.part")]


def test_a_file_that_a_version_lacks_says_how_to_get_the_newest(sources, run, models):
    del sources.files["/hf/some-body/tiny.gpt2/resolve/main/merges.txt"]
    sources.behave = versions(sources, [1, 1], lambda name: OLD)
    done = run("download", "some-body/tiny.gpt2")
    assert_refused(done, f"delete {models / 'some-body' / 'tiny.gpt2'} for its newest version")


def test_a_commit_is_whole_or_not_there(full_disk, tmp_path):
    with full_disk(39), pytest.raises(OSError):
        download.write_once(tmp_path / "commit.txt", OLD)
    assert not [*tmp_path.iterdir()]
    for commit in (OLD, NEW):  # the first stays
        download.write_once(tmp_path / "commit.txt", commit)
    assert download.version_in(tmp_path) == OLD and len([*tmp_path.iterdir()]) == 1


def test_a_shard_that_is_not_there_is_named(sources, run):
    shards = [path for path in sources.files if "some-body/shards" in path and path.endswith("rs")]
    del sources.files[shards[-1]]
    assert_refused(run("download", "some-body/shards"), f"({Path(shards[-1]).name}: the server")


def test_what_cannot_be_downloaded(sources, run, models):
    assert_refused(run("download", "some-body/onnx"), "none of model.safetensors")
    assert_refused(run("download", "some-body/else"), "has no such public model", "404")
    index = b'{"weight_map": {"wte": "../../x.safetensors"}}'
    sources.files[f"/hf/some-body/shards/resolve/main/{INDEX}"] = index
    assert_refused(run("download", "some-body/shards"), "expected the files of tensors beside it")
    sources.behave = lambda path, first: {"status": 401}
    assert_refused(
        run("download", "124M"),
        "has no such public model, or not all its files (config.json",
        "401",
    )
    assert not (models / "124M").exists() and not list(models.rglob("x.safetensors"))
    assert_refused(run("download", "nobody/nothing"), "has no such public model")
    assert not (models / "nobody").exists() and models.is_dir()


@pytest.mark.parametrize("name", ["config.json", "merges.txt", WEIGHTS])
def test_the_page_of_a_login_is_no_model(sources, run, name):
    sources.files[f"/hf/some-body/tiny.gpt2/resolve/main/{name}"] = b"<html>login</html>"
    assert_refused(run("download", "some-body/tiny.gpt2"), name, "it again")


@pytest.mark.parametrize("host", ["http://user:secret@127.0.0.1:9", "user:secret@host"])
def test_credentials_are_not_in_errors(sources, run, monkeypatch, models, host):
    monkeypatch.setenv("HF_ENDPOINT", host)
    done = run("download", "82M")
    assert done.code == 2 and "secret" not in done.err
    assert not models.exists()  # nor is an empty folder left


def test_an_address_that_is_none_is_blamed_on_its_variable(run, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://[::1")
    assert_refused(run("download", "82M"), "at HF_ENDPOINT", "expected the address of a mirror")


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
    """Nor is one that is not there; both errors say how to get it."""
    generate = ["generate", "--target_model_size=124M", "--draft_model_size=ngram", "--prompt=a"]
    generate += ["--n_tokens_to_generate=2"]
    assert_refused(run(*generate), "download 124M")
    sources.behave = lambda path, first: {"cut": 0} if WEIGHTS in path else {}
    assert run("download", "124M").code == 2
    assert_refused(run(*generate), WEIGHTS, "download 124M")
    sources.behave, sources.requests[:] = once(), []
    assert run("download", "124M").code == run(*generate).code == 0
    assert sources.requests[-1][0].endswith(WEIGHTS)


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
    found = zip(["a", "b", "c", "d/e"], ["config.json", "hparams.json", "other", "config.json"])
    for folder, name in found:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).touch()
    message = refusal(find_folder, size, tmp_path)
    assert repr(size) in message and f"'{tmp_path}' (there are a, b, d/e)" in message


def test_an_included_model_is_found_wherever_the_models_directory_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for models in (tmp_path, tmp_path / "nothing", INCLUDED):
        assert find_folder("17M", models) == INCLUDED / "17M"
    assert "), nor an included one of 0.7M, 0.7M-17M, 17M, 7M: " in refusal(find_folder, "x", ".")
    assert "nor an included" not in refusal(find_folder, "x", INCLUDED)
    mine = write_checkpoint(tmp_path / "17M")
    assert find_folder("17M", tmp_path) == mine


@pytest.mark.parametrize("name, size", [
    ("gpt2", "124M"), ("openai-community/gpt2", "124M"), ("distilgpt2", "82M"), ("124m", "124M"),
    ("some-body/model", "some-body/model"),
])  # fmt: skip
def test_names_of_hugging_face_lead_to_the_command_that_downloads(tmp_path, name, size):
    message = refusal(find_folder, name, tmp_path)
    assert message.endswith(f"fetch it with python main.py download {size}")
    folder = write_checkpoint(tmp_path / size)
    assert find_folder(name, tmp_path) == folder


def test_a_mistyped_path_is_not_a_name_of_hugging_face(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    assert refusal(find_folder, "here/x", tmp_path).endswith("or a folder's path")
    assert refusal(find_folder, "owner/x", tmp_path).endswith("download owner/x")


def test_a_file_is_not_a_folder(tmp_path):
    path = write_checkpoint(tmp_path / "model") / "model.safetensors"
    message = refusal(find_folder, str(path), tmp_path)
    assert message.endswith(f"expected the folder of a model: {path.parent}")


CACHES = {  # of the variable that names it: where a model then is
    "HF_HOME": "x/hub/models--openai-community--gpt2",
    "HF_HUB_CACHE": "x/models--openai-community--gpt2",
    "XDG_CACHE_HOME": "x/huggingface/hub/models--openai-community--gpt2",
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
    in_cache(tmp_path / "hf" / "hub" / "models--some--model", commit)
    assert find_cached("some/model") is None


# ---------------------------------------------------------------- processes


SCRIPT = """
import sys
from checkpoints import download, search
download.CHUNK, download.sleep = 256, lambda seconds: None
print(search.find_folder("124M", sys.argv[1], download=True))
"""


def start(models):
    command, pipe = [sys.executable, "-c", SCRIPT, str(models)], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


def test_two_processes_that_fetch_the_same_end_with_whole_files(sources, models):
    """They write the same bytes to the same places; one renames them first."""
    cut = {"cut": 20_000, "stall": 0.3}  # three or four attempts
    sources.behave = lambda path, first: cut if WEIGHTS in path else {}
    processes = [start(models) for _ in range(2)]
    ends = [process.communicate(timeout=60) for process in processes]
    assert all(process.returncode == 0 for process in processes), ends
    for name in ("config.json", "vocab.json", "merges.txt", WEIGHTS):
        expected = sources.files[f"/hf/openai-community/gpt2/resolve/main/{name}"]
        assert (models / "124M" / name).read_bytes() == expected
    assert not [*models.rglob("*.part")]


@pytest.mark.skipif(os.name == "nt", reason="no signals on this system")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_download_is_resumed(sources, models, number):
    cut = {"cut": 3000, "stall": 30}
    sources.behave = lambda path, first: cut if WEIGHTS in path and not first else {}
    process, parts = start(models), lambda: [*(models / "124M").glob(f"{WEIGHTS}.*.part")]
    wait_until(lambda: any(part.stat().st_size >= 2000 for part in parts()), process)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0 and len(parts()) == 1
    sources.requests.clear()
    assert find_folder("124M", models, download=True) == models / "124M"
    assert sources.requests[-1][0].endswith(WEIGHTS) and sources.requests[-1][1] >= 1999


def test_a_folder_that_cannot_be_written_is_named(program, tmp_path):
    (tmp_path / "file").write_text("")
    place = f"--models_dir={tmp_path / 'file'}"
    done = program("download", place, "124M")
    assert done.code == 2 and str(tmp_path / "file") in done.err and done.err.count("\n") == 1
