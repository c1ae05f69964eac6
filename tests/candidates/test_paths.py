"""The best of several paths: exact by enumeration, and what its caches hold."""

import itertools

import numpy as np
import pytest
from experiments.decoding.decoders import decode
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import tiny_model

from experiments.candidates.best_of import laws_of_best, mass_below
from experiments.candidates.paths import PathDrafter, PathTarget, along_paths, choose
from experiments.decoding.batching import read_together
from experiments.proving.enumeration import chain_rule, law, tokens_of, total_variation
from gpt2 import Config
from sampling import Filter, NeuralDrafter, never, speculative, verify, verify_block

EXACT = 1e-12
SMALL = Config(n_vocab=3, n_ctx=16, n_embd=4, n_head=2, n_layer=1)
TARGET, DRAFT = tiny_model(1, SMALL, scale=0.8), tiny_model(2, SMALL, scale=0.8)
RULES = [verify, verify_block]
rules = pytest.mark.parametrize("rule", RULES, ids=["token", "block"])


# ---------------------------------------------------------------- one round

distribution = (
    st.lists(st.integers(0, 4), min_size=3, max_size=3)
    .filter(any)
    .map(lambda n: np.array(n) / sum(n))
)
# of the empty text and of those of one token: the distribution of the next
tables = st.lists(distribution, min_size=4, max_size=4)


def rows_along(table, path):
    """The distributions at the places of a path."""
    return [table[0] if t == 0 else table[1 + path[t - 1]] for t in range(len(path))]


def every_path(table, K):
    """{path: probability}"""
    found = {}
    for path in itertools.product(range(3), repeat=K):
        mass = np.prod([row[token] for row, token in zip(rows_along(table, path), path)])
        if mass > 0:
            found[path] = mass
    return found


def choices(p, q, n_paths, K):
    """{(path, its law as bytes): probability} of what is chosen, over every draft of all paths."""
    found = {}
    drafts = every_path(q, K)
    for paths in itertools.product(drafts, repeat=n_paths):
        rows = [[rows_along(table, path) for path in paths] for table in (q, p)]
        i, chosen_law = choose([list(path) for path in paths], *rows)
        mass = np.prod([drafts[path] for path in paths])
        key = paths[i], chosen_law.tobytes()
        found[key] = found.get(key, 0.0) + mass
    return found


@pytest.mark.parametrize("n_paths, K", [(2, 1), (2, 2), (3, 1), (3, 2)])
@settings(max_examples=8, deadline=None)
@given(p=tables, q=tables)
def test_the_law_of_the_choice_is_the_one_it_gives(n_paths, K, p, q):
    """Whatever the other paths were: the path and its law are a function of the tokens chosen."""
    total = 0.0
    for (path, chosen_law), mass in choices(p, q, n_paths, K).items():
        rows = np.frombuffer(chosen_law).reshape(K, 3)
        assert abs(rows.sum(axis=1) - 1).max() < EXACT
        assert abs(np.prod([row[token] for row, token in zip(rows, path)]) - mass) < EXACT
        total += mass
    assert abs(total - 1) < EXACT


@rules
@pytest.mark.parametrize("n_paths, K", [(2, 1), (2, 2), (3, 1), (3, 2)])
@settings(max_examples=8, deadline=None)
@given(p=tables, q=tables)
def test_a_round_gives_p_for_any_q(rule, n_paths, K, p, q):
    """Of three tokens, those that a round does not reach are sampled from p."""
    found = dict.fromkeys(itertools.product(range(3), repeat=3), 0.0)
    for (path, chosen_law), mass in choices(p, q, n_paths, K).items():
        rows_q = np.frombuffer(chosen_law).reshape(K, 3)
        rows_p = np.array([*rows_along(p, path), p[1 + path[-1]]])
        for (n, token), probability in law(lambda: rule(path, rows_q, rows_p, None)).items():
            text = (*path[:n], token)
            for rest in itertools.product(range(3), repeat=3 - len(text)):
                whole = text + rest
                more = [row[x] for row, x in zip(rows_along(p, whole), whole)][len(text) :]
                found[whole] += mass * probability * np.prod(more)
    for text, probability in found.items():
        expected = np.prod([row[x] for row, x in zip(rows_along(p, text), text)])
        assert abs(probability - expected) < EXACT


def test_another_path_may_lower_the_acceptance_of_the_second_token():
    """Never that of the first: docs/family.md has this example."""
    even, uneven = np.array([0.5, 0.5, 0]), np.array([3 / 8, 5 / 8, 0])
    q, p = [even] * 4, [even, uneven, uneven, uneven]
    found = []
    for n_paths in range(1, 5):
        reached = dict.fromkeys(range(3), 0.0)  # {accepted tokens: probability}
        for (path, chosen_law), mass in choices(p, q, n_paths, 2).items():
            rows_q = np.frombuffer(chosen_law).reshape(2, 3)
            rows_p = np.array([even, uneven, uneven])
            for (n, _), probability in law(lambda: verify(path, rows_q, rows_p, None)).items():
                reached[n] += mass * probability
        assert reached[0] == pytest.approx(0, abs=EXACT)
        found.append(reached[2])
    assert found == pytest.approx([7 / 8, 1, 15 / 16, 29 / 32])


def test_one_path_is_an_ordinary_draft():
    p, q = np.full((3, 3), 1 / 3), np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    i, chosen_law = choose([[0, 2]], [q], [p])
    assert i == 0 and np.array_equal(chosen_law, q)


def test_paths_that_part_by_hand():
    """The last token has the largest p / q. Both paths have it, or one: the next place is the best
    of two in one third of all cases, else of one."""
    p, q = np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([[0.5, 0.5], [0.25, 0.75]])
    i, chosen_law = choose([[0, 0], [1, 1]], [q, q], [p, p])
    assert i == 1
    assert chosen_law[0] == pytest.approx([1 / 4, 3 / 4])
    _, best_of_two = laws_of_best(q[1], mass_below(p[1], q[1]), 2)
    assert chosen_law[1] == pytest.approx(best_of_two / 3 + q[1] * 2 / 3)


def test_a_draft_that_is_right_is_kept_as_it_is():
    """With q = p any choice would be accepted less often. The other path stays alive."""
    p = np.array([[0.5, 0.5], [0.9, 0.1]])
    i, chosen_law = choose([[0, 0], [1, 1]], [p, p], [p, p])
    assert i == 0 and np.array_equal(chosen_law, p)


# ---------------------------------------------------------------- the loop


def at_2(generated):
    return generated[-1] == 2


def rounds(n_paths, target, draft, ids, n_tokens, K, filter, rng=None, ended=never, rule=verify):
    target = PathTarget(target, n_paths)
    drafter = PathDrafter(NeuralDrafter(draft, filter, rng), target, filter)
    return speculative(target, drafter, ids, n_tokens, K, filter, rng, ended, rule)


def assert_exact(n_paths, target, draft, ids, n_tokens, K, filter, ended=never):
    expected = chain_rule(target, ids, n_tokens, filter, ended)
    for rule in RULES:
        how = K, filter, None, ended, rule
        found = law(lambda: tokens_of(rounds(n_paths, target, draft, ids, n_tokens, *how)))
        assert found.keys() == expected.keys()
        assert total_variation(found, expected) < EXACT


@pytest.mark.parametrize(
    "n_paths, K, n_tokens, ended, filter",
    [
        (2, 1, 3, never, Filter(1.0)),
        (2, 2, 3, at_2, Filter(0.7, top_k=2)),
        (2, 3, 4, never, Filter(1.3, top_k=2, top_p=0.7)),
        (2, 2, 4, at_2, Filter(0.0)),
        (3, 1, 2, at_2, Filter(1.0)),
        (3, 2, 3, at_2, Filter(1.3, top_k=2, top_p=0.7)),
    ],
)
def test_the_law_of_the_text_is_the_targets(n_paths, K, n_tokens, ended, filter):
    assert_exact(n_paths, TARGET, DRAFT, [1, 0], n_tokens, K, filter, ended)


@pytest.mark.parametrize("n_ctx_target, n_ctx_draft", [(4, 16), (16, 3), (4, 2)])
def test_the_law_where_a_context_ends(n_ctx_target, n_ctx_draft):
    """The target's context ends the text; the draft's only ends the drafting."""
    target = tiny_model(1, Config(3, n_ctx_target, 4, 2, 1), scale=0.8)
    draft = tiny_model(2, Config(3, n_ctx_draft, 4, 2, 1), scale=0.8)
    assert_exact(2, target, draft, [1], 3, 2, Filter(1.0, top_k=2))


def test_a_k_that_varies_keeps_the_law():
    """Also 0, after which all caches but the loop's have missed what the target read."""

    filter = Filter(1.0, top_k=2)

    def run():
        ks = iter([2, 0, 1, 0])
        return tokens_of(rounds(2, TARGET, DRAFT, [1, 0], 4, lambda last: next(ks), filter))

    assert total_variation(law(run), chain_rule(TARGET, [1, 0], 4, filter)) < EXACT


def test_the_target_reads_once_a_round(monkeypatch):
    passes, blocks = [], type(TARGET).blocks
    counted = lambda model, *rest: passes.append(model) or blocks(model, *rest)
    monkeypatch.setattr(type(TARGET), "blocks", counted)
    how = {"K": 3, "filter": Filter(1.0), "seed": 0}
    done = list(along_paths(3, decode)("speculative", TARGET, DRAFT, [1, 2], 12, **how))
    # the first round is the prefill
    assert sum(model is TARGET for model in passes) == len(done)


def test_only_speculative_rounds_have_paths():
    how = {"K": 3, "filter": Filter(1.0), "seed": 0}
    plain = list(decode("autoregressive", TARGET, None, [1, 2], 6, **how))
    assert list(along_paths(3, decode)("autoregressive", TARGET, None, [1, 2], 6, **how)) == plain


# ---------------------------------------------------------------- caches


class ReadAnew:
    """A model that does not trust its caches."""

    def __init__(self, model):
        self.model, self.config, self.new_cache = model, model.config, model.new_cache

    def read(self, ids, cache, n_last=1):
        cache.length = 0
        return self.model.read(ids, cache, n_last)

    def read_together(self, texts, caches, n_lasts):
        for cache in caches:
            cache.length = 0
        return read_together(self.model, texts, caches, n_lasts)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_paths, K", [(1, 3), (2, 1), (3, 4)])
def test_caches_hold_the_text_and_nothing_else(seed, n_paths, K):
    """The same random numbers give the same rounds as models that read all of it again."""
    config = Config(n_vocab=7, n_ctx=32, n_embd=8, n_head=2, n_layer=2)
    target, draft = tiny_model(1, config), tiny_model(2, config)
    with_caches, without = (
        list(rounds(n_paths, *models, [1, 2], 30, K, Filter(1.0), np.random.default_rng(seed)))
        for models in ((target, draft), (ReadAnew(target), ReadAnew(draft)))
    )
    assert with_caches == without
