"""python main.py check: what it says of a folder, and its exit code."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from make_tf_fixture import FOLDER as TF
from toys import TINY, random_tensors, renumbered, write_checkpoint

import main
import utils
from gpt2 import Config


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "model")


def test_a_folder_that_is_well(check, folder):
    done = check("model")
    assert done.code == 0 and done.err == "" and done.out.endswith("\nAll is well.\n")
    for name, shape in TINY.shapes().items():
        assert re.search(
            rf"(?m)^{re.escape(name)} +{' x '.join(map(str, shape))} +float32 +none stated +-?0",
            done.out,
        )


def test_a_folder_whose_vocabulary_lacks_bytes_is_well(check, tmp_path):
    letters = renumbered(["[PAD]", *"ACDEFGHIKLMNPQRSTVWY"])
    config = dataclasses.replace(TINY, n_vocab=len(letters))
    folder = write_checkpoint(tmp_path / "model", config)
    (folder / "vocab.json").write_text(json.dumps(letters))
    (folder / "merges.txt").write_text("")
    done = check("model")
    assert done.code == 0 and f"vocabulary: {len(letters)} tokens\n" in done.out


def test_a_folder_of_openais(check):
    done = check(TF, "--json")
    report = json.loads(done.out)
    assert (
        done.code == 0
        and report["well"]
        and report["vocabulary"] == 259
        and len(report["tensors"]) == 16
    )
    assert {found["checksum"] for found in report["tensors"]} == {"right"}


def damage_tensor(folder):
    raw = bytearray((folder / "model.ckpt.data-00000-of-00001").read_bytes())
    raw[100] ^= 1
    (folder / "model.ckpt.data-00000-of-00001").write_bytes(raw)


def rewrite(name, change):
    def damage(folder):
        (folder / name).write_text(change((folder / name).read_text()))

    return damage


DAMAGES = {  # what is said: how to get there
    "do not match their checksum": damage_tensor,
    "lacks the tensor h.1": rewrite(
        "hparams.json", lambda text: text.replace('"n_layer": 1', '"n_layer": 2')
    ),
    "the model has 260 tokens": rewrite("hparams.json", lambda text: text.replace("259", "260")),
    "cannot be read as JSON": rewrite("encoder.json", lambda text: text[:-5]),
    "has no vocab.json or encoder.json": lambda folder: (folder / "encoder.json").unlink(),
    "has no model.ckpt.data": lambda folder: (folder / "model.ckpt.data-00000-of-00001").unlink(),
    "damaged": lambda folder: (folder / "model.ckpt.index").write_bytes(b"no"),
    "has shape": rewrite("hparams.json", lambda text: text.replace('"n_ctx": 4', '"n_ctx": 5')),
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


@pytest.mark.parametrize("damaged", [False, True])
def test_the_name_of_a_folder_is_shown_escaped(check, folder, damaged):
    evil = folder.rename(folder.with_name("\x1b[2J\nevil"))
    if damaged:
        (evil / "merges.txt").unlink()
    done = check(evil.name)
    assert done.code == damaged and done.err == "" and done.out.replace("\n", "").isprintable()
    assert done.out.count("\\x1b[2J\\nevil") == 1 + 2 * damaged


@pytest.mark.parametrize("name, scale, shift", [
    ("h.1.mlp.c_fc.weight", 0, 0),
    ("h.1.mlp.c_fc.weight", 1, 9),
    ("h.1.mlp.c_fc.weight", 1e4, 0),
    ("ln_f.bias", 1, 200),
])  # fmt: skip
def test_numbers_that_no_gpt2_has(check, tmp_path, name, scale, shift):
    tensors = random_tensors(TINY)
    tensors[name] = np.float32(scale) * tensors[name] + np.float32(shift)
    write_checkpoint(tmp_path / "model", TINY, tensors)
    done = check("model")
    assert done.code == 1 and f"{name} has mean" in done.out and "1 problem:" in done.out


def test_a_file_that_is_not_what_was_downloaded(check, folder):
    said = {
        "url": "https://example.org/some/model/vocab.json",
        "etag": None,
        "size": None,
        "sha256": "0" * 64,
    }
    (folder / "download.json").write_text(json.dumps({"vocab.json": said}))
    done = check("model")
    assert done.code == 1 and "from https://example.org/some/model\n" in done.out
    assert f"{folder / 'vocab.json'}: is not the file that was downloaded" in done.out


def test_whether_two_can_pair(check, folder, tmp_path):
    other = write_checkpoint(tmp_path / "other", Config(259, 8, 8, 2, 1))
    assert "can pair" in check("model", "--against", "other").out
    vocabulary = json.loads((other / "vocab.json").read_text())
    vocabulary |= {"a": vocabulary["b"], "b": vocabulary["a"]}
    (other / "vocab.json").write_text(json.dumps(vocabulary))
    done = check("model", "--against", "other")
    assert done.code == 1 and "different vocabularies" in done.out


@pytest.mark.parametrize(
    "words, said", [([], "not 0"), (["a", "b"], "--against"), (["nowhere"], "no model 'nowhere'")]
)
def test_words_that_are_no_check(check, folder, words, said):
    done = check(*words)
    assert done.code == 2 and done.out == "" and said in done.err and done.err.count("\n") == 1


def test_the_embedded_pair_is_well(capsys):
    for size in ("17M", "0.7M-17M"):
        if not (Path(utils.MODELS_DIR) / size / "model.safetensors").is_file():
            pytest.skip("the embedded pair of models is not there")
        assert main.main(["check", size]) == 0
