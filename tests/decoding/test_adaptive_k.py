"""K chosen round by round, and drafts cut short: still exact, and the choice is the best one."""

from dataclasses import replace

import numpy as np
import pytest
from clocks import Slow, Time
from heads import EAGLE, MEDUSA, toy_head
from table_models import FILTERS, TableModel, assert_exact, at_eos
from toys import TINY, tiny_model, tokens_of

from cli.flags import Settings
from decoding import adaptive_k, clock
from decoding.adaptive_k import MAX_K, AdaptiveK, new_K, round_costs
from decoding.drafts import HeadDraft, ModelDraft
from decoding.load import Pair, load_pair
from decoding.ngrams import NGrams
from decoding.prompt import Prompt
from decoding.run import Run
from decoding.together import results_of
from experiments.benchmark.theory import tokens_per_round
from proving.enumeration import chain_rule, every_branch
from sampling import Filter, NeuralDrafter, Round, speculative, verify, verify_block

# ---------------------------------------------------------------- the distribution


def varied(last):
    """Any function of the rounds so far, 0 among its values."""
    return (last.accepted + sum(last.tokens) + 2 * len(last.tokens)) % 4


TABLES = Pair(TableModel(1), ModelDraft(TableModel(2)), None)


@pytest.mark.parametrize(
    "run",
    [
        Run(TABLES, [0], 4, varied, FILTERS["T=1"], ended=at_eos),
        Run(TABLES, [0], 4, varied, FILTERS["greedy"]),
        Run(TABLES, [0], 4, varied, FILTERS["all"]),
        Run(TABLES, [0], 4, AdaptiveK([1, 1.2, 1.4, 1.6]), Filter(1.0), ended=at_eos),
        Run(TABLES, [0], 4, AdaptiveK([1, 2.1, 3.2]), Filter(1.0), ended=at_eos),
        Run(TABLES, [0], 4, AdaptiveK([1.0, 1.0, 1.0]), Filter(1.0), ended=at_eos),
        *(Run(TABLES, [0], 3, 3, Filter(1.0), confidence=least) for least in (0.4, 0.55, 0.9, 1.0)),
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

    target, draft, filter = TableModel(1), TableModel(2), Filter(1.0)

    def run(chance):
        drafter = Choosy(draft, filter, chance)
        return tokens_of(speculative(target, drafter, [0], 2, 1, filter, chance))

    found = every_branch(run)
    expected = chain_rule(target, [0], 2, filter)
    assert max(abs(found[text] - expected[text]) for text in expected) > 0.01


# ---------------------------------------------------------------- the choice


VERIFY = np.interp(range(1, MAX_K + 2), [1, 2, 3, 5, 9], [1, 1.02, 1.08, 1.15, 1.35]).tolist()
DEAR = np.interp(range(1, MAX_K + 2), [1, 2, 3, 5, 9], [1, 1.7, 2.0, 2.2, 2.9]).tolist()


def costs_of(c, v):
    """Of rounds with 0, 1, 2, ... drafts, each for c, before a pass over one row more for v."""
    return [K * c + cost for K, cost in enumerate(v)]


def simulate(a, c, v, n_rounds, seed=0, share=1.0):
    """The Ks, and tokens per one-row target pass; a `share` of the rounds finds a draft."""
    rng, K, last = np.random.default_rng(seed), AdaptiveK(costs_of(c, v)), Round([])
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
def test_adaptive_k_comes_close_to_the_best_k(a, c, v):
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
    K, last = AdaptiveK(costs_of(0.05, VERIFY)), Round([])
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
    monkeypatch.setattr(clock.time, "perf_counter", time)
    target, draft = (
        Slow(tiny_model(0), 1.0, time),
        draft.over(lambda model: Slow(model, each, time)),
    )
    costs = round_costs(target, draft, Filter(1.0), verify)
    assert costs == pytest.approx([(11 + K * (1 + each)) / 11 for K in range(MAX_K + 1)])


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
    monkeypatch.setattr(adaptive_k, "BUDGET", 0)
    monkeypatch.setattr(clock, "SETTLING", 0)
    asked = set()
    noted = lambda tokens, *rest: asked.add(len(tokens)) or verify(tokens, *rest)
    costs = round_costs(target, draft, Filter(), noted)
    assert len(costs) == most + 1 and np.isfinite(costs).all()
    assert asked == ({0, *(K for K in adaptive_k.TRIED if K < most), most} if most else set())
    assert AdaptiveK([1.0] * len(costs))(Round([])) == most


def test_costs_are_measured_once_for_each_way_to_decode(monkeypatch):
    monkeypatch.setattr(adaptive_k, "BUDGET", 0.0)
    target, draft = tiny_model(0), ModelDraft(tiny_model(1))
    costs = lambda filter, rule: new_K(target, draft, filter, rule).costs
    first = costs(Filter(), verify)
    assert first is costs(Filter(), verify)
    assert first is not costs(Filter(1.0), verify) and first is not costs(Filter(), verify_block)


# ---------------------------------------------------------------- a batch


class Crowded(Slow):
    """A pass takes a second for up to 8 rows, and more as rows are more: the memory's speed, then
    the processor's.
    """

    def read(self, ids, cache, n_last=1):
        (logits,) = self.read_together([ids], [cache], [n_last])
        return logits

    def read_together(self, texts, caches, n_lasts):
        self.time.now += self.seconds * max(1, sum(n_lasts) / 8)
        return [self.model.read(*one) for one in zip(texts, caches, n_lasts)]


@pytest.mark.parametrize("n_texts", [1, 3, 16])
def test_costs_are_those_of_a_batch(monkeypatch, n_texts):
    """With 16 texts, a pass over two rows of each takes twice as long as one over one row."""
    monkeypatch.setattr(clock.time, "perf_counter", time := Time())
    monkeypatch.setattr(adaptive_k, "TRIED", (1, 2))
    monkeypatch.setattr(adaptive_k, "MAX_K", 2)
    target = Crowded(tiny_model(0), 1.0, time)
    draft = ModelDraft(tiny_model(1)).over(lambda model: Crowded(model, 0.125, time))
    seconds = lambda rows: max(1, n_texts * rows / 8)
    plain, each = seconds(1), 0.125 * seconds(1)
    found = round_costs(target, draft, Filter(1.0), verify, n_texts)
    assert found == pytest.approx([1, *((K * each + seconds(K + 1)) / plain for K in (1, 2))])


@pytest.mark.parametrize("failing", ["target", "draft"])
def test_a_batch_that_cannot_be_measured_ends(failing):
    """What one of the texts raises is raised here; no thread is left waiting."""

    class Broken(Crowded):
        def read_together(self, *arguments):
            raise MemoryError(failing)

    kinds = {"target": Crowded, "draft": Crowded, failing: Broken}
    models = {role: kind(tiny_model(0), 0.0, Time()) for role, kind in kinds.items()}
    with pytest.raises(MemoryError, match=failing):
        round_costs(models["target"], ModelDraft(models["draft"]), Filter(1.0), verify, 4)


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_a_batch_uses_the_costs_of_as_many_texts(pair, monkeypatch, batch_size):
    monkeypatch.setattr(
        adaptive_k, "round_costs", lambda *options: asked.append(options[-1]) or [1.0, 2.0]
    )
    settings = Settings(models_dir=str(pair), K="auto", kernels="plain", n_tokens_to_generate=4)
    pair, asked = load_pair(settings), []
    prompts = [Prompt.of(text, settings, pair, number) for number, text in enumerate("abc", 1)]
    assert len([*results_of(settings, pair, prompts, batch_size, {})]) == 3
    assert {*asked} == {batch_size, 3 % batch_size or batch_size}


def asked(monkeypatch, K, text, last):
    """K of a text's next round, asked for from its thread."""
    monkeypatch.setattr(adaptive_k, "get_ident", lambda: text)
    return K(last)


def test_texts_that_end_early_leave_the_others_in_step(monkeypatch):
    """A K is of a whole round, and so is what is learned of the round before."""
    lengths, K = [3, 200, 7, 200, 1], AdaptiveK([1, 1.1, 1.2, 1.3])
    lasts, before, seen = [Round([])] * len(lengths), 0, set()
    rng = np.random.default_rng(0)
    for i_round in range(max(lengths)):
        active = [text for text in rng.permutation(len(lengths)) if i_round < lengths[text]]
        ks = []
        for text in active:
            ks.append(asked(monkeypatch, K, text, lasts[text]))
            assert K.K_before == before
            accepted = [*(rng.random(ks[-1]) < 0.1), False].index(False)
            lasts[text] = Round([0] * (accepted + 1), [0] * ks[-1], accepted)
        (before,) = {*ks}
        seen.add(before)
    assert len(seen) > 2  # it did change


@pytest.mark.parametrize("a", [0.1, 0.5, 0.6, 0.7, 0.8, 0.95])
def test_a_batch_is_not_slower_than_plain_decoding(a, monkeypatch):
    """16 texts of 60 tokens take as long as the slowest; plain decoding takes 60.

    Half of a round's time is that of each text, and half is the same for any number of texts: a
    text that drafts alone keeps all others waiting.
    """
    speeds, costs, n_texts = [], [1, 1.6, 2.2, 2.8, 3.4], 16
    for seed in range(20):
        rng, K = np.random.default_rng(seed), AdaptiveK(costs)
        lasts, lengths, elapsed = [Round([])] * n_texts, [0] * n_texts, 0.0
        while min(lengths) < 60:
            active = [i for i in range(n_texts) if lengths[i] < 60]
            ks = [asked(monkeypatch, K, i, lasts[i]) for i in active]
            for i, n in zip(active, ks):
                accepted = [*(rng.random(n) < a), False].index(False)
                lasts[i] = Round([0] * (accepted + 1), [0] * n, accepted)
                lengths[i] += accepted + 1
            each = sum(costs[n] for n in ks) / n_texts
            elapsed += each / 2 + max(costs[n] for n in ks) / 2
        speeds.append(60 / elapsed)
    assert np.mean(speeds) > 0.96
