"""The referee: right rules and loops are exact, wrong ones wrong, and no others exact."""

import functools
import json
import math
import os
import random
import signal
import subprocess
from types import SimpleNamespace

import numpy as np
import own_loops as loops
import pytest
import undecidable_samplers
import wrong_samplers
from command_line import COMMAND, ENVIRONMENT, ROOT, python, running, wait_until

from exercises import solutions
from proof import command, program
from proof import enumerate as enumeration
from proof import examine as examination
from proof import prove as referee
from proof.cases import LOOP_CASES, RULE_CASES, Case, counting, drafts_kept, filtered, round_law
from proof.enumerate import distribution
from proof.examine import examine
from proof.follow import followed
from proof.prove import prove
from proof.words import describe
from sampling import verify, verify_block

HERE = ROOT / "tests" / "support"
right_samplers = program.load(HERE / "right_samplers.py")


@pytest.fixture(autouse=True)
def fewer_real_runs(monkeypatch):
    fewer = {"ACCUSE": 4_000, "MEASURE": 200, "CONFIRM": 50, "WIDE_RUNS": 50, "MOST_IN_ALL": 60_000}
    for name, n in fewer.items():
        monkeypatch.setattr(referee, name, n)
    monkeypatch.setattr(enumeration, "MOST_SECONDS", 3.0)
    monkeypatch.setattr(np.random, "choice", np.random.choice)  # which one program replaces


@pytest.fixture
def mine(tmp_path):
    """A function (*lines) -> the path of a reader's file."""

    def call(*lines, name="mine.py"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return tmp_path / name

    return call


def functions_of(module, *helpers):
    """What a module of samplers defines, each with its name."""
    own = {
        name: value
        for name, value in vars(module).items()
        if callable(value) and value.__module__ in (module.__name__, "wrong_samplers")
    }
    marks = {name: [pytest.mark.slow] for name in ONCE_MORE}
    names = [name for name in own if name not in helpers]
    return [pytest.param(own[name], id=name, marks=marks.get(name, [])) for name in names]


# other spellings of what is tried in a few seconds
ONCE_MORE = (
    "smallest_exponential gumbel_by_hand vectors_of_coins gumbel_race "
    "inverted_cumulative own_generator exponential_race"
).split()
RIGHT = functions_of(right_samplers, "rest_of", "ending", "first_rejection")
LATER = ["legacy", "wrong_where"]  # parts of others, or tried alone
WRONG = functions_of(wrong_samplers, "rest_of", "rule", "cut", "is_one_hot", *LATER)
HELPERS = "verify choice stored remembered rest_of seeded_by".split()
REFUSED = functions_of(undecidable_samplers, *HELPERS)


# ---------------------------------------------------------------- verdicts


@pytest.mark.parametrize("rule", [verify, solutions.verify_4, verify_block, solutions.block_9])
def test_a_right_rule_keeps_what_it_should(rule):
    result = prove(rule)
    assert result["verdict"] == "exact" and result["distance"] < 1e-7
    best = "kept_by_verify" if rule in (verify, solutions.verify_4) else "kept_at_most"
    for case in result["cases"]:
        assert case["kept"] == pytest.approx(case[best], abs=1e-6)


@pytest.mark.parametrize("rule", RIGHT)
def test_a_right_rule_is_exact_however_it_is_written(rule):
    result = prove(rule)
    assert (result["verdict"], result["reason"]) == ("exact", None)
    assert result["distance"] < 1e-6 and result["branches"] > 200


@pytest.mark.oracle
def test_a_rule_may_use_up_its_draft():
    def rule(draft, p, q, sample, accept):
        n_accepted = 0
        while draft:
            token = draft.pop(0)
            if not accept(p[n_accepted, token] / q[n_accepted, token]):
                rest = np.maximum(p[n_accepted] - q[n_accepted], 0)
                return n_accepted, sample(rest / rest.sum())
            n_accepted += 1
        return n_accepted, sample(p[n_accepted])

    assert prove(rule, RULE_CASES[:3])["verdict"] == "exact"


def test_a_right_rule_is_exact_in_torch():
    pytest.importorskip("torch")
    module = program.load(HERE / "right_torch.py")
    for name in "batched exponential_race gumbel distributions own_torch_generator".split():
        result = prove(getattr(module, name), RULE_CASES[:8])
        assert (name, result["verdict"], result["reason"]) == (name, "exact", None)


@pytest.mark.oracle
def test_a_tensor_of_another_shape_is_shown():
    torch = pytest.importorskip("torch")
    result = prove(lambda draft, p, q, sample: torch.tensor([[sample(p[0]), 0]]))
    assert "it returns tensor([[0, 0]]): expected tokens" in result["reason"]


@pytest.mark.oracle
@pytest.mark.parametrize(
    "name", "through_a_view through_numpy in_a_row_of_p wrong_by_a_slice".split()
)
def test_what_is_changed_in_place_is_wrong_by_real_runs(monkeypatch, name):
    pytest.importorskip("torch")
    monkeypatch.setattr(referee, "MEASURE", 5_000)
    result = prove(getattr(program.load(HERE / "right_torch.py"), name), RULE_CASES[:4])
    assert (result["verdict"], result["reason"]) == ("wrong", None)


@pytest.mark.oracle
@pytest.mark.parametrize("name, reason", [
    ("same_numbers_each_time", ""),
    ("wrong_by_data", "shares its memory"),
    ("seen_by_a_view", "shares its memory"),
])  # fmt: skip
def test_what_torch_hides_is_not_exact(name, reason):
    pytest.importorskip("torch")
    result = prove(getattr(program.load(HERE / "right_torch.py"), name))
    assert result["verdict"] != "exact"
    assert reason in (result["reason"] or result["cases"][0]["problem"])


def by_numpy(coin, pick):
    def rule(draft, p, q):
        for i, x in enumerate(draft):
            if not coin(p[i, x] / q[i, x]):
                return i, pick(right_samplers.rest_of(p[i], q[i]))
        return len(draft), pick(p[-1])

    return rule


def test_arguments_that_numpy_refuses_are_refused():
    pick = lambda w: np.random.choice(len(w), p=w)
    result = prove(by_numpy(lambda ratio: np.random.random() < ratio, pick))
    assert result["verdict"] == "undecidable" and "do not sum to 1" in result["reason"]


def test_the_way_to_a_wrong_text_is_one_that_has_the_mistake():
    """Not one that ends before it, which the target completes."""

    def rule(draft, p, q, sample, accept):
        for i, x in enumerate(draft):
            if i == 4 or not accept(p[i, x] / q[i, x]):
                rest = q[i] if i == 4 else right_samplers.rest_of(p[i], q[i])
                return i, sample(rest / rest.sum())
        return len(draft), sample(p[-1])

    wrong = [case["first_wrong"] for case in prove(rule)["cases"] if case["first_wrong"]]
    assert wrong and all(len(case["text"]) == 5 for case in wrong)
    for case in wrong:
        assert case["draws"][-1].startswith(f"sampled {case['text'][-1]} from")
        assert sum(draw.startswith("drafted") for draw in case["draws"]) >= 4
        assert all(": no" not in draw for draw in case["draws"])


def test_the_way_to_a_wrong_text_is_not_completed_by_the_target():
    rule = wrong_samplers.wrong_where(lambda draft, i, p: i == 3)
    wrong = [case["first_wrong"] for case in prove(rule)["cases"] if case["first_wrong"]]
    assert wrong
    for case in wrong:
        drafted = [draw.split()[1] for draw in case["draws"] if draw.startswith("drafted")]
        assert [str(token) for token in case["text"]] == drafted[:4] and len(case["text"]) == 4


def test_further_arguments_are_no_part_of_the_form():
    result = prove(lambda draft, p, q, sample, *args, **kwargs: (0, sample(p[0])))
    assert result["verdict"] == "exact"


def test_a_rule_without_a_bonus_gains_less_but_keeps_its_drafts():
    def rule(draft, p, q, sample, accept):
        return right_samplers.recursive(draft, p, q, sample, accept)[: len(draft)]

    result = prove(rule, [case for case in RULE_CASES if case.K])
    shown = describe(result)
    assert result["verdict"] == "exact" and "keep" not in shown and "kept" not in shown
    assert "it gains fewer tokens than verify, 0.0000 for 1.6252 (two rounds)" in shown


def test_a_tuple_of_tokens_is_not_taken_for_a_count_and_a_token():
    def rule(draft, p, q, rng):
        n, token = verify(draft, p, q, rng)
        return (*draft[:n], token)

    result = prove(rule)
    assert result["verdict"] == "undecidable" and "return a list" in result["reason"]


def test_a_module_beside_the_file_comes_before_one_of_this_project(mine):
    mine("def residual(p, q): return p", name="sampling.py")
    code, out, _ = run(mine(
        "from sampling import residual",
        "def verify(draft, p, q, sample, accept):",
        "    for i, x in enumerate(draft):",
        "        if not accept(p[i][x] / q[i][x]):",
        "            return i, sample(residual(p[i], q[i]))",
        "    return len(draft), sample(p[-1])",
    ))  # fmt: skip
    assert code == 1 and "WRONG. Total variation distance 0.1500" in out


def is_wrong(function, cases):
    """Whether a case, tried alone, is enough to find it wrong."""
    return any(prove(function, [case])["verdict"] == "wrong" for case in cases)


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_is_wrong(rule):
    assert is_wrong(rule, RULE_CASES)


@pytest.mark.slow  # all run in CI
@pytest.mark.parametrize("rule", REFUSED)
def test_what_cannot_be_followed_is_never_exact(rule):
    result = prove(rule)
    assert result["verdict"] != "exact"
    assert result["verdict"] == "wrong" or result["reason"]


@pytest.mark.parametrize("loop", loops.RIGHT.values(), ids=loops.RIGHT)
def test_a_right_loop_is_exact_and_keeps_as_many_drafts_as_verify(loop):
    result = prove(loop)
    assert (result["verdict"], result["reason"]) == ("exact", None)
    assert result["remarks"] == []
    for case in result["cases"]:
        assert case["kept"] == pytest.approx(case["kept_by_verify"], abs=1e-6)


@pytest.mark.slow
def test_a_loop_that_drafts_too_much_and_trims_at_the_end_is_exact(monkeypatch):
    monkeypatch.setattr(referee, "MOST_IN_ALL", 200_000)
    result = prove(loops.OVERDRAFT)
    assert (result["verdict"], result["reason"]) == ("exact", None)
    assert result["branches"] < 10_000 and result["remarks"] == []


LONG = (
    "without drafts it is greedy",
    "rare drafts are not checked",
    "the fifth draft is not verified",
    "if K is more than the text takes all is accepted",
)
WRONG_LOOPS = [
    pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in loops.WRONG
]


@pytest.mark.parametrize("name", WRONG_LOOPS)
def test_a_wrong_loop_is_wrong(name):
    assert is_wrong(loops.WRONG[name], LOOP_CASES)


@pytest.mark.parametrize("said, loop", loops.WASTEFUL.values(), ids=loops.WASTEFUL)
def test_a_wasteful_loop_is_exact_and_told_so(said, loop):
    cases = [case for case in LOOP_CASES if case.name in ("K = 3", "K = 4")]
    result = prove(loop, cases)
    assert result["verdict"] == "exact"
    (remark,) = result["remarks"]
    assert said in remark and f"Note: {remark}" in describe(result)


# ---------------------------------------------------------------- what a verdict says


def test_a_wrong_rule_is_shown_at_work():
    result = prove(wrong_samplers.replacement_from_p)
    first = result["cases"][0]
    assert (first["p"], first["q"], first["K"]) == ([0.5, 0.3, 0.2], [0.2, 0.4, 0.4], 1)
    wrong = first["first_wrong"]
    assert (wrong["text"], wrong["right"]) == ([1], 0.3)
    assert wrong["yours"] == pytest.approx(0.39)  # 0.30 accepted, 0.30 of the rejected 0.30
    assert wrong["draws"][:2] == ["drafted 2 (0.40)", "coin of 0.5: no (0.50)"]


def test_cases_that_were_not_decided_are_counted():
    result = prove(wrong_samplers.replacement_from_p, [RULE_CASES[n] for n in (0, 2, 3)])
    result["cases"][2] |= dict(problem="too many", distance=None, first_wrong=None)
    assert describe(result).endswith("of 3 cases; right where: p = q; undecided in 1.")


def test_a_black_box_is_called_wrong_only_if_real_runs_agree(monkeypatch):
    result = prove(wrong_samplers.one_coin_for_all)
    (measured,) = [case["measured"] for case in result["cases"] if case["measured"]]
    assert measured["log10_odds"] > 6 and result["runs"] == measured["runs"]

    # a wrong enumeration does not accuse: the real runs are right
    monkeypatch.setattr(examination, "first_error", lambda yours, right, n: ((0,), 0.9, 0.5))
    monkeypatch.setattr(examination, "total_variation", lambda yours, right: 0.4)
    result = prove(right_samplers.legacy_numpy, RULE_CASES[:1])
    assert result["verdict"] == "undecidable" and "real runs" in result["reason"]


@pytest.mark.parametrize("deciding", [enumeration.TOO_LONG, "it raised ValueError: no"])
def test_the_reason_is_the_problem_that_decides(deciding):
    """Of other problems that came before it, real runs might have told more."""
    problems = [enumeration.STATE, enumeration.TOO_MANY, deciding]
    trials = [
        SimpleNamespace(entry=dict(problem=problem, first_wrong=None)) for problem in problems
    ]
    assert referee.by_enumeration(trials, has_own=False) == ("undecidable", deciding)
    assert referee.by_enumeration(trials[:-1], has_own=False) is None


def test_a_difference_that_real_runs_cannot_show_is_no_accusation():
    pick = lambda w: np.random.choice(len(w), p=w / w.sum())
    result = prove(by_numpy(lambda ratio: np.random.random() <= 1.002 * ratio, pick))
    assert result["verdict"] == "undecidable" and "too little" in result["reason"]
    assert result["distance"] > 1e-4
    assert "Not exact in" in describe(result)


def test_a_text_that_is_too_short_in_real_runs_only():
    def box(target, draft_model, ids, n_tokens, K):
        text = []
        while len(text) < n_tokens and type(u := random.random()) is not float:
            *below, _ = target([*ids, *text])[-1].cumsum()
            text.append(next((i for i, c in enumerate(below) if u < c), len(below)))
        return text

    result = prove(box, LOOP_CASES[:2])
    assert result["verdict"] == "wrong"
    assert "It returns 0 tokens, expected 1. Real runs show it." in describe(result)


@pytest.mark.slow
def test_an_error_in_rare_branches_is_no_wrong_text():
    def rule(draft, p, q, sample, accept):
        rare = np.array([1 - 5e-5, *[5e-8] * 1000])
        if sample(rare / rare.sum()):
            raise ValueError
        return 0, sample(p[0])

    result = prove(rule, RULE_CASES[:3])
    assert result["verdict"] == "undecidable" and "rare branches" in result["reason"]


@pytest.mark.parametrize("draw", [
    lambda: abs(np.random.random() - 0.5),
    lambda: np.random.random().round(),
    lambda: np.sin(np.random.random(3))[0],
    lambda: np.random.random(out=np.zeros(3)),
    lambda: random.randrange(1000),
    lambda: random.choices([]),
    lambda: np.isnan(np.random.random(3)).any(),
])  # fmt: skip
def test_what_is_not_followed_is_said_in_words_of_its_own(draw):
    (case,) = prove(lambda draft, p, q: (0, int(draw() > 0.5)), RULE_CASES[:1])["cases"]
    assert "followed" in case["problem"] or "it raised IndexError" in case["problem"]


@pytest.mark.parametrize("rule, said", [
    (lambda draft, p, q: "x" * 10**4, "tokens below 3"),
    (lambda draft, p, q, sample: (0, sample(p)), "probabilities that sum to 1"),
    (lambda draft, p, q, accept: (0, int(accept("x" * 10**4))), "accept('xxx"),
    (lambda draft, p, q, accept: (0, int(accept(p[0]))), "accept([0.5, 0.3, 0.2])"),
])  # fmt: skip
def test_a_reason_is_a_line_that_says_what_was_given(rule, said):
    reason = prove(rule, RULE_CASES[:1])["reason"]
    assert said in reason and reason.isprintable() and len(reason) < 1000


@pytest.mark.slow
@pytest.mark.parametrize("named, accepts", [
    (True, lambda p, q: random.random() * q <= p),
    (True, lambda p, q: not random.random() > p / q),
    (True, lambda p, q: np.log(np.random.random()) <= np.log(p) - np.log(q)),
    (False, lambda p, q: random.random() * q < p),
    (False, lambda p, q: 1 - random.random() <= p / q),
    (False, lambda p, q: not random.random() >= p / q),
    (False, lambda p, q: np.random.exponential() > -np.log(min(1, p / q))),
])  # fmt: skip
def test_a_coin_of_exactly_0_that_accepts_what_p_forbids_is_named(named, accepts):
    """sglang#35771."""
    pick = lambda w: int(np.random.choice(len(w), p=w / w.sum()))

    def rule(draft, p, q):
        n = right_samplers.first_rejection(draft, p, q, lambda a, b: not accepts(a, b))
        return right_samplers.ending(draft, p, q, n, pick)

    result = prove(rule)
    assert result["verdict"] == "exact"
    assert ("exactly 0" in " ".join(result["remarks"])) == named


def test_that_several_numbers_are_exactly_0_at_once_is_not_told():
    def pick(w):
        noise = -np.log(-np.log(np.random.random(len(w))))
        return int(np.argmax(np.log(w) + noise)) if np.count_nonzero(w) > 1 else int(np.argmax(w))

    def rule(draft, p, q):
        n = right_samplers.first_rejection(draft, p, q, lambda a, b: np.random.random() * b >= a)
        return right_samplers.ending(draft, p, q, n, pick)

    result = prove(rule)
    assert result["verdict"] == "exact" and "exactly 0" not in " ".join(result["remarks"])


def test_a_number_that_is_no_longer_random_equals_a_number():
    def first_of_equals(draft, p, q):
        return 0, int(np.argmax(0 * np.random.random(3)))

    assert prove(first_of_equals, RULE_CASES[:1])["verdict"] == "wrong"


def test_a_number_that_is_no_longer_random_is_compared_like_any_other():
    def run(branch):
        certain = 0 * np.random.random() + 0.7
        return bool(np.random.random() < certain), bool(certain < np.random.random())

    with followed():
        found = distribution(run)
    right = {(True, True): 0.21, (True, False): 0.49, (False, True): 0.09, (False, False): 0.21}
    assert found == pytest.approx(right)


def test_a_number_may_be_compared_often():
    def run(branch):
        u = np.random.random()
        return sum(bool(u < 0.3) for _ in range(1500))

    with followed():
        assert distribution(run) == pytest.approx({1500: 0.3, 0: 0.7})


@pytest.mark.parametrize("weights", [[1, -0.3, 0.3], [1, -0.5, 0]])
def test_weights_that_are_no_probabilities_are_refused_beside_a_large_one(weights):
    with followed(), pytest.raises(enumeration.Undecidable, match="expected probabilities"):
        distribution(lambda branch: random.choices([0, 1, 2], weights)[0])


def test_of_a_long_row_the_entry_that_is_no_probability_is_named():
    row = np.eye(30)[3] - 1e-6 * np.eye(30)[17]
    with pytest.raises(enumeration.Undecidable, match="entry 17 is -1e-06, expected probabilities"):
        enumeration.Branch().sample(row)


def test_a_probability_that_rounding_leaves_below_0_is_0():
    assert enumeration.Branch().sample([-5e-8, 1.0]) == 1


def endless(target, draft_model, ids, n_tokens, K, sample, accept):
    """A right loop that knows of no end."""
    return loops.loop()(target, draft_model, ids, n_tokens, K, sample, accept, None)


@pytest.mark.slow
def test_a_loop_may_return_the_prompt_too_and_its_passes():
    def whole(target, draft_model, ids, n_tokens, K, sample, accept):
        text = endless(target, draft_model, ids, n_tokens, K, sample, accept)
        return ids + text, target.passes

    assert prove(whole)["verdict"] == "exact"

    def wrong(target, draft_model, ids, n_tokens, K, sample, accept):
        return ids + [0] * n_tokens, n_tokens

    assert prove(wrong)["verdict"] == "wrong"


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_tuple_of_two_arrays_is_a_text_and_not_a_text_with_its_passes(shape):
    def arrays(target, draft_model, ids, n_tokens, K, sample, accept, end):
        text = loops.loop()(target, draft_model, ids, n_tokens, K, sample, accept, end)
        return tuple(np.reshape(token, shape) for token in text)

    case = next(case for case in LOOP_CASES if case.n_tokens == 2)
    assert prove(arrays, [case])["verdict"] == "exact"


def test_a_text_that_begins_like_the_prompt_is_not_taken_for_it():
    def likeliest(target, draft_model, ids, n_tokens, K):
        text = []
        while len(text) < n_tokens + 2:
            text.append(int(target(ids + text)[-1].argmax()))
        return text

    case = Case("no chance", counting(0), counting(0), 2, 3)
    assert prove(likeliest, [case], to_probs=filtered(0.0))["verdict"] == "exact"


def test_a_loop_may_refuse_to_draft_nothing():
    def loop(target, draft_model, ids, n_tokens, K, sample, accept):
        if not K:
            raise ValueError("K is 0")
        return endless(target, draft_model, ids, n_tokens, K, sample, accept)

    result = prove(loop, [LOOP_CASES[0], LOOP_CASES[-1]])
    assert result["verdict"] == "exact" and len(result["cases"]) == 1
    assert "for K = 0 it raised ValueError: K is 0" in result["remarks"][0]


def test_a_loop_that_refuses_to_draft_nothing_in_every_case():
    def loop(target, draft_model, ids, n_tokens, K, sample, accept, end):
        assert K > 0
        return solutions.speculative_5(target, draft_model, ids, n_tokens, K, sample, accept, end)

    result = prove(loop, [LOOP_CASES[0], *LOOP_CASES[-2:]])
    assert result["verdict"] == "exact" and len(result["cases"]) == 1


def test_what_is_written_beyond_n_tokens_does_not_count():
    def long(target, draft_model, ids, n_tokens, K, sample, accept):
        return endless(target, draft_model, ids, n_tokens + 1, K, sample, accept)

    result = prove(long, [case for case in LOOP_CASES if case.name == "K = 2"])
    assert result["verdict"] == "exact"
    assert "up to 4 tokens for n_tokens = 3" in result["remarks"][0]


def test_a_loop_is_told_of_an_end_or_judged_without_one():
    cases = [case for case in LOOP_CASES if case.name in ("K = 1", "end")]
    result = prove(endless, cases)
    assert result["verdict"] == "exact" and len(result["cases"]) == 1
    with pytest.raises(ValueError, match="end"):
        prove(endless, cases[1:])


def test_of_no_round_can_more_be_kept_than_by_block_verification():
    for case in RULE_CASES:
        assert drafts_kept(case, block=False) <= drafts_kept(case, block=True) + 1e-12
        law = list(round_law(case, (), case.K, block=True))
        assert sum(probability for _, probability in law) == pytest.approx(1)


def test_any_run_can_be_examined():
    p = np.array([0.5, 0.25, 0.25])
    result = examine(lambda rng: ([rng.sample(p)], 1), lambda text: p, n_tokens=1)
    assert (result["distance"], result["kept"], result["branches"]) == (0, 0, 3)


# ---------------------------------------------------------------- the command


def run(*words):
    done = python("main.py", "prove", *map(str, words))
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("flags, shown", [
    ({"timeout": math.inf}, "--timeout inf: expected seconds"),
    ({"timeout": math.nan}, "--timeout nan: expected seconds"),
    ({"timeout": 0.0}, "--timeout 0.0: expected seconds"),
    ({"seed": -1}, "--seed -1: expected 0 or more"),
])  # fmt: skip
def test_flags_that_have_no_meaning_are_refused(flags, shown):
    with pytest.raises(ValueError, match=shown):
        command.prove("sampling.py:verify", **flags)


def judged(file, timeout):
    """What the command finds of one sampler or adapter."""
    settings = dict(batch=False, seed=None, temperature=1.0, top_k=0, top_p=1.0)
    (result,) = command.judged(str(file), settings | {"timeout": timeout})
    return result


def test_the_command_says_wrong_with_exit_code_1(mine):
    file = mine(
        "import os",
        "print('loaded')",
        "os.system('echo loaded')  # below Python's stream",
        "def verify(draft, p, q, sample, accept):",
        "    print('called')",
        "    return len(draft), sample(p[-1])",
    )
    code, out, _ = run(file)
    assert code == 1 and out.startswith("verify: WRONG. Total variation distance 0.3000 ")
    code, out, _ = run(file, "--json")
    result = json.loads(out)
    keys = (
        "name verdict reason remarks distance would_show cases branches runs seconds seed version "
    )
    assert code == 1 and list(result) == [*keys.split(), "settings"]


def test_the_command_says_exact_and_undecidable():
    code, out, _ = run(HERE / "right_samplers.py:keeps_nothing")
    assert code == 0 and out.startswith(f"keeps_nothing: EXACT in {len(RULE_CASES)} cases")
    code, out, _ = run(HERE / "undecidable_samplers.py:raises")
    assert code == 3 and "ZeroDivisionError" in out and "line " in out


def test_of_a_rule_and_a_loop_of_another_form_the_rule_is_judged(mine):
    file = mine("def speculative(one, two): pass", "def verify(draft, p, q): pass")
    assert program.find(str(file))[1] == "verify"


@pytest.mark.parametrize("words", [["none.py"], ["nothing"], [HERE / "own_loops.py:nix"], []])
def test_bad_input_is_one_line(words):
    code, out, err = run(*words)
    assert (code, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    "clone, expected", [("", "CLONE is not set"), (str(ROOT), "does not fit the program")]
)
def test_a_program_without_its_clone_is_one_line(clone, expected):
    """The folder of this project, in which it runs, has a main.py, too."""
    done = python("main.py", "prove", "jaymody", environment=ENVIRONMENT | {"CLONE": clone})
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("text, name, said", [
    ("class A:\n def __init__(self, model): pass\n def f(self, draft, p, q): 0", "A.f", "'model'"),
    ("class A:\n def __init__(self): exit(3)\n def f(self, draft, p, q): 0", "A.f", "Exit: 3"),
    ("def f(draft, p, q, *, temperature, sample): pass", "f", "a default for temperature"),
])  # fmt: skip
def test_what_lacks_an_argument_is_one_line(mine, text, name, said):
    code, out, err = run(f"{mine(text)}:{name}")
    assert (code, out, err.count("\n")) == (2, "", 1) and said in err


@pytest.mark.parametrize("text", ["def (", "raise RuntimeError('x')", "import sys; sys.exit(3)"])
def test_a_program_that_cannot_be_imported_is_one_line(monkeypatch, mine, text):
    monkeypatch.setenv("CLONE", str(mine(text, name="main.py").parent))
    with pytest.raises(ValueError, match="judge_jaymody.py does not fit the program: "):
        command.prove("jaymody")


def test_a_version_of_a_program_that_does_not_run_is_one_line(monkeypatch, mine):
    lines = "from tqdm import tqdm", "def speculative_sampling(*how): return None.mask"
    monkeypatch.setenv("CLONE", str(mine(*lines, name="main.py").parent))
    with pytest.raises(ValueError, match="this version of .* does not run: it raised Attribute"):
        command.prove("jaymody")


def test_figures_are_told_apart_and_a_text_without_chance_says_so():
    lenient = wrong_samplers.rule(coin=lambda p, q, x: 1.0001 * p[x] / q[x])
    shown = describe(prove(lenient))
    assert "distance 5.0e-05 from" in shown and "yours 0.3000300, right 0.3000000" in shown
    shown = describe(prove(lambda target, draft_model, ids, n_tokens, K: [0] * n_tokens))
    assert 'Text "0": yours 1.0000, right 0.' in shown
    assert "It happens always: nothing is drawn." in shown


@pytest.mark.parametrize("text, expected", [
    (b"", "no function"),
    (b"name = '\xe9'\n", "mine.py"),
    (b"class B(BaseException): pass\nraise B\n", "line 2"),
    (b"import random\nrandom.random = None\n", "place of random"),
])  # fmt: skip
def test_a_file_that_cannot_be_judged_is_one_line(tmp_path, text, expected):
    (tmp_path / "mine.py").write_bytes(text)
    with pytest.raises(ValueError, match=expected):
        command.prove(str(tmp_path / "mine.py"))


def test_a_file_may_have_another_encoding(tmp_path):
    (tmp_path / "mine.py").write_bytes(b"# -*- coding: latin-1 -*-\n# \xe9\n")
    assert program.load(tmp_path / "mine.py")


def test_a_value_that_cannot_be_looked_at_is_no_sampler(mine):
    """Such as a proxy, of a web framework, that stands for nothing yet."""
    file = mine(
        "class Proxy:",
        "    def __call__(self): pass",
        "    def __getattribute__(self, name): raise RuntimeError(name)",
        "proxy = Proxy()",
        "def verify(draft, p, q): pass",
    )
    assert program.find(str(file))[1] == "verify"


def test_a_file_sees_no_words_of_this_program(mine):
    parsing = "import argparse; argparse.ArgumentParser().parse_args()"
    code, out, err = run(mine(parsing, "def verify(draft, p, q): pass"))
    assert (code, err) == (3, "") and "without return" in out


def test_an_error_names_the_line_of_the_file(mine):
    """Not one of NumPy's source."""
    code, out, _ = run(mine(
        "import numpy as np",
        "def verify(draft, p, q):",
        "    return 0, np.random.default_rng().choice(3, p=[0.5, 0.5, 0.5])",
    ))  # fmt: skip
    assert code == 3 and "in mine.py, line 3: return 0, np.random" in out


def test_what_a_cache_holds_is_state():
    """Numbers of the enumeration meet real runs."""

    @functools.lru_cache(None)
    def coin(i, x):
        return random.random()

    def rule(draft, p, q):
        for i, x in enumerate(draft):
            if coin(i, x) >= p[i, x] / q[i, x]:
                return i, np.random.choice(p.shape[1], p=right_samplers.rest_of(p[i], q[i]))
        return len(draft), np.random.choice(p.shape[1], p=p[-1])

    result = prove(rule, RULE_CASES[:1])
    assert result["verdict"] != "exact" and "AssertionError" not in json.dumps(result)
    assert "keeps state" in json.dumps(result)


def test_a_file_that_raises_is_one_line(mine):
    silent = "import os, sys", "sys.stderr = open(os.devnull, 'w')", "import nothing_of_this_name"
    code, _, err = run(mine(*silent))
    assert code == 2 and "line 3" in err and err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("done", ["sys.stderr.close()", "sys.stderr = None"])
def test_a_file_may_do_anything_to_stderr_and_warnings(mine, done):
    done = f"import sys, warnings; warnings.simplefilter('error'); {done}"
    file = mine(done, "def verify(draft, p, q, sample): return 0, sample(p[0])")
    code, out, err = run(file)
    assert (code, err) == (0, "") and "EXACT" in out


def test_a_process_that_exits_was_not_stopped(mine):
    code, out, _ = run(mine("def verify(draft, p, q): import os; os._exit(0)"))
    assert code == 3 and "its process exited or crashed in the case K = 1" in out


def test_what_a_thread_cannot_follow_is_said_once(mine):
    code, _, err = run(mine(
        "import random, threading",
        "def verify(draft, p, q):",
        "    thread = threading.Thread(target=lambda: float(random.random()))",
        "    thread.start(); thread.join(); return 0, 0",
    ))  # fmt: skip
    assert code == 1 and "float" not in err  # nor is there a traceback


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
def test_a_process_that_is_forked_is_not_waited_for(mine):
    file = mine(
        "import os, time",
        "if forked := os.fork(): print(forked, file=open(__file__ + '.pid', 'w'))",
        "else: time.sleep(60)",
        "def verify(draft, p, q): return 0, 0",
    )
    assert judged(file, timeout=50.0)["verdict"] == "wrong"
    os.kill(int(file.with_suffix(".py.pid").read_text()), 9)  # raises an error if it has ended


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of Unix")
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_its_process_ends_with_this_one(mine, how):
    file = mine("import time", "open(__file__ + '.begun', 'w').close()", "time.sleep(60)")
    words, stream = [*COMMAND, "prove", str(file)], subprocess.PIPE
    with running(words, env=ENVIRONMENT, stderr=stream) as parent:
        wait_until(file.with_suffix(".py.begun").exists, parent)
        parent.send_signal(getattr(signal, how))
        parent.communicate(timeout=60)  # the stream ends when the last who has it does


def test_the_time_is_that_of_an_adapter_too(mine):
    adapter = mine(
        "import time",
        "from proof.prove import prove",
        "def rule(draft, p, q): time.sleep(0.1); return 0, 0",
        "def referee(): return [prove(rule, name='slow')]",
        name="judge_slow.py",
    )
    assert judged(adapter, timeout=1.0)["reason"] == enumeration.NO_TIME


def test_a_function_in_a_file_that_is_named_like_an_adapter_is_judged(mine):
    rule = "def verify(draft, p, q, sample, accept): return 0, sample(p[0])"
    code, out, _ = run(f"{mine(rule, name='judge_mine.py')}:verify")
    assert code == 0 and out.startswith("verify: EXACT")


def test_a_generator_that_an_object_of_a_class_makes_is_followed(mine):
    file = mine(
        "import numpy as np, random",
        "class Sampler:",
        "    def __init__(self):",
        "        self.rng = np.random.default_rng()",
        "    def verify(self, draft, p, q):",
        "        for i, x in enumerate(draft):",
        "            if random.uniform(0, q[i][x]) >= p[i][x]:",
        "                rest = np.maximum(p[i] - q[i], 0)",
        "                return i, self.rng.choice(len(rest), p=rest / rest.sum())",
        "        return len(draft), self.rng.choice(len(p[-1]), p=p[-1])",
    )
    code, out, _ = run(f"{file}:Sampler.verify")
    assert code == 0 and "EXACT" in out


@pytest.mark.slow
def test_a_namesake_beside_a_file_with_torch_is_left_alone(mine):
    pytest.importorskip("torch")
    mine(name="proof.py")
    code, out, err = run(mine(
        "import torch",
        "def speculative(target, draft_model, ids, n_tokens, K):",
        "    text = list(ids)",
        "    for _ in range(n_tokens):",
        "        p = torch.tensor(target(text)[-1])",
        "        text.append(int(torch.multinomial(p, 1)))",
        "    return text[len(ids):]",
    ))  # fmt: skip
    assert (code, err) == (0, "") and "EXACT" in out


def test_an_exception_that_cannot_be_shown_is_one_line(mine):
    code, _, err = run(mine(
        "class Bad(Exception):",
        "    def __str__(self): raise RuntimeError",
        "def verify(draft, p, q): raise Bad",
    ))  # fmt: skip
    assert code == 3 and "Traceback" not in err


def test_the_cases_that_are_counted_have_the_problem_that_is_named():
    def two_problems(draft, p, q, sample):
        if len(draft) == 2:
            raise ValueError("two")
        if len(draft) > 2:
            raise TypeError("more")
        return 0, sample(p[0])

    result = prove(two_problems)
    n = sum("ValueError: two" in case["problem"] for case in result["cases"])
    assert 0 < n < sum(bool(case["problem"]) for case in result["cases"])
    assert f"In {n} of {len(result['cases'])} cases, first in: " in describe(result)


def test_a_coin_is_a_float_for_who_asks():
    def rule(draft, p, q):
        u = random.random()
        return (0, int(p[0].argmax())) if isinstance(u, float) and u < 0.03 else right(draft, p, q)

    def right(draft, p, q):
        for i, x in enumerate(draft):
            if random.random() * q[i, x] >= p[i, x]:
                rest = np.maximum(p[i] - q[i], 0)
                return i, random.choices(range(len(rest)), rest)[0]
        return len(draft), random.choices(range(p.shape[1]), p[-1])[0]

    assert prove(rule)["distance"] > 0.01


ODD = type("Odd", (int,), {"__repr__": None})(9)


@pytest.mark.parametrize("token", [10**5000, ODD, [7] * 10**6], ids=["long", "odd", "many"])
def test_a_token_that_cannot_be_shown_is_impossible_all_the_same(token):
    result = prove(lambda draft, p, q: token if isinstance(token, list) else (0, token))
    assert result["verdict"] == "wrong" and "below" in str(result["cases"][0]["first_wrong"])
