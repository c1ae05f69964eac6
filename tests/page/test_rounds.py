"""Watching a speculative run: the notes are the numbers of the loop."""

import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from decoding.drafts import ModelDraft
from decoding.load import Pair
from decoding.run import RecordingRng, Run
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from table_models import FILTERS, TableModel, at_eos

import sampling
from decoding.coupled import SharedNoise, verify_shared_noise
from decoding.ngrams import NGrams
from page.rounds import Notes
from proving.mistakes import loop_with_mistake
from sampling import never

ENCODER = SimpleNamespace(decode=str, without_end=list)  # run.finish asks for the text


class Heard(RecordingRng):
    """RecordingRng that also say how they fell, as (ratio, heads)."""

    def __init__(self, seed):
        super().__init__(seed)
        self.fell = []

    def accept(self, ratio):
        self.fell.append((float(ratio), super().accept(ratio)))
        return self.fell[-1][1]


def pair_of(target, draft):
    """The Pair of two models; draft None looks n-grams up."""
    return Pair(target, ModelDraft(draft) if draft else NGrams(), ENCODER)


def watched(run):
    """(rounds, notes, what finish returns, the Rng) of a watched run."""
    rng, rounds = run.new_rng(), []
    notes = Notes(run, in_blocks=run.rule is sampling.verify_block)
    result = replace(run, new_rng=lambda: rng).finish(
        notes, lambda this_round, *moment: rounds.append(this_round)
    )
    assert rounds.pop() is None  # the end
    assert [note.round for note in notes.notes] == rounds
    # no note keeps whole distributions
    assert all(note.round.q is note.round.p is None for note in notes.notes)
    assert list(run.rounds())[1:] == rounds  # to be watched changes nothing
    return rounds, notes.notes, result, rng


def rows_of(to_probs, ids, *models):
    """The distributions of models after a text."""
    return [to_probs(model.read(ids, model.new_cache()))[0] for model in models]


def worked_out_anew(run, notes, target, draft):
    """Yield (note, p, q) of each round: p [k + 1, n_vocab] and q [k, n_vocab] along its draft."""
    text = run.ids
    for note in notes:
        prefixes = [text + note.draft[:i] for i in range(len(note.draft) + 1)]
        p = [rows_of(run.to_probs, ids, target)[0] for ids in prefixes]
        q = [rows_of(run.to_probs, ids, draft)[0] for ids in prefixes[:-1]] if draft else None
        yield note, np.array(p), np.eye(3)[note.draft] if q is None else np.reshape(q, (-1, 3))
        text = text + note.round.tokens


@settings(max_examples=60, deadline=None)
@given(
    tables=st.tuples(st.integers(0, 99), st.integers(0, 99) | st.none()),
    K=st.integers(1, 5),
    to_probs=st.sampled_from(list(FILTERS.values())),
    seed=st.integers(0, 2**70),
    is_done=st.sampled_from([never, at_eos]),
)
def test_the_notes_are_the_numbers_of_the_loop(tables, K, to_probs, seed, is_done):
    """Against p and q worked out anew for every prefix, and what the rule was asked to toss."""
    target = TableModel(tables[0], zeros=True)
    draft = None if tables[1] is None else TableModel(tables[1])
    pair, rng = pair_of(target, draft), partial(Heard, seed)
    run = Run(pair, [0, 1, 0], 12, K, to_probs, rng, is_done)
    rounds, notes, _, rng = watched(run)
    expected = []
    for note, p, q in worked_out_anew(run, notes, target, draft):
        this_round, k = note.round, len(note.draft)
        assert note.draft == this_round.draft
        assert note.p == p[range(k), note.draft].tolist() and len(note.p) == k
        assert note.q == q[range(k), note.draft].tolist()
        assert note.overlap == approx(np.minimum(p[:-1], q).sum(axis=1))
        ratios = [mass / share for mass, share in zip(note.p, note.q)]
        accepted = [u < ratio for u, ratio in zip(note.coins, ratios)]
        assert accepted == [i < this_round.accepted for i in range(this_round.examined)]
        assert note.coins == [rng.tossed[index][1] for index in note.numbers]
        expected += zip(ratios, accepted)
        for i, (token, likely) in enumerate(zip(this_round.tokens, note.likely, strict=True)):
            assert all(mass == p[i, x] for x, mass, _ in likely)
            assert likely[0][0] == p[i].argmax() and token in [x for x, _, _ in likely]
            assert all((share is None) == (i >= k) for _, _, share in likely)
        if this_round.accepted < this_round.examined:
            rest = sampling.residual(p[this_round.accepted], q[this_round.accepted])
            assert note.residual[0][0] == rest.argmax()
            assert all(mass == rest[x] for x, mass in note.residual)
            assert this_round.tokens[-1] in dict(note.residual)
        else:
            assert note.residual is None
        took = note.seconds
        assert min(took.draft, took.target, took.rest) > 0
    # and after them what was tossed for drafts behind the end of the text
    assert rng.fell[: len(expected)] == expected
    assert [n for note in notes for n in note.numbers] == [*range(len(expected))]
    assert len(rng.fell) == len(expected) or rounds[-1].tokens[-1] == 2


@settings(max_examples=40, deadline=None)
@given(
    seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)),
    K=st.integers(1, 5),
    to_probs=st.sampled_from(list(FILTERS.values())),
    seed=st.integers(0, 2**70),
)
def test_the_notes_of_block_verification(seeds, K, to_probs, seed):
    """The support of each draft, and what replaces a rejected one, are those of the rule."""
    target, draft = TableModel(seeds[0], zeros=True), TableModel(seeds[1])
    rng, rule = partial(RecordingRng, seed), sampling.verify_block
    run = Run(pair_of(target, draft), [0, 1], 12, K, to_probs, rng, rule=rule)
    _, notes, _, _ = watched(run)
    for note, p, q in worked_out_anew(run, notes, target, draft):
        P = [1.0]  # of no draft, one, two, ...
        for p_token, q_token in zip(note.p, note.q):
            P.append(min(1.0, P[-1] * p_token / q_token))
        assert note.support == P[1:]
        i = note.round.accepted
        assert note.coins == note.numbers == []
        assert (note.residual is None) == (i == note.round.examined)
        if note.residual:
            rest = np.maximum(P[i] * p[i] - q[i], 0)
            assert all(mass == approx(rest[x] / rest.sum()) for x, mass in note.residual)


@pytest.mark.parametrize("draft", [TableModel(2), None], ids=["model", "ngram"])
def test_a_coupled_note_has_the_distributions_under_the_noise(draft):
    target, ids, to_probs = TableModel(1), [0], FILTERS["T=0.7"]
    pair, rng = pair_of(target, draft), partial(SharedNoise, 4, len(ids))
    run = Run(pair, ids, 30, 3, to_probs, rng, rule=verify_shared_noise)
    rounds, notes, result, _ = watched(run)
    for note, p, q in worked_out_anew(run, notes, target, draft):
        places = range(len(note.draft))
        assert note.p == p[places, note.draft].tolist()
        assert note.q == q[places, note.draft].tolist()
        assert note.overlap == approx(np.minimum(p[:-1], q).sum(axis=1))
        assert note.residual is note.support is None
        # none was tossed
        assert note.coins == note.numbers == [None] * note.round.examined
    assert any(0 < mass < 1 for note in notes for mass in note.p)
    assert any(this_round.accepted < this_round.examined for this_round in rounds)
    overlaps = [x for note in notes for x in note.overlap[: note.round.examined]]
    assert result["usual_acceptance_rate"] == approx(np.mean(overlaps))


@settings(max_examples=60, deadline=None)
@given(
    seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)),
    K=st.integers(1, 5),
    to_probs=st.sampled_from(list(FILTERS.values())),
    seed=st.integers(0, 2**70),
)
def test_no_coin_is_claimed_where_a_mistake_tosses_none_for_some_drafts(seeds, K, to_probs, seed):
    """The first draft of a round has no coin: whose the others are, nobody can tell."""
    target, draft = TableModel(seeds[0], zeros=True), TableModel(seeds[1])
    loop = loop_with_mistake("first-draft-unverified")
    run = Run(pair_of(target, draft), [0, 1], 12, K, to_probs, partial(Heard, seed), loop=loop)
    _, notes, _, _ = watched(run)
    for note in notes:
        assert note.coins == note.numbers == [None] * note.round.examined


def test_the_replacements_are_those_that_the_rule_sampled_from():
    """A mistake samples them from p, in place of the residual."""
    pair, loop = pair_of(TableModel(1), TableModel(2)), loop_with_mistake("resample-from-p")
    run = Run(pair, [0], 20, 3, FILTERS["T=0.7"], partial(RecordingRng, 5), loop=loop)
    rounds, notes, _, _ = watched(run)
    rejections = [(one, note) for one, note in zip(rounds, notes) if note.residual]
    for one, note in rejections:
        assert all(mass == one.p[one.accepted, x] for x, mass in note.residual)
    assert rejections


@pytest.mark.parametrize("mistake", ["reseed", "filter-on-draft-only"])
def test_a_coin_that_is_not_the_run_s_or_has_another_ratio_is_no_error(mistake):
    """The first tosses coins of its own, so the run's has none; the second is asked as usual."""
    pair, loop = pair_of(TableModel(1), TableModel(2)), loop_with_mistake(mistake)
    run = Run(pair, [0], 20, 3, FILTERS["T=0.7"], partial(Heard, 5), loop=loop)
    _, notes, _, rng = watched(run)
    numbers = [n for note in notes for n in note.numbers]
    expected = [None] * len(numbers) if mistake == "reseed" else [*range(len(rng.tossed))]
    assert numbers == expected and numbers


def test_the_clock_stands_still_while_notes_are_taken(monkeypatch):
    noted, slept = Notes.note, []
    sleeping = lambda *arguments: slept.append(time.sleep(0.05)) or noted(*arguments)
    monkeypatch.setattr(Notes, "note", sleeping)
    pair = pair_of(TableModel(1), TableModel(2))
    run = Run(pair, [0], 8, 2, FILTERS["T=1"], partial(RecordingRng, 0))
    notes, begin = Notes(run), time.perf_counter()
    result = run.finish(notes)
    elapsed = time.perf_counter() - begin
    assert len(slept) == len(notes.notes) == result["rounds"]
    assert result["seconds"] + result["prefill_seconds"] <= elapsed - 0.05 * len(slept)
    seconds = sum(note.seconds.total for note in notes.notes)
    assert seconds == approx(result["seconds"])
