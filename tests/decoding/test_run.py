"""A run: what it puts together, what it says at the end, and what its watchers see meanwhile."""

import weakref
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from clocks import Slow, Time
from heads import toy_head
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from table_models import rules
from toys import tiny_model, tiny_vocabulary, tokens_of

from checkpoints.errors import InputError
from cli.flags import Settings
from cli.from_flags import config_from
from decoding import auto_k, clock
from decoding.auto_k import AutoK
from decoding.clock import Seconds
from decoding.coupled import SharedNoise, verify_shared_noise
from decoding.drafts import HeadDraft, ModelDraft
from decoding.load import Pair
from decoding.ngrams import NGrams
from decoding.prompt import Prompt
from decoding.run import RecordingRng, Run, with_median_times
from encoder import Encoder
from page.rounds import Notes
from proving.mistakes import loop_with_mistake
from sampling import Rng, Round, SamplingParams, never, verify, verify_block

ENCODER = Encoder(*tiny_vocabulary())
PAIR = Pair(tiny_model(0), ModelDraft(tiny_model(1)), ENCODER)
ALONE = replace(PAIR, draft=None)
RUN = Run(PAIR, [1, 2, 1], 18, 3, SamplingParams(1.0), partial(RecordingRng, 1))
RUNS = {
    "model": RUN,
    "block": replace(RUN, rule=verify_block),
    "ngram": replace(RUN, pair=replace(PAIR, draft=NGrams())),
    "eagle": replace(RUN, pair=replace(PAIR, draft=HeadDraft(toy_head("eagle", PAIR.target)))),
    "alone": replace(RUN, pair=ALONE),
    "coupled": replace(RUN, new_rng=partial(SharedNoise, 1, 3), rule=verify_shared_noise),
    "mistake": replace(RUN, loop=loop_with_mistake("first-draft-unverified")),
    "coupled alone": replace(
        RUN, pair=ALONE, new_rng=partial(SharedNoise, 1, 3), rule=verify_shared_noise
    ),
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
    rng, coins, numbers = Rng(3), RecordingRng(3, forced), Rng(3)
    expected = []
    for ratio in ratios:
        if ratio is None:
            assert coins.sample(p) == rng.sample(p)
            numbers.random()
            continue
        own, u = rng.accept(ratio), numbers.random()
        assert own == (u < ratio)
        u = forced.get(len(expected), u)
        expected.append((ratio, u))
        assert coins.accept(ratio) == (u < ratio)
    assert coins.tossed == expected


@rules
def test_a_forced_coin_decides_its_round_and_leaves_those_before_it(rule):
    def tossed_by(coins):
        """(Round, how many coins there were after it) of each."""
        rounds = replace(RUN, rule=rule).rounds(coins)
        return [(this_round, len(coins.tossed)) for this_round in rounds]

    coins = RecordingRng(1)
    plain, n_forced = tossed_by(coins), 0
    # to remember them changes nothing
    assert [this_round for this_round, _ in plain] == list(replace(RUN, rule=rule).rounds(Rng(1)))
    for index, (ratio, u) in enumerate(coins.tossed):
        if not 0 < ratio < 1:
            continue
        other = RecordingRng(1, {index: ratio if u < ratio else 0.0})
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
    assert list(run.rounds()) == list(run.rounds()) == list(run.rounds(run.new_rng()))
    assert len(tokens_of(run.rounds())) == 18
    drafted = sum(len(this_round.draft) for this_round in run.rounds())
    assert bool(drafted) == (run.pair.draft is not None)


@pytest.mark.parametrize("confidence", [0.0, 1.0])
def test_drafts_end_where_the_confidence_does(confidence):
    rounds = list(replace(RUN, confidence=confidence).rounds())
    assert any(this_round.draft for this_round in rounds) == (confidence == 0)


@runs
def test_the_warm_up_teaches_the_run_nothing(run):
    K = AutoK([1.0, 1.1, 1.2])
    before = dict(vars(K))
    replace(run, K=K).warm_up()
    assert vars(K) == before


def of(decoder="speculative", **changes):
    prompt = Prompt(1, "a", [65, 1, 2], seed=5)
    return config_from(Settings(**changes)).new_run(PAIR, prompt, decoder)


def test_what_the_settings_say():
    run = of(n_tokens_to_generate=7, K=2, draft_confidence=0.25, temperature=0.8, top_k=9, seed=3)
    assert (run.pair, run.ids, run.n_tokens, run.K) == (PAIR, [65, 1, 2], 7, 2)
    assert (run.to_probs, run.confidence, run.rule) == (SamplingParams(0.8, 9), 0.25, verify)
    # the seed is the prompt's
    assert list(run.rounds()) == list(run.rounds(Rng(5)))
    assert run.new_rng().random() == Rng(5).random()
    assert not run.is_done([65]) and run.is_done([ENCODER.end_of_text])
    plain = of("autoregressive", K=2)
    assert plain.pair.draft is None and plain.pair.target is PAIR.target


def test_the_end_and_the_rule():
    assert of(stop="the").is_done(ENCODER.encode("the"))
    assert of(verification="block").rule is verify_block
    # a mistake brings the rule that it is made in
    assert of(mistake="block-coin-is-p").rule is verify_block
    with pytest.raises(InputError, match="the rule in use cannot make it"):
        of(mistake="resample-from-p", coupled=True)


@pytest.mark.parametrize("decoder", ["autoregressive", "speculative"])
def test_shared_noise_is_an_rng_and_a_rule(decoder):
    run = of(decoder, coupled=True, temperature=1.0)
    assert run.coupled and not of(decoder).coupled
    by_hand = replace(
        of(decoder, temperature=1.0), new_rng=partial(SharedNoise, 5, 3), rule=verify_shared_noise
    )
    assert list(run.rounds()) == list(by_hand.rounds())


def test_k_auto_is_measured_where_something_drafts(monkeypatch):
    asked = []
    monkeypatch.setattr(auto_k, "new_auto_k", lambda *parts: asked.append(parts) or never)
    assert of("autoregressive", K="auto").pair.draft is None and not asked
    assert of(K="auto", temperature=0.5, verification="block").K is never
    assert asked == [(PAIR.target, PAIR.draft, SamplingParams(0.5, 0), verify_block)]


def test_a_rule_of_ones_own_and_a_mistake_are_made_in_the_speculative_text_alone(tmp_path):
    own = tmp_path / "own.py"
    own.write_text("def verify_7(draft, p, q, sample, accept):\n    return 0, sample(p[0])\n")
    run = of(rule=str(own), temperature=1.0)
    assert {this_round.accepted for this_round in run.rounds()} == {0}
    plain = of("autoregressive", temperature=1.0)
    for changes in ({"rule": str(own)}, {"mistake": "missing-bonus"}):
        same = of("autoregressive", temperature=1.0, **changes)
        assert list(same.rounds()) == list(plain.rounds())
    right, wrong = of(temperature=1.0), of(temperature=1.0, mistake="first-draft-unverified")
    assert all(this_round.accepted for this_round in wrong.rounds() if this_round.draft)
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
    assert [this_round for this_round, _, _ in told] == list(run.rounds())[1:]
    (rng,) = {rng for _, _, rng in told}  # the text's own
    tossed = getattr(rng, "tossed", [])  # shared noise tosses none
    assert bool(tossed) == (run.pair.draft is not None and not run.coupled)
    if not run.coupled:
        distribution, token = rng.sampled
        assert token == told[-1][0].tokens[-1] and distribution[token] > 0
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
        assert result["accepted"] == sum(this_round.accepted for this_round, _, _ in told)


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


def test_times_are_the_median_of_three_if_that_is_quick():
    def result(seconds):
        times = {"seconds": seconds, "prefill_seconds": 0.1, "tokens_per_second": 1 / seconds}
        return times | {"text": "a", "timed_runs": 1}

    runs = iter([result(0.125), result(0.5)])
    run = SimpleNamespace(K=4, finish=lambda: next(runs))
    slow = result(0.5)
    assert with_median_times(slow, run) == slow
    assert with_median_times(result(0.2), run) == result(0.2) | {"timed_runs": 3}
    learns = SimpleNamespace(K=lambda last_round: 4)
    assert with_median_times(result(0.2), learns) == result(0.2)


@pytest.mark.parametrize(
    "draft, each",
    [(PAIR.draft, 0.25), (NGrams(), 0.0), (None, 0.0)],
    ids=["model", "ngram", "none"],
)
def test_the_parts_of_each_round(monkeypatch, draft, each):
    """A row of the target takes 1 second, one of the draft 0.25, the rule 8, probabilities 16."""
    time = Time()
    monkeypatch.setattr(clock.time, "perf_counter", time)

    def rule(*asked):
        time.now += 8
        return verify(*asked)

    def to_probs(logits):
        time.now += 16
        return SamplingParams(1.0)(logits)

    draft = draft and draft.map_models(lambda model: Slow(model, each, time))
    pair = Pair(Slow(PAIR.target, 1.0, time), draft, None)
    run = Run(pair, [1, 2, 1], 12, 3, to_probs, rule=rule)
    prefill, *rounds = run.timed_rounds()
    assert prefill == (Round([]), Seconds(0, 0, 0))  # it asks for no logits
    assert [this_round for this_round, _ in rounds] == [*run.rounds()][1:]
    for this_round, seconds in rounds:
        n = len(this_round.draft)
        of_a_draft = each + 16 * bool(each)  # a draft model's tokens are sampled while drafting
        assert seconds == Seconds(of_a_draft * n, n + 1, 16 + (8 if draft else 0))
        assert seconds.total == seconds.draft + seconds.target + seconds.rest


@pytest.mark.parametrize("slow", [0, 100])
def test_the_clock_stands_still_while_watchers_look(monkeypatch, slow):
    time = Time()
    monkeypatch.setattr(clock.time, "perf_counter", time)
    total = []

    def watch(this_round, seconds=None, rng=None):
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

    def watch(this_round, seconds=None, rng=None):
        if this_round is not None:
            assert alive() == 0
            arrays.extend(weakref.ref(x) for x in (this_round.p, this_round.q) if x is not None)

    pair = replace(run.pair, target=Looking(run.pair.target, 0, Time()))
    run = replace(run, pair=pair)
    notes = Notes(run)
    run.finish(watch, notes)
    assert alive() == 0 and len(notes.notes) > 3
    assert most == (2 if run.pair.draft else 1)
    assert len(arrays) == most * len(notes.notes)
