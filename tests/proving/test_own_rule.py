"""--rule: a reader's own rule decodes, and its exact distance is said."""

from types import SimpleNamespace

import numpy as np
import pytest
from command_line import PROMPT, assert_refused
from live import data_of

from proving import limits
from proving.distance import distance_and_errors, toy_distributions
from proving.mistakes import MISTAKES
from proving.own_rule import ReaderModule

SOLUTIONS = "exercises.solutions"
# what the modules of the tests begin with
HEAD = """
import random
from exercises.solutions import verify_7 as right_rule
from wrong_answers import *

def rule(*pieces):
    return edited(right_rule, *pieces)
"""
FROM_P = "verify_7 = replaced_from_p\n"
NEARLY = "verify_7 = rule(('q[i][x])', '(q[i][x] + 1e-6))'))\n"
RIGHT = "verify_7 = right_rule\n"


@pytest.fixture
def module(tmp_path):
    """A function: the source of a module -> its file."""

    def write(source, head=HEAD):
        (tmp_path / "own.py").write_text(head + source)
        return str(tmp_path / "own.py")

    return write


@pytest.mark.parametrize("verification", ["token", "block"])
def test_the_solutions_write_the_texts_of_the_project(as_json, verification):
    """With the same random numbers, as the solutions ask for them in the same order."""
    flags = ("--prompt", PROMPT, "--n_tokens_to_generate=12", "--temperature=0.7")
    flags += (f"--verification={verification}",)
    right, own = as_json(*flags), as_json(*flags, f"--rule={SOLUTIONS}")
    assert own["speculative"]["token_ids"] == right["speculative"]["token_ids"]
    assert own["rule_distance"] < 1e-12 and own["own_loop"]["distance"] < 1e-12
    assert own["settings"]["rule"] == SOLUTIONS and "rule_distance" not in right


def test_a_right_rule_may_toss_where_nothing_is_drafted(module):
    """In a module that is written with dataclasses."""
    head = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    head += "import exercises.solutions\n@dataclass\nclass Sure:\n    heads: float = 1.0\n"
    rule = "def block_11(draft, p, q, sample, accept):\n    assert accept(Sure().heads)\n"
    rule += "    return exercises.solutions.block_11(draft, p, q, sample, accept)\n"
    assert ReaderModule(module(rule, head)).enumerate_rule("block")["rule_distance"] < 1e-12


def test_a_greedy_loop_writes_the_text_that_it_should(as_json, cli):
    own = as_json("--prompt", PROMPT, "--n_tokens_to_generate=24", f"--rule={SOLUTIONS}")
    loop = own["own_loop"]["token_ids"]
    assert own["identical"] and len(loop) == 20
    assert loop == own["autoregressive"]["token_ids"][:20]
    shown = cli("--prompt", PROMPT, "--n_tokens_to_generate=5", f"--rule={SOLUTIONS}").out
    assert shown.count("0.0000") == 2


def test_a_wrong_rule_has_the_distance_of_the_mistake_that_it_makes(as_json, module):
    mistake = MISTAKES["resample-from-p"]
    own = as_json("--n_tokens_to_generate=2", "--rule", module(FROM_P))
    distance, _ = distance_and_errors(*toy_distributions(mistake.case, mistake))
    assert own["rule_distance"] == pytest.approx(distance, abs=1e-12)
    assert own["own_loop"] is None


@pytest.mark.parametrize("returned", ["[0] * n", "solved(target, draft, ids, n, *rest[:-1], None)"])
def test_a_wrong_loop_has_its_distance(module, returned):
    """Also one that writes on after the end."""
    source = "from exercises.solutions import speculative_9 as solved\n"
    source += f"def speculative_9(target, draft, ids, n, *rest): return {returned}"
    assert 0 < ReaderModule(module(source)).enumerate_loop() <= 1


def test_what_a_rule_keeps_stands_beside_its_distance(as_json, cli, module):
    """Sampling from p and comparing is exact, and keeps fewer drafts."""
    right = as_json("--n_tokens_to_generate=2", f"--rule={SOLUTIONS}")
    block = as_json("--n_tokens_to_generate=2", f"--rule={SOLUTIONS}", "--verification=block")
    path = module("verify_7 = compare_each")
    compared = as_json("--n_tokens_to_generate=2", "--rule", path)
    assert compared["rule_distance"] < 1e-12
    keeps = [one["rule_keeps"] for one in (compared, right, block)]
    assert keeps[1]["kept"] == pytest.approx(keeps[1]["by_verify"], abs=1e-12)
    assert keeps[2]["kept"] == pytest.approx(keeps[2]["most"], abs=1e-12)
    assert 0 < keeps[0]["kept"] < keeps[1]["kept"] < keeps[2]["kept"] < keeps[2]["drafted"]
    shown = cli("--n_tokens_to_generate=2", "--rule", path).out
    assert all(f"{keeps[0][name]:.2f}" in shown for name in ("kept", "by_verify", "most"))


def test_a_block_rule_that_is_wrong_from_the_third_draft_on_is_wrong(module):
    own = ReaderModule(module("block_11 = previous_ratio_only"))
    assert own.enumerate_rule("block")["rule_distance"] > 1e-3


def test_what_a_rule_prints_is_no_part_of_the_json_object(as_json, module):
    loud = "print('loaded')\ndef verify_7(*how):\n    print('called')\n    return right_rule(*how)"
    as_json("--n_tokens_to_generate=2", "--rule", module(loud), note="called")


def test_rules_of_two_texts_at_once_leave_stdout_alone(module, capsys):
    """Two threads decode: the second begins before the first ends, and a result is written."""
    own = ReaderModule(module("def verify_7(*arguments):\n    print('called')\n    return 0, 0"))
    first, second = own.guard("verify_7"), own.guard("verify_7")
    with first as rule:
        second.__enter__()
        rule()
    print("result")
    second.__exit__(None, None, None)
    print("end")
    assert capsys.readouterr() == ("result\nend\n", "called\n")


LOOP = RIGHT + "def speculative_9(*how):"
HOW = "draft, p, q, sample, accept"


@pytest.mark.parametrize(
    "source, shown",
    [
        ("def verify_7(*how): return 1 / 0", "ZeroDivisionError"),
        ("def verify_7(draft, *rest): return len(draft) + 1, 0", "verify_7"),
        ("def verify_7(*how): return 0.5, 0", "0.5"),
        ("def verify_7(*how): return 0", "two whole numbers"),
        ("def verify_7(*how): right_rule(*how)", "returns None"),
        ("def verify_7(*how): exit(3)", "SystemExit: 3"),
        ("exit()", "SystemExit"),
        ("verify_7 = rule(('residual_3(p[i], q[i])', 'p[i] - q[i]'))", "sum to 1"),
        ("verify_7 = 3", "expected a function"),
        ("def verify_7(:", "SyntaxError"),
        (f"{LOOP} return [0.5]", "speculative_9"),
        (f"{LOOP} return None", "speculative_9"),
        (f"{LOOP} return [0, 3]", "speculative_9"),
        (f"{LOOP}\n    while True: yield 1", "expected a list"),
        (f"{LOOP}\n    while True: pass", "does not end"),
        ("def verify_7(*how):\n    while True: pass", "does not end"),
        (f"def verify_7({HOW}):\n    while True: accept(0.5)", "does not end"),
        (
            f"def verify_7({HOW}):\n"
            "    return right_rule(draft, p, q, sample, lambda ratio: random.random() < ratio)",
            "of your own",
        ),
    ],
)
def test_what_fails_in_a_module_is_one_line(cli, module, monkeypatch, source, shown):
    monkeypatch.setattr(limits, "MAX_SECONDS", 1)
    path = module(source)
    assert_refused(cli("--rule", path), "--rule", path, shown)


def test_a_module_without_a_rule_has_none_to_write(cli):
    done = cli("--rule=os")
    assert_refused(done, "os: it has no verify_7")
    assert "still to be written" not in done.err


@pytest.mark.parametrize("rule", ["exercises.nine", "nowhere.py", "..", "exercises/mine"])
def test_a_module_that_is_not_there_is_one_line(cli, rule):
    assert_refused(cli("--rule", rule), "--rule", rule)


@pytest.mark.parametrize("verification", ["token", "block"])
def test_the_trace_and_the_page_of_the_solutions_are_those_of_the_project(
    cli, tmp_path, verification
):
    flags = ["--prompt", PROMPT, "--n_tokens_to_generate=20", "--temperature=0.8", "--trace"]
    flags += [f"--verification={verification}", "--mode=speculative"]
    pages, traces = [], []
    for i, more in enumerate(([], [f"--rule={SOLUTIONS}"])):
        path = tmp_path / f"{i}.html"
        done = cli(*flags, *more, "--report", path)
        assert (done.code, done.err) == (0, "")
        traces.append(done.out.partition("Time = ")[0])
        pages.append(data_of(path)["rounds"])
    assert traces[0] == traces[1] and len(pages[0]) == len(pages[1]) > 3
    for rounds in zip(*pages):
        right, own = (this_round | {"seconds": 0, "passes": 0} for this_round in rounds)
        assert own == right


# ---------------------------------------------------------------- answers that slipped through


@pytest.mark.parametrize(
    "answer",
    [
        "verify_7 = rule(('if not', 'if i < 3 and not'))",
        "verify_7 = rule(('if not', 'if i < 4 and not'))",
        "verify_7 = rule(('p[len(draft)]', 'p[min(len(draft), 4)]'))",
        "verify_7 = rule(('residual_3', 'three_tokens'))",
        NEARLY,
    ],
)
def test_what_is_right_for_few_tokens_or_drafts_is_wrong(module, answer):
    own = ReaderModule(module(answer))
    assert own.enumerate_rule("token")["rule_distance"] > 1e-9


def test_a_small_distance_is_not_said_to_be_none(cli, module):
    (line,) = (
        line for line in cli("--rule", module(NEARLY)).out.splitlines() if "Your rule" in line
    )
    assert "0.0000" not in line and "e-0" in line


IN_PLACE = """
verify_7 = rule(
    ("return i", "p[i] -= np.minimum(p[i], q[i]); return i"),
    ("residual_3(p[i], q[i])", "p[i] / p[i].sum()"),
)
"""
BY_SAMPLE = f"""
def verify_7({HOW}):
    return right_rule(draft, p, q, sample, lambda a: sample([max(0, 1 - a), min(1, a)]))
"""


def test_a_rule_may_change_what_it_is_given(as_json, module):
    """The figures are those of the arrays before; a coin may be sampled from a list."""
    flags = ("--temperature=1", "--n_tokens_to_generate=20")
    right = as_json(*flags, "--rule", SOLUTIONS)
    own = as_json(*flags, "--rule", module(IN_PLACE))
    assert own["rule_distance"] < 1e-12 and own["rule_keeps"] == right["rule_keeps"]
    assert own["speculative"]["token_ids"] == right["speculative"]["token_ids"]
    assert as_json(*flags, "--rule", module(BY_SAMPLE))["rule_distance"] < 1e-12


def test_rounds_keep_what_the_rule_was_given(module):
    rule = ReaderModule(module(IN_PLACE)).rule("token")
    p, q = np.array([[0.5, 0.3, 0.2]] * 2), np.array([[0.2, 0.4, 0.4]])
    before = p.copy(), q.copy()
    tossing_tails = SimpleNamespace(sample=lambda p: int(p.argmax()), accept=lambda ratio: False)
    assert rule([1], p, q, tossing_tails) == [0, 0]
    assert np.array_equal(p, before[0]) and np.array_equal(q, before[1])


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--rule", FROM_P], False),
        (["--rule", RIGHT], True),
        (["--mistake", "resample-from-p"], False),
        ([], True),
    ],
)
def test_only_a_right_run_is_said_to_be_of_one_distribution(cli, module, flags, said):
    flags = [module(flag) if "verify_7" in flag else flag for flag in flags]
    shown = cli(*flags, "--temperature=1", "--n_tokens_to_generate=20").out
    assert "The two texts differ" in shown
    assert ("as two samples from one distribution do" in shown) == said
