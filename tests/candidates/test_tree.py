"""Sequoia's dynamic programme finds the tree that trying all of them finds."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.candidates.tree import (
    Trees,
    best_chain,
    best_tree,
    chain,
    depth_of,
    drawing,
    expected_tokens,
    size_of,
    speedup,
)
from experiments.measuring.theory import tokens_per_round


def partitions(n, parts):
    """All ways to write n as an ordered sum of up to `parts` positive numbers."""
    if n == 0:
        return [()]
    if parts == 0:
        return []
    return [
        (first, *rest) for first in range(1, n + 1) for rest in partitions(n - first, parts - 1)
    ]


def every_tree(n, width):
    """All trees of n nodes in which none has more than `width` children."""
    return [
        tree
        for sizes in partitions(n - 1, width)
        for tree in itertools.product(*(every_tree(size, width) for size in sizes))
    ]


@settings(max_examples=30, deadline=None)
@given(a=st.lists(st.floats(0.01, 0.6), min_size=1, max_size=3))
def test_no_tree_has_more_expected_tokens(a):
    trees = Trees(a)
    for n in range(1, 7):
        candidates = every_tree(n, len(a))
        for depth in range(1, n + 1):
            tokens, tree = trees.tree(n, depth)
            assert expected_tokens(tree, a) == pytest.approx(tokens)
            assert size_of(tree) <= n and depth_of(tree) <= depth
            within = [one for one in candidates if depth_of(one) <= depth]
            for one in within:
                assert expected_tokens(one, a) <= tokens + 1e-12


@pytest.mark.parametrize("K", [1, 3, 8])
def test_a_chain_is_the_tree_that_theory_knows(K):
    assert expected_tokens(chain(K), [0.7]) == pytest.approx(tokens_per_round(0.7, K))
    assert (depth_of(chain(K)), size_of(chain(K))) == (K, K + 1)


def test_the_fastest_tree():
    free = {n: 1.0 for n in range(1, 9)}  # rows that cost nothing: the widest tree
    a = [0.6, 0.2]
    tree = best_tree(a, 0.3, free)
    assert speedup(tree, a, 0.3, free) > speedup(best_chain(a, 0.3, free), a, 0.3, free)
    dear = {n: float(n) for n in range(1, 9)}  # rows that cost as much as passes: a chain
    tree = best_tree(a, 0.1, dear)
    assert tree == best_chain(a, 0.1, dear)


def test_a_drawing():
    assert drawing(chain(3)) == "1-1-1"
    assert drawing((((), ()), ((),), ())) == "3-3"
