"""One text: what it is put together of, what is said of it at its end, and how two compare."""

import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from clocks import Slow, Time
from hypothesis import given
from hypothesis import strategies as st
from table_models import TableModel
from toys import TINY, tiny_model, tiny_vocabulary, tokens_of

import gpt2
import main
from decoding import auto_k
from decoding import decode as module
from decoding.auto_k import AutoK
from decoding.clocked import Clocked
from decoding.coupled import SharedNoise, gumbel_noise, verify_shared_noise
from decoding.decode import (
    begin,
    compare,
    decode,
    encode_prompt,
    median_turn,
    note_limits,
    options_of,
    read_stop,
    timed,
)
from decoding.text_difference import explain_difference
from encoder import Encoder
from sampling import (
    NeuralDrafter,
    Rng,
    Round,
    SamplingParams,
    autoregressive,
    speculative,
    verify,
    verify_block,
)

ENCODER = Encoder(*tiny_vocabulary())
ENDLESS = Encoder(*tiny_vocabulary(), ends=())
TARGET, DRAFT, IDS = tiny_model(0), tiny_model(1), [1, 2, 1]
T1 = SamplingParams(1.0)


def rounds_of(decoder="speculative", draft=DRAFT, **how):
    how = {"to_probs": T1, "seed": 5, "n_tokens": 18} | how
    return begin(decoder, TARGET, draft, ENDLESS, IDS, **how)


# ---------------------------------------------------------------- what a text is put together of


@pytest.mark.parametrize("limits, said", [
    ({"n_places": 3}, ""),  # K = 4 is what nobody asked for
    ({"n_places": 5}, "at most 5 tokens a round, not 6"),
    ({"n_ctx": 18}, "context ends after 18 tokens"),
    ({"n_ctx": 19}, ""),
])  # fmt: skip
def test_a_draft_that_cannot_have_K_tokens_says_so(recwarn, limits, said):
    note_limits(SimpleNamespace(**{"n_ctx": 24} | limits), 21, 6 if "5" in said else 4)
    assert [said in str(note.message) for note in recwarn] == [True] * bool(said)


@pytest.mark.parametrize("how, new_rng, rule", [
    ({}, lambda: Rng(5), verify),
    ({"verification": "block"}, lambda: Rng(5), verify_block),
    ({"coupled": True}, lambda: SharedNoise(5, 3), verify_shared_noise),
])  # fmt: skip
def test_begin_is_the_loops_of_sampling(how, new_rng, rule):
    rng = new_rng()
    drafter = NeuralDrafter(DRAFT, T1, rng)
    by_hand = speculative(TARGET, drafter, IDS, 18, 3, T1, rng, rule=rule)
    assert list(rounds_of(K=3, **how)) == list(by_hand)
    alone = autoregressive(TARGET, IDS, 18, T1, new_rng())
    assert list(rounds_of("autoregressive", **how)) == list(alone)


def test_begin_takes_a_rule_a_clock_for_the_drafter_and_no_end():
    ends, drafting = ENCODER.end_of_text, []
    clocked = lambda drafter: Clocked(drafter, "propose", drafting)
    how = {"K": 2, "rule": lambda draft, p, q, rng: (1, ends), "around_drafter": clocked}
    rounds = list(begin("speculative", TARGET, DRAFT, None, IDS, 18, **how))[1:]
    assert [one.tokens[1:] for one in rounds] == [[ends]] * 9 and len(drafting) == 9


def test_k_auto_learns_anew_in_each_text(monkeypatch):
    made = []
    monkeypatch.setattr(auto_k, "AutoK", lambda: made.append(AutoK()) or made[-1])
    for _ in range(2):
        assert len(tokens_of(rounds_of(K="auto"))) == 18
    assert len(made) == 2


@pytest.mark.parametrize("how, said", [
    ({"n_tokens_to_generate": 0}, "n_tokens_to_generate 0"), ({"seed": -1}, "seed -1"),
    ({"K": 0}, "K = 0"), ({"coupled": True, "verification": "block"}, "coupled"),
    ({"temperature": -1.0}, "temperature -1"), ({"top_p": 0.0}, "top_p 0"),
])  # fmt: skip
def test_what_cannot_be_used(how, said):
    with pytest.raises(ValueError, match=f"^{said}.*expected"):
        options_of(main.generate.__kwdefaults__ | how)


def test_flags_become_the_options_of_a_text():
    flags = main.generate.__kwdefaults__ | {"stop": "a\\nb", "temperature": 1.0, "seed": 5}
    options = options_of(flags)
    assert (options["stop"], options["n_tokens"]) == ("a\nb", 60)
    rounds = begin("speculative", TARGET, DRAFT, ENDLESS, IDS, **options | {"n_tokens": 18})
    assert list(rounds) == list(rounds_of())


@given(st.text(st.sampled_from(["\\", "\n", "n", "x"])))
def test_a_stop_may_be_any_text(text):
    assert read_stop(text.replace("\\", r"\\").replace("\n", r"\n")) == text


def test_a_prompt_leaves_room_for_a_token():
    assert encode_prompt("the a", ENCODER, TARGET) == ENCODER.encode("the a")
    assert encode_prompt("", ENCODER, TARGET) == [ENCODER.end_of_text]
    assert len(encode_prompt("x" * (TINY.n_ctx - 1), ENCODER, TARGET)) == TINY.n_ctx - 1
    with pytest.raises(ValueError, match="the prompt has 24 tokens: expected less than 24"):
        encode_prompt("x" * TINY.n_ctx, ENCODER, TARGET)


def test_what_cannot_fit_is_refused_before_it_is_encoded(monkeypatch):
    """To encode it might take minutes. The longest token is <|endoftext|>."""
    most = TINY.n_ctx * len("<|endoftext|>")
    with pytest.raises(ValueError, match=f"has {most} tokens: expected less than 24"):
        encode_prompt("x" * most, ENCODER, TARGET)
    monkeypatch.setattr(Encoder, "encode", lambda *given: pytest.fail("was encoded"))
    with pytest.raises(ValueError, match=f"has {most + 1} characters: expected less than 24"):
        encode_prompt("x" * (most + 1), ENCODER, TARGET)


# ---------------------------------------------------------------- what is said at its end


def test_drafts_after_the_first_rejection_are_not_examined():
    rounds = [Round([]), Round([1, 2, 3], [1, 2, 8, 9], 2), Round([4]), Round([5], [6] * 3, 0)]
    result = decode(iter(rounds), ENCODER)
    assert (result["examined"], result["accepted"], result["acceptance_rate"]) == (4, 2, 0.5)


def test_the_prefill_is_timed_apart_and_the_text_is_without_its_end(monkeypatch):
    monkeypatch.setattr(module.time, "perf_counter", clock := Time())

    def rounds():
        for seconds, tokens in ((5, []), (1, [65, 66]), (0.5, [ENCODER.end_of_text])):
            clock.now += seconds
            yield Round(tokens)

    result = decode(rounds(), ENCODER)
    assert (result["prefill_seconds"], result["seconds"]) == (5, 1.5)
    assert result["token_ids"] == [65, 66, ENCODER.end_of_text]
    assert result["text"] == ENCODER.decode([65, 66]) and result["tokens_per_second"] == 2


def test_the_clock_stands_still_while_a_watcher_looks(monkeypatch):
    monkeypatch.setattr(module.time, "perf_counter", clock := Time())
    seconds = []

    def watch(rounds):
        for this_round in rounds:
            clock.now += 100
            yield this_round

    target = Slow(TARGET, 1.0, clock)  # a second for each row
    clocked = Clocked(target, "read", in_reads := [])
    rounds = begin("speculative", clocked, None, ENDLESS, IDS, 12, K=3)
    rows = [len(one.draft) + 1 for one in watch(timed(rounds, seconds))]
    assert seconds == in_reads == [0, *rows[1:]] and clocked.config is TARGET.config


@pytest.mark.parametrize("draft", [DRAFT, None])
def test_no_distribution_outlives_its_round(draft):
    """Those of GPT-2 take megabytes: while a round is run, no others are there than the last's."""
    arrays, most = [], []

    class Looking(Slow):
        def read(self, *asked, **more):
            most.append(sum(array() is not None for array in arrays))
            return super().read(*asked, **more)

    def watch(rounds):
        for this_round in rounds:
            kept = this_round.p, this_round.q
            arrays.extend(weakref.ref(x) for x in kept if x is not None)
            del kept
            yield this_round

    target = Looking(TARGET, 0, Time())
    decode(begin("speculative", target, draft, ENCODER, IDS, 18, to_probs=T1), ENCODER, watch)
    assert len(arrays) > 6 and max(most) <= 2


# ---------------------------------------------------------------- two texts


def turn(ids, speed, seconds=1.0):
    times = {"tokens_per_second": speed, "seconds": seconds, "prefill_seconds": 0.0}
    return times | {"token_ids": ids, "rounds": 2, "examined": 1, "accepted": 0}


TABLE = TableModel(1, zeros=True)


def compared(first, second, to_probs=SamplingParams(), noise_seed=None):
    turns = {"autoregressive": [turn(first, 2.0)], "speculative": [turn(second, 3.0)]}
    options = {"to_probs": to_probs, "coupled": noise_seed is not None, "seed": noise_seed}
    return compare(turns, TABLE, [0], options)


def test_a_speedup_is_the_median_of_the_turns():
    turns = {
        "autoregressive": [turn([1], speed) for speed in (2, 1, 4)],
        "speculative": [turn([1], speed) for speed in (3, 3, 4)],
    }
    greedy = {"to_probs": SamplingParams(), "coupled": False}
    expected = {"speedup": 1.5, "speedups": [1.5, 3, 1], "identical": True}
    assert compare(turns, TABLE, [0], greedy) == expected
    assert compare({"speculative": [turn([1], 2)]}, TABLE, [0], greedy) == {}


def test_of_several_turns_one_is_shown_that_wrote_the_first_text():
    """With K auto, rounds and texts differ; no figure is then that of another text."""
    shown = lambda *turns: median_turn([turn(*each) for each in turns])["seconds"]
    assert shown(([3], 1, 3), ([3], 1, 1), ([3], 1, 2)) == 2
    assert shown(([3], 1, 3), ([1], 1, 1), ([2], 1, 2)) == 3
    other_rounds = turn([3], 1, 1) | {"rounds": 7, "accepted": 1}
    assert median_turn([turn([3], 1, 2), other_rounds, other_rounds])["seconds"] == 2


def test_a_difference_is_explained_by_what_the_text_was_chosen_by():
    """The gap is that of the logits, or of the scores under the noise of the position."""
    (logits,) = TABLE.read([0, 1], None)
    noisy = np.log(np.maximum(SamplingParams(1.3)(logits[None])[0], 1e-300)) + gumbel_noise(3, 2, 3)
    for how, row in (((SamplingParams(), None), logits), ((SamplingParams(1.3), 3), noisy)):
        one, other = np.argsort(row)[-2:].tolist()
        difference = compared([1, one], [1, other], *how)["difference"]
        assert difference["gap"] == pytest.approx(row[other] - row[one])
        assert difference["verdict"] == "bug"


@pytest.mark.parametrize("second, position", [([1, 2], 2), ([1, 2, 3, 4], 3), ([], 0)])
def test_a_text_that_ends_early_is_a_bug(second, position):
    found = explain_difference(TARGET, [0], [1, 2, 3], second)
    assert (found["position"], found["verdict"]) == (position, "bug")


def test_a_difference_after_a_long_prompt_is_explained_in_a_few_passes():
    rows = []

    class Counted(TableModel):
        def read(self, ids, cache, n_last=1):
            rows.append(n_last)
            return super().read(ids, cache, n_last)

    explain_difference(Counted(1), [0] * 12, [1, 2, 0], [1, 2, 1, *[0] * 20])
    assert rows == [*range(1, 10)]


class Close(TableModel):
    """Two tokens with all but equal logits."""

    def row(self, prefix):
        return np.array([7, 7 + self.gap, -7], np.float32)


def test_rounding_is_a_tie_and_anything_larger_is_not():
    """Whatever passes say: the error is at least that of a sum of n_embd products."""
    epsilon, target = np.finfo(np.float32).eps, Close(1)
    target.config.n_embd = 100  # so the error is 10 roundings of 7
    for factor, verdict in ((0, "tie"), (5, "tie"), (15, "tie"), (40, "bug"), (1e6, "bug")):
        target.gap = factor * 7 * epsilon
        assert explain_difference(target, [0], [1], [0])["verdict"] == verdict
    assert explain_difference(target, [0], [1], [2])["verdict"] == "bug"


def test_passes_that_see_what_follows_are_no_rounding(monkeypatch):
    """Without the causal mask in passes of a few rows, these differ by far more than rounding. Such
    an error is a bug, and does not excuse itself by its own size.
    """
    monkeypatch.setattr(gpt2, "causal_mask", lambda n, xp, dtype: xp.zeros((n, n), dtype))
    first, second = [3, 1, 2, 4], [3, 2, 1, 4]
    found = explain_difference(TARGET, IDS, first, second)
    rows = TARGET.read([*IDS, 3], TARGET.new_cache(), n_last=1)[0]
    assert found["gap"] == pytest.approx(abs(rows[1] - rows[2]))
    assert found["verdict"] == "bug" and found["float_error"] < 1e-6


def test_weights_in_float16_round_to_float16():
    target = Close(1)
    target.gap = 7 * np.finfo(np.float16).eps
    assert explain_difference(target, [0], [1], [0])["verdict"] == "bug"
    target.backend.name = "cupy-float16"
    assert explain_difference(target, [0], [1], [0])["verdict"] == "tie"


def test_another_decoder_is_refused():
    with pytest.raises(ValueError, match="decoder 'x': expected autoregressive or speculative"):
        rounds_of("x")
