"""Several candidates for a place, and trees of them: every branch of small cases."""

import numpy as np
import pytest
from table_models import EXACT, TableModel

from decoding.candidates import (
    acceptance,
    acceptance_without_replacement,
    best_acceptance,
    verify_tree,
)
from proof.enumerate import distribution, total_variation
from proof.prove import prove
from sampling import SamplingParams, one_hot, verify

# what a younger sibling is sampled from, if the elder ones have these tokens
HOWS = {
    "with replacement": lambda q, elders: q,
    "without": lambda q, elders: norm(np.where(np.isin(range(len(q)), elders), 0, q)),
    "the likeliest": lambda q, elders: one_hot([HOWS["without"](q, elders).argmax()], len(q))[0],
}
SHAPES = {
    "none": [],
    "one": [-1],
    "two": [-1, -1],
    "three": [-1, -1, -1],
    "chain": [-1, 0, 1],
    "tree": [-1, -1, 0, 0, 1],
    "younger child first": [-1, -1, 1, 0],
}
every = pytest.mark.parametrize("how", HOWS)


def norm(p):
    return p / p.sum() if p.any() else np.full(len(p), 1 / len(p))


def model(seed, zeros):
    """A function from a text to the distribution of what follows, all with zeros or none."""
    table = TableModel(seed, 4 if zeros else 3, zeros=zeros)
    return lambda text: norm(table.probabilities(text))


def grown(parents, draft_model, how, rng):
    """Draft a tree. Returns (tokens, the text to each node, q)."""
    tokens, texts, q = [], [], []
    for node, parent in enumerate(parents):
        before = texts[parent] if parent >= 0 else ()
        elders = [tokens[i] for i in range(node) if parents[i] == parent]
        q.append(HOWS[how](draft_model(before), elders))
        tokens.append(rng.sample(q[-1]))
        texts.append((*before, tokens[-1]))
    return tokens, texts, np.array(q)


@every
@pytest.mark.parametrize("zeros", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize(
    "shape", [pytest.param(name, marks=[pytest.mark.slow] * (name == "tree")) for name in SHAPES]
)
def test_the_text_has_the_targets_distribution(shape, zeros, how):
    parents, target, draft_model = SHAPES[shape], model(1, zeros), model(2, zeros)

    def run(rng):
        tokens, texts, q = grown(parents, draft_model, how, rng)
        p = np.array([target(text) for text in [(), *texts]])
        path, token = verify_tree(tokens, parents, p, q, rng)
        assert [parents[node] for node in path] == [-1, *path][: len(path)]
        text = [*(tokens[node] for node in path), token]
        while len(text) < 3:
            text.append(rng.sample(target(tuple(text))))
        return tuple(text[:3])

    right = distribution(lambda rng: write(target, rng))
    assert total_variation(distribution(run), right) < EXACT


def write(target, rng):
    text = ()
    while len(text) < 3:
        text += (rng.sample(target(text)),)
    return text


def test_the_referee_says_so_too():
    assert prove(verify_tree)["verdict"] == "exact"


def test_a_chain_is_verified_as_the_token_rule_does():
    p, q = (np.array([model(seed, False)((i,)) for i in range(n)]) for seed, n in ((1, 4), (2, 3)))
    draft = [0, 2, 1]

    def by_tree(rng):
        path, token = verify_tree(draft, [-1, 0, 1], p, q, rng)
        return len(path), token

    assert distribution(by_tree) == distribution(lambda rng: verify(draft, p, q, rng))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("how", ["with replacement", "without"])
def test_the_acceptance_is_that_of_the_rule_and_no_rule_accepts_more_than_the_best(how, k):
    for seed in range(3):
        p, q = (model(n, zeros=True)(()) for n in (seed, 10 + seed))

        def run(rng):
            tokens, _, rows = grown([-1] * k, lambda text: q, how, rng)
            return len(verify_tree(tokens, [-1] * k, np.tile(p, (k + 1, 1)), rows, rng)[0])

        accepted = distribution(run).get(1, 0)
        of_how = acceptance if how == "with replacement" else acceptance_without_replacement
        assert of_how(p, q, k) == pytest.approx(accepted, abs=EXACT)
        if how == "with replacement":
            assert accepted < best_acceptance(p, q, k) + EXACT


def test_the_best_acceptance_is_the_least_over_all_sets():
    for seed in range(5):
        p, q = SamplingParams(1.0)(np.random.default_rng(seed).normal(size=(2, 6)))
        sets = [np.array([n >> i & 1 for i in range(6)], bool) for n in range(64)]
        for k in (1, 2, 3):
            least = min(p[H].sum() - q[H].sum() ** k for H in sets)
            assert best_acceptance(p, q, k) == pytest.approx(1 + least, abs=EXACT)
