"""experiments/training/peers.py: what is not installed is listed."""

import dataclasses
import sys

import pytest
from toys import TINY, write_pair

from experiments.training import peers


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("models"), dataclasses.replace(TINY, n_ctx=96))


def test_peers_that_are_not_installed_are_listed(pair, monkeypatch, capsys):
    monkeypatch.setattr("utils.MODELS_DIR", str(pair))
    monkeypatch.setattr("utils.find_folder", lambda size: pair / size)
    for name in ("torch", "openvino", "ctranslate2", "llama_cpp", "xllamacpp"):
        monkeypatch.setitem(sys.modules, name, None)
    peers.compare(n_prompts=2, n_tokens=5, turns=1, K=2)
    out = capsys.readouterr().out
    assert "transformers: not run, torch is not installed" in out and "CTranslate2: not run" in out
    assert "this project, plain" in out and "this project, speculative, K = 2" in out
