"""Whether a folder holds OpenAI's 124M; and 124M itself, where it has been downloaded."""

import json
from pathlib import Path

import numpy as np
import pytest
from toys import NUMPY, TINY, random_tensors, write_checkpoint

import main
import utils
from checkpoints import check
from checkpoints.folder import missing_files
from checkpoints.registry import MODELS_DIR, SIZES
from sampling import SamplingParams, autoregressive

REAL = Path(MODELS_DIR) / "124M"
PROMPT = [1, 2]


@pytest.fixture
def known(tmp_path, monkeypatch):
    """The tensors of a stand-in for OpenAI's 124M: of TINY's shape, its logits stored."""
    tensors = {name: 3 * tensor for name, tensor in random_tensors(TINY).items()}
    model = utils.load_model(write_checkpoint(tmp_path / "known", TINY, tensors), NUMPY)
    logits = model.read(PROMPT, model.new_cache())[0]
    top = np.argsort(-logits)[:5]
    golden = [{"ids": PROMPT, "top": top.tolist(), "logits": logits[top].tolist()}]
    (tmp_path / "golden.json").write_text(json.dumps(golden))
    monkeypatch.setattr(check, "GOLDEN", tmp_path / "golden.json")
    monkeypatch.setitem(SIZES, "124M", TINY)
    return tensors, top


def test_the_logits_of_124M(check, known, tmp_path):
    write_checkpoint(tmp_path / "124M", TINY, known[0])
    done = check("124M")
    assert done.code == 0 and "logits of 1 prompt: are OpenAI's 124M's, 0 away" in done.out


@pytest.mark.parametrize("name, code", [("124M", 1), ("mine", 0)])
@pytest.mark.parametrize("zeros", ["ln_f.weight", "h.0.mlp.c_fc.weight", "most of wte.weight"])
def test_weights_of_124Ms_shape_that_are_others(check, known, tmp_path, name, code, zeros):
    """Wrong under OpenAI's name, somebody's own model under another."""
    tensors, top = known
    seldom = sorted({*range(TINY.n_vocab)} - {*PROMPT, *top.tolist()})
    if zeros.startswith("most"):
        tensors["wte.weight"][seldom] = 0
        tensors["wte.weight"][seldom[0]] = 2 * tensors["wte.weight"][top[0]]
    else:
        tensors[zeros][:] = 0
    write_checkpoint(tmp_path / name, TINY, tensors)
    done = check(name)
    said = {"124M": "its logits are not those of", "mine": "logits of 1 prompt: are not"}[name]
    assert done.code == code and said in done.out and ": are OpenAI's" not in done.out


@pytest.mark.elsewhere
@pytest.mark.skipif(bool(missing_files(REAL)), reason="there is no models/124M: download 124M")
def test_124M_is_openais_and_writes_what_transformers_own_tests_expect(capsys):
    assert main.main(["check", "124M"]) == 0
    assert "logits of 5 prompts: are OpenAI's 124M's" in capsys.readouterr().out
    text = (
        "464 3290 373 1043 287 257 2214 1474 262 16246 286 2688 290 2688 27262 13 198 198 464 3290"
    )
    expected = [*map(int, text.split())]
    (model,), encoder = utils.load_models(["124M"], MODELS_DIR, NUMPY)
    rounds = autoregressive(model, expected[:2], 18, SamplingParams(0.0), np.random.default_rng(0))
    assert expected[:2] + [token for one in rounds for token in one.tokens] == expected
    assert encoder.encode("The dog") == expected[:2]
