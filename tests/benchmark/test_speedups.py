"""The referee's rules, on made-up runs."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding import theory
from experiments.benchmark import best_k, speedups
from experiments.benchmark.comparison import PLAIN, Measurement, Variant

FAST = Variant("0.7M-17M", 3)
BLOCK = Variant("0.7M-17M", 3, "block")


def run_of(seconds, K=3, tokens=10, **more):
    """One prompt's Run: every round drafts K and has one of them accepted."""
    n_rounds = tokens // 2 if K else tokens
    run = Measurement(
        is_lookup=False,
        parts={"draft": 0.3, "verify": 0.6, "sampling": 0.3},
        seconds=seconds,
        prefill_seconds=[0.1] * len(seconds),
        texts=[[*range(tokens)]] * len(seconds),
        rounds=[[3, 2, 1] if K else [0, 0, 0]] * n_rounds * len(seconds),
        pass_seconds=1.2 if K else 1.0,
        draft_seconds=0.25 if K else None,
    )
    return dataclasses.replace(run, **more)


SLOW = [run_of([8.0], K=0)] * 6
QUICK = [run_of([4.0])] * 6


def row(plain, fast):
    return speedups.result_row(FAST, {PLAIN: plain, FAST: fast})


def test_one_rule_against_the_other():
    """Texts that take 4 s by one rule and 5 s by the token rule; withheld where that is noise."""
    runs = {PLAIN: SLOW, FAST: [run_of([5.0])] * 6, BLOCK: QUICK}
    found = speedups.result_row(BLOCK, runs)
    assert (found["verification"], found["speedup_over_token"]) == ("block", 1.25)
    assert found["intervals"]["speedup_over_token"] == pytest.approx([1.25, 1.25])
    fewer = [run_of([4.0], rounds=[[3, 3, 3], [3, 3, 2], [3, 2, 2]])] * 6
    found = speedups.result_row(BLOCK, runs | {BLOCK: fewer})
    assert found["tokens_per_pass_over_token"] == pytest.approx(5 / 3)
    assert found["intervals"]["tokens_per_pass_over_token"] == pytest.approx([5 / 3, 5 / 3])
    same = speedups.result_row(BLOCK, runs | {FAST: QUICK})
    assert same["speedup_over_token"] is None
    assert "contains 1" in same["withheld"]["speedup_over_token"]
    alone = speedups.result_row(FAST, runs)
    assert alone["speedup_over_token"] is None and alone["withheld"] == {}


def test_a_row_from_known_runs():
    """Six prompts: medians of 8 s against 4 s, five rounds of 3 drafts with 1 accepted."""
    found = row([run_of([8.0, 7.0, 99.0], K=0)] * 6, [run_of([4.0, 1.0, 5.0])] * 6)
    predicted = (1 + 0.5 + 0.25 + 0.125) / (3 * 0.25 + 1.2)
    expected = {
        "speedup_time": 2,
        "tokens_per_target_pass": 2,
        "tokens": 60,
        "prompts": 6,
        "tokens_per_second": 2.5,
        "autoregressive_tokens_per_second": 1.25,
        "acceptance_rate": 0.5,
        "acceptance_by_position": [1, 0, None],
        "examined_by_position": [90, 90, 0],
        "accepted_histogram": [0, 90, 0, 0],
        "drafted": 270,
        "wasted_drafts": 180,
        "draft_cost": 0.25,
        "verify_cost": 1.2,
        "predicted_speedup": pytest.approx(predicted),
        "measured_over_predicted": pytest.approx(2 / predicted),
        "milliseconds_per_round": pytest.approx({"draft": 20, "verify": 40, "sampling": 20}),
        "withheld": {},
        "flags": [],
    }
    assert {name: found[name] for name in expected} == expected
    assert found["intervals"]["speedup_time"] == pytest.approx([2, 2])


BUG = {"position": 3, "verdict": "bug"}
WITHHELD = {
    "token counts differ on 1 of 6": (SLOW, QUICK[:5] + [run_of([4.0], tokens=8)]),
    "contains 1": (SLOW, [run_of([s]) for s in (2.0, 20.0, 8.0, 7.0, 9.0, 8.5)]),
    "5 prompts give no": (SLOW[:5], QUICK[:5]),
    "a bug": (SLOW, QUICK[:5] + [run_of([4.0], difference=BUG)]),
}


@pytest.mark.parametrize("reason", WITHHELD)
def test_a_speedup_is_withheld(reason):
    found = row(*WITHHELD[reason])
    assert found["speedup_time"] is None and found["measured_over_predicted"] is None
    assert reason in found["withheld"]["speedup_time"]
    assert found["predicted_speedup"] is not None


def test_a_prediction_is_withheld_where_its_costs_are_unknown():
    found = row(SLOW, [dataclasses.replace(run, pass_seconds=None) for run in QUICK])
    assert found["predicted_speedup"] is None and found["speedup_time"] == 2
    assert found["withheld"].keys() == {"predicted_speedup", "measured_over_predicted"}


@pytest.mark.parametrize(
    "v, published",
    [([1.2] * 6, True), ([0.98, 1.02, 0.97, 1.01, 0.99, 0.98], True), ([0.85] * 6, False)]
    + [([0.6, 1.4, 0.7, 0.9, 0.6, 1.2], False), ([0.9, 1.9, 1.1, 1.4, 1.0, 1.2], True)],
)
def test_a_verify_cost_below_1_is_withheld_unless_it_is_noise(v, published):
    """Together with the prediction that needs it. It has an interval in any case."""
    found = row(SLOW, [dataclasses.replace(run, pass_seconds=x) for run, x in zip(QUICK, v)])
    low, high = found["intervals"]["verify_cost"]
    assert low <= sum(v) / 6 <= high and found["intervals"]["draft_cost"] is not None
    for name in ("verify_cost", "predicted_speedup", "measured_over_predicted"):
        assert (found[name] is not None) == published == (name not in found["withheld"])


def test_loops_and_ties_are_flagged():
    loop = run_of([4.0], texts=[[1] * 10])
    tie = dataclasses.replace(loop, difference={"position": 3, "verdict": "tie"})
    found = row(SLOW, QUICK[:4] + [loop, tie])
    names = [flag.partition(":")[0] for flag in found["flags"]]
    assert found["speedup_time"] == 2 and names == ["repetition", "ties"]
    assert found["repetition"] == pytest.approx(4 / 18)


# ---------------------------------------------------------------- the best K


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(1, 12), st.floats(0.01, 2), st.floats(1, 4))
def test_theory(a, K, c, v):
    assert theory.tokens_per_round(a, K) == pytest.approx(
        (1 - a ** (K + 1)) / (1 - a) if a < 1 - 1e-6 else K + 1, rel=1e-4
    )
    costs = {1: (c, v), K: (c, v)}
    assert theory.fastest_K(a, costs)[1] >= theory.speedup(a, K, c, v)


def row_of_K(K, speed, **more):
    """A row of ten rounds: each examines two drafts, and accepts one."""
    n = 5 if K == "auto" else K
    found = row(SLOW, [run_of([4.0])] * 6) | {"K": K, "tokens_per_second": speed}
    counts = {
        "drafted": 10 * n,
        "wasted_drafts": 10 * n - 10,
        "examined_by_position": [10, 10],
    }
    return found | {"target": "17M", "temperature": 1.0} | counts | more


def test_the_predicted_K_beside_the_measured_one():
    """a = 0.5: K = 2 gives 1.75 / 1.3, more than K = 1 (1.5 / 1.2) and K = 3 (1.875 / 1.9)."""
    of_rounds = [(0.1, 1.1), (0.1, 1.1), (0.2, 1.3)]
    rows = [row_of_K(1, 10.0), row_of_K(3, 12.0), row_of_K("auto", 11.0, drafting_share=None)]
    found = best_k.best_K(rows, of_rounds)
    assert (found["predicted_K"], found["fastest_K"]) == (2, 3)
    assert (found["acceptance_rate"], found["drafting_share"]) == (0.5, 1)
    assert (found["draft_cost"], found["verify_cost"]) == (0.1, 1.1)
    assert found["predicted_speedup"] == pytest.approx(1.75 / 1.3)
    assert found["speedup_time"] == rows[1]["speedup_time"]
    # a look-up that finds something in a tenth of the rounds
    seldom = [row_of_K(3, 12.0, drafting_share=0.1)]
    expected = (0.1 * 1.75 + 0.9) / (0.1 * 1.3 + 0.9)
    assert best_k.best_K(seldom, of_rounds)["predicted_speedup"] == pytest.approx(expected)
    for unknown in ((rows, []), (rows[2:], of_rounds)):
        assert best_k.best_K(*unknown)["predicted_K"] is None
