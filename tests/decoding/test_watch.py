"""Watching a speculative run: the notes are the numbers of the loop."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from table_models import FILTERS, TableModel, at_eos

import sampling
from experiments.decoding.job import Job, decode
from experiments.decoding.watch import Watch
from experiments.drafting.drafts import ModelDraft, NGrams
from sampling import never


def watched(target, draft, job, forced=None):
    """(rounds, notes) of a watched run; draft None looks n-grams up."""
    watch = Watch(job, forced)
    rounds = list(watch.watched(decode(target, draft_of(draft), job, watch)))[1:]
    assert [note.round for note in watch.notes] == rounds
    overlaps = [x for note in watch.notes for x in note.overlap[: note.round.examined]]
    assert watch.usual_acceptance_rate() == (approx(np.mean(overlaps)) if overlaps else None)
    return rounds, watch.notes


def draft_of(model):
    return ModelDraft(model) if model else NGrams()


def rows_of(filter, ids, *models):
    """The distributions of models after a text."""
    return [filter(model.read(ids, model.new_cache()))[0] for model in models]


# ---------------------------------------------------------------- the notes


@settings(max_examples=60, deadline=None)
@given(
    tables=st.tuples(st.integers(0, 99), st.integers(0, 99) | st.none()),
    K=st.integers(1, 5),
    filter=st.sampled_from(list(FILTERS.values())),
    seed=st.integers(0, 2**70),
    ended=st.sampled_from([never, at_eos]),
)
def test_the_notes_are_the_numbers_of_the_loop(tables, K, filter, seed, ended):
    """Against p and q worked out anew for every prefix, and against what the rule was asked to
    toss.
    """
    target = TableModel(tables[0], zeros=True)
    draft = None if tables[1] is None else TableModel(tables[1])
    text, tossed, toss = [0, 1, 0], [], sampling.toss
    job = Job(text, 12, K, filter, seed, ended)

    def listening(ratio, rng):
        tossed.append((float(ratio), toss(ratio, rng)))
        return tossed[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "toss", listening)
        rounds, notes = watched(target, draft, job)
    # to be watched changes nothing
    assert rounds == list(decode(target, draft_of(draft), job))[1:]
    row = lambda model, ids: rows_of(filter, ids, model)[0]
    expected = []
    for one, note in zip(rounds, notes):
        assert len(note.draft) == len(note.p) == len(note.q) == len(note.overlap) == one.drafted
        for i, token in enumerate(note.draft):
            p = row(target, text + note.draft[:i])
            q = row(draft, text + note.draft[:i]) if draft else np.eye(3)[token]
            assert (note.p[i], note.q[i]) == (p[token], q[token])
            assert note.overlap[i] == approx(np.minimum(p, q).sum())
        assert len(note.coins) == one.examined and len(note.likely) == len(one.tokens)
        for i, (u, p, q) in enumerate(zip(note.coins, note.p, note.q)):
            expected.append((p / q, u < p / q))
            assert (u < p / q) == (i < one.accepted)
        for i, likely in enumerate(note.likely):
            p = row(target, text + one.tokens[:i])
            assert all(mass == p[x] for x, mass, _ in likely) and int(p.argmax()) == likely[0][0]
            assert one.tokens[i] in [x for x, _, _ in likely]
            assert all((share is None) == (i >= one.drafted) for _, _, share in likely)
        if one.accepted < one.examined:
            i = one.accepted
            q = row(draft, text + one.tokens[:i]) if draft else np.eye(3)[note.draft[i]]
            rest = sampling.residual(row(target, text + one.tokens[:i]), q)
            assert note.residual[0][0] == rest.argmax()
            assert all(mass == rest[x] for x, mass in note.residual)
            assert one.tokens[i] in dict(note.residual)
        else:
            assert note.residual is None
        assert set(note.seconds) == {"draft", "target", "rule"} and min(note.seconds.values()) >= 0
        # the look-up of n-grams has no passes
        assert len(note.passes) == (one.drafted if draft else 0)
        assert sum(note.passes) <= note.seconds["draft"]
        text = text + one.tokens
    # and after them what was tossed for drafts behind the end of the text
    assert tossed[: len(expected)] == expected
    assert len(tossed) == len(expected) or text[-1] == 2


@settings(max_examples=40, deadline=None)
@given(
    seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)),
    K=st.integers(1, 5),
    filter=st.sampled_from(list(FILTERS.values())),
    seed=st.integers(0, 2**70),
)
def test_the_notes_of_block_verification(seeds, K, filter, seed):
    """The watched run is the plain one; the support of each draft, and what replaces a rejected
    one, are those of the rule.
    """
    target, draft = TableModel(seeds[0], zeros=True), TableModel(seeds[1])
    job = Job([0, 1], 12, K, filter, seed, rule="block")
    rounds, notes = watched(target, draft, job)
    assert rounds == list(decode(target, ModelDraft(draft), job))[1:]
    text = [0, 1]
    for note in notes:
        P = 1.0
        for p, q, support in zip(note.p, note.q, note.support, strict=True):
            P = min(1.0, P * p / q)
            assert support == P
        i = note.round.accepted
        assert note.coins == note.numbers == []
        assert (note.residual is None) == (i == note.round.examined)
        if note.residual:
            ids = text + note.draft[:i]
            p, q = rows_of(filter, ids, target, draft)
            rest = np.maximum((note.support[i - 1] if i else 1.0) * p - q, 0)
            expected = dict(enumerate(rest / rest.sum()))
            assert dict(note.residual) == approx({x: expected[x] for x, _ in note.residual})
        text += [int(token) for token in note.round.tokens]


def test_a_coupled_note_has_the_distributions_under_the_noise():
    target, draft, filter = TableModel(1), TableModel(2), FILTERS["T=0.7"]
    rounds, notes = watched(target, draft, Job([0], 30, 3, filter, seed=4, coupled=True))
    p, q = rows_of(filter, [0], target, draft)
    first = notes[0]
    assert (first.p[0], first.q[0]) == (p[first.draft[0]], q[first.draft[0]]) and 0 < first.p[0] < 1
    assert all(note.coins == [] and note.residual is None for note in notes)
    assert any(one.accepted < one.examined for one in rounds)


def test_the_clock_stands_still_while_notes_are_taken(monkeypatch):
    job = Job([0], 8, 2, FILTERS["T=1"])
    watch, noted = Watch(job), Watch.note
    monkeypatch.setattr(Watch, "note", lambda *arguments: time.sleep(0.05) or noted(*arguments))
    begin, real = watch.clock(), time.perf_counter()
    rounds = decode(TableModel(1), ModelDraft(TableModel(2)), job, watch)
    slept = 0.05 * len(list(watch.watched(rounds))[1:])
    assert watch.aside >= slept and watch.clock() - begin <= time.perf_counter() - real - slept
    assert sum(sum(note.seconds.values()) for note in watch.notes) <= watch.clock() - begin


def test_a_forced_number_takes_the_place_of_the_seeds():
    """A coin of 0 accepts any draft, and one of almost 1 rejects it; the numbers before stay."""
    target, draft, job = TableModel(1), TableModel(2), Job([0], 12, 2, FILTERS["T=1"], seed=3)
    _, notes = watched(target, draft, job)
    place, index, u, ratio = next(
        (place, index, u, note.p[i] / note.q[i])
        for place, note in enumerate(notes)
        for i, (index, u) in enumerate(zip(note.numbers, note.coins))
        if note.p[i] < note.q[i]
    )
    other = 0.0 if u >= ratio else np.nextafter(1, 0)
    _, changed = watched(target, draft, job, {index: other})
    assert [note.round for note in changed[:place]] == [note.round for note in notes[:place]]
    assert other in changed[place].coins and changed[place].round != notes[place].round
