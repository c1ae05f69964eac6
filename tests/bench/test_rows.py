"""Which figures a row publishes, on made-up runs."""

import pytest

from bench.rows import Draft, make_row


def run_of(seconds, K=3, tokens=10, verify=1.2, accepted=1, room=9):
    """One repeat: every round takes a pass of `verify` seconds, and accepts one of K drafts."""
    n_rounds = tokens // 2 if K else tokens
    draft = (K, accepted + 1, accepted) if K else (0, 0, 0)
    rounds = [Draft(room, *draft)] * n_rounds
    return {
        "texts": [[*range(tokens)]],
        "seconds": seconds,
        "rounds": rounds,
        "draft_seconds": [0.25 * K] * len(rounds),
        "target_seconds": [verify if K else 1.0] * len(rounds),
    }


SLOW = [[run_of(8.0, K=0)]] * 6
QUICK = [[run_of(4.0)]] * 6


def test_a_row_from_known_runs():
    """Six prompts: medians of 8 s against 4 s, rounds of 3 drafts with 1 of 2 examined accepted."""
    plain = [[run_of(s, K=0) for s in (8.0, 7.0, 99.0)]] * 6
    found = make_row(plain, [[run_of(s) for s in (4.0, 1.0, 5.0)]] * 6, 3)
    expected = {
        "prompts": 6, "tokens": 60, "plain_tokens_per_second": 1.25, "tokens_per_second": 2.5,
        "speedup": 2, "tokens_per_target_pass": 2, "acceptance_rate": 0.5, "draft_cost": 0.25,
        "verify_cost": 1.2, "withheld": {},
        "predicted": pytest.approx((1 + 0.5 + 0.25 + 0.125) / (3 * 0.25 + 1.2)),
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert found["intervals"]["speedup"] == pytest.approx([2, 2])


WITHHELD = {
    "too few prompts": (SLOW[:5], QUICK[:5], False),
    "a bug": (SLOW, QUICK, True),
    "the machine busy": (SLOW, [[run_of(3.9)]] * 6, False),  # 2.05 times as fast by 2 tokens a pass
}


@pytest.mark.parametrize("reason", WITHHELD)
def test_a_speedup_is_withheld(reason):
    plain, runs, bug = WITHHELD[reason]
    found = make_row(plain, runs, 3, bug)
    assert found["speedup"] is None and reason in found["withheld"]["speedup"]
    assert found["predicted"] is not None


def test_a_speedup_whose_interval_contains_1_is_a_figure_too():
    runs = [[run_of(s)] for s in (2.0, 20.0, 8.0, 7.0, 9.0, 8.5)]
    found = make_row(SLOW, runs, 3)
    low, high = found["intervals"]["speedup"]
    assert low < 1 < high and found["speedup"] == 48 / 54.5 and not found["withheld"]


@pytest.mark.parametrize("v, published", [(1.2, True), (0.98, True), (0.85, False)])
def test_a_verify_cost_below_1_is_withheld_unless_it_is_noise(v, published):
    """Together with the prediction that needs it."""
    found = make_row(SLOW, [[run_of(4.0, verify=v)]] * 6, 3)
    for name in ("verify_cost", "predicted"):
        assert (found[name] is not None) == published == (name not in found["withheld"])


def test_nothing_is_predicted_where_drafting_was_rare():
    """As by look-up, and where a draft model's context ends: no formula is about such a run."""
    silent = run_of(4.0)
    silent["rounds"] = [Draft(9, 3, 2, 1)] * 3 + [Draft(9, 0, 0, 0)] * 2
    found = make_row(SLOW, [[silent]] * 6, 3)
    assert found["predicted"] is None and "too few" in found["withheld"]["predicted"]
    assert found["verify_cost"] == pytest.approx(1.2) and found["speedup"] == 2
    # rounds that had no room for K drafts do not count
    ending = run_of(4.0)
    ending["rounds"] = [Draft(9, 3, 2, 1)] * 4 + [Draft(1, 1, 1, 1)]
    assert make_row(SLOW, [[ending]] * 6, 3)["predicted"] is not None
    ending["rounds"] = [Draft(9, 3, 2, 1)] * 2 + [Draft(1, 1, 1, 1)]  # unless they are many
    found = make_row(SLOW, [[ending]] * 6, 3)
    assert found["predicted"] is None and "room" in found["withheld"]["predicted"]


def test_repeats_that_are_alike_tell_nothing_new_about_acceptance():
    """At temperature 0, at 1e-7, with top_k 1: wherever all repeats decide the same."""
    interval = lambda runs: make_row(SLOW, runs, 3)["intervals"]["acceptance_rate"]
    once = [[run_of(4.0, accepted=n)] for n in (1, 2, 1, 3, 1, 2)]
    assert interval([3 * repeats for repeats in once]) == pytest.approx(interval(once))


def test_prompts_are_counted_in_batches_too():
    pairs = [[run_of(s, K=K) | {"texts": [[1], [2]]}] * 6 for s, K in ((8.0, 0), (4.0, 3))]
    assert make_row(*([run] for run in pairs), 3)["prompts"] == 2


def test_what_was_not_timed_is_withheld():
    """In a batch, the times of a loop are those of the others, too."""
    untimed = [[run_of(4.0) | {"draft_seconds": [], "target_seconds": []}]] * 6
    found = make_row(SLOW, untimed, 3)
    assert found["draft_cost"] is found["verify_cost"] is found["predicted"] is None
    assert found["speedup"] == 2
