"""The latency model: costs as they are given, or from a results file."""

import json

import pytest
from toys import refusal

from experiments.measuring.latency import Latency, stored_latencies

DRAFT = "0.7M-17M"


def row(K, c, v, **more):
    return {"draft": DRAFT, "target": "17M", "K": K, "draft_cost": c, "verify_cost": v} | more


@pytest.fixture
def of_file(tmp_path):
    """A function (rows, target, rule) -> what the file of these rows says of a draft."""

    def of_file(rows, target="17M", rule="token"):
        path = tmp_path / "r.json"
        path.write_text(rows if isinstance(rows, str) else json.dumps({"rows": rows}))
        return stored_latencies(str(path), [DRAFT, "ngram"], target, rule)

    return of_file


def test_the_cost_of_a_round():
    """A round of three drafts lies between those of two and four."""
    latency = Latency({2: (0.1, 1.2), 4: (0.1, 1.6)}, "no more")
    assert latency.missing(4) is None and latency.missing(5) == "no more"
    expected = [0.0 + 1.0, 0.1 + 1.1, 0.2 + 1.2, 0.3 + 1.4, 0.4 + 1.6]
    assert [latency.of_round(n, 4) for n in range(5)] == pytest.approx(expected)


def test_costs_from_a_file(of_file):
    rows = [row(1, 0.1, 1.1), row(3, 0.3, 1.3), row(3, 0.5, 1.5), row("auto", 0.9, None)]
    found = of_file(rows)
    latency = found[DRAFT]
    assert [latency.draft_cost(K) for K in (1, 2, 3)] == pytest.approx([0.1, 0.25, 0.4])
    assert [latency.verify_cost(K) for K in (1, 2, 3)] == pytest.approx([1.1, 1.25, 1.4])
    assert "no costs of draft 0.7M-17M" in latency.missing(4)
    assert "no costs of draft ngram" in found["ngram"].missing(1)
    # those of another target are not taken; a log that names none may use the only one
    assert of_file(rows, "7M")[DRAFT].missing(1).endswith("for 7M with the token rule")
    assert of_file(rows, None)[DRAFT].missing(3) is None


def test_costs_are_those_of_the_rule(of_file):
    """A row that names no rule is of the token rule."""
    rows = [row(1, 0.1, 1.1), row(1, 0.3, 1.3, verification="block")]
    for rule, c in (("token", 0.1), ("block", 0.3)):
        assert of_file(rows, rule=rule)[DRAFT].draft_cost(1) == c
    assert "block" in of_file(rows[:1], rule="block")[DRAFT].missing(1)


@pytest.mark.parametrize(
    "rows",
    [
        "[" * 200_000,
        "{}",
        "",
        '{"rows": {}}',
        [7],
        [{"draft": DRAFT, "target": "17M"}],
        [row(1, "0.1", 1.1)],
        [row(1, float("nan"), 1.1)],
        [row(1, 0.1, 0)],
        [row([], 0.1, 1.1)],
    ],
)
def test_a_damaged_results_file(of_file, rows):
    message = refusal(of_file, rows)
    assert "r.json" in message and "expected" in message
