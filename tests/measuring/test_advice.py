"""What speculative decoding can give, and advice: with costs made up, it is the theory's."""

import dataclasses
import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import TINY, refusal

from experiments.decoding import clock
from experiments.drafting.drafts import ModelDraft
from experiments.measuring import advice, theory
from gpt2 import Config
from sampling import Filter

CONFIG = dataclasses.replace(TINY, n_ctx=96)
C, V = 0.1, {1: 1.05, 2: 1.1, 3: 1.2, 4: 1.6}  # of the made-up machine
WHOLE = {K: K * C + v for K, v in V.items()}


def exactly(value):
    return {"value": value, "low": value, "high": value}


COSTS = {K: (exactly(C), exactly(v)) for K, v in V.items()}


class MadeUpTimer:
    """A machine on which a target pass takes 1 s, and a draft's C for each layer of width 32."""

    def __init__(self, target, draft, filter, most_K, rule):
        config = draft.model.config
        self.draft_seconds = C * config.n_layer * config.n_embd / 32

    def timed(self, K, n_rounds):
        drafting, verify = K * self.draft_seconds, V[K] if K else 1.0
        return [(drafting, verify)] * n_rounds


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(1, 12), st.floats(0.01, 2), st.floats(1, 4), st.floats(0.01, 1))
def test_theory(a, K, c, v, h):
    assert theory.tokens_per_round(a, K) == pytest.approx(
        (1 - a ** (K + 1)) / (1 - a) if a < 1 - 1e-6 else K + 1, rel=1e-4
    )
    even = theory.needed(1, {K: K * c + v})
    if even is None:
        assert theory.speedup(1, K, c, v, h) < 1 + 1e-12
    else:
        assert theory.speedup(even, K, c, v, h) == pytest.approx(1, abs=1e-6) or even == 0
    costs = {1: c + v, K: K * c + v}
    assert theory.best(a, costs)[1] >= theory.speedup(a, K, c, v) * (1 - 1e-12)
    least = theory.needed(1.2, costs)
    reached = theory.best(1 if least is None else least, costs)[1]
    assert reached < 1.2 + 1e-12 if least is None else reached == pytest.approx(1.2) or least == 0


@pytest.fixture
def made_up(monkeypatch):
    """(target, draft model) on the made-up machine."""
    monkeypatch.setattr(clock, "RoundTimer", MadeUpTimer)
    monkeypatch.setattr(advice, "random_model", lambda config, _: SimpleNamespace(config=config))
    return tuple(SimpleNamespace(config=CONFIG, backend=None) for _ in range(2))


def test_the_advice_is_the_theorys(made_up):
    target, model = made_up
    costs = advice.spreads_of_costs(target, ModelDraft(model), Filter(), [*V], 1)
    assert all(c == pytest.approx(exactly(C)) for c, _ in costs.values())
    assert all(v == pytest.approx(exactly(V[K])) for K, (_, v) in costs.items())
    found = advice.advice_of(advice.acceptance_of(0.8, (0.75, 0.85), 1, "given"), COSTS)
    speedups = {K: theory.speedup(0.8, K, C, V[K]) for K in V}
    assert found["best_K"] == max(speedups, key=speedups.get) == 3
    assert found["draft_cost"] == exactly(C)
    for row in found["by_K"]:
        K = row["K"]
        assert (row["draft_cost"], row["verify_cost"]) == (C, V[K])
        assert row["speedup"] == speedups[K]
        assert row["low"] == theory.speedup(0.75, K, C, V[K]) < row["speedup"] < row["high"]
        even = row["break_even_acceptance"]
        assert theory.speedup(even, K, C, V[K]) == pytest.approx(1)
    assert found["pays"] == "yes"
    gains = {gain["change"]: gain["speedup"] for gain in found["would_help"]}
    half = {K: K * C / 2 + v for K, v in V.items()}
    assert gains["a draft at half its cost"] == pytest.approx(theory.best(0.8, half)[1])
    assert gains["a draft with half the rejections"] == pytest.approx(theory.best(0.9, WHOLE)[1])
    values = list(gains.values())
    assert values == sorted(values, reverse=True) and min(values) > speedups[3]


@pytest.mark.parametrize(
    "low, value, high, verdict",
    [(0.2, 0.2, 0.2, "no"), (0.8, 0.8, 0.8, "yes"), (0.1, 0.3, 0.5, "too close to tell")],
)
def test_whether_it_pays(low, value, high, verdict):
    costs = {2: (exactly(0.3), exactly(1.1))}
    found = advice.advice_of(advice.acceptance_of(value, (low, high), 1, ""), costs)
    assert found["pays"] == verdict


def test_depth_against_width(made_up):
    """On the made-up machine cost is layers times width."""
    expected = theory.best(0.8, WHOLE)[1]
    found = advice.weigh_shapes(*made_up, Filter(), expected, COSTS, 1)
    shapes = {shape["draft"]: shape for shape in found}
    needs = {name: shape["needs_acceptance"] for name, shape in shapes.items()}
    assert needs["as it is"] == pytest.approx(0.8)
    assert [shape["shape"] for shape in shapes.values()] == ["2 x 16", "1 x 16", "2 x 8", "1 x 22"]
    for shape in shapes.values():
        costs = {K: K * shape["draft_cost"] + v for K, v in V.items()}
        assert theory.best(shape["needs_acceptance"], costs)[1] == pytest.approx(expected)
    assert needs["half the layers"] < needs["half the layers, wider"] < 0.8


def test_shapes_that_cannot_be_are_left_out():
    assert [*advice.draft_shapes(Config(9, 9, 12, 12, 1))] == []
    shapes = advice.draft_shapes(Config(9, 9, 84, 12, 6)).values()
    assert all(shape.n_embd % shape.n_head == 0 for shape in shapes)


ROW = {"draft": "0.7M", "target": "7M", "K": 2, "temperature": 1, "drafted": 8}
ROW |= {"acceptance_rate": 0.5, "accepted_histogram": [1, 2, 1]}
BLOCK = ROW | {"acceptance_rate": 0.9, "verification": "block"}
NARROW = {"settings": {"temperatures": "1", "top_k": 0, "top_p": 0.5}, "rows": [ROW]}
REPLAYED = {"settings": {"verification": "block"}, "log": {"settings": {"top_p": 1.0}}}


@pytest.mark.parametrize(
    "result, filter",
    [
        ({"rows": [ROW | {"verification": "token"}, BLOCK]}, Filter(1)),
        (NARROW, Filter(1, 0, 0.5)),
        ({"rows": [BLOCK]}, None),
        (REPLAYED | {"rows": [ROW]}, None),
        (NARROW, None),
        ({"rows": [ROW | {"synthetic_acceptance": 0.5}]}, None),
        ({"rows": [ROW | {"weights": "random"}]}, None),
        ({"rows": [ROW | {"target": "17M"}]}, None),
        ({"rows": [ROW | {"temperature": 0}]}, None),
        ({"rows": [ROW | {"K": "auto"}]}, None),
    ],
)
def test_only_an_acceptance_of_the_same_thing_is_taken(tmp_path, result, filter):
    """Of the token rule, of real models, and of texts sampled in the same way."""
    path = tmp_path / "r.json"
    path.write_text(json.dumps(result))
    what = path, "0.7M", False, "7M", filter or Filter(1)
    if filter:
        assert advice.stored_acceptance(*what)["value"] == 0.5
    else:
        assert "expected such a row" in refusal(advice.stored_acceptance, *what)
