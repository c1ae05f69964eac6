"""Whether a folder holds OpenAI's 124M; and 124M itself, where it has been downloaded."""

import json
from pathlib import Path

import numpy as np
import pytest
from toys import NUMPY, TINY, write_checkpoint

import main
import utils
from checkpoints import doctor
from checkpoints.folder import missing_files
from sampling import Filter, autoregressive

REAL = Path(utils.MODELS_DIR) / "124M"


@pytest.mark.parametrize("name, code", [("124M", 1), ("mine", 0)])
def test_weights_of_124Ms_shape_that_are_others(check, tmp_path, monkeypatch, name, code):
    """Wrong under OpenAI's name, somebody's own model under another. 124M is TINY here."""
    golden = [{"ids": [1, 2], "top": [5, 6, 7, 8, 9], "logits": [9, 8, 7, 6, 5]}]
    (tmp_path / "golden.json").write_text(json.dumps(golden))
    monkeypatch.setattr(doctor, "GOLDEN", tmp_path / "golden.json")
    monkeypatch.setitem(utils.SIZES, "124M", TINY)
    folder = write_checkpoint(tmp_path / name)
    done = check(name)
    assert done.code == code and "These are not the weights of OpenAI's 124M" in done.out
    model = utils.load_model(folder, NUMPY)
    golden[0]["logits"] = model.read([1, 2], model.new_cache())[0][5:10].tolist()
    (tmp_path / "golden.json").write_text(json.dumps(golden))
    done = check(name)
    assert done.code == 0 and "These are the weights of OpenAI's 124M" in done.out


@pytest.mark.elsewhere
@pytest.mark.skipif(bool(missing_files(REAL)), reason="there is no models/124M: download 124M")
def test_124M_is_well_and_writes_what_transformers_own_tests_expect(capsys):
    assert main.main(["check", "124M"]) == 0
    assert "These are the weights of OpenAI's 124M." in capsys.readouterr().out
    text = (
        "464 3290 373 1043 287 257 2214 1474 262 16246 286 2688 290 2688 27262 13 198 198 464 3290"
    )
    expected = [*map(int, text.split())]
    (model,), encoder = utils.load_models(["124M"], utils.MODELS_DIR, NUMPY)
    rounds = autoregressive(model, expected[:2], 18, Filter(0.0), np.random.default_rng(0))
    assert expected[:2] + [token for one in rounds for token in one.tokens] == expected
    assert encoder.encode("The dog") == expected[:2]
