"""What cannot be enumerated is judged by real runs: it is never exact, and never wrong if right."""

import os
import random
import secrets
import signal
import sys
import threading
import time
from functools import lru_cache

import numpy as np
import own_loops as loops
import pytest
from wrong_samplers import rest_of, rule, wrong_where

from proof import command
from proof import enumerate as enumeration
from proof import prove as referee
from proof.cases import LONG_LOOP, LOOP_CASES, RULE_CASES, WIDE
from proof.prove import prove
from proof.trial import Trial
from proof.words import describe

CASES = RULE_CASES[:4]


@pytest.fixture(autouse=True)
def fewer_real_runs(monkeypatch):
    monkeypatch.setattr(referee, "MEASURE", 400)
    monkeypatch.setattr(referee, "CONFIRM", 50)
    monkeypatch.setattr(referee, "MOST_IN_ALL", 3_000)


def inverted(u, w):
    return min(int(np.searchsorted(np.cumsum(w / w.sum()), u, "right")), len(w) - 1)


def rule_of(draw, replacement=rest_of):
    def rule(draft, p, q):
        for i, x in enumerate(draft):
            if draw() * q[i, x] >= p[i, x]:
                return i, inverted(draw(), replacement(p[i], q[i]))
        return len(draft), inverted(draw(), p[-1])

    return rule


def by_rejection(draft, p, q):
    for i, x in enumerate(draft):
        if random.random() * q[i, x] >= p[i, x]:
            while True:
                token = inverted(random.random(), p[i])
                if random.random() * p[i, token] >= q[i, token]:
                    return i, token
    return len(draft), inverted(random.random(), p[-1])


def from_the_system():
    return int.from_bytes(os.urandom(6), "big") / 2**48


def drawn_ahead(n):
    """A coin from a store of n, which is filled when it is empty."""
    store = []

    def draw():
        if not store:
            store.extend(np.random.random(n))
        return store.pop()

    return draw


RIGHT = {
    "float": rule_of(lambda: float(np.random.random())),
    "SystemRandom": rule_of(secrets.SystemRandom().random),
    "os.urandom": rule_of(from_the_system),
    "rejection sampling": by_rejection,
    "drawn ahead": rule_of(drawn_ahead(10)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_rule_that_cannot_be_followed_is_not_told_apart(name):
    result = prove(RIGHT[name], CASES)
    assert result["verdict"] == "not told apart"
    assert 0.05 < result["would_show"] < 0.5 and result["runs"] == 4 * 400
    shown = describe(result)
    assert "NOT TOLD APART from exact in 1,600 real runs" in shown and result["reason"] in shown


def test_what_is_not_followed_of_the_generator_that_is_given_is_run_too():
    def rule(draft, p, q, rng):
        return rule_of(lambda: rng.integers(2**30) / 2**30)(draft, p, q)

    first, again = (prove(rule, CASES, seed=5) for _ in range(2))
    assert first["verdict"] == "not told apart"
    shown = lambda result: [case["measured"]["log10_odds"] for case in result["cases"]]
    assert shown(first) == shown(again)


def test_a_loop_that_exits_is_no_exit():
    def loop(target, draft_model, ids, n_tokens, K):
        sys.exit("bye")

    assert "it raised SystemExit: bye" in prove(loop)["reason"]


@pytest.mark.parametrize("seed", range(10))
def test_right_rules_are_not_accused(seed):
    rng = random.Random(seed)
    result = prove(rule_of(lambda: float(str(rng.random()))), CASES[:1], seed=seed)
    assert result["verdict"] == "not told apart"


likeliest = lambda p, q: np.eye(len(p))[p.argmax()]
WRONG = {
    "SystemRandom": rule_of(secrets.SystemRandom().random, likeliest),
    "lenient": rule_of(lambda: float(np.random.random()) / 1.5),
    "the same numbers each time": lambda draft, p, q: rule_of(random.Random(1).random)(draft, p, q),
    "cached": rule_of(lru_cache(None)(random.random)),
    "drawn ahead": rule_of(drawn_ahead(10), lambda p, q: p),
    "of the clock": rule_of(lambda: time.perf_counter_ns() % 2 / 2),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_that_cannot_be_followed_is_wrong(monkeypatch, name):
    monkeypatch.setattr(referee, "MEASURE", 5_000)
    result = prove(WRONG[name], CASES)
    assert result["verdict"] == "wrong"
    assert "an exact sampler" in describe(result)


# ---------------------------------------------------------------- doors out of torch

OUT_OF_TORCH = {
    "float of what was drawn in place": lambda torch: float(torch.empty(1).uniform_()),
    "NumPy's float": lambda torch: np.float64(torch.rand(())),
    "data": lambda torch: set_data(torch).item(),
    "dlpack": lambda torch: torch.from_dlpack(torch.rand(1)).item(),
    "compiled": lambda torch: compiled(torch)(torch.rand(1)).item(),
    "compiled, and drawn there": lambda torch: drawing(torch)().item(),
}


def set_data(torch):
    u = torch.zeros(1)
    u.data = torch.rand(1)
    return u


def compiled(torch):
    return torch.jit.CompilationUnit("def f(u):\n  return u * 1.0\n").f


def drawing(torch):
    return torch.jit.CompilationUnit("def f():\n  return torch.rand([1])\n").f


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OUT_OF_TORCH)
def test_no_door_out_of_torch_leads_to_exact(name):
    """Token 0 in a tenth of the rounds is wrong; without it the rule is right."""
    torch = pytest.importorskip("torch")
    draw = OUT_OF_TORCH[name]
    right = rule_of(lambda: float(np.random.random()))

    def wrong(draft, p, q):
        return (0, 0) if 0.5 < draw(torch) < 0.6 else right(draft, p, q)

    zeros_in_p = next(case for case in RULE_CASES if case.name == "zeros in p")
    assert prove(wrong, [zeros_in_p])["verdict"] == "wrong"
    result = prove(rule_of(lambda: draw(torch)), CASES[:1])
    assert result["verdict"] == "not told apart" and "keeps state" not in result["reason"]


# ---------------------------------------------------------------- 200 tokens


def keeping(keep):
    """The token rule on rows p in which all is 0 that is not to be kept."""

    def verify(draft, p, q, sample, accept):
        p = np.where(keep(p), p, 0)
        return rule()(draft, p / p.sum(axis=1, keepdims=True), q, sample, accept)

    return verify


@pytest.mark.parametrize("wrong", [
    rule(coin=lambda p, q, x: p[x] / max(q[x], 1e-3)),
    keeping(lambda p: p > 4e-4),
    keeping(lambda p: p >= np.sort(p)[:, [-min(50, p.shape[1])]]),
    wrong_where(lambda draft, i, p: i > 5),
    wrong_where(lambda draft, i, p: draft[i] > 127),
])  # fmt: skip
def test_a_rule_that_is_wrong_only_among_many_tokens_or_drafts(wrong):
    assert prove(wrong, [RULE_CASES[-1]])["verdict"] == "exact"
    assert prove(wrong, [RULE_CASES[0], WIDE])["verdict"] == "wrong"


@pytest.mark.parametrize("row", [[np.nan], [-1.0, 2.0], [0.0]])
def test_a_row_of_a_real_run_that_is_none_of_probabilities_is_named(row):
    def wrong(draft, p, q, sample, accept):
        return (0, sample(row)) if p.shape[1] == 200 else rule()(draft, p, q, sample, accept)

    result = prove(wrong, [RULE_CASES[0], WIDE])
    assert result["verdict"] == "undecidable" and "200 tokens" in result["reason"]
    assert "expected probabilities" in result["reason"]


def test_a_distance_that_real_runs_refute_is_not_told():
    """Enumeration sees another rule than they do."""

    def rule(draft, p, q):
        if type(np.random.random()) is float:
            return 0, 0
        n = 0 if np.random.random() * q[0, draft[0]] >= p[0, draft[0]] else 1
        row = p[1] if n else rest_of(p[0], q[0])
        return n, np.random.choice(3, p=row / row.sum())

    result = prove(rule, CASES[:1])
    assert (result["verdict"], result["distance"]) == ("wrong", None)
    assert "WRONG. Not the target's distribution" in describe(result)


@pytest.mark.slow
def test_a_right_rule_is_right_among_many_tokens():
    result = prove(rule(), [RULE_CASES[0], WIDE])
    assert result["verdict"] == "exact" and result["runs"] == referee.WIDE_RUNS
    assert "200 tokens, K = 8, a few tokens at a time: not told apart in 4,000" in describe(result)


def test_the_law_of_the_case_of_200_tokens():
    law, *_ = WIDE.laws()
    assert sum(law.values()) == pytest.approx(1)
    first = sum(p for outcome, p in law.items() if outcome[0] == 0)
    assert first == pytest.approx(WIDE.target(())[[199, 150, 130]].sum())


@pytest.mark.parametrize(
    "loop, verdict",
    [
        (loops.AFTER_A_LONG_PROMPT, "wrong"),
        (loops.all_after_ten_tokens, "wrong"),
        pytest.param(loops.RIGHT["cached"], "exact", marks=pytest.mark.slow),
    ],
)
def test_a_loop_after_a_long_prompt_and_many_tokens(loop, verdict):
    assert prove(loop, LOOP_CASES[:5])["verdict"] == "exact"
    assert prove(loop, [LOOP_CASES[0], LONG_LOOP])["verdict"] == verdict


def test_an_error_in_real_runs_comes_with_its_case():
    def short(target, draft_model, ids, n_tokens, K, sample, accept, end):
        assert len(ids) < 20
        return loops.RIGHT["loop"](target, draft_model, ids, n_tokens, K, sample, accept, end)

    reason = prove(short, [LOOP_CASES[0], LONG_LOOP])["reason"]
    assert reason.startswith("in a real run of the case a prompt of 30 tokens") and "20" in reason


# ---------------------------------------------------------------- time


def test_a_loop_that_ends_only_by_chance_is_decided_but_for_what_is_left_out():
    def rule(draft, p, q, sample, accept):
        while not accept(0.8):
            pass
        return 0, sample(p[0])

    result = prove(rule, RULE_CASES[:1])
    assert result["verdict"] == "exact"
    assert 0 < result["cases"][0]["left_out"] < 1e-10
    assert "Left out: branches of probability" in describe(result)


def endless(draft, p, q):
    while True:
        pass


def asleep(draft, p, q):
    time.sleep(100)


@pytest.mark.parametrize("rule", [endless, asleep])
def test_a_run_that_does_not_end_is_ended(monkeypatch, rule):
    monkeypatch.setattr(enumeration, "MOST_SECONDS", 0.2)
    result = prove(rule)
    assert result["verdict"] == "undecidable" and "does not end" in result["reason"]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a timer of Unix")
def test_a_time_that_is_up_stays_with_its_run(monkeypatch):
    """Also if it is so short that it is up at once, before the run begins."""
    real = signal.setitimer

    def late(which, seconds, *interval):
        before = real(which, seconds, *interval)
        if interval == (0.1,):  # of the run
            time.sleep(0.01)
        return before

    left, _ = signal.getitimer(signal.ITIMER_REAL)  # that of pytest, or 0
    monkeypatch.setattr(signal, "setitimer", late)
    with enumeration.undisturbed(), pytest.raises(enumeration.OutOfTime):
        enumeration.in_time(str, enumeration.RealBranch(), time.monotonic() + 0.001)
    assert signal.getitimer(signal.ITIMER_REAL) == (pytest.approx(left, abs=9), 0)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a timer of Unix")
def test_a_timer_of_the_caller_rings_after_the_call():
    def waiting(draft, p, q, sample, accept):
        time.sleep(0.01)
        return 0, sample(p[0])

    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(n_runs))
    old = signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        for n_runs in range(2):  # the first takes so long that the timer rings at its end
            assert prove(waiting, RULE_CASES[:1])["verdict"] == "exact"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *old)
    assert rung == [0]


def test_two_threads_may_judge_at_once():
    wrong, results = rule(coin=lambda p, q, x: 1.0), {}

    def judge(name, function):
        results[name] = prove(function, RULE_CASES[:3])["verdict"]

    functions = {"right": rule(), "wrong": wrong}
    threads = [threading.Thread(target=judge, args=item) for item in functions.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {"right": "exact", "wrong": "wrong"}


def test_what_was_found_before_the_time_was_up_is_said():
    def slow(draft, p, q, sample, accept):
        time.sleep(0.5 if len(draft) > 1 else 0)
        return 0, sample(p[0])

    result = prove(slow, RULE_CASES[:4], timeout=1.0)
    assert (result["verdict"], result["reason"]) == ("undecidable", enumeration.NO_TIME)
    assert "Exact in 2 of 4 cases" in describe(result)


@pytest.mark.parametrize(
    "n_of_wide, verdict",
    [
        pytest.param(4_000, "exact", marks=pytest.mark.slow),
        (500, "not told apart"),
        (1, None),
    ],
)
def test_exact_needs_every_real_run(monkeypatch, n_of_wide, verdict):
    """Of the case with 200 tokens the time is up after so many runs."""
    n_runs = 0

    def run(trial, deadline):
        nonlocal n_runs
        if n_runs == n_of_wide:
            raise enumeration.OutOfTime(enumeration.NO_TIME)
        n_runs += 1
        right_run(trial, deadline)

    right_run = Trial.run
    monkeypatch.setattr(Trial, "run", run)
    result = prove(rule(), [RULE_CASES[0], WIDE])
    assert result["verdict"] == (verdict or "undecidable")
    assert result["reason"] == (None if verdict == "exact" else enumeration.NO_TIME)
    assert result["reason"] or n_runs == referee.WIDE_RUNS


@pytest.mark.slow
def test_code_that_never_returns_to_python_is_stopped(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "GRACE", 0.5)
    (tmp_path / "mine.py").write_text(
        "def verify(draft, p, q, sample, accept):\n"
        "    if len(draft) > 1: sum(range(10**12))\n"
        "    return 0, sample(p[0])\n"
    )
    settings = dict(batch=False, timeout=8.0, seed=None, temperature=1.0, top_k=0, top_p=1.0)
    (result,) = command.judged(str(tmp_path / "mine.py"), settings)
    assert result["verdict"] == "undecidable" and "in the case p = q" in result["reason"]
    assert [case["name"] for case in result["cases"]] == ["K = 1", "K = 0"]


@pytest.mark.parametrize("seed", range(3))
def test_the_rng_that_a_function_is_given_repeats_no_number_of_the_drafts(seed):
    """A sampler that draws as many numbers as the harness would else follow the draft's."""

    def ignore_drafts(draft, p, q, rng):
        rng.random()
        return 0, int(rng.choice(len(p[0]), p=p[0]))

    case = next(case for case in RULE_CASES if case.K == 1)
    result = prove(ignore_drafts, [case], seed=seed)
    assert (result["verdict"], result["reason"]) == ("exact", None) and result["runs"] > 0
