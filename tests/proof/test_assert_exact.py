"""assert_exact: right samplers pass, known faults of engines fail with the wrong text."""

import random

import numpy as np
import pytest
import undecidable_samplers
import wrong_samplers
from command_line import ROOT, python
from wrong_samplers import rest_of

from proof.assert_exact import assert_exact
from proof.cases import RULE_CASES, Case, rows
from sampling import verify

FEW = [case for case in RULE_CASES if case.name in ("K = 1", "zeros in p", "K = 2", "K = 3")]
LOSERS = Case("losers", rows([0.1, 0.1, 0.5, 0.3]), rows([0.6, 0.2, 0.01, 0.19]), 1, 1)


def sample(p):
    return int(np.random.choice(len(p), p=p / p.sum()))


right = undecidable_samplers.verify(lambda: np.random.rand(), sample)


def equals_a_sample(draft, p, q):
    """Accepts where a sample of p is the draft: mlx-swift-lm#459, mlxcel#902 call that biased."""
    for i, x in enumerate(draft):
        if (token := sample(p[i])) != x:
            return i, token
    return len(draft), sample(p[-1])


def test_right_rules_pass():
    result = assert_exact(right, cases=FEW)
    assert result["verdict"] == "exact" and not result["remarks"]
    assert assert_exact(verify, cases=FEW)["verdict"] == "exact"


def test_a_sample_that_equals_the_draft_is_exact_and_gains_fewer():
    result = assert_exact(equals_a_sample, cases=FEW)
    assert any("gains fewer tokens than verify" in remark for remark in result["remarks"])


# ---------------------------------------------------------------- negative controls


def noise_of_the_draft_again(target, draft_model, ids, n_tokens, K):
    """vllm#54282: the Gumbel noise that drew the draft draws its replacement."""
    text, log = list(ids), lambda p: np.log(np.maximum(p, 1e-300))
    while len(text) < len(ids) + n_tokens:
        q = draft_model(text)[-1]
        noise = np.random.gumbel(size=len(q))
        x = int(np.argmax(log(q) + noise))
        p = target([*text, x])[-2:]
        if np.random.rand() < p[0, x] / q[x]:
            text += [x, sample(p[1])]
        else:
            text.append(int(np.argmax(log(rest_of(p[0], q)) + noise)))
    return text[len(ids) :][:n_tokens]


def ratio_with_another_q(draft, p, q):
    """transformers#47932: q is not what the draft was sampled from."""
    return right(draft, p, np.sqrt(q) / np.sqrt(q).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("rule", [
    wrong_samplers.the_coin_also_chooses,  # vllm-ascend#16370
    wrong_samplers.block_with_the_residual_of_tokens,  # vllm-ascend#7808
    noise_of_the_draft_again,
    ratio_with_another_q,
])  # fmt: skip
def test_known_faults_fail_with_the_wrong_text(rule):
    with pytest.raises(AssertionError, match='(?s)WRONG.*Text ".*": yours .*, right '):
        assert_exact(rule, cases=[LOSERS] if rule is noise_of_the_draft_again else FEW)


class Hidden:
    """Random numbers that cannot be followed."""

    def __init__(self, zero=False):
        self.rng, self.zero = random.SystemRandom(), zero

    def rule(self, draft, p, q):
        pick = lambda row: self.rng.choices(range(len(row)), row)[0]
        for i, x in enumerate(draft):
            u = 0.0 if self.zero and self.rng.random() < 0.05 else self.rng.random()
            if not u * q[i, x] <= p[i, x]:
                return i, pick(rest_of(p[i], q[i]))
        return len(draft), pick(p[-1])


def test_what_was_measured_fails_unless_that_is_asked_for():
    with pytest.raises(AssertionError, match="(?s)NOT TOLD APART.*measured=True"):
        assert_exact(Hidden().rule, cases=FEW[-1:])
    with pytest.warns(UserWarning, match="would have shown"):
        result = assert_exact(Hidden().rule, cases=FEW[-1:], measured=True)
    assert result["verdict"] == "not told apart"


def test_a_coin_of_zero_must_not_accept_what_p_forbids():
    """sglang#35771, where u = 0 comes more often than once in 2**24."""
    with pytest.raises(AssertionError, match="WRONG"):
        assert_exact(Hidden(zero=True).rule, cases=FEW, measured=True)


def test_settings_are_those_of_the_sampler():
    def at_half(p):
        return p**2 / (p**2).sum(axis=-1, keepdims=True)

    def colder(draft, p, q):
        return right(draft, at_half(p), at_half(q))

    assert_exact(colder, cases=FEW, temperature=0.5)
    assert_exact(colder, cases=FEW, to_probs=at_half)
    with pytest.raises(AssertionError, match="WRONG"):
        assert_exact(colder, cases=FEW)


def test_another_form_is_refused():
    with pytest.raises(ValueError, match=r"expected \(draft, p, q\)"):
        assert_exact(lambda x: x)
    with pytest.raises(ValueError, match="3: expected a function"):
        assert_exact(3)


def test_it_needs_numpy_alone():
    code = (
        "import sys\n"
        "for name in ('fire', 'regex', 'requests', 'tqdm', 'torch'): sys.modules[name] = None\n"
        "from speculate import assert_exact\n"
        "from speculate import proof, sampling\n"
        "cases = proof.cases.RULE_CASES[:3]\n"
        "print(assert_exact(sampling.verify, cases=cases)['verdict'])\n"
    )
    done = python("-c", code)
    assert done.stdout == "exact\n", done.stderr


@pytest.mark.slow
def test_next_to_modules_with_our_names(tmp_path):
    for name in ("utils", "main", "models", "proof", "sampling"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not ours')")
    test = tmp_path / "test_mine.py"
    test.write_text(
        "import numpy as np\n"
        "from speculate import assert_exact\n"
        "def mine(draft, p, q, accept, sample):\n"
        "    return 0, sample(p[0])\n"
        "def test_mine():\n"
        "    assert_exact(mine)\n"
        "test_mine()\n"
    )
    paths = f"sys.path[:] = [{str(tmp_path)!r}, *sys.path[1:], {str(ROOT)!r}]"
    done = python("-c", f"import runpy, sys; {paths}; runpy.run_path({str(test)!r})")
    assert done.returncode == 0, done.stderr
