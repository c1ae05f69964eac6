"""The referee: right rules and loops are exact, wrong ones wrong, others undecidable."""

import numpy as np
import pytest

from exercises import solutions
from proof.cases import RULE_CASES, drafts_kept
from proof.prove import examine, prove
from sampling import verify, verify_block


@pytest.mark.parametrize("rule", [verify, solutions.verify_7, verify_block, solutions.block_11])
def test_a_right_rule_is_exact_and_keeps_what_it_should(rule):
    result = prove(rule)
    assert result["verdict"] == "exact" and result["distance"] < 1e-7
    best = "kept_by_verify" if rule in (verify, solutions.verify_7) else "kept_at_most"
    for case in result["cases"]:
        assert case["kept"] == pytest.approx(case[best], abs=1e-6)


@pytest.mark.parametrize("loop", [solutions.speculative_9, solutions.cached_14])
def test_a_right_loop_is_exact_and_keeps_as_many_drafts_as_verify(loop):
    result = prove(loop)
    assert result["verdict"] == "exact"
    for case in result["cases"]:
        assert case["kept"] == pytest.approx(case["kept_by_verify"], abs=1e-6)


def test_of_no_round_can_more_be_kept_than_by_block_verification():
    for case in RULE_CASES:
        assert drafts_kept(case, block=False) <= drafts_kept(case, block=True) + 1e-12


def test_a_wrong_rule_is_shown_at_work():
    def from_p(draft, p, q, sample, accept):
        for i, x in enumerate(draft):
            if not accept(p[i][x] / q[i][x]):
                return i, sample(p[i])
        return len(draft), sample(p[-1])

    result = prove(from_p)
    assert result["verdict"] == "wrong"
    first = result["cases"][0]
    assert (first["p"], first["q"], first["K"]) == ([0.5, 0.3, 0.2], [0.2, 0.4, 0.4], 1)
    wrong = first["first_wrong"]
    assert wrong["text"] == [1] and wrong["right"] == 0.3
    assert wrong["draws"][0].startswith("drafted ")


def test_any_run_can_be_examined():
    p = np.array([0.5, 0.25, 0.25])
    result = examine(lambda rng: ([rng.sample(p)], 1), lambda text: p, n_tokens=1)
    assert (result["distance"], result["kept"], result["branches"]) == (0, 0, 3)
