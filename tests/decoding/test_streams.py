"""No two uses of a seed share a stream of random numbers."""

import sys
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from toys import TINY, tiny_model

from bench.benchmark import benchmark
from decoding.coupled import gumbel_noise
from decoding.streams import Purpose, stream


def state_of(rng):
    return str(rng.bit_generator.state)


def test_streams_differ_by_purpose_by_number_and_from_that_of_the_seed_alone():
    numbers = [(), (0,), (1,), (0, 0), (0, 1), (1, 0)]
    seeds = [stream(purpose, 0, *which) for purpose in Purpose for which in numbers]
    by_hand = [0, [0, 1], [0, 0, 1], [0, 0, 0, 1]]
    states = [state_of(np.random.default_rng(seed)) for seed in [*seeds, *by_hand]]
    assert len({*states}) == len(states)
    again = [state_of(np.random.default_rng(seed)) for seed in seeds]
    assert again == states[: len(seeds)]


def test_noise_has_a_stream_of_its_own():
    """Also that of seed 0, whose zeros NumPy would pad."""
    for position in range(5):
        by_hand = np.random.default_rng(position).gumbel(size=3)
        assert not np.array_equal(gumbel_noise(0, position, 3), by_hand)


@pytest.fixture
def shared_streams(monkeypatch):
    """A function () -> {the lines of code that made one stream: how many of its streams they share}
    of all streams since from which numbers were drawn.
    """
    make, made = np.random.default_rng, []

    def noted(seed=None):
        frame = sys._getframe(1)
        while frame.f_code.co_name == "__init__":  # of an Rng: who made that?
            frame = frame.f_back
        rng = make(seed)
        made.append((f"{frame.f_code.co_filename}:{frame.f_lineno}", state_of(rng), rng))
        return rng

    monkeypatch.setattr(np.random, "default_rng", noted)

    def shared():
        makers = defaultdict(set)
        for place, state, rng in made:
            if state_of(rng) != state:
                makers[state].add(place)
        assert makers
        return [sorted(places) for places in makers.values() if len(places) > 1]

    return shared


@pytest.mark.parametrize(
    "flags",
    [{"verification": "token,block", "repeats": 2}, {"synthetic_acceptance": 0.5, "repeats": 3}]
    + [
        {"batch_size": "1,2"},
        {"batch_size": "2", "synthetic_acceptance": 0.5, "weights": "random"},
    ],
)
def test_the_parts_of_a_benchmark_share_no_stream(pair, shared_streams, tmp_path, flags):
    """With seed 0, where all that is padded shows."""
    (tmp_path / "prompts.txt").write_text("hello there\nonce upon\n")
    where = {"models_dir": str(pair), "prompts": str(tmp_path / "prompts.txt"), "seed": 0}
    short = {"n_tokens_to_generate": 12, "temperature": "1", "K": "2", "repeats": 1}
    benchmark(**where | short | flags, draft_model_size="0.7M-17M")
    assert shared_streams() == []


def test_the_batches_of_training_share_no_stream(shared_streams):
    pytest.importorskip("torch")
    from train import train

    ids = np.arange(5000, dtype=np.uint16)
    written = np.zeros((5, train.WRITTEN_TOKENS + 1), np.uint16)
    read = train.Texts(ids, ids, written, 4096)
    model = tiny_model(1, replace(TINY, n_ctx=train.PROMPT_TOKENS + 4))
    beginnings = ids % model.config.n_vocab
    for i in range(4):
        read.batch(i, 100, 0, 24)
        train.random_passages(ids, Purpose.VALIDATION, 0, i, 2, 24)
        with pytest.raises(ValueError):  # the text outgrows the context, after a few samples
            train.continue_passages(model, beginnings, 0, i, 2)
    assert shared_streams() == []
