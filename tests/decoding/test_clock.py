"""What a run and its rounds cost, by clocks that the tests turn forward themselves."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from clocks import Slow, Time
from toys import tiny_model

from decoding import clock
from decoding.clock import Clock, RoundTimer, Seconds
from decoding.coupled import Shared, agree
from decoding.drafts import ModelDraft
from decoding.load import Pair
from decoding.ngrams import NGrams
from decoding.run import Coins, Run
from sampling import RULES, Chance, Filter, Round, verify

TARGET, DRAFT = tiny_model(0), ModelDraft(tiny_model(1))
PAIR = Pair(TARGET, DRAFT, None)


def timed(run, chance=None, clock=None):
    """The rounds of a run under a Clock."""
    return (clock or Clock()).rounds(run, chance)


@pytest.fixture
def time(monkeypatch):
    time = Time()
    monkeypatch.setattr(clock.time, "perf_counter", time)
    return time


def test_rounds_are_timed_one_by_one_and_nothing_between_them(time):
    def loop(*parts, **options):
        for seconds, tokens in ((5, []), (1, [1]), (2, [2, 3])):
            time.now += seconds
            yield Round(tokens)

    found = []
    for round, seconds in timed(Run(PAIR, [0], 3, loop=loop)):
        found.append((round.tokens, seconds.total))
        time.now += 100  # whoever looks on
    assert found == [([], 5), ([1], 1), ([2, 3], 2)]


@pytest.mark.parametrize("draft, each", [(DRAFT, 0.25), (NGrams(), 0.0), (None, 0.0)])
def test_the_parts_of_each_round(time, draft, each):
    """A row of the target takes 1 second, one of the draft 0.25, the rule 8, a filter 16."""

    def rule(*asked):
        time.now += 8
        return verify(*asked)

    def filter(logits):
        time.now += 16
        return Filter(1.0)(logits)

    draft = draft and draft.over(lambda model: Slow(model, each, time))
    pair = Pair(Slow(TARGET, 1.0, time), draft, None)
    run = Run(pair, [1, 2, 1], 12, 3, filter, rule=rule)
    prefill, *rounds = timed(run)
    # the prefill asks for no logits, and the look-up of n-grams has no passes
    passes = [each] * bool(draft and draft.models)
    assert prefill == (Round([]), Seconds(0, 0, 0, [0 for _ in passes]))
    assert [round for round, _ in rounds] == [*run.rounds()][1:]
    for round, seconds in rounds:
        n = len(round.draft)
        rest = 16 * (1 + len(passes) * n) + (8 if draft else 0)
        assert seconds == Seconds(each * n, n + 1, rest, passes * n)
        assert seconds.total == seconds.draft + seconds.target + seconds.rule


def test_the_choices_may_be_others_than_the_runs_own():
    run = Run(PAIR, [1, 2, 1], 12, 3, Filter(1.0), partial(Coins, 1))
    texts = [[round for round, _ in timed(run, chance)] for chance in (None, Chance(2))]
    assert texts == [[*run.rounds()], [*replace(run, new_chance=partial(Coins, 2)).rounds()]]
    assert texts[0] != texts[1]


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
    def filter(logits):
        time.now += 2
        return Filter(1.0)(logits)

    slow, clock = lambda model: Slow(model, 0.25, time), Clock()
    slow_pair = Pair(Slow(TARGET, 1.0, time), draft and draft.over(slow), None)
    run = Run(Pair(TARGET, draft, None), [1, 2, 1], 12, 3, Filter(1.0), partial(Coins, 1))
    if coupled:
        run = replace(run, new_chance=partial(Shared, 1, 3), rule=agree)
    rounds = list(clock.on(replace(run, pair=slow_pair, filter=filter)).rounds())
    assert rounds == list(run.rounds())
    counts = [len(round.draft) for round in rounds[1:]]
    drafted = sum(counts)
    passes = [(n + 1, n + 1.0) for n in counts]
    assert clock.passes == [(0, 0.0), *passes]  # the prefill asks for no logits
    assert clock.seconds["verify"] == sum(rows for rows, _ in passes)
    each, filters = (0.25, drafted) if draft is DRAFT else (0.0, 0)
    assert clock.seconds["draft"] == each * drafted
    assert clock.seconds["sampling"] == 2 * (filters + len(counts))
    assert len(clock.draft_passes) == (drafted + 1 if draft is DRAFT else 0)
    if draft:
        each += 2 * bool(each)  # its samples are part of a draft
        assert clock.proposals == [(n, each * n) for n in counts]


@pytest.mark.parametrize("in_detail", [False, True])
def test_the_cache_is_timed_in_detail(in_detail):
    clock = Clock(in_detail)
    list(timed(Run(PAIR, [1, 2], 6), clock=clock))
    assert (clock.seconds["cache"] > 0) == in_detail


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_with_synthetic_acceptance_all_passes_are_run(temperature, rule):
    """A rule that says other than it has found out: the passes are those of what it says."""
    coins = iter((np.random.default_rng(1).random(400) < 0.7).tolist())
    verdicts, clock = [], Clock()

    def by_coin(draft, q, p, chance):
        _, token = rule(draft, q, p, chance)
        verdicts.append([next(coins) for _ in draft])
        return [*verdicts[-1], False].index(False), token

    _, *rounds = clock.on(Run(PAIR, [5, 6], 18, 3, Filter(temperature), rule=by_coin)).rounds()
    expected = [[*verdict, False].index(False) for verdict in verdicts]
    assert [round.accepted for round in rounds] == expected and sum(expected) > 3
    assert sum(len(round.tokens) for round in rounds) == 18
    drafted = [len(round.draft) for round in rounds]
    assert drafted == [*map(len, verdicts)] == [n for n, _ in clock.proposals]
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
