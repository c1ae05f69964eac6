"""The figures of evaluate.py."""

import json

import numpy as np
import pytest
from toys import write_pair

from experiments.drafting.pairs import Pairs
from experiments.training import evaluate as evaluating
from gpt2 import Config
from utils import InputError


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "corpus"
    path.mkdir()
    story = "the old king then thanked the other thing " * 3
    (path / "a_valid.txt").write_text(f"{story}\n<|endoftext|>\n{story[4:]}\n")
    return path


@pytest.mark.parametrize("draft", ["0.7M-17M", "ngram"])
def test_a_table_and_its_json(tmp_path, texts, capsys, draft):
    config = Config(n_vocab=259, n_ctx=64, n_embd=16, n_head=2, n_layer=1)
    folder = write_pair(tmp_path / "models", config)
    evaluating.evaluate(
        corpus=str(texts),
        target_model_size="17M",
        draft_model_size=draft,
        models_dir=str(folder),
        K="1,3",
        n_tokens=8,
        repeats=1,
    )
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 4
    result = json.loads(last)
    assert result["prompts"] == 2 and 0 < result["bits_per_byte"] < 20
    for temperature in (0, 1):
        for K in (1, 3):
            row = result[f"T={temperature} K={K}"]
            assert 1 <= row["tokens_per_target_pass"] <= K + 1
            assert row["draft_cost"] >= 0 and row["speedup"] > 0
            assert len(row["acceptance_by_position"]) == K


def test_positions_that_were_always_or_never_accepted(capsys):
    row = {"acceptance_rate": 1.0, "tokens_per_target_pass": 3.0, "draft_cost": 0.1, "speedup": 2.0}
    evaluating.print_row(0, 4, row | {"acceptance_by_position": [1.0, 0.0, 0.25, None]})
    assert capsys.readouterr().out.split()[-4:] == ["1.000", ".000", ".250", "–"]


def test_more_tokens_than_the_context_leaves_are_refused(tmp_path, texts):
    folder = write_pair(tmp_path / "models", Config(259, 64, 16, 2, 1))
    where = {"target_model_size": "17M", "draft_model_size": "ngram", "models_dir": str(folder)}
    with pytest.raises(InputError, match="--n_tokens 33: expected at most 32"):
        evaluating.evaluate(corpus=str(texts), n_tokens=33, **where)


class Uniform:
    """Every token is as likely as any other: log2(n_vocab) bits each."""

    config = Config(n_vocab=259, n_ctx=12, n_embd=1, n_head=1, n_layer=1)

    def new_cache(self):
        return None

    def read(self, ids, cache, n_last=1):
        assert n_last <= len(ids) <= 12
        return np.zeros((n_last, 259))


@pytest.mark.parametrize("length", [1, 5, 6, 7, 11, 12, 13, 40])
def test_every_token_is_scored_once(length):
    class Bytes:
        end_of_text = 258

        def encode(self, text):
            return list(text.encode())

    pairs = Pairs(Uniform(), {}, Bytes())
    bits = [*evaluating.bits_in(pairs, ["x" * length, "y"])]
    assert bits == pytest.approx([length * np.log2(259), np.log2(259)])
