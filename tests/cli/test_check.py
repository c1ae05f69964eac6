"""python main.py check: what it compares, what it says it did not compare, and its exit code."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import ROOT, assert_refused, embedded
from edits import edit_header, edit_json
from make_tf_fixture import FOLDER as TF
from toys import TINY, random_tensors, write_checkpoint

from backends import memory
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


def test_it_says_what_was_compared_and_what_was_not(check, folder):
    """Weights of which nothing is known are never called good."""
    done = check("model")
    n_tensors = len(TINY.shapes())
    assert (done.code, done.err) == (0, "")
    assert sections(done) == {
        "": [str(folder), "Nothing that was compared is wrong."],
        "compared": [f"{n_tensors} tensors: their shapes, and the sizes of their files"],
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
    problems = sections(done)["problems"]
    assert any(said in problem and str(folder) in problem for problem in problems)


def half(path):
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])


def words(edit):
    """Damage to the vocabulary: edit(vocabulary) returns what is stored instead of it."""
    return lambda folder: edit_json(folder / "vocab.json", edit)


def entry(**changes):
    """Damage to what the header of the weights says of wte.weight."""

    def edit(header):
        return header | {"wte.weight": header["wte.weight"] | changes}

    return lambda folder: edit_header(folder / "model.safetensors", edit)


def with_number(number):
    """Damage to a tensor: one of its numbers is this."""

    def damage(folder):
        tensors = random_tensors(TINY)
        tensors["h.0.mlp.c_fc.weight"][1, 2] = number
        write_checkpoint(folder, TINY, tensors)

    return damage


UNUSABLE = {  # no command can load these
    "vocabulary cut": lambda folder: half(folder / "vocab.json"),
    "vocabulary a list": words(list),
    "vocabulary empty": words(lambda ids: {}),
    "vocabulary of no bytes": words(lambda ids: b""),
    "id doubled": words(lambda ids: ids | {"a": ids["b"]}),
    "id missing": words(lambda ids: ids | {"a": len(ids)}),
    "token missing": words(lambda ids: {word: ids[word] for word in [*ids][:-1]}),
    "merges cut": lambda folder: half(folder / "merges.txt"),
    "merges fewer": rewrite("merges.txt", b"th e\n", b""),
    "merges not UTF-8": rewrite("merges.txt", b"th e", b"th \xff"),
    "NaN": with_number(np.nan),
    "infinity": with_number(-np.inf),
    "unknown dtype": entry(dtype="I32"),
    "metadata no object": lambda folder: edit_header(
        folder / "model.safetensors", lambda header: header | {"__metadata__": [1]}
    ),
}


@pytest.mark.parametrize("damage", UNUSABLE)
def test_what_no_command_can_load_is_a_problem(check, cli, folder, damage):
    UNUSABLE[damage](folder)
    assert_refused(cli(f"--target_model_size={folder}", "--mode=autoregressive"), str(folder))
    done = check("model")
    assert (done.code, done.err) == (1, "") and "Nothing" not in done.out
    assert str(folder) in sections(done)["problems"][0]


@embedded
def test_merges_of_17M_cut_to_300_valid_lines(check, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for path in (ROOT / "models" / "17M").iterdir():
        (folder / path.name).symlink_to(path)
    text = (folder / "merges.txt").read_text(encoding="utf-8")
    (folder / "merges.txt").unlink()
    (folder / "merges.txt").write_text("\n".join(text.split("\n")[:301]) + "\n", encoding="utf-8")
    done = check("model")
    assert done.code == 1 and "no merge makes the token" in done.out


def relabelled(tensors):
    """Half precision, which the header calls bfloat16."""
    return {name: x.astype(np.float16).view(np.uint16) for name, x in tensors.items()}


NONSENSE = {  # weights that can be loaded
    "zeros": lambda tensors: {name: 0 * x for name, x in tensors.items()},
    "relabelled": relabelled,
    "no last norm": lambda tensors: (
        tensors | {name: 0 * tensors[name] for name in ("ln_f.weight", "ln_f.bias")}
    ),
    "products too large": lambda tensors: tensors | {"ln_f.bias": tensors["ln_f.bias"] + 3e38},
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_weights_that_tell_no_token_from_another_are_a_problem(check, folder, kind):
    write_checkpoint(folder, TINY, NONSENSE[kind](random_tensors(TINY)))
    done = check("model")
    (problem,) = sections(done)["problems"]
    assert done.code == 1 and "the logits of all tokens are equal, or not finite" in problem


def test_a_damaged_head_beside_a_model_is_a_problem(check, folder):
    head = folder / "eagle.safetensors"
    head.write_bytes(b"cut")
    done = check("model")
    (problem,) = sections(done)["problems"]
    assert (done.code, done.err) == (1, "") and problem.startswith(f"{head}: is truncated")


def test_a_folder_that_may_not_be_entered(check, folder, monkeypatch):
    is_file = Path.is_file

    def refuse(path, **options):
        if path.parent == folder:
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path, **options)

    monkeypatch.setattr(Path, "is_file", refuse)
    done = check("model")
    (problem,) = sections(done)["problems"]
    assert (done.code, done.err) == (1, "")
    assert problem.startswith(str(folder)) and problem.endswith(
        ": Permission denied; use one that you may read"
    )


def test_a_model_that_does_not_fit_into_memory_is_not_called_damaged(check, folder, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    done = check("model")
    assert done.code == 0 and "what the model computes: " in done.out


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


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "merges.txt", "model.safetensors"])
def test_a_file_that_may_not_be_read(check, folder, unreadable, name):
    unreadable(folder / name)
    done = check("model")
    (problem,) = sections(done)["problems"]
    assert (done.code, done.err) == (1, "")
    assert problem == f"{folder / name}: Permission denied; use one that you may read"


@pytest.mark.parametrize("words, said", [
    ([], "error: check: expected python main.py check SIZE_OR_FOLDER [--FLAG"),
    (["a", "b"], "check a b: expected python main.py check SIZE_OR_FOLDER"),
    (["nowhere"], "no model 'nowhere'"),
    ([""], "no model ''"),
])  # fmt: skip
def test_words_that_are_no_check(check, folder, words, said):
    assert_refused(check(*words), said)


@embedded
@pytest.mark.parametrize("size", ["17M", "0.7M-17M"])
def test_nothing_is_wrong_with_the_embedded_pair(program, size):
    done = program("check", size)
    heads = "which weights it was trained on" in done.out
    assert (done.code, heads) == (0, size == "17M")
