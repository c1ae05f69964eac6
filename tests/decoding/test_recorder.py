"""Watching a speculative run: the notes are the numbers of the loop."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_exact import FILTERS, TableModel, at_eos, never, tokens_of

import sampling
from experiments.decoding.decoders import NGRAM, decode
from experiments.decoding.recorder import Watch, likeliest


def watched(target, draft, ids, n_tokens, K, filter, seed, ended=never, coupled=False):
    """(rounds, notes) of a watched run."""
    watch = Watch(coupled)
    rounds = list(watch.decode(target, draft, ids, n_tokens, K, filter, seed, ended))[1:]
    assert [note.round for note in watch.notes] == rounds
    return rounds, watch.notes


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
    target, draft = (
        TableModel(tables[0], zeros=True),
        NGRAM if tables[1] is None else TableModel(tables[1]),
    )
    text, tossed = [0, 1, 0], []
    with pytest.MonkeyPatch.context() as patch:
        toss = sampling.toss
        patch.setattr(
            sampling,
            "toss",
            lambda r, rng: tossed.append((float(r), toss(r, rng))) or tossed[-1][1],
        )
        rounds, notes = watched(target, draft, text, 12, K, filter, seed, ended)
    plain = decode(
        "speculative", target, draft, text, 12, K=K, filter=filter, seed=seed, ended=ended
    )
    assert rounds == list(plain)[1:]  # to be watched changes nothing
    row = lambda model, ids: filter(model.read(ids, model.new_cache()))[0]
    expected = []
    for one, note in zip(rounds, notes):
        assert len(note.draft) == len(note.p) == len(note.q) == len(note.overlap) == one.drafted
        for i, token in enumerate(note.draft):
            p = row(target, text + note.draft[:i])
            q = row(draft, text + note.draft[:i]) if draft != NGRAM else np.eye(3)[token]
            assert (note.p[i], note.q[i]) == (p[token], q[token])
            assert note.overlap[i] == pytest.approx(np.minimum(p, q).sum())
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
            q = row(draft, text + one.tokens[:i]) if draft != NGRAM else np.eye(3)[note.draft[i]]
            rest = sampling.residual(row(target, text + one.tokens[:i]), q)
            assert note.residual[0][0] == rest.argmax() and all(
                mass == rest[x] for x, mass in note.residual
            )
            assert one.tokens[i] in dict(note.residual)
        else:
            assert note.residual is None
        assert set(note.seconds) == {"draft", "target", "rule"} and min(note.seconds.values()) >= 0
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
    block = {"K": K, "filter": filter, "seed": seed, "verification": "block"}
    watch = Watch()
    rounds = list(watch.decode(target, draft, [0, 1], 12, ended=never, **block))
    assert rounds == list(decode("speculative", target, draft, [0, 1], 12, **block))
    text = [0, 1]
    for note in watch.notes:
        P = 1.0
        for p, q, support in zip(note.p, note.q, note.support, strict=True):
            P = min(1.0, P * p / q)
            assert support == P
        i = note.round.accepted
        assert note.coins == note.numbers == []
        assert (note.residual is None) == (i == note.round.examined)
        if note.residual:
            ids = text + note.draft[:i]
            p, q = (filter(model.read(ids, model.new_cache()))[0] for model in (target, draft))
            rest = np.maximum((note.support[i - 1] if i else 1.0) * p - q, 0)
            expected = dict(enumerate(rest / rest.sum()))
            assert dict(note.residual) == pytest.approx({x: expected[x] for x, _ in note.residual})
        text += [int(token) for token in note.round.tokens]


def test_a_coupled_note_has_the_distributions_under_the_noise():
    target, draft, filter = TableModel(1), TableModel(2), FILTERS["T=0.7"]
    rounds, notes = watched(target, draft, [0], 30, 3, filter, 4, coupled=True)
    p, q = (filter(model.read([0], model.new_cache()))[0] for model in (target, draft))
    first = notes[0]
    assert (first.p[0], first.q[0]) == (p[first.draft[0]], q[first.draft[0]]) and 0 < first.p[0] < 1
    assert all(note.coins == [] and note.residual is None for note in notes)
    assert any(one.accepted < one.examined for one in rounds)


def test_the_likeliest_come_in_order_and_without_the_impossible():
    assert likeliest(np.array([0.1, 0.0, 0.4, 0.2, 0.05, 0.25])) == [2, 5, 3, 0]
    assert likeliest(np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])) == [1]
    assert likeliest(np.array([0.5, 0.5])) == [0, 1]


def test_the_clock_stands_still_while_notes_are_taken(monkeypatch):
    watch, noted = Watch(), Watch.note
    monkeypatch.setattr(Watch, "note", lambda *arguments: time.sleep(0.05) or noted(*arguments))
    begin, real = watch.clock(), time.perf_counter()
    rounds = list(watch.decode(TableModel(1), TableModel(2), [0], 8, 2, FILTERS["T=1"], 0, never))[
        1:
    ]
    slept = 0.05 * len(rounds)
    assert watch.aside >= slept and watch.clock() - begin <= time.perf_counter() - real - slept
    assert sum(sum(note.seconds.values()) for note in watch.notes) <= watch.clock() - begin


def test_a_second_run_forgets_the_first():
    watch = Watch()
    for n in (9, 3):
        rounds = list(watch.decode(TableModel(1), NGRAM, [0, 1], n, 2, FILTERS["T=1"], 0, never))[
            1:
        ]
        assert [note.round for note in watch.notes] == rounds and len(tokens_of(rounds)) == n
