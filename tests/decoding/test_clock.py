"""What a run and its rounds cost, by clocks that the tests turn forward themselves."""

import numpy as np
import pytest
from clocks import Slow, Time
from toys import tiny_model

from decoding import clock
from decoding.clock import Seconds
from decoding.drafts import ModelDraft
from decoding.load import Pair
from decoding.ngrams import NGrams
from decoding.run import Run
from sampling import RULES, Round, SamplingParams, verify

TARGET, DRAFT = tiny_model(0), ModelDraft(tiny_model(1))
PAIR = Pair(TARGET, DRAFT, None)


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
    for this_round, seconds in Run(PAIR, [0], 3, loop=loop).timed_rounds():
        found.append((this_round.tokens, seconds.total))
        time.now += 100  # whoever looks on
    assert found == [([], 5), ([1], 1), ([2, 3], 2)]


@pytest.mark.parametrize("draft, each", [(DRAFT, 0.25), (NGrams(), 0.0), (None, 0.0)])
def test_the_parts_of_each_round(time, draft, each):
    """A row of the target takes 1 second, one of the draft 0.25, the rule 8, a filter 16."""

    def rule(*asked):
        time.now += 8
        return verify(*asked)

    def to_probs(logits):
        time.now += 16
        return SamplingParams(1.0)(logits)

    draft = draft and draft.map_models(lambda model: Slow(model, each, time))
    pair = Pair(Slow(TARGET, 1.0, time), draft, None)
    run = Run(pair, [1, 2, 1], 12, 3, to_probs, rule=rule)
    prefill, *rounds = run.timed_rounds()
    assert prefill == (Round([]), Seconds(0, 0, 0))  # it asks for no logits
    assert [this_round for this_round, _ in rounds] == [*run.rounds()][1:]
    for this_round, seconds in rounds:
        n = len(this_round.draft)
        of_a_draft = each + 16 * bool(each)  # a draft model's tokens are sampled while drafting
        assert seconds == Seconds(of_a_draft * n, n + 1, 16 + (8 if draft else 0))
        assert seconds.total == seconds.draft + seconds.target + seconds.rest


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_with_synthetic_acceptance_all_passes_are_run(time, temperature, rule):
    """A rule that says other than it has found out: the passes are those of what it says."""
    coins = iter((np.random.default_rng(1).random(400) < 0.7).tolist())
    verdicts = []

    def by_coin(draft, p, q, rng):
        _, token = rule(draft, p, q, rng)
        verdicts.append([next(coins) for _ in draft])
        return [*verdicts[-1], False].index(False), token

    pair = Pair(
        Slow(TARGET, 1.0, time), DRAFT.map_models(lambda model: Slow(model, 0.25, time)), None
    )
    _, *timed = Run(pair, [5, 6], 18, 3, SamplingParams(temperature), rule=by_coin).timed_rounds()
    rounds = [this_round for this_round, _ in timed]
    expected = [[*verdict, False].index(False) for verdict in verdicts]
    assert [this_round.accepted for this_round in rounds] == expected and sum(expected) > 3
    assert sum(len(this_round.tokens) for this_round in rounds) == 18
    drafted = [len(this_round.draft) for this_round in rounds]
    assert drafted == [*map(len, verdicts)]
    assert [took for _, took in timed] == [Seconds(0.25 * n, n + 1, 0) for n in drafted]
