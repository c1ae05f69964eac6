"""python main.py check: what it compares, what it says it did not compare, and its exit code."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from command_line import assert_refused, embedded
from make_tf_fixture import FOLDER as TF
from toys import TINY, random_tensors, write_checkpoint

from checkpoints.registry import TF_DATA as DATA


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "model")


def sections(done):
    """{heading: its lines} of what check printed; whatever is no list is under ""."""
    lists = {"": []}
    for block in done.out.strip("\n").split("\n\n"):
        head, *lines = block.split("\n")
        if lines:
            lists[head.removesuffix(":")] = [line.removeprefix("  ") for line in lines]
        else:
            lists[""].append(head)
    return lists


UNKNOWN = [
    *(f"{name}: no size or checksum of a download"
      for name in ("config.json", "merges.txt", "model.safetensors", "vocab.json")),
    f"{len(TINY.shapes())} tensors: the format has no checksums",
    "what the model computes",
]  # fmt: skip


@pytest.mark.parametrize("zeros", [[], ["ln_f.weight", "ln_f.bias", "wte.weight"]])
def test_it_says_what_was_compared_and_what_was_not(check, tmp_path, zeros):
    """Weights of which nothing is known are never called good."""
    tensors = random_tensors(TINY)
    for name in zeros:
        tensors[name][:] = 0
    folder = write_checkpoint(tmp_path / "model", TINY, tensors)
    done = check("model")
    assert (done.code, done.err) == (0, "")
    assert sections(done) == {
        "": [str(folder), "Nothing that was compared is wrong."],
        "compared": [f"{len(tensors)} tensors: their shapes, and the sizes of their files"],
        "not compared": UNKNOWN,
    }


def test_the_checksums_of_openais_files(check, monkeypatch):
    done = check(TF)
    assert done.code == 0 and "16 tensors: their CRC-32C" in sections(done)["compared"]
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    done = check(TF)
    reason = "16 tensors: checksums need pip install google-crc32c"
    assert done.code == 0 and reason in sections(done)["not compared"]
    assert "CRC-32C" not in done.out


def rewrite(name, old, new):
    def damage(folder):
        raw = (folder / name).read_bytes()
        assert old in raw
        (folder / name).write_bytes(raw.replace(old, new))

    return damage


FIRST_BYTES = (TF / DATA).read_bytes()[:100]
DAMAGES = {  # what is said: how to get there
    "do not match their checksum": rewrite(DATA, FIRST_BYTES, bytes(100)),
    "is truncated": rewrite(DATA, FIRST_BYTES, b""),
    "wte.weight has shape [259, ": rewrite("hparams.json", b"259", b"260"),
    "cannot be read as JSON": rewrite("hparams.json", b"}", b""),
    "is missing, but model.ckpt.index needs it": lambda folder: (folder / DATA).unlink(),
    "has no merges.txt or vocab.bpe": lambda folder: (folder / "vocab.bpe").unlink(),
    "has no config.json or hparams.json": lambda folder: (folder / "hparams.json").unlink(),
}


@pytest.mark.parametrize("said", DAMAGES)
def test_a_damaged_folder(check, tmp_path, said):
    folder = shutil.copytree(TF, tmp_path / "model")
    DAMAGES[said](folder)
    done = check("model")
    assert (done.code, done.err) == (1, "") and "Nothing" not in done.out
    (problem,) = sections(done)["problems"]
    assert said in problem and str(folder) in problem


def test_all_that_is_wrong_is_named_at_once(check, tmp_path):
    folder = shutil.copytree(TF, tmp_path / "model")
    DAMAGES["do not match their checksum"](folder)
    DAMAGES["has no merges.txt or vocab.bpe"](folder)
    (folder / "download.json").write_text("{")
    assert len(sections(check("model"))["problems"]) == 3


def test_the_name_of_a_folder_is_shown_escaped(check, folder):
    evil = folder.rename(folder.with_name("\x1b[2J\nevil"))
    (evil / "merges.txt").unlink()
    done = check(evil.name)
    assert done.code == 1 and done.err == "" and done.out.replace("\n", "").isprintable()
    assert done.out.count("\\x1b[2J\\nevil") == 2  # what was examined, and its one problem


@pytest.mark.parametrize("facts, right", [
    ({"size": 7}, False), ({}, True), ({"size": None, "sha256": "0"}, False),
    ({"size": None}, None),
])  # fmt: skip
def test_a_file_and_what_was_stated_of_its_download(check, folder, facts, right):
    size = (folder / "vocab.json").stat().st_size
    stated = {"url": "https://a.org/model/vocab.json", "etag": None, "size": size} | facts
    (folder / "download.json").write_text(json.dumps({"vocab.json": stated}))
    done = check("model")
    assert done.code == (right is False)
    lines = sections(done)
    assert ("vocab.json: size as https://a.org/model stated" in lines["compared"]) == (
        right is True
    )
    unknown = "vocab.json: no size or checksum of a download"
    assert (unknown in lines["not compared"]) == (right is None)
    if right is False:
        (problem,) = lines["problems"]
        assert problem.startswith(f"{folder / 'vocab.json'}: has ") and "delete it" in problem


RECORDS = ["{", "{}", "1", '{"url": 1, "size": 2, "etag": null}']


@pytest.mark.parametrize("known", RECORDS)
def test_a_record_of_the_download_that_is_damaged(check, folder, known):
    (folder / "download.json").write_text(f'{{"vocab.json": {known}}}')
    done = check("model")
    (problem,) = sections(done)["problems"]
    assert (done.code, done.err) == (1, "") and str(folder / "download.json") in problem


def test_a_file_that_may_not_be_read(check, folder, monkeypatch):
    open_file = Path.open

    def refuse(path, *mode, **options):
        if path.name == "model.safetensors":
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path, *mode, **options)

    monkeypatch.setattr(Path, "open", refuse)
    done = check("model")
    (problem,) = sections(done)["problems"]
    assert (done.code, done.err) == (1, "")
    assert "Permission denied" in problem and "model.safetensors" in problem


@pytest.mark.parametrize("words, said", [
    ([], "not 0"), (["a", "b"], "not 2"), (["nowhere"], "no model 'nowhere'"),
    ([""], "no model ''"),
])  # fmt: skip
def test_words_that_are_no_check(check, folder, words, said):
    assert_refused(check(*words), said)


@embedded
@pytest.mark.parametrize("size", ["17M", "0.7M-17M"])
def test_nothing_is_wrong_with_the_embedded_pair(program, size):
    assert program("check", size).code == 0
