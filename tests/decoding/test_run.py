"""A run: what it puts together, what it says at the end, and what its watchers see meanwhile."""

import weakref
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from clocks import Slow, Time
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from table_models import rules
from toys import tiny_model, tiny_vocabulary, tokens_of

from cli.flags import Settings
from decoding import adaptive_k, clock
from decoding.adaptive_k import AdaptiveK
from decoding.coupled import Shared, agree
from decoding.drafts import ModelDraft
from decoding.load import Pair
from decoding.ngrams import NGrams
from decoding.prompt import Prompt
from decoding.run import Coins, Run
from encoder import Encoder
from page.rounds import Notes
from proving.mistakes import mistaken
from sampling import Chance, Filter, Round, never, verify, verify_block
from utils import InputError

ENCODER = Encoder(*tiny_vocabulary())
PAIR = Pair(tiny_model(0), ModelDraft(tiny_model(1)), ENCODER)
ALONE = replace(PAIR, draft=None)
RUN = Run(PAIR, [1, 2, 1], 18, 3, Filter(1.0), partial(Coins, 1))
RUNS = {
    "model": RUN,
    "block": replace(RUN, rule=verify_block),
    "ngram": replace(RUN, pair=replace(PAIR, draft=NGrams())),
    "alone": replace(RUN, pair=ALONE),
    "coupled": replace(RUN, new_chance=partial(Shared, 1, 3), rule=agree),
    "mistake": replace(RUN, loop=mistaken("first-draft-unverified")),
    "coupled alone": replace(RUN, pair=ALONE, new_chance=partial(Shared, 1, 3), rule=agree),
}
runs = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)

# ---------------------------------------------------------------- coins


@hypothesis(deadline=None)
@given(
    ratios=st.lists(st.floats(0, 2) | st.none(), max_size=20),
    forced=st.dictionaries(st.integers(0, 20), st.floats(0, 1, exclude_max=True)),
)
def test_coins_are_those_of_the_seed_and_those_that_are_forced(ratios, forced):
    """A choice is a toss with this ratio, or the sample of a token; a forced coin changes no other
    choice.
    """
    p = np.array([0.25, 0.5, 0.25])
    chance, coins, numbers = Chance(3), Coins(3, forced), Chance(3)
    expected = []
    for ratio in ratios:
        if ratio is None:
            assert coins.sample(p) == chance.sample(p)
            numbers.random()
            continue
        own, u = chance.toss(ratio), numbers.random()
        assert own == (u < ratio)
        u = forced.get(len(expected), u)
        expected.append((ratio, u))
        assert coins.toss(ratio) == (u < ratio)
    assert coins.tossed == expected


@rules
def test_a_forced_coin_decides_its_round_and_leaves_those_before_it(rule):
    def tossed_by(coins):
        """(Round, how many coins there were after it) of each."""
        return [(round, len(coins.tossed)) for round in replace(RUN, rule=rule).rounds(coins)]

    coins = Coins(1)
    plain, n_forced = tossed_by(coins), 0
    # to remember them changes nothing
    assert [round for round, _ in plain] == list(replace(RUN, rule=rule).rounds(Chance(1)))
    for index, (ratio, u) in enumerate(coins.tossed):
        if not 0 < ratio < 1:
            continue
        other = Coins(1, {index: ratio if u < ratio else 0.0})
        changed, n_forced = tossed_by(other), n_forced + 1
        place = next(i for i, (_, n_tossed) in enumerate(plain) if n_tossed > index)
        assert changed[:place] == plain[:place]
        (before, _), (after, _) = plain[place], changed[place]
        assert after.draft == before.draft and after.accepted != before.accepted
        assert other.tossed[:index] == coins.tossed[:index]
    assert n_forced > 3


# ---------------------------------------------------------------- what it puts together


@runs
def test_a_run_is_the_same_each_time(run):
    assert list(run.rounds()) == list(run.rounds()) == list(run.rounds(run.new_chance()))
    assert len(tokens_of(run.rounds())) == 18
    drafted = sum(len(round.draft) for round in run.rounds())
    assert bool(drafted) == (run.pair.draft is not None)


@pytest.mark.parametrize("confidence", [0.0, 1.0])
def test_drafts_end_where_the_confidence_does(confidence):
    rounds = list(replace(RUN, confidence=confidence).rounds())
    assert any(round.draft for round in rounds) == (confidence == 0)


@runs
def test_the_warm_up_teaches_the_run_nothing(run):
    K = AdaptiveK([1.0, 1.1, 1.2])
    before = dict(vars(K))
    replace(run, K=K).warm_up()
    assert vars(K) == before


def of(decoder="speculative", **changes):
    prompt = Prompt(1, "a", [65, 1, 2], seed=5)
    return Run.of(Settings(**changes), PAIR, prompt, decoder)


def test_what_the_settings_say():
    run = of(n_tokens_to_generate=7, K=2, draft_confidence=0.25, temperature=0.8, top_k=9, seed=3)
    assert (run.pair, run.ids, run.n_tokens, run.K) == (PAIR, [65, 1, 2], 7, 2)
    assert (run.filter, run.confidence, run.rule) == (Filter(0.8, 9), 0.25, verify)
    # the seed is the prompt's
    assert list(run.rounds()) == list(run.rounds(Chance(5)))
    assert run.new_chance().random() == Chance(5).random()
    assert not run.ended([65]) and run.ended([ENCODER.end_of_text])
    plain = of("autoregressive", K=2)
    assert plain.pair.draft is None and plain.pair.target is PAIR.target


def test_the_end_and_the_rule():
    assert of(stop="the").ended(ENCODER.encode("the"))
    assert of(verification="block").rule is verify_block
    # a mistake brings the rule that it is made in
    assert of(mistake="block-coin-is-p").rule is verify_block
    with pytest.raises(InputError, match="the rule in use cannot make it"):
        of(mistake="resample-from-p", coupled=True)


@pytest.mark.parametrize("decoder", ["autoregressive", "speculative"])
def test_shared_noise_is_a_chance_and_a_rule(decoder):
    run = of(decoder, coupled=True, temperature=1.0)
    assert run.coupled and not of(decoder).coupled
    by_hand = replace(of(decoder, temperature=1.0), new_chance=partial(Shared, 5, 3), rule=agree)
    assert list(run.rounds()) == list(by_hand.rounds())


def test_k_auto_is_measured_where_something_drafts(monkeypatch):
    asked = []
    monkeypatch.setattr(adaptive_k, "new_K", lambda *parts: asked.append(parts) or never)
    assert of("autoregressive", K="auto").pair.draft is None and not asked
    assert of(K="auto", temperature=0.5, verification="block").K is never
    assert asked == [(PAIR.target, PAIR.draft, Filter(0.5, 0), verify_block, 1)]


def test_a_rule_of_ones_own_and_a_mistake_are_made_in_the_speculative_text_alone(tmp_path):
    own = tmp_path / "own.py"
    own.write_text("def verify_7(draft, q, p, sample, toss):\n    return 0, sample(p[0])\n")
    run = of(rule=str(own), temperature=1.0)
    assert {round.accepted for round in run.rounds()} == {0}
    plain = of("autoregressive", temperature=1.0)
    for changes in ({"rule": str(own)}, {"mistake": "missing-bonus"}):
        same = of("autoregressive", temperature=1.0, **changes)
        assert list(same.rounds()) == list(plain.rounds())
    right, wrong = of(temperature=1.0), of(temperature=1.0, mistake="first-draft-unverified")
    assert all(round.accepted for round in wrong.rounds() if round.draft)
    assert list(right.rounds()) == list(of(temperature=1.0).rounds()) != list(wrong.rounds())


# ---------------------------------------------------------------- to the end


class Seen:
    """A watcher that keeps what it is told."""

    def __init__(self):
        self.told = []

    def __call__(self, *told):
        self.told.append(told)


@runs
def test_the_result_and_what_watchers_are_told(run):
    first, second = Seen(), Seen()
    result = run.finish(first, second)
    assert first.told == second.told
    *told, last = first.told
    assert last == (None,)
    assert [round for round, _, _ in told] == list(run.rounds())[1:]
    # each coin with its round; shared noise tosses none
    chance, n_tossed = run.new_chance(), 0
    rounds, tossed = run.rounds(chance), getattr(chance, "tossed", [])
    next(rounds)  # the prefill
    for _, (_, _, coins) in zip(rounds, told, strict=True):
        assert coins == tossed[n_tossed:]
        n_tossed = len(tossed)
    assert bool(n_tossed) == (run.pair.draft is not None and not run.coupled)
    ids = list(tokens_of(run.rounds()))
    assert result["token_ids"] == ids and result["text"] == ENCODER.decode(ids)
    assert result["seconds"] == pytest.approx(sum(seconds.total for _, seconds, _ in told))
    assert result["tokens_per_second"] == len(ids) / result["seconds"]
    assert result["prefill_seconds"] > 0
    figures = {"rounds", "drafted", "examined", "accepted", "acceptance_rate"}
    assert (result.keys() >= figures) == (run.pair.draft is not None)
    assert ("usual_acceptance_rate" in result) == (run.coupled and run.pair.draft is not None)
    if run.pair.draft:
        assert result["rounds"] == len(told)
        assert result["accepted"] == sum(round.accepted for round, _, _ in told)


def test_the_prefill_is_timed_apart_and_the_text_is_without_its_end(monkeypatch):
    time = Time()
    monkeypatch.setattr(clock.time, "perf_counter", time)

    def loop(*parts, **options):
        for seconds, tokens in ((5, []), (1, [65, 66]), (0.5, [ENCODER.end_of_text])):
            time.now += seconds
            yield Round(tokens)

    result = replace(RUN, loop=loop).finish()
    assert (result["prefill_seconds"], result["seconds"]) == (5, 1.5)
    assert result["token_ids"] == [65, 66, ENCODER.end_of_text]
    assert result["text"] == ENCODER.decode([65, 66]) and result["tokens_per_second"] == 2


@pytest.mark.parametrize("slow", [0, 100])
def test_the_clock_stands_still_while_watchers_look(monkeypatch, slow):
    time = Time()
    monkeypatch.setattr(clock.time, "perf_counter", time)
    total = []

    def watch(round, seconds=None, coins=()):
        time.now += slow
        total.append(seconds and seconds.total)

    pair = Pair(Slow(PAIR.target, 1.0, time), NGrams(), ENCODER)
    result = replace(RUN, pair=pair).finish(watch, watch)
    # a second for each row: those drafted, and the target's own
    assert result["seconds"] == result["drafted"] + result["rounds"] == sum(total[:-2:2])
    assert total[-2:] == [None, None] and result["prefill_seconds"] == 0


@runs
def test_no_distribution_outlives_its_round(run):
    """Those of GPT-2 take megabytes: while a round is run, no others are there than the last's."""
    arrays, most = [], 0
    alive = lambda: sum(array() is not None for array in arrays)

    class Looking(Slow):
        def read(self, *asked, **more):
            nonlocal most
            most = max(most, alive())
            return super().read(*asked, **more)

    def watch(round, seconds=None, coins=()):
        if round is not None:
            assert alive() == 0
            arrays.extend(weakref.ref(x) for x in (round.p, round.q) if x is not None)

    pair = replace(run.pair, target=Looking(run.pair.target, 0, Time()))
    run = replace(run, pair=pair)
    notes = Notes(run)
    run.finish(watch, notes)
    assert alive() == 0 and len(notes.notes) > 3
    assert most == (2 if run.pair.draft else 1)
    assert len(arrays) == most * len(notes.notes)
