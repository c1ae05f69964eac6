"""K chosen round by round, and drafts cut short: still exact, and the choice is the best one."""

from dataclasses import replace

import numpy as np
import pytest
from clocks import Slow, Time
from decoding.costs import MAX_K, measure_round_costs
from decoding.drafts import HeadDraft, ModelDraft
from decoding.load import Pair
from decoding.run import Run
from heads import EAGLE, MEDUSA, toy_head
from table_models import FILTERS, TableModel, assert_exact, at_eos
from toys import TINY, tiny_model, tokens_of

from decoding import costs
from decoding.auto_k import AutoK, new_auto_k
from decoding.ngrams import NGrams
from decoding.theory import tokens_per_round
from proving.enumeration import chain_rule, enumerate_branches
from sampling import NeuralDrafter, Round, SamplingParams, speculative, verify, verify_block

# ---------------------------------------------------------------- the distribution


def varied(last):
    """Any function of the rounds so far, 0 among its values."""
    return (last.accepted + sum(last.tokens) + 2 * len(last.tokens)) % 4


TABLES = Pair(TableModel(1), ModelDraft(TableModel(2)), None)


@pytest.mark.parametrize(
    "run",
    [
        Run(TABLES, [0], 4, varied, FILTERS["T=1"], is_done=at_eos),
        Run(TABLES, [0], 4, varied, FILTERS["greedy"]),
        Run(TABLES, [0], 4, varied, FILTERS["all"]),
        Run(TABLES, [0], 4, AutoK([1, 1.2, 1.4, 1.6]), SamplingParams(1.0), is_done=at_eos),
        Run(TABLES, [0], 4, AutoK([1, 2.1, 3.2]), SamplingParams(1.0), is_done=at_eos),
        Run(TABLES, [0], 4, AutoK([1.0, 1.0, 1.0]), SamplingParams(1.0), is_done=at_eos),
        *(
            Run(TABLES, [0], 3, 3, SamplingParams(1.0), confidence=least)
            for least in (0.4, 0.55, 0.9, 1.0)
        ),
    ],
)
def test_distribution_where_k_depends_on_the_past_and_drafts_are_cut_short(run):
    assert_exact(run)


def test_a_token_dropped_for_what_it_is_would_bend_the_distribution():
    """What the drafter's docstring warns of: to stop after the draw of an unlikely token."""

    class Choosy(NeuralDrafter):
        def propose(self, ids, k):
            draft, q = super().propose(ids, k)
            n = next((i for i, token in enumerate(draft) if q[i, token] < 0.4), len(draft))
            return draft[:n], q[:n]

    target, draft, to_probs = TableModel(1), TableModel(2), SamplingParams(1.0)

    def run(rng):
        drafter = Choosy(draft, to_probs, rng)
        return tokens_of(speculative(target, drafter, [0], 2, 1, to_probs, rng))

    found = enumerate_branches(run)
    expected = chain_rule(target, [0], 2, to_probs)
    assert max(abs(found[text] - expected[text]) for text in expected) > 0.01


# ---------------------------------------------------------------- the choice


VERIFY = np.interp(range(1, MAX_K + 2), [1, 2, 3, 5, 9], [1, 1.02, 1.08, 1.15, 1.35]).tolist()
DEAR = np.interp(range(1, MAX_K + 2), [1, 2, 3, 5, 9], [1, 1.7, 2.0, 2.2, 2.9]).tolist()


def costs_of(c, v):
    """Of rounds with 0, 1, 2, ... drafts, each for c, before a pass over one row more for v."""
    return [K * c + cost for K, cost in enumerate(v)]


def simulate(a, c, v, n_rounds, seed=0, share=1.0):
    """The Ks, and tokens per one-row target pass; a `share` of the rounds finds a draft."""
    rng, K, last = np.random.default_rng(seed), AutoK(costs_of(c, v)), Round([])
    ks, cost, n_tokens = [], 0.0, 0
    for _ in range(n_rounds):
        ks.append(K(last))
        n = ks[-1] if share == 1 or rng.random() < share else 0
        accepted = (rng.random(n) < a).tolist() + [False]
        last = Round([0] * (accepted.index(False) + 1), [0] * n, accepted.index(False))
        cost, n_tokens = cost + n * c + v[n], n_tokens + len(last.tokens)
    return ks, n_tokens / cost


@pytest.mark.parametrize("v", [VERIFY, DEAR], ids=["cheap verify", "dear verify"])
@pytest.mark.parametrize("c", [0.0, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("a", [0.0, 0.4, 0.6, 0.8, 0.98])
def test_auto_k_comes_close_to_the_best_k(a, c, v):
    """The best fixed K in hindsight, 0 among them, by simulation: costs are exact."""
    best = max(tokens_per_round(a, k) / (k * c + v[k]) for k in range(MAX_K + 1))
    assert np.mean([simulate(a, c, v, 500, seed)[1] for seed in range(4)]) > 0.95 * best


def test_a_useless_draft_is_given_up_but_not_for_ever():
    ks, speed = simulate(0.0, 0.1, VERIFY, 300)
    assert speed > 0.96 and ks[0] > 0
    assert 0 < sum(ks[20:]) < 20 and set(ks[20:]) == {0, 1}


def test_a_draft_that_seldom_finds_anything_and_is_then_wrong():
    """As n-grams at temperature 1: found in three of ten rounds, and one in ten is right."""
    assert simulate(0.1, 0.0, VERIFY, 300, share=0.3)[1] > 0.97


def test_a_draft_that_becomes_useful_is_used_again():
    K, last = AutoK(costs_of(0.05, VERIFY)), Round([])
    for i in range(400):
        k = K(last)
        last = Round([0] * (k + 1), [0] * k, k) if i > 40 else Round([0], [0] * k, 0)
    assert k > 4


@pytest.mark.parametrize(
    "draft, each", [(ModelDraft(tiny_model(1)), 0.1), (NGrams(), 0.0)], ids=["model", "ngram"]
)
def test_costs_are_those_of_rounds(monkeypatch, draft, each):
    """A row of the target takes 1 second, one of the draft 0.1, and a round 10 in any case."""
    time = Time(each=5)  # asked three times in each round
    monkeypatch.setattr(costs.time, "perf_counter", time)
    target, draft = (
        Slow(tiny_model(0), 1.0, time),
        draft.map_models(lambda model: Slow(model, each, time)),
    )
    found = measure_round_costs(target, draft, SamplingParams(1.0), verify)
    assert found == pytest.approx([(11 + K * (1 + each)) / 11 for K in range(MAX_K + 1)])


MEDUSA_TARGET = tiny_model(0)
SMALL = {n_ctx: tiny_model(n_ctx, replace(TINY, n_ctx=n_ctx)) for n_ctx in (1, 2, 3, 9)}
LONGEST = [  # (target, draft, the most tokens that a round can draft)
    (MEDUSA_TARGET, HeadDraft(toy_head(MEDUSA, MEDUSA_TARGET)), 2),
    (MEDUSA_TARGET, HeadDraft(toy_head(EAGLE, MEDUSA_TARGET)), 8),
    *((MEDUSA_TARGET, ModelDraft(draft), min(8, n_ctx)) for n_ctx, draft in SMALL.items()),
    *((model, ModelDraft(model), n_ctx - 1) for n_ctx, model in SMALL.items()),
    *((model, NGrams(), max(0, n_ctx - 2)) for n_ctx, model in SMALL.items()),
]


@pytest.mark.parametrize("target, draft, most", LONGEST)
def test_only_k_that_can_be_drafted_are_candidates(monkeypatch, target, draft, most):
    """However free they seem; and what is timed drafts as many as it is said to."""
    monkeypatch.setattr(costs, "BUDGET_SECONDS", 0)
    monkeypatch.setattr(costs, "WARMUP_SECONDS", 0)
    asked = set()
    noted = lambda tokens, *rest: asked.add(len(tokens)) or verify(tokens, *rest)
    found = measure_round_costs(target, draft, SamplingParams(), noted)
    assert len(found) == most + 1 and np.isfinite(found).all()
    assert asked == ({0, *(K for K in costs.TIMED_KS if K < most), most} if most else set())
    assert AutoK([1.0] * len(found))(Round([])) == most


def test_costs_are_measured_once_for_each_way_to_decode(monkeypatch):
    monkeypatch.setattr(costs, "BUDGET_SECONDS", 0.0)
    target, draft = tiny_model(0), ModelDraft(tiny_model(1))
    costs_with = lambda to_probs, rule: new_auto_k(target, draft, to_probs, rule).costs
    first = costs_with(SamplingParams(), verify)
    assert first is costs_with(SamplingParams(), verify)
    assert first is not costs_with(SamplingParams(1.0), verify)
    assert first is not costs_with(SamplingParams(), verify_block)
