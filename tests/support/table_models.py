"""Models whose distributions a test chooses, and settings of the loops, for exact distributions."""

from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import strategies as st
from toys import tokens_of

from proving.enumeration import chain_rule, enumerate_branches, total_variation
from sampling import RULES, SamplingParams, verify, verify_block

EXACT = 1e-12
EOS = 2
rules = pytest.mark.parametrize("rule", [verify, verify_block], ids=["token", "block"])

FILTERS = {
    "T=1": SamplingParams(1.0),
    "T=0.7": SamplingParams(0.7),
    "T=2": SamplingParams(2.0),
    "greedy": SamplingParams(0.0),
    "top_k": SamplingParams(1.0, top_k=2),
    "top_p": SamplingParams(1.0, top_p=0.8),
    "all": SamplingParams(1.3, top_k=2, top_p=0.7),
}


def distributions(n_vocab, most=5):
    """A strategy: distributions of n_vocab tokens, some of probability 0."""
    counts = st.lists(st.integers(0, most), min_size=n_vocab, max_size=n_vocab).filter(any)
    return counts.map(lambda n: np.array(n) / sum(n))


def at_eos(generated):
    return generated[-1] == EOS


class TableModel:
    """Logits by prefix, from chosen probabilities."""

    def __init__(self, seed, n_vocab=3, n_ctx=64, zeros=False):
        self.config = SimpleNamespace(n_vocab=n_vocab, n_ctx=n_ctx)
        self.seed, self.zeros = seed, zeros
        self.rows = {}  # {prefix: logits}: an enumeration asks for each many times

    def new_cache(self, n_positions=None):
        return None

    def probabilities(self, prefix):
        rng = np.random.default_rng([self.seed, *prefix])
        p = rng.dirichlet(np.ones(self.config.n_vocab))
        if self.zeros:
            p[rng.integers(self.config.n_vocab)] = 0
        return p

    def row(self, prefix):
        if prefix not in self.rows:
            with np.errstate(divide="ignore"):
                self.rows[prefix] = np.log(self.probabilities(prefix))
        return self.rows[prefix]

    def read(self, ids, cache, n_last=1):
        assert n_last <= len(ids) <= self.config.n_ctx
        ends = range(len(ids) - n_last + 1, len(ids) + 1)
        rows = [self.row(tuple(ids[:end])) for end in ends]
        return np.array(rows).reshape(n_last, self.config.n_vocab)


def assert_same_distribution(found, expected):
    assert found.keys() == expected.keys()
    assert total_variation(found, expected) < EXACT
    assert abs(sum(found.values()) - 1) < EXACT


def assert_exact(run):
    """The texts of a Run have the target's own distribution, under both rules."""
    expected = chain_rule(run.pair.target, run.ids, run.n_tokens, run.to_probs, run.is_done)
    for rule in RULES.values():
        # a K that learns begins anew with each text
        anew = lambda: replace(run, rule=rule, K=deepcopy(run.K))
        found = enumerate_branches(lambda rng: tokens_of(anew().rounds(rng)))
        assert_same_distribution(found, expected)
