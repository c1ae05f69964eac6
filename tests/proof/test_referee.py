"""The known programs of docs/referee, where they are installed, or where CLONE names a clone."""

import os
import re
from importlib import import_module
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
    "beriltatli": ["exact"],
    "deepspec": ["exact"],
    "dflash": ["exact"],
    "eagle": ["exact"],
    "feifeibear": ["exact", "exact"],
    "gpt_fast": ["exact"],
    "gptfast": ["wrong", "wrong"],
    "jaymody": ["exact"],
    "litgpt": ["exact", "wrong"],
    "lmdeploy": ["exact"],
    "lucidrains": ["exact"],
    "mlx_examples": ["wrong"],
    "romsto": ["exact", "wrong", "wrong"],
    "sequoia": ["exact"],
    "shreyansh26": ["exact"],
    "taiyoo": ["exact", "exact"],
    "tpu_inference": ["not told apart"],
    "triforce": ["wrong"],
    "vllm": ["exact"],
    "vllm_ascend": ["not told apart", "wrong"],
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


ENGINE = """
import torch
import triton
import triton.language as tl
from engine.settings import BLOCK


@triton.jit
def replace_kernel(out_ptr, p_ptr, q_ptr, noise_ptr, n_vocab, BLOCK_SIZE: tl.constexpr):
    place, best, token = tl.program_id(1), -1.0, 0
    for v in range(0, n_vocab, BLOCK_SIZE):
        at = v + tl.arange(0, BLOCK_SIZE)
        p = tl.load(p_ptr + place * n_vocab + at, mask=at < n_vocab, other=0.0)
        q = tl.load(q_ptr + place * n_vocab + at, mask=at < n_vocab, other=0.0)
        noise = tl.load(noise_ptr + at, mask=at < n_vocab, other=1.0)
        value, index = tl.max(tl.maximum(p - q, 0.0) / noise, axis=0, return_indices=True)
        if value > best:
            best, token = value, v + index
    tl.store(out_ptr + place, token)


@triton.jit(do_not_specialize=["K"])
def accept_kernel(out_ptr, draft_ptr, p_ptr, q_ptr, coins_ptr, others_ptr, bonus_ptr, K, n_vocab):
    rejected = False
    for i in range(K):
        if not rejected:
            token = tl.load(draft_ptr + i)
            p, q = tl.load(p_ptr + i * n_vocab + token), tl.load(q_ptr + i * n_vocab + token)
            if tl.load(coins_ptr + i) >= p / q:
                token, rejected = tl.load(others_ptr + i), True
            tl.store(out_ptr + i, token)
    if not rejected:
        tl.store(out_ptr + K, tl.load(bonus_ptr))


def sample(draft, p, q, bonus):
    K, n_vocab = p.shape
    noise, out = torch.empty(n_vocab).exponential_(), torch.full((K + 1,), -1)
    others = torch.empty_like(draft)
    replace_kernel[(1, K)](others, p, q, noise, n_vocab, BLOCK)
    accept_kernel[(1,)](out, draft, p, q, torch.rand(K), others, bonus, K, n_vocab)
    return out
"""


@pytest.mark.parametrize(
    ("right", "wrong", "verdict"),
    [("", "", "exact"), ("p - q", "p", "wrong"), (">= p / q", "> q / p", "wrong")],
)
def test_kernels_of_triton_are_followed(right, wrong, verdict, tmp_path, monkeypatch):
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "sampler.py").write_text(ENGINE.replace(right, wrong, 1))
    monkeypatch.setenv("CLONE", str(tmp_path))
    monkeypatch.syspath_prepend(ADAPTERS)
    clone, triton = import_module("clone"), import_module("triton_in_numpy")
    known = triton.TRITON | {"engine.settings": {"BLOCK": 1024}}
    theirs = clone.program("engine.sampler", ["engine", "triton"], known=known)
    theirs.replace_kernel.is_late = True
    cases = [case for case in clone.ROUNDS if case.name in ("K = 2", "K = 3", "five tokens")]
    result = prove(clone.with_bonus(theirs.sample), cases)
    assert (result["verdict"], result["reason"]) == (verdict, None)


def test_a_module_that_a_clone_lacks_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CLONE", str(tmp_path))
    with pytest.raises(ValueError, match="has no nothing"):
        load(ADAPTERS / "clone.py").program("nothing")


@pytest.mark.elsewhere
@pytest.mark.parametrize("name", CLONES)
def test_a_program_of_a_clone(name):
    adapter = ADAPTERS / f"judge_{name}.py"
    folder = re.search(r"CLONE=~/(\S+)", adapter.read_text())[1]
    if not os.environ.get("CLONE", "").endswith(f"/{folder}"):
        pytest.skip(f"needs CLONE=.../{folder}")
    assert [result["verdict"] for result in load(adapter).referee()] == CLONES[name]


@pytest.mark.elsewhere
def test_mlx_lm_is_exact_but_keeps_fewer_drafts():
    pytest.importorskip("mlx_lm")
    (result,) = load(ADAPTERS / "judge_mlx_lm.py").referee()
    assert result["verdict"] == "exact"
    assert all(case["kept"] < case["kept_by_verify"] for case in result["cases"])
