"""The known programs of docs/referee, where they are installed."""

from pathlib import Path

import pytest

from proof.cases import RULE_CASES
from proof.command import load
from proof.prove import prove

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.oracle

ours = load(Path(__file__).parents[2] / "docs" / "referee" / "judge_transformers.py")


@pytest.mark.parametrize("setting", ours.SETTINGS)
def test_generate_of_transformers_is_exact(setting):
    (result,) = ours.referee({setting: ours.SETTINGS[setting]})
    assert (result["verdict"], result["reason"]) == ("exact", None)
    (case,) = result["cases"]
    if setting in ("temperature 1", "top_k 2", "EOS"):
        assert case["kept"] == pytest.approx(case["kept_by_verify"], abs=1e-6)


def test_the_rule_of_transformers_is_exact_and_with_an_ensemble_weight_it_is_not():
    assert prove(ours.rule, RULE_CASES[:6])["verdict"] == "exact"
    result = prove(ours.ensemble, RULE_CASES[:1])
    assert result["verdict"] == "wrong" and result["distance"] > 0.05
