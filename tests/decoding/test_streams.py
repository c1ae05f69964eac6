"""No two uses of a seed share a stream of random numbers: a replay with the record of its log, the
parts of a benchmark, the batches of training.
"""

import sys
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from decoding.drafts import ModelDraft
from decoding.load import Pair
from table_models import TableModel
from toys import TINY, tiny_model

from decoding.coupled import gumbel_noise
from decoding.streams import Purpose, stream
from experiments.replay.record import record_texts
from experiments.replay.recordings import RecordedText, verify_line
from experiments.replay.simulate import prepare_drafters, replay_text
from sampling import SamplingParams


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


# with seed 0 all that is padded shows
SEED = "--seed=0", "--n_tokens_to_generate=12"


@pytest.mark.parametrize("rule", ["token", "block"])
def test_record_and_replay_share_no_stream(cli, as_json, shared_streams, tmp_path, rule):
    prompts, log = tmp_path / "prompts.txt", tmp_path / "log.jsonl"
    prompts.write_text("hello there\nonce upon\nover\n")
    flags = *SEED, "--temperature=1", f"--prompts={prompts}", f"--out={log}"
    assert cli(*flags, command=["record"]).code == 0
    replay = f"--log={log}", "--seed=0", "--K=1..3", f"--verification={rule}"
    assert as_json(*replay, command=["replay"])["rows"]
    assert shared_streams() == []


@pytest.mark.parametrize(
    "flags",
    ["--K=2,auto --repeats=2 --verification=token,block", "--synthetic_acceptance=0.5 --repeats=3"]
    + ["--batch_size=1,3 --repeats=2", "--batch_size=2 --synthetic_acceptance=0.5"]
    + ["--weights=random --K=2,auto"],
)
def test_the_parts_of_a_benchmark_share_no_stream(cli, shared_streams, tmp_path, flags):
    source = []
    if "batch_size" not in flags:
        (tmp_path / "prompts.txt").write_text("hello there\nonce upon\n")
        source = [f"--prompts={tmp_path / 'prompts.txt'}"]
    same = "--temperature=1", "--K=2", "--draft_model_size=0.7M-17M"
    assert cli(*SEED, *same, *source, *flags.split(), command=["benchmark"]).code == 0
    assert shared_streams() == []


def test_the_parts_of_a_profile_share_no_stream(cli, shared_streams):
    flags = "--weights=random", "--repeats=1", "--rows=1"
    assert cli(*flags, command=["profile"]).code == 0
    assert shared_streams() == []


def test_the_batches_of_training_share_no_stream(shared_streams):
    pytest.importorskip("torch")
    from experiments.training import texts

    ids = np.arange(5000, dtype=np.uint16)
    read = texts.TrainingTexts(ids, ids, written=np.zeros((5, texts.WRITTEN_TOKENS + 1), np.uint16))
    model = tiny_model(1, replace(TINY, n_ctx=texts.PROMPT_TOKENS + 4))
    beginnings = ids % model.config.n_vocab
    for i in range(4):
        read.batch(i, 100, 0, 24)
        texts.random_passages(ids, Purpose.VALIDATION, 0, i, 2, 24)
        with pytest.raises(ValueError):  # the text outgrows the context, after a few samples
            texts.continue_passages(model, beginnings, 0, i, 2)
    assert shared_streams() == []


# ---------------------------------------------------------------- what a shared stream would do


class RowModel(TableModel):
    """Its distribution depends on the length of the text alone."""

    def __init__(self, *rows):
        super().__init__(0)
        self.probabilities = lambda prefix: np.array(rows[min(len(prefix), len(rows)) - 1])


def test_replayed_coins_are_independent_of_the_recorded_text():
    """Half of the first drafts are accepted, and half of the second after them: 0.75 on average.

    With the stream of the text, the coin of the first token is the number that drew the second:
    whenever the first is accepted, the second would be the token that the draft is sure to have.
    """
    fair = [0.5, 0.5, 0.0]
    target, draft = RowModel(fair), RowModel([0.25, 0.25, 0.5], [0.5, 0.0, 0.5])
    seed, to_probs = 3, SamplingParams(1.0)
    models = SimpleNamespace(pair=lambda: Pair(target, None, None))
    lines = record_texts(3, to_probs, seed, models, [(i, [0]) for i in range(800)])
    texts = [RecordedText(**verify_line(line, "log", True)) for line in lines]
    log = SimpleNamespace(texts=texts, to_probs=to_probs, n_vocab=3)
    new_drafters = prepare_drafters(ModelDraft(draft), log, seed)
    rounds = [replay_text(text, new(), K=2) for text, new in zip(texts, new_drafters)]
    accepted = [first.accepted for first, *_ in rounds]
    assert np.mean(accepted) == pytest.approx(0.75, abs=0.1)
