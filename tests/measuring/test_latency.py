"""The latency model: costs as they are given, or from a results file."""

import json

import pytest

from experiments.measuring.latency import Latency
from utils import InputError


def row(K, c, v, **more):
    return {"draft": "0.7M-17M", "target": "17M", "K": K, "draft_cost": c, "verify_cost": v} | more


@pytest.fixture
def stored(tmp_path):
    """A function (rows) -> the path of a results file."""

    def store(rows):
        path = tmp_path / "r.json"
        path.write_text(rows if isinstance(rows, str) else json.dumps({"rows": rows}))
        return str(path)

    return store


def test_costs_are_given_in_the_order_of_K():
    latency = Latency(["0.7M-17M"], [4, 2], "17M", "", "0.1", "1.6,1.2")
    assert latency.costs["0.7M-17M", 4].of_pass(5) == 1.6
    assert latency.costs["0.7M-17M", 4].of_pass(3) == 1.2


def test_costs_as_given():
    latency = Latency(["0.7M-17M"], [2, 4], "17M", "", "0.1", "1.2,1.6")
    costs = latency.costs["0.7M-17M", 4]
    assert latency.missing("0.7M-17M", 4) is None and latency.missing("0.7M-17M", 3)
    # a round of three drafts lies between those of two and four
    expected = [0.0 + 1.0, 0.1 + 1.1, 0.2 + 1.2, 0.3 + 1.4, 0.4 + 1.6]
    assert [costs.of_round(n) for n in range(5)] == pytest.approx(expected)


def test_costs_from_a_file(stored):
    rows = [row(1, 0.1, 1.1), row(3, 0.3, 1.3), row(3, 0.5, 1.5), row("auto", 0.9, None)]
    latency = Latency(["0.7M-17M", "ngram"], [1, 2, 3, 4], "17M", stored(rows), "", "")
    drafts = [latency.costs["0.7M-17M", K].draft_cost for K in (1, 2, 3)]
    passes = [latency.costs["0.7M-17M", K].of_pass(K + 1) for K in (1, 2, 3)]
    assert drafts == pytest.approx([0.1, 0.3, 0.4]) and passes == pytest.approx([1.1, 1.25, 1.4])
    assert "no costs of draft 0.7M-17M" in latency.missing("0.7M-17M", 4)
    assert "no costs of draft ngram" in latency.missing("ngram", 1)
    # those of another target are not taken; a log that names none may use the only one
    other = Latency(["0.7M-17M"], [1], "7M", stored(rows), "", "")
    assert other.missing("0.7M-17M", 1).endswith("for 7M with the token rule")
    assert Latency(["0.7M-17M"], [1], None, stored(rows), "", "").missing("0.7M-17M", 1) is None


def test_costs_are_those_of_the_rule(stored):
    """A row that names no rule is of the token rule."""
    rows = [row(1, 0.1, 1.1), row(1, 0.3, 1.3, verification="block")]
    for rule, c in (("token", 0.1), ("block", 0.3)):
        latency = Latency(["0.7M-17M"], [1], "17M", stored(rows), "", "", rule)
        assert latency.costs["0.7M-17M", 1].draft_cost == c
    latency = Latency(["0.7M-17M"], [1], "17M", stored(rows[:1]), "", "", "block")
    assert not latency.costs and "block" in latency.missing("0.7M-17M", 1)


@pytest.mark.parametrize(
    "draft_cost, verify_cost, shown",
    [
        ("0.1", "", "needs both"),
        ("x", "1", "'x'"),
        ("nan", "1", "'nan'"),
        ("inf", "1", "'inf'"),
        ("1e308", "1", "'1e308'"),
        ("0.1", "0", "'0'"),
        ("0.1", "1e-320", "'1e-320'"),
        ("0.1,0.2", "1", "'0.1,0.2'"),
        ("0.1", "1,2,3", "'1,2,3'"),
        ("0.1", "", "needs both"),
    ],
)
def test_costs_that_make_no_sense(draft_cost, verify_cost, shown):
    with pytest.raises(InputError) as error:
        Latency(["0.7M-17M"], [1, 2], "17M", "", draft_cost, verify_cost)
    assert shown in str(error.value)


@pytest.mark.parametrize(
    "rows",
    [
        "[" * 200_000,
        "{}",
        "[]",
        "7",
        "",
        '{"rows": {}}',
        '{"rows": [{"draft": "0.7M-17M", "target": "17M", "K": 1, "draft_cost": NaN}]}',
        '{"rows": [{"draft": "0.7M-17M", "target": "17M", "K": 1, "draft_cost": 1e999}]}',
        [7],
        [{"draft": "0.7M-17M", "target": "17M"}],
        [row(1, "0.1", 1.1)],
        [row(1, 0.1, 0)],
        [row(1, -0.1, 1.1)],
        [row(1, 1e300, 1.1)],
        [row(1, [0.1], 1.1)],
        [row(True, 0.1, 1.1)],
        [row(0, 0.1, 1.1)],
        [row(1.5, 0.1, 1.1)],
        [row([], 0.1, 1.1)],
        [row(1, 0.1, 1.1, target=[])],
        [row(1, 0.1, 1.1, draft=None)],
        [row(1, 0.1, 1.1, intervals=[])],
        [row(1, 0.1, 1.1, intervals={"acceptance_rate": [0.1]})],
        [row(1, 0.1, 1.1, accepted_histogram=[0])],
        [row(1, 0.1, 1.1, acceptance_rate=2)],
    ],
)
def test_a_damaged_results_file(stored, rows):
    with pytest.raises(InputError, match="r.json.*expected") as error:
        Latency(["0.7M-17M"], [1], "17M", stored(rows), "", "")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("path", ["/dev/zero", "missing.json", "."])
def test_no_results_file(path):
    with pytest.raises(InputError, match="expected"):
        Latency(["0.7M-17M"], [1], "17M", path, "", "")
