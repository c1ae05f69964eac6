"""Shared noise: the speculative text is the autoregressive text whatever the draft, and its
distribution is the target's. Exactly.

Two steps make the second proof. A token is the best under the noise of its position, which is
Gumbel's; and with noise that is independent from position to position the distribution of the whole
text is the chain rule's (every possible noise of a two-token vocabulary, enumerated).
"""

import itertools
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import FILTERS, TableModel, assert_same_distribution, at_eos, chain_rule
from toys import tokens_of

from decoding import coupled as coupling
from decoding.coupled import SharedNoise, gumbel_noise, verify_shared_noise
from decoding.decode import make_drafter
from sampling import autoregressive, never, speculative


def both_texts(target, draft, ids, n_tokens, K, to_probs, seed, is_done=never):
    """The texts of the two loops under shared noise; draft None looks n-grams up."""
    rng = SharedNoise(seed, len(ids))
    plain = tokens_of(autoregressive(target, ids, n_tokens, to_probs, rng, is_done))
    rng = SharedNoise(seed, len(ids))
    how = n_tokens, K, to_probs, rng, is_done, verify_shared_noise
    rounds = speculative(target, make_drafter(draft, target, to_probs, rng), ids, *how)
    return plain, tokens_of(rounds)


# ---------------------------------------------------------------- the text is not the draft's


@settings(max_examples=50)
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


def test_the_noise_depends_on_seed_and_position_only():
    places = list(itertools.product(range(4), repeat=2))
    once = {place: gumbel_noise(*place, 4) for place in places}
    assert all((gumbel_noise(*place, 4) == once[place]).all() for place in reversed(places))
    assert len({tuple(row) for row in once.values()}) == 16
    assert not np.isin(gumbel_noise(1, 2, 50), gumbel_noise(2, 1, 50)).any()


# ---------------------------------------------------------------- its distribution is the target's


def test_the_noise_is_gumbel():
    """Kolmogorov and Smirnov's distance, which exceeds 0.008 once in 180,000 seeds."""
    values = np.sort(gumbel_noise(1, 2, 100_000))
    assert abs(np.exp(-np.exp(-values)) - np.arange(0.5, 1e5) / 1e5).max() < 0.008


at_1 = lambda generated: generated[-1] == 1


@pytest.mark.parametrize("to_probs, n_tokens, K, is_done", [
    ("T=1", 3, 1, never),
    ("T=1", 4, 3, at_1),
    ("T=0.7", 3, 2, never),
    ("top_p", 4, 2, never),
    ("greedy", 4, 3, at_1),
])  # fmt: skip
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
