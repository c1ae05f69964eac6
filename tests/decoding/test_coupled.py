"""Shared noise: the speculative text is the autoregressive text whatever the draft, and its
distribution is the target's. Exactly.

Three steps make the second proof. Which token wins at a position is a comparison of noise with
thresholds (property test); the probability of that, for Gumbel noise, is p (quadrature); and with
noise that is independent from position to position the distribution of the whole text is the chain
rule's (every possible noise of a two-token vocabulary, enumerated).
"""

import itertools
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import (
    FILTERS,
    TableModel,
    assert_same_distribution,
    at_eos,
    chain_rule,
    distributions,
)
from toys import tokens_of

from decoding import coupled as coupling
from decoding.coupled import SharedNoise, gumbel_noise, verify_shared_noise
from decoding.decode import make_drafter
from sampling import SamplingParams, autoregressive, never, speculative


def coupled_rounds(target, draft, ids, n_tokens, K, to_probs, seed, is_done=never):
    """The Rounds of the speculative text under shared noise; draft None looks n-grams up."""
    rng = SharedNoise(seed, len(ids))
    drafter = make_drafter(draft, target, to_probs, rng)
    return speculative(
        target, drafter, ids, n_tokens, K, to_probs, rng, is_done, verify_shared_noise
    )


def both_texts(target, draft, ids, n_tokens, K, to_probs, seed, is_done=never):
    """The texts of the two loops under shared noise."""
    rng = SharedNoise(seed, len(ids))
    plain = autoregressive(target, ids, n_tokens, to_probs, rng, is_done)
    rounds = coupled_rounds(target, draft, ids, n_tokens, K, to_probs, seed, is_done)
    return tokens_of(plain), tokens_of(rounds)


# ---------------------------------------------------------------- the text is not the draft's


@settings(max_examples=50, deadline=None)
@given(
    tables=st.tuples(st.integers(0, 99), st.integers(0, 99) | st.none()),
    zeros=st.booleans(),
    n_ctx=st.sampled_from([6, 64]),
    K=st.integers(1, 6),
    n_tokens=st.integers(1, 9),
    to_probs=st.sampled_from(list(FILTERS.values())),
    seed=st.integers(0, 2**70),
    is_done=st.sampled_from([never, at_eos]),
)
def test_the_two_texts_are_equal(tables, zeros, n_ctx, to_probs, seed, **more):
    target = TableModel(tables[0], zeros=zeros, n_ctx=n_ctx)
    draft = None if tables[1] is None else TableModel(tables[1], zeros=zeros)
    how = dict(to_probs=to_probs, seed=seed, **more)
    plain, speculative = both_texts(target, draft, [0, 1, 0], **how)
    assert plain == speculative and plain
    # each token is the best under the noise of its position
    for i, token in enumerate(plain):
        text = [0, 1, 0, *plain[:i]]
        (p,) = to_probs(target.read(text, target.new_cache()))
        with np.errstate(divide="ignore"):
            assert token == (np.log(p) + gumbel_noise(seed, len(text), 3)).argmax()


@settings(max_examples=50, deadline=None)
@given(
    values=st.lists(st.integers(-2, 2), min_size=3, max_size=60),
    K=st.integers(1, 4),
    draft=st.integers(0, 9),
)
def test_the_two_texts_are_equal_for_any_noise(values, K, draft):
    """Also for noise that is far from Gumbel's, repeats itself and has ties."""
    rows = list(itertools.islice(itertools.cycle(values), 60))
    with pytest.MonkeyPatch.context() as patch:
        repeated = lambda seed, position, n_vocab: np.array(rows[3 * position : 3 * position + 3])
        patch.setattr(coupling, "gumbel_noise", repeated)
        target, draft = TableModel(1, zeros=True), TableModel(draft)
        plain, speculative = both_texts(target, draft, [0], 8, K, FILTERS["T=1"], 0, at_eos)
    assert plain == speculative


@settings(max_examples=50, deadline=None)
@given(
    drafts=st.lists(st.lists(st.integers(0, 2), max_size=4), min_size=1, max_size=5),
    seed=st.integers(0, 2**70),
    look=st.integers(0, 3),
)
def test_any_draft_is_accepted_as_far_as_it_is_the_text(drafts, seed, look):
    """Round after round, whatever a drafter has sampled before with the same noise."""
    p, rng, begin = np.full((5, 3), 1 / 3), SharedNoise(seed, 7), 7
    text = [int(gumbel_noise(seed, position, 3).argmax()) for position in range(7, 7 + 5 * 5)]
    for draft in drafts:
        assert [rng.sample(p[0]) for _ in range(look)] == text[begin - 7 :][:look]
        n_accepted, token = verify_shared_noise(draft, p[: len(draft) + 1], None, rng)
        right = text[begin - 7 :]
        assert [*draft[:n_accepted], token] == right[: n_accepted + 1]
        assert n_accepted == len(draft) or draft[n_accepted] != right[n_accepted]
        begin += n_accepted + 1


def test_the_noise_depends_on_seed_and_position_only():
    places = list(itertools.product(range(4), repeat=2))
    once = {place: gumbel_noise(*place, 4) for place in places}
    assert all((gumbel_noise(*place, 4) == once[place]).all() for place in reversed(places))
    assert len({tuple(row) for row in once.values()}) == 16
    assert not np.isin(gumbel_noise(1, 2, 50), gumbel_noise(2, 1, 50)).any()


# ---------------------------------------------------------------- its distribution is the target's

distribution = distributions(4, 9)


def winner(p, g):
    """The token that the code chooses where the noise is g."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coupling, "gumbel_noise", lambda seed, position, n_vocab: g)
        return SharedNoise(0, 1).sample(p)


@settings(max_examples=50, deadline=None)
@given(p=distribution, g=st.lists(st.floats(-5, 5), min_size=4, max_size=4), data=st.data())
def test_a_token_wins_where_every_other_is_below_its_threshold(p, g, data):
    """x wins if and only if g(y) < g(x) + log p(x) - log p(y) for all other y with p(y) > 0."""
    x = data.draw(st.sampled_from([int(x) for x in np.flatnonzero(p)]))
    others = [int(y) for y in np.flatnonzero(p) if y != x]
    g = np.array(g)
    g[others] = g[x] + np.log(p[x]) - np.log(p[others]) - 1e-6
    assert winner(p, g) == x
    for y in others:
        assert winner(p, g + 2e-6 * np.eye(4)[y]) == y


@settings(max_examples=50, deadline=None)
@given(p=distribution)
def test_for_gumbel_noise_the_probability_of_that_is_p(p):
    """The integral over g(x) of its density times the probability that all others stay below their
    thresholds.

    With t = exp(-g(x)) the density is exp(-t), which is also the distribution function at g(x): x's
    own threshold. The substitution t = p(x) s leaves exp(-s) times 1, which the quadrature
    integrates without error.
    """
    nodes, weights = np.polynomial.laguerre.laggauss(10)
    for x in np.flatnonzero(p):
        thresholds = -np.log(p[x] * nodes)[:, None] + np.log(p[x]) - np.log(p[p > 0])
        # the distribution function of the standard Gumbel
        below = np.exp(-np.exp(-thresholds)).prod(axis=1)
        assert abs((weights * np.exp(nodes) * below).sum() * p[x] - p[x]) < 1e-12


def test_the_noise_is_gumbel():
    """Kolmogorov and Smirnov's distance, which exceeds 0.008 once in 180,000 seeds."""
    values = np.sort(gumbel_noise(1, 2, 100_000))
    assert abs(np.exp(-np.exp(-values)) - np.arange(0.5, 1e5) / 1e5).max() < 0.008


at_1 = lambda generated: generated[-1] == 1


@pytest.mark.parametrize(
    "to_probs, n_tokens, K, is_done",
    [
        ("T=1", 3, 1, never),
        ("T=1", 4, 3, at_1),
        ("T=0.7", 3, 2, never),
        ("top_p", 4, 2, never),
        ("greedy", 4, 3, at_1),
    ],
)
def test_the_distribution_of_the_text_is_the_chain_rule(to_probs, n_tokens, K, is_done):
    """Of two tokens, 0 wins where V < p(0), V = 1 / (1 + exp(g(0) - g(1))), and V is uniform as g
    is Gumbel.

    So a position has as many different noises as there are intervals between the p(0) and q(0) of
    the texts that may lead there. Every combination of them runs through the real loop, and its
    probability is the product of their lengths.
    """
    target, draft = TableModel(1, n_vocab=2), TableModel(2, n_vocab=2)
    to_probs = FILTERS[to_probs]
    places = []  # of each position, the (length, noise) of its intervals
    for n in range(n_tokens):
        prefixes = [[0, *text] for text in itertools.product(range(2), repeat=n)]
        cuts = {
            to_probs(model.read(ids, model.new_cache()))[0, 0]
            for model in (target, draft)
            for ids in prefixes
        }
        edges = np.array(sorted({0.0, 1.0} | cuts))
        middles = (edges[1:] + edges[:-1]) / 2
        places.append(list(zip(np.diff(edges), np.log(1 / middles - 1))))
    found = defaultdict(float)
    with pytest.MonkeyPatch.context() as patch:
        for chosen in itertools.product(*places):
            table = [np.array([g, 0.0]) for _, g in chosen]
            patch.setattr(
                coupling, "gumbel_noise", lambda seed, position, n_vocab: table[position - 1]
            )
            plain, speculative = both_texts(target, draft, [0], n_tokens, K, to_probs, 0, is_done)
            assert plain == speculative
            found[speculative] += np.prod([length for length, _ in chosen])
    assert_same_distribution(dict(found), chain_rule(target, [0], n_tokens, to_probs, is_done))


@settings(max_examples=50, deadline=None)
@given(p=distribution, q=distribution)
def test_what_is_said_of_the_two_acceptance_rates(p, q):
    """Tokens agree with probability sum over x of 1 / sum over y of max(p(y) / p(x), q(y) / q(x)):
    the integral above, for both at once. It lies between (1 - d) / (1 + d) and the usual rule's 1 -
    d."""
    both = np.flatnonzero((p > 0) & (q > 0))
    agree = sum(1 / np.maximum(p / p[x], q / q[x]).sum() for x in both)
    usual = np.minimum(p, q).sum()
    d = abs(p - q).sum() / 2
    assert abs(usual - (1 - d)) < 1e-12
    assert (1 - d) / (1 + d) - 1e-12 <= agree <= usual + 1e-12


def test_draft_and_target_share_the_noise():
    """A draft that is the target chooses what it chooses."""
    rounds = coupled_rounds(TableModel(1), TableModel(1), [0], 40, 3, SamplingParams(1.0), 5)
    assert all(this_round.accepted == len(this_round.draft) for this_round in rounds)
