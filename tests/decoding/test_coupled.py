"""Shared noise: the speculative text is the autoregressive text whatever the draft, and its
distribution is the target's. Exactly.

Three steps make the second proof. Which token wins at a position is a comparison of noise with
thresholds (property test); the probability of that, for Gumbel noise, is p (quadrature); and with
noise that is independent from position to position the distribution of the whole text is the chain
rule's (every possible noise of a two-token vocabulary, enumerated).
"""

import itertools
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from command_line import PROMPT
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import FILTERS, TableModel, assert_same_distribution, at_eos, distributions

from experiments.decoding import coupled as coupling
from experiments.decoding.coupled import Noisy, noise
from experiments.decoding.job import Job, decode
from experiments.decoding.metrics import explain_difference
from experiments.drafting.drafts import ModelDraft, NGrams
from experiments.proving.enumeration import chain_rule, tokens_of
from sampling import Filter, never

GREEDY = Filter()


def both_texts(target, draft, job):
    """The tokens of the two loops under shared noise; draft None looks n-grams up."""
    job = replace(job, coupled=True)
    draft = ModelDraft(draft) if draft else NGrams()
    return [tokens_of(decode(target, one, job)) for one in (None, draft)]


# ---------------------------------------------------------------- the text is not the draft's


@settings(max_examples=100, deadline=None)
@given(
    tables=st.tuples(st.integers(0, 99), st.integers(0, 99) | st.none()),
    zeros=st.booleans(),
    n_ctx=st.sampled_from([6, 64]),
    K=st.integers(1, 6),
    n_tokens=st.integers(1, 9),
    filter=st.sampled_from(list(FILTERS.values())),
    seed=st.integers(0, 2**70),
    ended=st.sampled_from([never, at_eos]),
)
def test_the_two_texts_are_equal(tables, zeros, n_ctx, K, n_tokens, filter, seed, ended):
    target = TableModel(tables[0], zeros=zeros, n_ctx=n_ctx)
    draft = None if tables[1] is None else TableModel(tables[1], zeros=zeros)
    one, two = both_texts(target, draft, Job([0, 1, 0], n_tokens, K, filter, seed, ended))
    assert one == two and one


@settings(max_examples=100, deadline=None)
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
        patch.setattr(coupling, "noise", repeated)
        job = Job([0], 8, K, FILTERS["T=1"], ended=at_eos)
        one, two = both_texts(TableModel(1, zeros=True), TableModel(draft), job)
    assert one == two


def test_the_noise_depends_on_seed_and_position_only():
    places = list(itertools.product(range(4), repeat=2))
    once = {place: noise(*place, 4) for place in places}
    assert all((noise(*place, 4) == once[place]).all() for place in reversed(places))
    assert len({tuple(row) for row in once.values()}) == 16
    assert not np.isin(noise(1, 2, 50), noise(2, 1, 50)).any()


@pytest.mark.parametrize("draft", [None, ModelDraft(TableModel(2)), NGrams()])
def test_shared_noise_lies_under_what_a_tap_returns(draft):
    """The filters of the tap make the distributions, the noise is put on them."""
    target, tap = TableModel(1), lambda parts: replace(parts, p_filter=FILTERS["T=2"])
    job = Job([0, 1], 20, K=3, filter=FILTERS["T=0.7"], seed=4, coupled=True)
    expected = decode(Noisy(target, FILTERS["T=2"], 4), None, Job([0, 1], 20))
    assert tokens_of(decode(target, draft, job, tap)) == tokens_of(expected)


# ---------------------------------------------------------------- its distribution is the target's

distribution = distributions(4, 9)


class OneRow(TableModel):
    """The same probabilities after every text."""

    def __init__(self, p):
        super().__init__(0, n_vocab=len(p))
        self.p = p

    def probabilities(self, prefix):
        return self.p


def winner(p, g):
    """The token that the code chooses where the noise is g."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coupling, "noise", lambda seed, position, n_vocab: g)
        model = Noisy(OneRow(p), Filter(1.0), seed=0)
        return int(GREEDY(model.read([0], model.new_cache())).argmax())


@settings(max_examples=100, deadline=None)
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
    values = np.sort(noise(1, 2, 100_000))
    assert abs(np.exp(-np.exp(-values)) - np.arange(0.5, 1e5) / 1e5).max() < 0.008


at_1 = lambda generated: generated[-1] == 1


@pytest.mark.parametrize(
    "filter, n_tokens, K, ended",
    [
        ("T=1", 3, 1, never),
        ("T=1", 4, 3, at_1),
        ("T=0.7", 3, 2, never),
        ("top_p", 4, 2, never),
        ("greedy", 4, 3, at_1),
    ],
)
def test_the_distribution_of_the_text_is_the_chain_rule(filter, n_tokens, K, ended):
    """Of two tokens, 0 wins where V < p(0), V = 1 / (1 + exp(g(0) - g(1))), and V is uniform as g
    is Gumbel.

    So a position has as many different noises as there are intervals between the p(0) and q(0) of
    the texts that may lead there. Every combination of them runs through the real loop, and its
    probability is the product of their lengths.
    """
    target, draft = TableModel(1, n_vocab=2), TableModel(2, n_vocab=2)
    filter = FILTERS[filter]
    places = []  # of each position, the (length, noise) of its intervals
    for n in range(n_tokens):
        prefixes = [[0, *text] for text in itertools.product(range(2), repeat=n)]
        cuts = {
            filter(model.read(ids, model.new_cache()))[0, 0]
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
            patch.setattr(coupling, "noise", lambda seed, position, n_vocab: table[position - 1])
            one, two = both_texts(target, draft, Job([0], n_tokens, K, filter, 0, ended))
            assert one == two
            found[two] += np.prod([length for length, _ in chosen])
    assert_same_distribution(dict(found), chain_rule(target, [0], n_tokens, filter, ended))


@settings(max_examples=100, deadline=None)
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
    job = Job([0], 40, 3, Filter(1.0), seed=5, coupled=True)
    rounds = decode(TableModel(1), ModelDraft(TableModel(1)), job)
    assert all(one.accepted == one.examined for one in rounds)


@pytest.mark.parametrize("draft", ["0.7M-17M", "ngram", "bytes"])
def test_coupled_texts_are_identical_and_both_acceptance_rates_shown(cli, as_json, draft):
    arguments = ["--draft_model_size", draft, "--temperature=1.2", "--top_k=50", "--coupled"]
    arguments += ["--seed", 10**30, "--n_tokens_to_generate=30", "--prompt", PROMPT]
    result, done = as_json(*arguments), cli(*arguments)
    assert result["identical"] is True and result["settings"]["coupled"] is True
    assert (done.code, done.err) == (0, "") and "The two texts are identical." in done.out
    one = result["speculative"]
    for rate in ("acceptance_rate", "usual_acceptance_rate"):
        assert one[rate] is None if one["examined"] == 0 else f"{one[rate]:.3f}" in done.out
    assert ("The token rule would accept" in done.out) == (one["examined"] > 0)


def test_coupled_texts_that_differ_are_explained():
    """Also where a filter leaves a token no probability: its score is minus infinity."""
    target = Noisy(TableModel(1, zeros=True), FILTERS["all"], 3)
    first = list(tokens_of(decode(target, None, Job([0], 5))))
    wrong = [first[0], 1 - min(first[1], 1), *first[2:]]
    found = explain_difference(target, [0], first, wrong)
    assert (found["position"], found["verdict"]) == (1, "bug")
    assert np.isfinite([found["gap"], found["float_error"]]).all()
