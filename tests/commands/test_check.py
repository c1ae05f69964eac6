"""python main.py check: what it says of a folder, and its exit code."""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import assert_refused, embedded
from make_tf_fixture import FOLDER as TF
from toys import TINY, random_tensors, write_checkpoint

from checkpoints.formats.tf_checkpoint import DATA
from gpt2 import Config


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "model")


def test_a_folder_that_is_well(check, folder):
    done = check("model")
    assert done.code == 0 and done.err == "" and done.out.endswith("\nAll is well.\n")
    for name, shape in TINY.shapes().items():
        shape = " x ".join(map(str, shape))
        row = rf"(?m)^{re.escape(name)} +{shape} +float32 +none stated +-?0"
        assert re.search(row, done.out)


def test_a_folder_of_openais(check):
    done = check(TF, "--json")
    report = json.loads(done.out)
    assert done.code == 0 and report["well"] and report["vocabulary"] == 259
    assert [found["checksum"] for found in report["tensors"]] == ["right"] * 16


def test_checksums_without_the_library_that_computes_them(check, monkeypatch):
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    done = check(TF)
    assert done.code == 0 and done.out.count(" unknown ") == 16
    assert "pip install google-crc32c" in done.out


def rewrite(name, old, new):
    def damage(folder):
        raw = (folder / name).read_bytes()
        assert old in raw
        (folder / name).write_bytes(raw.replace(old, new))

    return damage


FIRST_BYTES = (TF / DATA).read_bytes()[:100]
DAMAGES = {  # what is said: how to get there
    "do not match their checksum": rewrite(DATA, FIRST_BYTES, bytes(100)),
    "the model has 260 tokens": rewrite("hparams.json", b"259", b"260"),
    "cannot be read as JSON": rewrite("encoder.json", b"}", b""),
    "is missing, but model.ckpt.index needs it": lambda folder: (folder / DATA).unlink(),
}


@pytest.mark.parametrize("said", DAMAGES)
def test_a_folder_that_is_not_well(check, tmp_path, said):
    folder = shutil.copytree(TF, tmp_path / "model")
    DAMAGES[said](folder)
    done, as_json = check("model"), check(folder, "--json")
    report = json.loads(as_json.out)
    assert done.code == as_json.code == 1 and done.err == as_json.err == ""
    assert "All is well" not in done.out and not report["well"]
    assert any(said in problem and str(folder) in problem for problem in report["problems"])
    assert all(problem in done.out and "\n" not in problem for problem in report["problems"])


def test_the_name_of_a_folder_is_shown_escaped(check, folder):
    evil = folder.rename(folder.with_name("\x1b[2J\nevil"))
    (evil / "merges.txt").unlink()
    done = check(evil.name)
    assert done.code == 1 and done.err == "" and done.out.replace("\n", "").isprintable()
    assert done.out.count("\\x1b[2J\\nevil") == 2  # what was examined, and its one problem


@pytest.mark.parametrize(
    "name, scale, shift", [("h.1.mlp.c_fc.weight", 0, 0), ("ln_f.bias", 1, 200)]
)
def test_numbers_that_no_gpt2_has(check, tmp_path, name, scale, shift):
    tensors = random_tensors(TINY)
    tensors[name] = np.float32(scale) * tensors[name] + np.float32(shift)
    write_checkpoint(tmp_path / "model", TINY, tensors)
    done = check("model")
    assert done.code == 1 and f"{name} has mean" in done.out and "1 problem:" in done.out


def test_a_file_that_is_not_what_was_downloaded(check, folder):
    known = {"url": "https://a.org/model/vocab.json", "etag": None, "size": None, "sha256": "0"}
    (folder / "download.json").write_text(json.dumps({"vocab.json": known}))
    done = check("model")
    assert done.code == 1 and "from https://a.org/model\n" in done.out
    assert f"{folder / 'vocab.json'}: is not the file that was downloaded" in done.out


@pytest.mark.parametrize("content", ['{"vocab.json": {', '{"vocab.json": {}}', '{"vocab.json": 1}'])
def test_a_record_of_the_download_that_is_damaged(check, folder, content):
    (folder / "download.json").write_text(content)
    done = check("model")
    assert (done.code, done.err) == (1, "") and "1 problem:" in done.out
    assert str(folder / "download.json") in done.out


def test_a_file_that_may_not_be_read(check, folder, monkeypatch):
    open_file = Path.open

    def refuse(path, *how, **more):
        if path.name == "model.safetensors":
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path, *how, **more)

    monkeypatch.setattr(Path, "open", refuse)
    done = check("model", "--json")
    (problem,) = json.loads(done.out)["problems"]
    assert (done.code, done.err) == (1, "") and "Permission denied" in problem


def test_whether_two_can_pair(check, folder, tmp_path):
    other = write_checkpoint(tmp_path / "other", Config(259, 8, 8, 2, 1))
    assert "can pair" in check("model", "--against", "other").out
    rewrite("vocab.json", b'"a": 64, "b": 65', b'"a": 65, "b": 64')(other)
    done = check("model", "--against", "other")
    assert done.code == 1 and "different vocabularies" in done.out


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "not 0"),
        (["a", "b"], "--against"),
        (["nowhere"], "no model 'nowhere'"),
        ([""], "no model ''"),
    ],
)
def test_words_that_are_no_check(check, folder, words, said):
    assert_refused(check(*words), said)


@embedded
@pytest.mark.parametrize("size", ["17M", "0.7M-17M"])
def test_the_embedded_pair_is_well(program, size):
    assert program("check", size).code == 0
