"""The best of several paths: exact by enumeration, and what its caches hold."""

import itertools
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import EXACT, FILTERS, assert_exact, at_eos, distributions, rules
from toys import tiny_model

from experiments.decoding.batching import read_together
from experiments.decoding.job import Job, decode
from experiments.drafting.drafts import ModelDraft
from experiments.drafting.paths import along_paths, choose
from experiments.proving.enumeration import distribution_of
from gpt2 import Config
from sampling import Filter, verify

SMALL = Config(n_vocab=3, n_ctx=16, n_embd=4, n_head=2, n_layer=1)


def small_model(seed, n_ctx=16):
    return tiny_model(seed, replace(SMALL, n_ctx=n_ctx), scale=0.8)


TARGET, DRAFT = small_model(1), small_model(2)


# ---------------------------------------------------------------- one round

# of the empty text and of those of one token: the distribution of the next
tables = st.lists(distributions(3, 4), min_size=4, max_size=4)


def rows_along(table, path):
    """The distributions at the places of a path."""
    return np.array([table[0] if t == 0 else table[1 + path[t - 1]] for t in range(len(path))])


def mass_of(rows, path):
    return np.prod([row[token] for row, token in zip(rows, path)])


def choices(p, q, n_paths, K):
    """{(path, its distribution as bytes): probability} over every draft of all paths."""
    drafts = itertools.product(range(3), repeat=K)
    masses = {path: mass_of(rows_along(q, path), path) for path in drafts}
    found = defaultdict(float)
    for paths in itertools.product([path for path in masses if masses[path]], repeat=n_paths):
        rows = [[rows_along(table, path) for path in paths] for table in (q, p)]
        i, distribution = choose([list(path) for path in paths], *rows)
        found[paths[i], distribution.tobytes()] += np.prod([masses[path] for path in paths])
    return found


def verified(p, path, path_distribution, rule):
    """{(number accepted, token): probability} of a rule, on a path with its distribution."""
    q = np.frombuffer(path_distribution).reshape(len(path), 3)
    rows = np.array([*rows_along(p, path), p[1 + path[-1]]])
    return distribution_of(lambda: rule(path, q, rows, None))


@rules
@pytest.mark.parametrize("n_paths, K", [(2, 1), (2, 2), (3, 1), (3, 2)])
@settings(max_examples=6, deadline=None)
@given(p=tables, q=tables)
def test_a_round_gives_p_for_any_q(rule, n_paths, K, p, q):
    """The distribution of the choice is the one it gives, a function of the tokens chosen, whatever
    the other paths were. Of three tokens, those that a round does not reach are sampled from p.
    """
    found = dict.fromkeys(itertools.product(range(3), repeat=3), 0.0)
    for (path, path_distribution), mass in choices(p, q, n_paths, K).items():
        rows = np.frombuffer(path_distribution).reshape(K, 3)
        assert abs(rows.sum(axis=1) - 1).max() < EXACT
        assert abs(mass_of(rows, path) - mass) < EXACT
        for (n, token), probability in verified(p, path, path_distribution, rule).items():
            text = (*path[:n], token)
            for rest in itertools.product(range(3), repeat=3 - len(text)):
                whole = text + rest
                more = mass_of(rows_along(p, whole)[len(text) :], rest)
                found[whole] += mass * probability * more
    for text, probability in found.items():
        assert abs(probability - mass_of(rows_along(p, text), text)) < EXACT


def test_another_path_may_lower_the_acceptance_of_the_second_token():
    """Never that of the first: docs/family.md has this example."""
    even, uneven = np.array([0.5, 0.5, 0]), np.array([3 / 8, 5 / 8, 0])
    q, p = [even] * 4, [even, uneven, uneven, uneven]
    found = []
    for n_paths in range(1, 5):
        reached = dict.fromkeys(range(3), 0.0)  # {accepted tokens: probability}
        for (path, path_distribution), mass in choices(p, q, n_paths, 2).items():
            for (n, _), probability in verified(p, path, path_distribution, verify).items():
                reached[n] += mass * probability
        assert reached[0] == pytest.approx(0, abs=EXACT)
        found.append(reached[2])
    assert found == pytest.approx([7 / 8, 1, 15 / 16, 29 / 32])


@pytest.mark.parametrize("n_paths", [1, 2])
def test_a_draft_that_is_right_is_kept_as_it_is(n_paths):
    """With q = p any choice would be accepted less often. The other path stays alive."""
    p = np.array([[0.5, 0.5], [0.9, 0.1]])
    i, chosen_distribution = choose([[0, 0], [1, 1]][:n_paths], [p] * n_paths, [p] * n_paths)
    assert i == 0 and np.array_equal(chosen_distribution, p)


# ---------------------------------------------------------------- the loop


@pytest.mark.parametrize(
    "n_paths, job",
    [
        (2, Job([1, 0], 3, 1, FILTERS["T=1"])),
        (2, Job([1, 0], 3, 2, FILTERS["top_k"], ended=at_eos)),
        (2, Job([1, 0], 4, 3, FILTERS["all"])),
        (2, Job([1, 0], 4, 2, FILTERS["greedy"], ended=at_eos)),
        (3, Job([1, 0], 2, 1, FILTERS["T=1"], ended=at_eos)),
        (3, Job([1, 0], 3, 2, FILTERS["all"], ended=at_eos)),
        # also a K of 0, after which all caches but the loop's have missed what the target read
        (2, Job([1, 0], 4, lambda last: 0 if last.accepted else 2, FILTERS["all"])),
    ],
)
def test_the_distribution_of_the_text_is_the_targets(n_paths, job):
    assert_exact(TARGET, ModelDraft(DRAFT), job, along_paths(n_paths, read_together))


@pytest.mark.parametrize("n_ctx_target, n_ctx_draft", [(4, 16), (16, 3), (4, 2)])
def test_the_distribution_where_a_context_ends(n_ctx_target, n_ctx_draft):
    """The target's context ends the text; the draft's only ends the drafting."""
    target, draft = small_model(1, n_ctx_target), small_model(2, n_ctx_draft)
    job = Job([1], 3, 2, FILTERS["top_k"])
    assert_exact(target, ModelDraft(draft), job, along_paths(2, read_together))


def test_the_target_reads_all_paths_once_a_round(monkeypatch):
    passes, n_texts, blocks = [], set(), type(TARGET).blocks
    counted = lambda model, *rest: passes.append(model) or blocks(model, *rest)
    monkeypatch.setattr(type(TARGET), "blocks", counted)

    def together(model, texts, *rest):
        n_texts.add(len(texts))
        return read_together(model, texts, *rest)

    job = Job([1, 2], 12, 3, Filter(1.0))
    done = list(decode(TARGET, ModelDraft(DRAFT), job, along_paths(3, together)))
    # the first round is the prefill
    assert sum(model is TARGET for model in passes) == len(done)
    assert n_texts == {3}


def test_only_speculative_rounds_have_paths():
    job, tap = Job([1, 2], 6, filter=Filter(1.0)), along_paths(3, read_together)
    assert list(decode(TARGET, None, job, tap)) == list(decode(TARGET, None, job))
