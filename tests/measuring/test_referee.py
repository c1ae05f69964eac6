"""The referee's rules, on made-up runs."""

import dataclasses

import pytest

from experiments.measuring import referee
from experiments.measuring.runner import Run


def run_of(K, seconds, tokens=10, accepted=1, **more):
    """One prompt's Run: every round drafts K and has `accepted` of them accepted."""
    n_rounds = tokens // (accepted + 1) if K else tokens
    rounds = [[K, min(K, accepted + 1), accepted]] * n_rounds if K else []
    n, split = len(seconds), {"draft": 0.1, "verify": 0.2, "cache": 0.0, "sampling": 0.1}
    run = Run(
        draft="0.7M-17M" if K else None,
        K=K,
        ledger={"rounds": n_rounds, "split": split},
        seconds=seconds,
        prefill_seconds=[0.1] * n,
        tokens=[tokens] * n,
        passes=[n_rounds] * n,
        rounds=[rounds] * n,
        repeated=[0, 3],
        pass_seconds=1.2 if K else 1.0,
        draft_seconds=0.25 if K else None,
    )
    return dataclasses.replace(run, **more)


def row(plain, fast):
    return referee.row_of("17M", 0.0, plain, fast, 0, {})


def test_one_rule_against_the_other():
    """Texts that take 4 s by one rule and 5 s by the token rule; withheld where that is noise."""
    plain, token = [run_of(0, [8.0])] * 6, [run_of(3, [5.0])] * 6
    block = [run_of(3, [4.0], verification="block")] * 6
    found = referee.row_of("17M", 1.0, plain, block, 0, {}, token)
    assert (found["verification"], found["speedup_over_token"]) == ("block", 1.25)
    assert found["intervals"]["speedup_over_token"] == pytest.approx([1.25, 1.25])
    same = referee.row_of("17M", 1.0, plain, block, 0, {}, block)
    assert (
        same["speedup_over_token"] is None
        and "contains 1" in same["withheld"]["speedup_over_token"]
    )
    alone = row(plain, token)
    assert alone["speedup_over_token"] is None and alone["withheld"] == {}


def test_a_row_from_known_runs():
    """Six prompts at 10 tokens: medians 8 s against 4 s, five rounds of 3 drafts with 1 accepted
    each.
    """
    found = row([run_of(0, [8.0, 7.0, 99.0])] * 6, [run_of(3, [4.0, 1.0, 5.0])] * 6)
    assert (
        found["speedup_time"] == 2
        and found["speedup_target_passes"] == 2 == found["tokens_per_target_pass"]
    )
    assert (found["tokens"], found["prompts"], found["tokens_per_second"]) == (60, 6, 2.5)
    assert found["autoregressive_tokens_per_second"] == 1.25
    assert found["acceptance_rate"] == 0.5 and found["acceptance_by_position"] == [1, 0, None]
    assert found["examined_by_position"] == [90, 90, 0] and found["accepted_histogram"] == [
        0,
        90,
        0,
        0,
    ]
    assert (found["drafted"], found["wasted_drafts"]) == (270, 180)
    assert (found["draft_cost"], found["verify_cost"]) == (0.25, 1.2)
    assert found["predicted_speedup"] == pytest.approx((1 + 0.5 + 0.25 + 0.125) / (3 * 0.25 + 1.2))
    assert found["measured_over_predicted"] == pytest.approx(2 / found["predicted_speedup"])
    assert found["intervals"]["speedup_time"] == pytest.approx([2, 2])
    assert found["milliseconds_per_round"] == pytest.approx(
        {"draft": 20, "verify": 40, "cache": 0, "sampling": 20}
    )
    assert found["withheld"] == {} and found["flags"] == []


def test_a_speedup_is_withheld():
    plain, fast = [run_of(0, [8.0])] * 6, [run_of(3, [4.0])] * 6
    reasons = {
        "token counts differ on 1 of 6": (plain, fast[:5] + [run_of(3, [4.0], tokens=8)]),
        "contains 1": (plain, [run_of(3, [s]) for s in (2.0, 20.0, 8.0, 7.0, 9.0, 8.5)]),
        "5 prompts give no": (plain[:5], fast[:5]),
        "a bug": (
            plain,
            fast[:5] + [run_of(3, [4.0], difference={"position": 3, "verdict": "bug"})],
        ),
    }
    for reason, runs in reasons.items():
        found = row(*runs)
        assert found["speedup_time"] is None and found["measured_over_predicted"] is None
        assert reason in found["withheld"]["speedup_time"]
        assert (found["speedup_target_passes"] is None) == ("counts" in reason)
        assert found["predicted_speedup"] is not None
    found = row(plain, [dataclasses.replace(run, pass_seconds=None) for run in fast])
    assert found["predicted_speedup"] is None and found["speedup_time"] == 2
    assert found["withheld"].keys() == {"predicted_speedup", "measured_over_predicted"}


def test_loops_and_ties_are_flagged():
    plain, fast = [run_of(0, [8.0])] * 6, [run_of(3, [4.0])] * 5
    tie = run_of(3, [4.0], difference={"position": 3, "verdict": "tie"})
    found = row(plain, fast + [dataclasses.replace(tie, repeated=[50, 50])])
    assert found["speedup_time"] == 2 and [flag.partition(":")[0] for flag in found["flags"]] == [
        "repetition",
        "ties",
    ]
    assert found["repetition"] == pytest.approx(50 / 65)
