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


def worked_out_anew(job, notes, target, draft):
    """Yield (note, p, q) of each round: p [k + 1, n_vocab] and q [k, n_vocab] along its draft."""
    text = job.ids
    for note in notes:
        prefixes = [text + note.draft[:i] for i in range(len(note.draft) + 1)]
        p = [rows_of(job.filter, ids, target)[0] for ids in prefixes]
        q = [rows_of(job.filter, ids, draft)[0] for ids in prefixes[:-1]] if draft else None
        yield note, np.array(p), np.eye(3)[note.draft] if q is None else np.reshape(q, (-1, 3))
        text = text + note.round.tokens


@settings(max_examples=60, deadline=None)
@given(
    tables=st.tuples(st.integers(0, 99), st.integers(0, 99) | st.none()),
    K=st.integers(1, 5),
    filter=st.sampled_from(list(FILTERS.values())),
    seed=st.integers(0, 2**70),
    ended=st.sampled_from([never, at_eos]),
)
def test_the_notes_are_the_numbers_of_the_loop(tables, K, filter, seed, ended):
    """Against p and q worked out anew for every prefix, and what the rule was asked to toss."""
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
    expected = []
    for note, p, q in worked_out_anew(job, notes, target, draft):
        one, places = note.round, range(len(note.draft))
        assert note.p == p[places, note.draft].tolist() and len(note.p) == one.drafted
        assert note.q == q[places, note.draft].tolist()
        assert note.overlap == approx(np.minimum(p[:-1], q).sum(axis=1))
        ratios = [mass / share for mass, share in zip(note.p, note.q)]
        accepted = [u < ratio for u, ratio in zip(note.coins, ratios)]
        assert accepted == [i < one.accepted for i in range(one.examined)]
        expected += zip(ratios, accepted)
        for i, (token, likely) in enumerate(zip(one.tokens, note.likely, strict=True)):
            assert all(mass == p[i, x] for x, mass, _ in likely)
            assert likely[0][0] == p[i].argmax() and token in [x for x, _, _ in likely]
            assert all((share is None) == (i >= one.drafted) for _, _, share in likely)
        if one.accepted < one.examined:
            rest = sampling.residual(p[one.accepted], q[one.accepted])
            assert note.residual[0][0] == rest.argmax()
            assert all(mass == rest[x] for x, mass in note.residual)
            assert one.tokens[-1] in dict(note.residual)
        else:
            assert note.residual is None
        assert set(note.seconds) == {"draft", "target", "rule"} and min(note.seconds.values()) >= 0
        # the look-up of n-grams has no passes
        assert len(note.passes) == (one.drafted if draft else 0)
        assert sum(note.passes) <= note.seconds["draft"]
    # and after them what was tossed for drafts behind the end of the text
    assert tossed[: len(expected)] == expected
    assert len(tossed) == len(expected) or rounds[-1].tokens[-1] == 2


@settings(max_examples=40, deadline=None)
@given(
    seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)),
    K=st.integers(1, 5),
    filter=st.sampled_from(list(FILTERS.values())),
    seed=st.integers(0, 2**70),
)
def test_the_notes_of_block_verification(seeds, K, filter, seed):
    """The support of each draft, and what replaces a rejected one, are those of the rule."""
    target, draft = TableModel(seeds[0], zeros=True), TableModel(seeds[1])
    job = Job([0, 1], 12, K, filter, seed, rule="block")
    rounds, notes = watched(target, draft, job)
    assert rounds == list(decode(target, ModelDraft(draft), job))[1:]
    for note, p, q in worked_out_anew(job, notes, target, draft):
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
