"""From names to models: which can pair, and what is refused before any weight is read."""

import numpy as np
import pytest
from edits import EXPECTED, OPENAI, SMALL, TENSORS, logits
from toys import NUMPY, refusal, tiny_vocabulary, write_checkpoint

import utils
from backends import memory
from decoding.load import load
from encoder import Encoder
from gpt2 import Config

LITTLE = Config(259, 4, 4, 1, 1)


@pytest.fixture
def folder(tmp_path):
    """A models folder with a target and a draft."""
    write_checkpoint(tmp_path / "large", SMALL, TENSORS)
    write_checkpoint(tmp_path / "little", LITTLE, names=OPENAI)
    return tmp_path


def test_several_drafts_of_one_target(folder):
    little = str(folder / "little")  # a folder, with OpenAI's names
    models = load("large", ["ngram", little, "large"], folder, NUMPY)
    assert list(models.drafts) == ["ngram", little, "large"]
    assert [len(models.pair(name).models) for name in models.drafts] == [1, 2, 2]
    assert models.pair("ngram").draft.is_lookup
    alone = models.pair()
    assert (alone.target, alone.draft, alone.encoder) == (models.target, None, models.encoder)
    target, draft = models.pair(little).models
    assert (target.config, draft.config) == (SMALL, LITTLE)
    assert models.encoder == Encoder(*tiny_vocabulary())
    np.testing.assert_array_equal(logits(target), EXPECTED)


def test_a_pair_is_weighed_together(folder, monkeypatch):
    one = memory.weights_bytes(SMALL, np.float32) + memory.cache_bytes(SMALL, np.float32)
    monkeypatch.setattr(memory, "available_bytes", lambda: 1.9 * one)
    load("large", ["ngram"], folder, NUMPY)
    monkeypatch.setattr(utils, "build_model", None)
    assert "smaller model" in refusal(load, "large", ["large"], folder, NUMPY)


def test_random_weights_need_a_shape_only(folder):
    (folder / "little" / "model.safetensors").unlink()
    pair = load("large", ["little"], folder, NUMPY, weights="random").pair("little")
    assert [model.config for model in pair.models] == [SMALL, LITTLE]
    assert not np.allclose(logits(pair.target), EXPECTED)
    assert max(pair.encoder.encode("once upon a time")) < 259


@pytest.mark.parametrize(
    "draft, weights, words",
    [
        ("merges", "checkpoint", ["large", "merges", "different vocabularies"]),
        ("none", "random", ["'none'"]),
        ("other", "random", ["260", "259"]),
        ("eagle", "random", ["--draft_model_size eagle", "--weights random"]),
    ],
)
def test_drafts_that_cannot_pair(folder, monkeypatch, draft, weights, words):
    write_checkpoint(folder / "other", Config(260, 6, 8, 2, 1))
    # the same tokens, so that nothing else would notice: the text would merely be garbage
    (write_checkpoint(folder / "merges", LITTLE) / "merges.txt").write_text("th e\nt h\n")
    monkeypatch.setattr(utils, "build_model", None)  # nothing is read
    message = refusal(load, "large", [draft], folder, NUMPY, weights)
    assert all(word in message for word in words)
