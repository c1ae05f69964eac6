"""Rules that give up exactness accept more and change the law; the exact ones keep it."""

import re
from pathlib import Path

import pytest

from experiments.proving.inexact import table

TABLE = table()
FAMILY = Path(__file__).resolve().parents[2] / "docs" / "family.md"


@pytest.fixture
def costs():
    return dict(TABLE)


def test_exact_rules_keep_the_law(costs):
    for name in ("token rule", "block verification"):
        assert costs.pop(name)[0] == pytest.approx(0, abs=1e-12)
    for name, (distance, _) in costs.items():
        assert distance > 0.01, name


def test_what_they_gain_is_accepted_drafts(costs):
    exact = costs["block verification"][1]
    assert costs["token rule"][1] < exact
    for name in ("typical acceptance", "judge decoding", "speculative cascade"):
        assert costs[name][1] > exact, name


def test_the_page_states_these_figures(costs):
    rows = re.findall(r"\| ([\w ]+?) \| (\d\.\d\d) \| (\d\.\d{3}) \|", FAMILY.read_text("utf-8"))
    stated = {name.lower(): (float(accepted), float(away)) for name, accepted, away in rows}
    assert stated.keys() == costs.keys()
    for name, (distance, accepted) in costs.items():
        assert stated[name] == (
            pytest.approx(accepted, abs=5e-3),
            pytest.approx(distance, abs=5e-4),
        )
