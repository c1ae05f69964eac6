"""The known programs of docs/referee, where they are installed, or where CLONE names a clone."""

import os
import re
from pathlib import Path

import pytest

from proof import prove as referee
from proof.cases import RULE_CASES, Case, drafts_kept
from proof.program import load
from proof.prove import prove

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.oracle

ADAPTERS = Path(__file__).parents[2] / "docs" / "referee"
ours = load(ADAPTERS / "judge_transformers.py")
CLONES = {
    "deepspec": ["exact"],
    "dflash": ["exact"],
    "eagle": ["exact"],
    "feifeibear": ["exact", "exact"],
    "gpt_fast": ["exact"],
    "jaymody": ["exact"],
    "lucidrains": ["exact"],
    "romsto": ["exact", "wrong", "wrong"],
    "shreyansh26": ["exact"],
    "vllm": ["exact"],
}


first, *others = ours.SETTINGS
others = [pytest.param(setting, marks=pytest.mark.slow) for setting in others]


@pytest.mark.parametrize("setting", [first, *others])
def test_generate_of_transformers_is_exact(setting):
    (result,) = ours.referee({setting: ours.SETTINGS[setting]})
    assert (result["verdict"], result["reason"]) == ("exact", None)
    (case,) = result["cases"]
    if setting in ("temperature 1", "top_k 2", "EOS"):
        assert case["kept"] == pytest.approx(case["kept_by_verify"], abs=1e-6)
    if setting == "temperature 0.5":  # which the assistant gets twice
        models = [ours.as_table(ours.tiny_gpt2(seed)) for seed in (1, 2)]
        at = [lambda text, m=m, T=T: m(text) ** (1 / T) for m, T in zip(models, (0.5, 0.25))]
        models = [lambda text, m=m: m(text) / m(text).sum() for m in at]
        right = drafts_kept(Case("", *models, K=2, n_tokens=3), block=False)
        assert case["kept"] == pytest.approx(right, abs=1e-6)


def test_generate_of_transformers_with_a_gemma_4_assistant_is_wrong_as_by_hand(monkeypatch):
    monkeypatch.setattr(referee, "ACCUSE", 1_000)
    judge, seen = load(ADAPTERS / "judge_gemma4.py"), []
    of_case = judge.judge
    monkeypatch.setattr(judge, "judge", lambda *args: seen.append(args[-1]) or of_case(*args))
    (result,) = judge.referee()
    assert result["verdict"] == "wrong"
    wrong, (case,) = result["cases"][0]["first_wrong"], seen
    first, second = wrong["text"]
    p, q = case.target((first,)), case.draft_model((first,))
    assert second == q.argmax()  # the draft, accepted as if it were sampled from q
    assert wrong["yours"] == pytest.approx(case.target(())[first] * min(1, p[second] / q[second]))
    assert wrong["right"] == pytest.approx(case.target(())[first] * p[second])


def test_the_rule_of_transformers_is_exact_and_with_an_ensemble_weight_it_is_not():
    assert prove(ours.rule, RULE_CASES[:6])["verdict"] == "exact"
    result = prove(ours.ensemble, RULE_CASES[:1])
    assert result["verdict"] == "wrong" and result["distance"] > 0.05


@pytest.mark.elsewhere
@pytest.mark.parametrize("name", CLONES)
def test_a_program_of_a_clone(name):
    adapter = ADAPTERS / f"judge_{name}.py"
    folder = re.search(r"CLONE=~/(\S+)", adapter.read_text())[1]
    if Path(os.environ.get("CLONE", "")).name != folder:
        pytest.skip(f"needs CLONE=.../{folder}")
    assert [result["verdict"] for result in load(adapter).referee()] == CLONES[name]


@pytest.mark.elsewhere
def test_mlx_lm_is_exact_but_keeps_fewer_drafts():
    pytest.importorskip("mlx_lm")
    (result,) = load(ADAPTERS / "judge_mlx_lm.py").referee()
    assert result["verdict"] == "exact"
    assert all(case["kept"] < case["kept_by_verify"] for case in result["cases"])
