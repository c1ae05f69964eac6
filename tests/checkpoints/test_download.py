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
from file_server import HTML, once
from make_tf_fixture import FOLDER
from toys import NUMPY, TINY, random_tensors, write_checkpoint, write_safetensors

import main
import utils
from checkpoints import download, search, transfer
from checkpoints.formats import tf_checkpoint
from checkpoints.registry import gigabytes

pytestmark = pytest.mark.usefixtures("alone")


# ---------------------------------------------------------------- whole models


def openai_files(size="124M"):
    names = [path.name for path in FOLDER.iterdir()]
    return {f"/openai/{size}/{name}": (FOLDER / name).read_bytes() for name in names} | {
        f"/openai/{size}/checkpoint": b'model_checkpoint_path: "model.ckpt"\n'
    }


@pytest.fixture
def sources(server, monkeypatch, tmp_path):
    """Both sources have 124M, Hugging Face also somebody's model in one file, in several, and as a
    pickle.
    """
    server.files |= openai_files()
    monkeypatch.setenv("GPT2_OPENAI_ENDPOINT", server.url + "/openai/")
    monkeypatch.setenv("HF_ENDPOINT", server.url + "/hf")
    monkeypatch.setattr(download, "TOKENIZER", {})
    monkeypatch.setattr(transfer.fetch, "__defaults__", (lambda seconds: None, (5, 5)))
    whole = write_checkpoint(tmp_path / "theirs")
    for repository in ("openai-community/gpt2", "distilbert/distilgpt2", "some-body/tiny.gpt2"):
        server.files |= {
            f"/hf/{repository}/resolve/main/{path.name}": path.read_bytes()
            for path in whole.iterdir()
        }
    base, tensors = "/hf/some-body/shards/resolve/main/", random_tensors(TINY)
    for name in ("config.json", "vocab.json", "merges.txt"):
        server.files[base + name] = server.files["/hf/some-body/pickle/resolve/main/" + name] = (
            whole / name
        ).read_bytes()
    index = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(tensors)}
    for file in set(index.values()):
        write_safetensors(
            whole / file, {name: tensors[name] for name in tensors if index[name] == file}
        )
        server.files[base + file] = (whole / file).read_bytes()
    server.files[base + "model.safetensors.index.json"] = json.dumps(
        {"metadata": {}, "weight_map": index}
    ).encode()
    return server


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
    utils.load_pair("124M", None, tmp_path / "m", NUMPY)
    sources.requests.clear()
    assert (
        run(capsys, "download", "124M", models_dir=tmp_path / "m").code == 0
        and not sources.requests
    )


@pytest.mark.parametrize(
    "fault", [{"status": 404}, {"status": 403}, {"status": 500}, {"content": HTML}, {"cut": 0}]
)
def test_hugging_face_where_openai_fails(sources, capsys, tmp_path, fault):
    sources.behave = lambda path, first: (
        fault if path.startswith("/openai") and "data" in path else {}
    )
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
    assert (
        "OpenAI: checkpoint: " in done.err
        and "Hugging Face: config.json: " in done.err
        and "403" in done.err
    )


@pytest.mark.parametrize("size", ["some-body/tiny.gpt2", "some-body/shards", "82M"])
def test_hugging_face_only(sources, capsys, tmp_path, size):
    assert run(capsys, "download", size, models_dir=tmp_path).code == 0
    folder = utils.find_folder(size, tmp_path)
    model = utils.load_model(folder, NUMPY)
    np.testing.assert_array_equal(model.params["wte"], random_tensors(TINY)["wte.weight"])
    assert run(capsys, "download", size, "--source=openai", models_dir=tmp_path).code == 2


def test_a_pickle_is_not_fetched(sources, capsys, tmp_path):
    done = run(capsys, "download", "some-body/pickle", models_dir=tmp_path)
    assert (
        done.code == 2 and "no model.safetensors; a pickle" in done.err and "convert it" in done.err
    )


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


def test_gpt2s_tokenizer_is_known(sources, capsys, tmp_path, monkeypatch):
    """A vocabulary that was cut short parses as one, and would garble every text."""
    monkeypatch.undo()
    assert download.TOKENIZER.keys() == {"encoder.json", "vocab.bpe"}
    with pytest.raises(transfer.Again, match="not GPT-2's"):
        (tmp_path / "vocab.bpe").write_bytes(b"#version: 0.2\n")
        download.check_content(tmp_path / "vocab.bpe", "vocab.bpe")


def test_a_mirror_is_a_mirror(sources, capsys, tmp_path):
    """A download begun from one address does not go on from another."""
    sources.behave = lambda path, first: (
        {"cut": 2000} if "data" in path and not first else {"status": 403} if first else {}
    )
    run(capsys, "download", "124M", "--source=openai", models_dir=tmp_path)
    assert (tmp_path / "124M" / (download.DATA + ".part")).stat().st_size > 0
    sources.behave, other = lambda path, first: {}, dict(sources.files)
    sources.files |= {
        path.replace("/openai", "/mirror"): content for path, content in other.items()
    }
    os.environ["GPT2_OPENAI_ENDPOINT"] = sources.url + "/mirror"
    sources.requests.clear()
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


def test_a_missing_size_says_how_to_get_it(capsys, tmp_path):
    done = run(capsys, "generate", "--target_model_size=355M", models_dir=tmp_path)
    assert (
        done.code == 2 and "--download" in done.err and "python main.py download 355M" in done.err
    )


def test_a_half_downloaded_folder_is_not_a_model(sources, capsys, tmp_path):
    sources.behave = lambda path, first: (
        {"cut": 0} if path.endswith((download.DATA, "model.safetensors")) else {}
    )
    assert run(capsys, "download", "124M", models_dir=tmp_path).code == 2
    done = run(capsys, "generate", "--target_model_size=124M", models_dir=tmp_path)
    assert (
        done.code == 2
        and "incomplete" in done.err
        and download.DATA in done.err
        and "download 124M" in done.err
    )
    sources.behave, sources.requests[:] = lambda path, first: {}, []
    assert run(capsys, "download", "124M", models_dir=tmp_path).code == 0
    assert {path for path, _ in sources.requests} == {f"/openai/124M/{download.DATA}"}


def test_generate_downloads_when_asked_to(sources, capsys, tmp_path):
    flags = ["--target_model_size=124M", "--draft_model_size=ngram", "--n_tokens_to_generate=2"]
    flags += ["--kernels=plain", "--prompt=a"]
    assert run(capsys, "generate", *flags, models_dir=tmp_path).code == 2
    assert run(capsys, "generate", *flags, "--download", models_dir=tmp_path).code == 0


@pytest.mark.parametrize(
    "answer, wanted", [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_at_a_terminal_it_asks(sources, capsys, tmp_path, monkeypatch, answer, wanted):
    terminal = SimpleNamespace(isatty=lambda: True, readline=lambda: answer)
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    try:
        assert utils.find_folder("124M", tmp_path) == tmp_path / "124M" and wanted
    except utils.InputError:
        assert not wanted
    out, err = capsys.readouterr()
    assert "download 124M (0.5 GB)? [y/N]" in err and out == ""
    assert gigabytes("355M") == "1.4 GB"


@pytest.mark.parametrize("name", ["models--openai-community--gpt2", "models--gpt2"])
@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"])
@pytest.mark.parametrize("refs", [True, False])
def test_the_cache_of_hugging_face(sources, capsys, tmp_path, monkeypatch, name, variable, refs):
    cache = {"HF_HOME": "x/hub", "HF_HUB_CACHE": "x", "XDG_CACHE_HOME": "x/huggingface/hub"}[
        variable
    ]
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv(variable, str(tmp_path / "x"))
    folder = write_checkpoint(tmp_path / cache / name / "snapshots" / "abc")
    if refs:
        (tmp_path / cache / name / "refs").mkdir()
        (tmp_path / cache / name / "refs" / "main").write_text("abc\n")
    assert utils.find_folder("124M", tmp_path / "m") == folder
    done = run(capsys, "download", "124M", models_dir=tmp_path / "m")
    assert done.code == 0 and str(folder) in done.out and not sources.requests
    (folder / "merges.txt").unlink()  # incomplete: as if it were not there
    with pytest.raises(utils.InputError, match="no model"):
        utils.find_folder("124M", tmp_path / "m")


DAMAGED_CACHES = {
    "no snapshots": lambda model: (model / "refs").mkdir(parents=True),
    "a commit that is not there": lambda model: commit(model, b"abc"),
    "an empty commit": lambda model: commit(model, b""),
    "a commit of bytes": lambda model: commit(model, b"\xff\xfe"),
    "a commit of zeros": lambda model: commit(model, b"\0\0"),
    "a very long commit": lambda model: commit(model, b"a" * 5000),
    "a file": lambda model: (model.parent.mkdir(parents=True), model.write_text("")),
    "a file for snapshots": lambda model: (
        model.mkdir(parents=True),
        (model / "snapshots").touch(),
    ),
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
download.TOKENIZER, transfer.CHUNK = {}, 256
download.fetch.__defaults__ = (lambda seconds: None, (5, 5))
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
    sources.behave = lambda path, first: (
        {"cut": 2000, "stall": 0.5} if "data" in path and not first else {}
    )
    processes = [start(tmp_path) for _ in range(2)]
    ends = [process.communicate(timeout=60) for process in processes]
    assert all(process.returncode == 0 for process in processes), ends
    assert len(sources.requests) == len(download.OPENAI_FILES) + 1  # the one that went on
    assert tf_checkpoint.read_table(tmp_path / "m" / "124M" / "model.ckpt.index")
    assert (tmp_path / "m" / "124M" / download.DATA).read_bytes() == (
        FOLDER / download.DATA
    ).read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="no signals on this system")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_download_is_resumed(sources, tmp_path, how):
    sources.behave = lambda path, first: (
        {"cut": 3000, "stall": 30} if "data" in path and not first else {}
    )
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
