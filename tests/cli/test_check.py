"""python main.py check: what it says of a model, and its exit code."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import assert_refused
from edits import edit_header, with_entry
from make_tf_fixture import FOLDER as TF
from toys import TINY, load_model, random_tensors, write_checkpoint

from checkpoints.checksum import sha256_of
from checkpoints.folder import problem_with
from checkpoints.registry import MODELS_DIR, SIZES
from cli import check as module

REAL = Path(MODELS_DIR) / "124M"
PROMPT = [1, 2]


def test_it_names_the_shape_and_the_sha256_of_the_weights(check, tmp_path):
    folder = write_checkpoint(tmp_path / "model")
    done = check("model")
    digest = sha256_of([folder / "model.safetensors"])
    assert (done.code, done.err) == (0, "") and "n_layer=2" in done.out
    assert done.out.startswith(f"{folder}\n") and f"model.safetensors: SHA-256 {digest}" in done.out
    done = check(TF)
    assert done.code == 0 and done.out.count("SHA-256") == 2


def number(x):
    """A tensor of which one number is this."""
    tensors = random_tensors(TINY)
    tensors["h.0.mlp.c_fc.weight"][1, 2] = x
    return tensors


def zeros(*names):
    return {name: x * (name not in names) for name, x in random_tensors(TINY).items()}


@pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")
@pytest.mark.parametrize("tensors, said", [
    (number(3e38), "h.0.mlp.c_fc.weight has an entry of size 3e+38: damaged"),
    (number(-3e38), "h.0.mlp.c_fc.weight has an entry of size 3e+38: damaged"),
    (zeros(*TINY.shapes()), "ln_1.weight is all zeros: damaged"),
    (zeros("ln_f.weight", "wte.weight"), "ln_f.weight is all zeros: damaged"),
    (zeros("wte.weight"), "the logits of all tokens are equal"),
], ids=["huge", "huge below zero", "zeros", "no end", "no embedding"])  # fmt: skip
def test_weights_that_cannot_be_right_are_refused(check, tmp_path, tensors, said):
    write_checkpoint(tmp_path / "model", TINY, tensors)
    done = check("model")
    assert done.code == 2 and said in done.err.splitlines()[-1]


@pytest.fixture
def known(tmp_path, monkeypatch):
    """The tensors of a stand-in for OpenAI's 124M: of TINY's shape, its greedy tokens stored."""
    tensors = {name: 3 * tensor for name, tensor in random_tensors(TINY).items()}
    model = load_model(write_checkpoint(tmp_path / "known", TINY, tensors))
    tokens = []
    for _ in range(4):
        logits = model.read(PROMPT + tokens, model.new_cache())[0]
        tokens.append(int(logits.argmax()))
    (tmp_path / "golden.json").write_text(json.dumps([{"ids": PROMPT, "greedy": tokens}]))
    monkeypatch.setattr(module, "GOLDEN", tmp_path / "golden.json")
    monkeypatch.setitem(SIZES, "124M", TINY)
    return tensors


def test_the_greedy_tokens_of_124M(check, known, tmp_path):
    """Others are wrong under OpenAI's name, and somebody's own model under another."""
    write_checkpoint(tmp_path / "124M", TINY, known)
    done = check("124M")
    assert done.code == 0 and "greedy tokens: those of OpenAI's 124M" in done.out
    known["wte.weight"] = np.roll(known["wte.weight"], 1, axis=0)
    write_checkpoint(tmp_path / "mine", TINY, known)
    done = check("mine")
    assert done.code == 0 and "greedy tokens: not those of OpenAI's 124M" in done.out
    write_checkpoint(tmp_path / "124M", TINY, known)
    done = check("124M")
    assert done.code == 2 and "is not OpenAI's 124M" in done.err


def test_what_cannot_be_loaded_is_said_as_a_run_says_it(check, cli, tmp_path):
    folder = write_checkpoint(tmp_path / "model")
    edit_header(folder / "model.safetensors", with_entry("wte.weight", dtype="I32"))
    done = check("model")
    assert_refused(done, "wte.weight is int32")
    run = cli(f"--target_model_size={folder}", "--mode=autoregressive")
    assert run.err == done.err


@pytest.mark.elsewhere
@pytest.mark.skipif(bool(problem_with(REAL)), reason="there is no models/124M: download 124M")
def test_124M_writes_what_transformers_own_tests_expect(program):
    done = program("check", "124M")
    assert done.code == 0 and "greedy tokens: those of OpenAI's" in done.out
