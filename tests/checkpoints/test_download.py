"""Whole models from both sources, and what the command line says of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from file_server import once
from make_tf_fixture import FOLDER
from toys import NUMPY, TINY, random_tensors, write_checkpoint, write_safetensors

import main
import utils
from checkpoints import download, search, transfer

pytestmark = pytest.mark.usefixtures("alone")


# ---------------------------------------------------------------- whole models


@pytest.fixture
def sources(server, monkeypatch, tmp_path):
    """Both sources have 124M, Hugging Face also somebody's model in one file, in several, and as a
    pickle.
    """
    files = server.files
    files["/openai/124M/checkpoint"] = b'model_checkpoint_path: "model.ckpt"\n'
    for path in FOLDER.iterdir():
        files[f"/openai/124M/{path.name}"] = path.read_bytes()
    whole, tensors = write_checkpoint(tmp_path / "theirs"), random_tensors(TINY)
    where = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(tensors)}
    for file in {*where.values()}:
        some = {name: tensors[name] for name in tensors if where[name] == file}
        write_safetensors(whole / file, some)
    (whole / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    side = {"config.json", "vocab.json", "merges.txt"}
    has = {
        **dict.fromkeys(("openai-community/gpt2", "distilbert/distilgpt2"), {"model.safetensors"}),
        "some-body/tiny.gpt2": {"model.safetensors"},
        "some-body/shards": {"model.safetensors.index.json", *where.values()},
        "some-body/pickle": set(),
    }
    for repository, names in has.items():
        for name in side | names:
            files[f"/hf/{repository}/resolve/main/{name}"] = (whole / name).read_bytes()
    monkeypatch.setenv("GPT2_OPENAI_ENDPOINT", server.url + "/openai/")
    monkeypatch.setenv("HF_ENDPOINT", server.url + "/hf")
    monkeypatch.setattr(download, "TOKENIZER", {})
    monkeypatch.setattr(transfer, "sleep", lambda seconds: None)
    return server


def behave(at, fault, first_only=False):
    """A behaviour with this fault for the files whose path has `at` in it."""
    return lambda path, first: fault if at in path and not (first and first_only) else {}


def run(capsys, *words, models_dir):
    code = main.main([words[0], f"--models_dir={models_dir}", *words[1:]])
    out, err = capsys.readouterr()
    return SimpleNamespace(code=code, out=out, err=err)


def test_from_openai_first(sources, capsys, tmp_path):
    done = run(capsys, "download", "124M", models_dir=tmp_path / "m")
    assert (done.code, done.err) == (0, "") and str(tmp_path / "m" / "124M") in done.out
    assert {path.name for path in (tmp_path / "m" / "124M").iterdir()} == {
        *download.OPENAI_FILES,
        transfer.RECORD,
    }
    utils.load_models(["124M"], tmp_path / "m", NUMPY)
    sources.requests.clear()
    assert run(capsys, "download", "124M", models_dir=tmp_path / "m").code == 0
    assert not sources.requests


@pytest.mark.parametrize(
    "fault",
    [{"status": 404}, {"status": 500}, {"headers": {"Content-Type": "text/html"}}, {"cut": 0}],
)
def test_hugging_face_where_openai_fails(sources, capsys, tmp_path, fault):
    sources.behave = behave("data", fault)
    assert run(capsys, "download", "124M", models_dir=tmp_path).code == 0
    folder = tmp_path / "124M"
    assert (folder / "model.safetensors").is_file() and not list(folder.glob("*.part"))
    assert utils.load_model(folder, NUMPY).config == TINY


@pytest.mark.parametrize("source, host", [("openai", "/openai"), ("huggingface", "/hf")])
def test_one_source_only(sources, capsys, tmp_path, source, host):
    assert run(capsys, "download", "124M", f"--source={source}", models_dir=tmp_path).code == 0
    assert {path.split("/")[1] for path, _ in sources.requests} == {host[1:]}


def test_both_sources_fail(sources, capsys, tmp_path):
    sources.behave = lambda path, first: {"status": 403}
    done = run(capsys, "download", "124M", models_dir=tmp_path)
    assert done.code == 2 and done.out == "" and done.err.count("\n") == 1
    assert "OpenAI: checkpoint: " in done.err and "Hugging Face: config.json: " in done.err


@pytest.mark.parametrize("size", ["some-body/tiny.gpt2", "some-body/shards", "82M"])
def test_hugging_face_only(sources, capsys, tmp_path, size):
    assert run(capsys, "download", size, models_dir=tmp_path).code == 0
    folder = utils.find_folder(size, tmp_path)
    model = utils.load_model(folder, NUMPY)
    np.testing.assert_array_equal(model.params["wte"], random_tensors(TINY)["wte.weight"])
    assert run(capsys, "download", size, "--source=openai", models_dir=tmp_path).code == 2


def test_a_pickle_is_not_fetched(sources, capsys, tmp_path):
    done = run(capsys, "download", "some-body/pickle", models_dir=tmp_path)
    assert done.code == 2 and "pickle" in done.err and done.err.count("\n") == 1


def test_an_index_of_shards_that_leads_elsewhere(sources, capsys, tmp_path):
    base = "/hf/some-body/shards/resolve/main/"
    sources.files[base + "model.safetensors.index.json"] = (
        b'{"weight_map": {"wte": "../../x.safetensors"}}'
    )
    assert run(capsys, "download", "some-body/shards", models_dir=tmp_path).code == 2
    assert not (tmp_path.parent / "x.safetensors").exists()


def test_a_model_that_no_source_has_leaves_no_folder(sources, capsys, tmp_path):
    done = run(capsys, "download", "some-body/nothing", models_dir=tmp_path / "m")
    assert done.code == 2 and "some-body/nothing cannot be downloaded" in done.err
    assert not (tmp_path / "m" / "some-body" / "nothing").exists()


def test_gpt2s_tokenizer_is_known(tmp_path):
    """A vocabulary that was cut short parses as one, and would garble every text."""
    assert download.TOKENIZER.keys() == {"encoder.json", "vocab.bpe"}
    (tmp_path / "vocab.bpe").write_bytes(b"#version: 0.2\n")
    assert download.what_is_wrong(tmp_path / "vocab.bpe", "vocab.bpe")


def test_a_mirror_is_a_mirror(sources, capsys, tmp_path, monkeypatch):
    """A download begun from one address does not go on from another."""
    sources.behave = lambda path, first: {"status": 403} if first else {"cut": 2000}
    run(capsys, "download", "124M", "--source=openai", models_dir=tmp_path)
    assert list((tmp_path / "124M").glob("*.part"))
    for path in [path for path in sources.files if path.startswith("/openai")]:
        sources.files["/mirror" + path] = sources.files[path]
    sources.behave = lambda path, first: {}
    sources.requests.clear()
    monkeypatch.setenv("GPT2_OPENAI_ENDPOINT", sources.url + "/mirror/openai")
    assert run(capsys, "download", "124M", "--source=openai", models_dir=tmp_path).code == 0
    assert all(first == 0 for _, first in sources.requests)


def test_credentials_are_used_and_never_kept(sources, capsys, tmp_path, monkeypatch):
    """Neither stored nor shown, also those that an older version stored."""
    with_secret = sources.url.replace("//", "//user:secret@")
    monkeypatch.setenv("GPT2_OPENAI_ENDPOINT", with_secret + "/openai")
    sources.behave = once({"cut": 3})
    done = run(capsys, "download", "124M", models_dir=tmp_path)
    assert done.code == 0 and sources.requests[1][1] == 3  # still the same address
    folder = tmp_path / "124M"
    record = (folder / transfer.RECORD).read_text()
    old = record.replace("http://", "http://user:secret@")
    for text in (record, old):
        (folder / transfer.RECORD).write_text(text)
        shown = run(capsys, "check", "124M", models_dir=tmp_path)
        assert f"from {sources.url}/openai/124M\n" in shown.out
        assert "secret" not in done.out + done.err + shown.out + shown.err
    assert "secret" not in record and "user" not in record


def test_credentials_are_not_in_errors(sources, capsys, tmp_path, monkeypatch):
    endpoints = ["http://user:secret@127.0.0.1:9", "user:secret@host", "http://user:secret@[::1"]
    for endpoint in endpoints:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        done = run(capsys, "download", "82M", models_dir=tmp_path)
        assert done.code == 2 and done.err.count("\n") == 1 and "secret" not in done.err


# ---------------------------------------------------------------- what the command line says


@pytest.mark.parametrize("words, said", [
    ([], "expected sizes"),
    (["3B"], "'3B'"),
    (["124M", "x/../y"], "'x/../y'"),
    (["../gpt2"], "'../gpt2'"),
    (["124M", "--source=mars"], "'mars'"),
])  # fmt: skip
def test_words_that_are_no_download(capsys, tmp_path, words, said):
    done = run(capsys, "download", *words, models_dir=tmp_path)
    assert done.code == 2 and done.out == "" and done.err.count("\n") == 1 and said in done.err
    assert not list(tmp_path.glob("*/*"))


def test_a_half_downloaded_folder_is_not_a_model(sources, capsys, tmp_path):
    """Nor is one that is not there; both errors say how to get it."""
    generate = ["generate", "--target_model_size=124M"]
    assert "download 124M" in run(capsys, *generate, models_dir=tmp_path).err
    sources.behave = lambda path, first: {"cut": 0} if "data" in path or "saf" in path else {}
    assert run(capsys, "download", "124M", models_dir=tmp_path).code == 2
    done = run(capsys, *generate, models_dir=tmp_path)
    assert done.code == 2 and download.DATA in done.err and "download 124M" in done.err
    sources.behave, sources.requests[:] = lambda path, first: {}, []
    assert run(capsys, "download", "124M", models_dir=tmp_path).code == 0
    assert {path for path, _ in sources.requests} == {f"/openai/124M/{download.DATA}"}


def test_generate_downloads_when_asked_to(sources, capsys, tmp_path):
    flags = ["--target_model_size=124M", "--draft_model_size=ngram", "--n_tokens_to_generate=2"]
    flags += ["--kernels=plain", "--prompt=a"]
    assert run(capsys, "generate", *flags, models_dir=tmp_path).code == 2
    assert run(capsys, "generate", *flags, "--download", models_dir=tmp_path).code == 0


@pytest.mark.parametrize("answer, wanted", [("y\n", True), ("\n", False), ("", False)])
def test_at_a_terminal_it_asks(sources, capsys, tmp_path, monkeypatch, answer, wanted):
    terminal = SimpleNamespace(isatty=lambda: True, readline=lambda: answer)
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    try:
        assert utils.find_folder("124M", tmp_path) == tmp_path / "124M" and wanted
    except utils.InputError:
        assert not wanted
    out, err = capsys.readouterr()
    assert "download 124M (0.5 GB)?" in err and out == ""


CACHES = {  # of the variable that names it: where it then is
    "HF_HOME": "x/hub/models--openai-community--gpt2",
    "HF_HUB_CACHE": "x/models--gpt2",
    "XDG_CACHE_HOME": "x/huggingface/hub/models--gpt2",
}


@pytest.mark.parametrize("variable", CACHES)
@pytest.mark.parametrize("refs", [True, False])
def test_the_cache_of_hugging_face(sources, capsys, tmp_path, monkeypatch, variable, refs):
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv(variable, str(tmp_path / "x"))
    model = tmp_path / CACHES[variable]
    folder = write_checkpoint(model / "snapshots" / "abc")
    if refs:
        commit(model, b"abc\n")
    assert utils.find_folder("124M", tmp_path / "m") == folder
    done = run(capsys, "download", "124M", models_dir=tmp_path / "m")
    assert done.code == 0 and str(folder) in done.out and not sources.requests
    (folder / "merges.txt").unlink()  # incomplete: as if it were not there
    with pytest.raises(utils.InputError):
        utils.find_folder("124M", tmp_path / "m")


DAMAGED_CACHES = {
    "no snapshots": lambda model: (model / "refs").mkdir(parents=True),
    "a commit that is not there": lambda model: commit(model, b"abc"),
    "a commit of bytes": lambda model: commit(model, b"\xff\xfe"),
    "a commit of zeros": lambda model: commit(model, b"\0\0"),
    "a file": lambda model: (model.parent.mkdir(parents=True), model.write_text("")),
    "a damaged index": lambda model: damaged_index(model / "snapshots" / "abc"),
}


def commit(model, raw):
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_bytes(raw)


def damaged_index(folder):
    write_checkpoint(folder)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text("{")


@pytest.mark.parametrize("damage", DAMAGED_CACHES)
def test_a_damaged_cache_is_skipped(sources, capsys, tmp_path, damage):
    """And the repository's older name in the same cache, and the download, are tried."""
    hub = tmp_path / "hf" / "hub"
    DAMAGED_CACHES[damage](hub / "models--openai-community--gpt2")
    assert search.cached("124M") is None
    whole = write_checkpoint(hub / "models--gpt2" / "snapshots" / "abc")
    assert search.cached("124M") == whole
    shutil.rmtree(hub / "models--gpt2")
    assert run(capsys, "download", "124M", models_dir=tmp_path / "m").code == 0


def test_no_home(sources, tmp_path, monkeypatch):
    def expanduser(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("HF_HOME")
    monkeypatch.setattr(Path, "expanduser", expanduser)
    assert search.cached("124M") is None


# ---------------------------------------------------------------- processes


SCRIPT = """
import sys
from checkpoints import download, search, transfer
download.TOKENIZER, transfer.CHUNK, transfer.sleep = {}, 256, lambda seconds: None
print(download.fetch_model("124M", sys.argv[1]))
"""


def start(tmp_path):
    root = Path(main.__file__).resolve().parent
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "m")]
    return subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.skipif(download.fcntl is None, reason="no file locks on this system")
def test_two_processes_fetch_a_file_once(sources, tmp_path):
    sources.behave = behave("data", {"cut": 2000, "stall": 0.5}, first_only=True)
    processes = [start(tmp_path) for _ in range(2)]
    ends = [process.communicate(timeout=60) for process in processes]
    assert all(process.returncode == 0 for process in processes), ends
    assert len(sources.requests) == len(download.OPENAI_FILES) + 1  # the one that went on
    found = (tmp_path / "m" / "124M" / download.DATA).read_bytes()
    assert found == (FOLDER / download.DATA).read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="no signals on this system")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_download_is_resumed(sources, tmp_path, how):
    sources.behave = behave("data", {"cut": 3000, "stall": 30}, first_only=True)
    process, part = start(tmp_path), tmp_path / "m" / "124M" / (download.DATA + ".part")
    for _ in range(600):
        if part.is_file() and part.stat().st_size >= 2000:
            break
        time.sleep(0.05) if process.poll() is None else pytest.fail(process.communicate()[1])
    process.send_signal(how)
    process.communicate(timeout=60)
    assert process.returncode != 0 and part.is_file()
    sources.requests.clear()
    assert download.fetch_model("124M", tmp_path / "m") == tmp_path / "m" / "124M"
    assert len(sources.requests) == 1 and sources.requests[0][1] >= 2000
