"""The notes of a speculative run are the numbers of the loop."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from table_models import FILTERS, TableModel, at_eos

import sampling
from cli.trace import sources_of
from decoding.coupled import SharedNoise, verify_shared_noise
from decoding.decode import make_drafter
from page.rounds import LikeliestRng, RecordingRng, noted
from sampling import never, speculative

IDS = [0, 1, 0]
tables = st.integers(0, 99)
cases = given(
    target=tables,
    draft=tables | st.none(),
    K=st.integers(1, 5),
    to_probs=st.sampled_from(list(FILTERS.values())),
    seed=st.integers(0, 2**70),
    is_done=st.sampled_from([never, at_eos]),
)


class Heard(RecordingRng):
    """A RecordingRng that also says how its coins fell, as (ratio, heads)."""

    def __init__(self, seed):
        super().__init__(seed)
        self.fell = []

    def accept(self, ratio):
        self.fell.append((float(ratio), super().accept(ratio)))
        return self.fell[-1][1]


def run(target, draft, K, to_probs, rng, is_done=never, rule="token"):
    """The Rounds of a text."""
    drafter = make_drafter(draft, target, to_probs, rng)
    rules = {**sampling.RULES, "coupled": verify_shared_noise, "likeliest": verify_shared_noise}
    return speculative(target, drafter, IDS, 12, K, to_probs, rng, is_done, rules[rule])


def heard(rounds, kept):
    """Pass Rounds on, and keep them."""
    for this_round in rounds:
        kept.append(this_round)
        yield this_round


def watched(target, draft, K, to_probs, new_rng, is_done=never, rule="token"):
    """(rounds without the prefill, notes, the Rng) of a text. To be watched changes nothing."""
    rng, kept = new_rng(), []
    rounds = heard(run(target, draft, K, to_probs, rng, is_done, rule), kept)
    notes = list(noted(rounds, rng, "token" if rule == "likeliest" else rule))
    first, *rounds = kept
    unwatched = list(run(target, draft, K, to_probs, new_rng(), is_done, rule))
    assert [first, *rounds] == unwatched and not first.tokens
    assert [note["tokens"] for note in notes] == [one.tokens for one in rounds]
    return rounds, notes, rng


def worked_out_anew(to_probs, notes, target, draft):
    """Yield (note, p, q) of each round: p [k + 1, n_vocab] and q [k, n_vocab] along its draft."""
    text = IDS
    row = lambda model, ids: to_probs(model.read(ids, model.new_cache()))[0]
    for note in notes:
        prefixes = [text + note["draft"][:i] for i in range(len(note["draft"]) + 1)]
        p = [row(target, ids) for ids in prefixes]
        q = [row(draft, ids) for ids in prefixes[:-1]] if draft else np.eye(3)[note["draft"]]
        yield note, np.array(p), np.reshape(q, (-1, 3))
        text = text + note["tokens"]


@settings(max_examples=60)
@cases
def test_the_notes_are_the_numbers_of_the_loop(target, draft, K, to_probs, seed, is_done):
    """Against p and q worked out anew for every prefix, and what the rule was asked to toss."""
    target = TableModel(target, zeros=True)
    draft = None if draft is None else TableModel(draft)
    rounds, notes, rng = watched(target, draft, K, to_probs, partial(Heard, seed), is_done)
    expected = []
    for this_round, (note, p, q) in zip(rounds, worked_out_anew(to_probs, notes, target, draft)):
        k = len(note["draft"])
        assert note["draft"] == this_round.draft and note["sources"] == sources_of(this_round)
        assert note["p"] == p[range(k), note["draft"]].tolist() and len(note["p"]) == k
        assert note["q"] == q[range(k), note["draft"]].tolist()
        assert note["overlap"] == approx(np.minimum(p[:-1], q).sum(axis=1))
        ratios = [mass / share for mass, share in zip(note["p"], note["q"])]
        accepted = [u < ratio for u, ratio in zip(note["coins"], ratios)]
        assert accepted == [i < this_round.accepted for i in range(this_round.examined)]
        expected += zip(ratios, accepted)
        for i, (token, likely) in enumerate(zip(note["tokens"], note["likely"], strict=True)):
            assert all(mass == p[i, x] for x, mass, _ in likely)
            assert likely[0][0] == p[i].argmax() and token in [x for x, _, _ in likely]
            assert all((share is None) == (i >= k) for _, _, share in likely)
    # the rule tosses no other coins, but for drafts behind the end of the text
    if is_done is never:
        assert rng.fell == expected


@settings(max_examples=40)
@cases
def test_under_the_block_rule_the_support_of_each_draft_is_noted(
    target, draft, K, to_probs, seed, is_done
):
    target, draft = TableModel(target, zeros=True), TableModel(draft or 0)
    new_rng = partial(RecordingRng, seed)
    _, notes, _ = watched(target, draft, K, to_probs, new_rng, is_done, "block")
    for note, p, q in worked_out_anew(to_probs, notes, target, draft):
        P = [1.0]  # of no draft, one, two, ...
        for p_token, q_token in zip(note["p"], note["q"]):
            P.append(min(1.0, P[-1] * p_token / q_token))
        assert note["support"] == P[1:] and note["coins"] == []
        shared = [np.minimum(before * row, other).sum() for before, row, other in zip(P, p, q)]
        assert note["overlap"] == approx(shared)


@pytest.mark.parametrize("draft", [TableModel(2), None], ids=["model", "ngram"])
def test_a_coupled_note_has_the_distributions_under_the_noise(draft):
    target, to_probs = TableModel(1), FILTERS["T=0.7"]
    new_rng = partial(SharedNoise, 4, len(IDS))
    _, notes, _ = watched(target, draft, 3, to_probs, new_rng, rule="coupled")
    for note, p, q in worked_out_anew(to_probs, notes, target, draft):
        assert note["p"] == p[range(len(note["draft"])), note["draft"]].tolist()
        assert note["overlap"] == approx(np.minimum(p[:-1], q).sum(axis=1))
        assert note["coins"] == [] and note["support"] is None
    assert any(0 < mass < 1 for note in notes for mass in note["p"])


@settings(max_examples=40)
@cases
def test_the_likeliest_words_are_those_of_temperature_0_with_the_odds_of_chance(
    target, draft, K, to_probs, seed, is_done
):
    target = TableModel(target)
    draft = None if draft is None else TableModel(draft)
    new_rng = partial(LikeliestRng, seed)
    rounds, notes, _ = watched(target, draft, K, to_probs, new_rng, is_done, "likeliest")
    greedy = [*run(target, draft, K, FILTERS["greedy"], sampling.Rng(0), is_done)][1:]
    assert rounds == greedy
    for note, p, q in worked_out_anew(to_probs, notes, target, draft):
        k = len(note["draft"])
        assert note["p"] == p[range(k), note["draft"]].tolist()
        assert note["q"] == q[range(k), note["draft"]].tolist()
        assert note["coins"] == []
