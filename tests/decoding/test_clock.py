"""What a run and its rounds cost, by clocks that the tests turn forward themselves."""

import numpy as np
import pytest
from clocks import Slow, Time
from toys import tiny_model

from experiments.decoding import clock, job
from experiments.decoding.clock import Clock, RoundTimer, clocked
from experiments.decoding.job import Job, decode
from experiments.drafting.drafts import ModelDraft, NGrams
from sampling import Filter, Round, verify

TARGET, DRAFT = tiny_model(0), ModelDraft(tiny_model(1))


@pytest.fixture
def time(monkeypatch):
    time = Time()
    monkeypatch.setattr(clock.time, "perf_counter", time)
    return time


def test_the_prefill_is_timed_apart():
    time, seen = Time(), []

    def rounds():
        for seconds, tokens in ((5, []), (1, [1]), (1, [2, 3])):
            time.now += seconds
            yield Round(tokens)

    done, prefill, rest = clocked(rounds(), seen.append, time)
    assert [one.tokens for one in done] == [[1], [2, 3]] == [one.tokens for one in seen]
    assert (prefill, rest) == (5, 2)


def test_time_inside_another_call_counts_for_the_inner_part(time):
    clock = Clock()

    def spend(seconds, inside=lambda: None):
        time.now += seconds
        inside()
        return seconds

    inner, outer = clock.timed("inner", spend), clock.timed("outer", spend)
    assert outer(1, lambda: [inner(2), inner(4)]) == 1
    inner(8)
    assert clock.seconds == {"outer": 1, "inner": 14}
    with pytest.raises(ZeroDivisionError):
        clock.timed("part", lambda: 1 / 0)()


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("draft", [DRAFT, NGrams(), None], ids=["model", "ngram", "none"])
def test_a_run_under_the_clock_is_the_run_and_its_parts_are_timed(time, draft, coupled):
    job = Job([1, 2, 1], 12, K=3, filter=Filter(1.0), seed=1, coupled=coupled)
    plain = list(decode(TARGET, draft, job))
    slow, clock = lambda model: Slow(model, 0.25, time), Clock()
    rounds = list(decode(Slow(TARGET, 1.0, time), draft and draft.over(slow), job, clock))
    assert rounds == plain
    drafted = sum(one.drafted for one in rounds)
    passes = [(one.drafted + 1, one.drafted + 1.0) for one in rounds[1:]]
    assert clock.passes == [(0, 0.0), *passes]  # the prefill asks for no logits
    assert clock.seconds["verify"] == sum(rows for rows, _ in passes)
    each = 0.25 if draft is DRAFT else 0.0
    assert clock.seconds["draft"] == each * drafted
    assert len(clock.draft_passes) == (drafted + 1 if draft is DRAFT else 0)
    if draft:
        assert clock.proposals == [(one.drafted, each * one.drafted) for one in rounds[1:]]


@pytest.mark.parametrize("in_detail", [False, True])
def test_the_cache_is_timed_in_detail(in_detail):
    clock = Clock(in_detail)
    list(decode(TARGET, DRAFT, Job([1, 2], 6), clock))
    assert (clock.seconds["cache"] > 0) == in_detail


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("rule", ["token", "block"])
def test_with_synthetic_acceptance_all_passes_are_run(monkeypatch, temperature, rule):
    coins = (np.random.default_rng(1).random(400) < 0.7).tolist()
    left, asked, clock = iter(coins), [], Clock()
    monkeypatch.setattr(job, "toss", lambda chance, rng: asked.append(chance) or next(left))
    tap = lambda parts: clock(parts.accepting(0.7, None))
    _, *done = decode(TARGET, DRAFT, Job([5, 6], 18, 3, Filter(temperature), rule=rule), tap)
    expected = []
    for one in done:
        verdicts, coins = coins[: one.drafted], coins[one.drafted :]
        expected.append((verdicts + [False]).index(False))
    assert [one.accepted for one in done] == expected and sum(expected) > 3
    assert {*asked} == {0.7} and sum(len(one.tokens) for one in done) == 18
    drafted = [one.drafted for one in done]
    assert [n for n, _ in clock.proposals] == drafted
    assert [rows for rows, _ in clock.draft_passes] == [0] + [1] * sum(drafted)
    assert [rows for rows, _ in clock.passes] == [0] + [n + 1 for n in drafted]


def test_single_rounds(time):
    """A text that does not grow, each time with K drafts; for a look-up after a plain round."""
    slow = lambda model: Slow(model, 0.125, time)
    for draft, each in ((DRAFT.over(slow), 0.125), (NGrams(), 0.0)):
        timer = RoundTimer(Slow(TARGET, 1.0, time), draft, Filter(), 4, verify)
        for K in (0, 1, 4):
            rounds = timer.timed(K, 2) if K or draft.looks_up else [timer.run(0)]
            assert {*rounds} == {(each * K, K + 1)}
