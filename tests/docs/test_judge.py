"""docs/engines/judge.py, with engines that write by the right law, and with wrong ones."""

import json
import runpy
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import ROOT, python
from table_models import TableModel, chain_rule

from sampling import SamplingParams

JUDGE = ROOT / "docs" / "engines" / "judge.py"
judge = SimpleNamespace(**runpy.run_path(str(JUDGE)))
TARGET = TableModel(3, n_vocab=4)
WORDS = SimpleNamespace(encode=lambda text: tuple(ord(c) % 4 for c in text), decode=str)
ALONE = judge.Job(("king",), 3, 0.7, 2)
TOGETHER = judge.Job(("king", "fox", "king"), 2, 1.3, 3, 0.9)
GREEDY = judge.Job(("fox",), 4, 0.0, 1)
JOBS = {"alone": ALONE, "together": TOGETHER, "greedy": GREEDY}
each = pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)


@lru_cache
def law_of(job, ids):
    to_probs = SamplingParams(job.temperature, job.top_k, job.top_p)
    return chain_rule(TARGET, ids, job.n_tokens, to_probs)


def sample(law, rng):
    p = np.array([*law.values()])
    return [*law][rng.choice(len(law), p=p / p.sum())]


def write_right(prompts, job, seed, change=dict):
    rng = np.random.default_rng(seed)
    texts = [sample(change(law_of(job, tuple(ids))), rng) for ids in prompts]
    return texts, 2 * len(prompts)


def greedy_at_first(law):
    best = max(first := judge.next_tokens(law), key=first.get)
    return {text: share for text, share in law.items() if text[0] == best}


def write_greedily(prompts, job, seed):
    return write_right(prompts, job, seed, greedy_at_first)


def write_with_one_generator(prompts, job, seed):
    """Each text alone is right, but equal prompts give equal texts."""
    return [write_right([ids], job, seed)[0][0] for ids in prompts], len(prompts)


def trial_after(job, write, n_runs):
    trial = judge.Trial(job, TARGET, WORDS)
    for _ in range(n_runs):
        trial.run(write)
    return trial, judge.report(trial, WORDS)


@each
def test_the_law_is_the_chain_rule(job):
    for prompt in job.prompts:
        ids = WORDS.encode(prompt)
        assert judge.law(TARGET, ids, job) == pytest.approx(law_of(job, ids), abs=1e-12)


@each
def test_a_right_engine_is_not_told_apart(job):
    trial, found = trial_after(job, write_right, 150)
    assert found["verdict"] == "not told apart" and found["first_wrong"] is None
    assert found["runs"] == 150 and 0 < found["would_show"] <= 1
    assert found["tokens_per_pass"] == job.n_tokens / 2


def test_a_wrong_engine_is_found_and_shown():
    _, found = trial_after(ALONE, write_greedily, 300)
    wrong = found["first_wrong"]
    assert found["verdict"] == "wrong" and found["wrong_after"] <= 300
    assert (wrong["of"], wrong["yours"], wrong["never"]) == ("'king'", 1.0, 0.0)
    law = judge.next_tokens(law_of(ALONE, WORDS.encode("king")))
    assert wrong["right"] == pytest.approx(law[wrong["text"][0]])
    assert [*wrong["next_right"].values()] == pytest.approx([*law.values()])
    json.dumps(found)


def test_texts_that_are_written_together_must_not_know_of_each_other():
    assert trial_after(TOGETHER, write_right, 200)[1]["verdict"] == "not told apart"
    _, found = trial_after(TOGETHER, write_with_one_generator, 200)
    assert found["verdict"] == "wrong" and "first tokens of all" in found["first_wrong"]["of"]


def test_a_text_that_should_never_come_is_wrong_after_a_few_runs():
    trial, found = trial_after(GREEDY, lambda prompts, job, seed: ([(3, 3, 3, 3)], 0), 5)
    assert found["wrong_after"] <= 5 and found["first_wrong"]["never"] == 1
    assert found["tokens_per_pass"] is None
    words = dict(engine="it", way="a way", verdict="wrong", runs=5, seconds=1.0, jobs=[found])
    assert "WRONG after" in judge.describe(words) and "should with 0.000" in judge.describe(words)


def test_greedy_texts_are_written_a_few_times():
    trials = [judge.Trial(job, TARGET, WORDS) for job in (GREEDY, ALONE)]
    judge.measure(trials, write_right, 0.3)
    assert trials[0].runs <= judge.N_GREEDY and trials[1].runs > 0


@pytest.mark.parametrize("words, problem", [
    (["nothing"], "engine 'nothing': expected one of llama_cpp, openvino, transformers"),
    (["openvino", "magic"], "expected one of draft, lookup, plain|is not installed: pip install"),
])  # fmt: skip
def test_bad_input(words, problem):
    done = python(str(JUDGE), *words)
    assert done.returncode == 2 and done.stdout == ""
    assert any(part in done.stderr for part in problem.split("|")), done.stderr
    assert "Traceback" not in done.stderr
