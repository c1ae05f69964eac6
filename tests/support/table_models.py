"""Models whose distributions a test chooses, and the exact distribution of what loops write."""

from copy import deepcopy
from types import SimpleNamespace

import numpy as np
from hypothesis import strategies as st
from toys import tokens_of

from proof.enumerate import distribution, total_variation
from sampling import SamplingParams, never, speculative, verify, verify_block

EXACT = 1e-12
EOS = 2

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
        self.config = SimpleNamespace(n_vocab=n_vocab, n_ctx=n_ctx, n_embd=1)
        self.backend = SimpleNamespace(name="numpy")
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


def chain_rule(target, prompt, n_tokens, to_probs, is_done=never):
    """{text: probability} of what the target writes after a prompt: the product of its rows."""
    n_tokens = min(n_tokens, target.config.n_ctx - len(prompt))
    texts, unfinished = {}, {(): 1.0}
    for n in range(1, n_tokens + 1):
        longer = {}
        for text, mass in unfinished.items():
            (p,) = to_probs(target.read([*prompt, *text], target.new_cache()))
            longer |= {(*text, int(token)): mass * p[token] for token in np.flatnonzero(p)}
        ended = {text for text in longer if n == n_tokens or is_done(text)}
        texts |= {text: longer.pop(text) for text in ended}
        unfinished = longer
    return texts


def assert_exact(
    target, new_drafter, prompt, n_tokens, K, to_probs, is_done=never, rules=(verify, verify_block)
):
    """What the real loop writes has the target's own distribution, under each rule: every branch of
    its samples and tosses is taken. new_drafter(rng) -> a drafter. Returns the distribution.
    """
    expected = chain_rule(target, prompt, n_tokens, to_probs, is_done)
    for rule in rules:

        def run(rng):  # a K that learns begins anew with each text
            setting = prompt, n_tokens, deepcopy(K), to_probs, rng, is_done, rule
            return tokens_of(speculative(target, new_drafter(rng), *setting))

        assert_same_distribution(distribution(run), expected)
    return expected
