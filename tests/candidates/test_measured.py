"""What the rules would accept at the places of a pair's texts."""

import numpy as np
import pytest
from toys import TINY, tiny_model

from experiments.candidates import measured, siblings
from sampling import Filter


class Words:
    end_of_text = TINY.n_vocab - 1


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_places_are_those_of_a_text_by_the_target(temperature):
    target, draft = tiny_model(1), tiny_model(2)
    filter = Filter(temperature)
    found = measured.places(target, draft, Words, [1, 2, 3], 5, filter, np.random.default_rng(0))
    assert len(found) == 5
    first = filter(target.read([1, 2, 3], target.new_cache()))[0]
    assert found[0].p == pytest.approx(first)
    logits = draft.read([1, 2, 3], draft.new_cache())
    assert found[0].q == pytest.approx(filter(logits)[0])
    assert found[0].logits == pytest.approx(logits[0])


def test_what_is_accepted_grows_with_the_candidates_where_it_must():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(6), 2)
    found = measured.accepted_at(measured.Place(p, q, np.log(q)), 4, rng)
    assert list(found) == list(measured.RULES) and all(len(row) == 4 for row in found.values())
    for rule, row in found.items():
        if rule != measured.BEST_OF:  # which may lose by another candidate
            assert (np.diff(row) > -1e-12).all(), rule
        if rule != measured.LIKELIEST:  # which is chosen, not sampled
            assert row[0] == pytest.approx(np.minimum(p, q).sum())
    assert found[measured.LIKELIEST] == pytest.approx(np.sort(p[np.argsort(-q)[:4]].cumsum()))


def test_at_temperature_0_only_chosen_candidates_gain():
    p, q = np.eye(4)[1], np.eye(4)[0]
    place = measured.Place(p, q, np.array([2.0, 1.0, 0.0, -1.0]))
    found = measured.accepted_at(place, 2, np.random.default_rng(0))
    assert found[measured.LIKELIEST].tolist() == [0, 1]
    assert all(row.tolist() == [0, 0] for rule, row in found.items() if rule != measured.LIKELIEST)


def test_means_over_places_and_their_error_by_hand():
    """Two texts: the draft is right everywhere in the first, wrong everywhere in the second."""
    right, wrong = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    texts = [[measured.Place(right, right, right)] * 3, [measured.Place(right, wrong, wrong)]]
    found = measured.acceptance(texts, 1, np.random.default_rng(0))
    assert found.n_places == 4
    for rule in measured.RULES:
        assert found.mean[rule] == pytest.approx([0.75])
        # deviations of the texts' sums from 0.75 of their places: 0.75 and -0.75; 2 / (2 - 1) of
        # their squares, as the mean was taken from the same two texts
        assert found.error[rule] == pytest.approx([np.sqrt(2 * 2 * 0.75**2) / 4])
    alone = measured.acceptance(texts[:1], 1, np.random.default_rng(0))
    assert set(alone.error.values()) == {None}


def test_different_candidates_run_out():
    candidates, rows = siblings.without_replacement(
        np.array([0.5, 0.5, 0.0]), 5, np.random.default_rng(0)
    )
    assert sorted(candidates) == [0, 1] and rows.shape == (2, 3)
