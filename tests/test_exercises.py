"""The exercises: their checks accept the solutions and refuse wrong answers."""

import inspect
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import embedded, python

from exercises import mine, score
from exercises import solutions as right
from exercises.checks import CHECKS, checked
from exercises.solutions import verify_7
from experiments.proving.candidates import best_rho, left_over
from utils import InputError


def replaced(answer, **others):
    """The answer, but where it calls another solution by name, it calls these."""

    def wrong(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            for name, other in others.items():
                patch.setattr(right, name, other)
            return answer(*arguments)

    return wrong


def softmax_that_overflows(logits, temperature):
    weights = np.exp(logits / (temperature or 1))
    return weights / weights.sum()


def replaced_from_p(draft, q, p, sample, toss):
    n, _ = verify_7(draft, q, p, sample, toss)
    return n, sample(p[n])


def block_with_the_residual_of_tokens(draft, q, p, sample, toss):
    n, token = right.block_11(draft, q, p, sample, toss)
    return n, sample(right.residual_3(p[n], q[n])) if n < len(draft) else token


def no_drafting(target, draft_model, ids, n_tokens, K, sample, toss, end):
    text = []
    while len(text) < n_tokens and end not in text:
        text.append(sample(target(ids + text)))
    return text


def whole_text(ids, cache, n_last, forward):
    cache.ids.clear()
    return forward(ids, cache)[-n_last:]


def nothing_forgotten(ids, cache, n_last, forward):
    return forward(ids[-n_last:], cache)


def drafter(propose):
    """An answer to 13: a drafter with this propose(n_vocab, sample, ids, k)."""

    def answer(n_vocab, sample):
        return SimpleNamespace(
            n_vocab=n_vocab,
            prefill=lambda ids: None,
            propose=lambda ids, k: propose(n_vocab, sample, ids, k),
        )

    return answer


def uniform(n_vocab, n):
    return np.full((n, n_vocab), 1 / n_vocab)


def changes_its_ids(n_vocab, sample, ids, k):
    ids += [0] * k
    return ids[-k:] if k else [], np.eye(n_vocab)[[0] * k]


WRONG = [
    ("acceptance_1", lambda p, q: abs(p - q).sum() / 2),
    ("temperature_2", softmax_that_overflows),
    ("temperature_2", lambda logits, t: right.temperature_2(logits, 1.0)),
    ("residual_3", lambda p, q: np.maximum(p - q, 0)),
    ("residual_3", lambda p, q: np.maximum(p - q, 0) / np.maximum(p - q, 0).sum()),
    ("nucleus_4", lambda p, top_p: np.where(p >= 1 - top_p, p, 0)),
    ("speedup_5", lambda a, K, c, v: (1 - a ** (K + 1)) / (1 - a) / (K * c + v) if a < 1 else 0.0),
    ("speedup_5", lambda a, K, c, v: (1 + a * K) / (K * c + v)),
    ("speedup_5", lambda a, K, c, v: right.speedup_5(a, K, c, 1)),
    ("one_token_6", lambda p, q, sample, toss: (sample(p), True)),
    ("one_token_6", replaced(right.one_token_6, residual_3=lambda p, q: p)),
    ("verify_7", lambda draft, q, p, sample, toss: (0, sample(p[0]))),
    ("verify_7", replaced_from_p),
    ("catch_up_8", whole_text),
    ("catch_up_8", nothing_forgotten),
    ("speculative_9", no_drafting),
    ("speculative_9", lambda *arguments: right.speculative_9(*arguments[:-1], None)),
    ("speculative_9", lambda t, d, ids, n, *rest: right.speculative_9(t, d, ids, n + 1, *rest)),
    ("speculative_9", replaced(right.speculative_9, verify_7=replaced_from_p)),
    ("two_drafts_10", right.one_token_6),
    ("two_drafts_10", replaced(right.two_drafts_10, residual_3=lambda p, q: p)),
    ("block_11", verify_7),
    ("block_11", block_with_the_residual_of_tokens),
    ("siblings_12", replaced(right.siblings_12, residual_3=lambda p, q: p)),
    ("siblings_12", lambda target, draft, ids, sample, toss: [sample(target(ids))]),
    ("drafter_13", drafter(lambda n, sample, ids, k: ([1] * k, uniform(n, k)))),
    ("drafter_13", drafter(lambda n, sample, ids, k: ([1] * k, np.ones((k, n))))),
    ("drafter_13", drafter(lambda n, sample, ids, k: ([1] * k, np.eye(n)[[2] * k]))),
    ("drafter_13", drafter(lambda n, sample, ids, k: ([1] * 4, np.eye(n)[[1] * 4]))),
    ("drafter_13", drafter(lambda n, sample, ids, k: ([1] * k, np.eye(n + 1)[[1] * k]))),
    ("drafter_13", drafter(changes_its_ids)),
]


def test_each_has_a_number_a_stub_a_check_and_a_solution():
    assert [int(name.rsplit("_", 1)[1]) for name in CHECKS] == list(range(1, 14))
    for name in CHECKS:
        signatures = [inspect.signature(getattr(one, name)) for one in (mine, right)]
        assert signatures[0] == signatures[1]


def asks_again(target, draft_model, *rest):
    """A loop that keeps no distribution of the draft model."""
    return right.speculative_9(target, lambda ids: (draft_model(ids), draft_model(ids))[0], *rest)


def k_sequential(p, q, sample, toss):
    """Another rule for two independent drafts, which keeps one of them more often."""
    rho = best_rho(p, q, 2)
    for _ in range(2):
        token = sample(q)
        if toss(p[token] / (rho * q[token])):
            return token, True
    return sample(left_over(p, q, 2, rho)), False


@pytest.mark.parametrize(
    "name, answer",
    [
        *((name, getattr(right, name)) for name in CHECKS),
        ("speculative_9", asks_again),
        ("two_drafts_10", k_sequential),
        ("drafter_13", drafter(lambda n, sample, ids, k: ([], np.empty((0, n))))),
    ],
)
def test_a_right_answer_is_accepted(name, answer):
    CHECKS[name](answer)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name, wrong", WRONG, ids=[f"{i}-{name}" for i, (name, _) in enumerate(WRONG)]
)
def test_a_wrong_answer_is_refused(name, wrong):
    with pytest.raises(AssertionError) as refused:
        CHECKS[name](wrong)
    assert "expected" in str(refused.value) or "right distribution" in str(refused.value)


def test_what_a_reader_sees():
    """One line for each exercise still to be written; a reader's own answers stay out of this."""
    sources = {name: inspect.getsource(getattr(mine, name)) for name in CHECKS}
    open_ones = [name for name in CHECKS if "raise NotImplementedError" in sources[name]]
    done = python("-m", "pytest", "exercises")
    said = re.findall(r"(?m)^(\w+): still to be written, in exercises/mine.py$", done.stdout)
    assert said == open_ones


@embedded
def test_a_drafter_is_scored_beside_the_others(monkeypatch, capsys):
    monkeypatch.setattr(score, "N_PROMPTS", 1)
    score.score("exercises.solutions")
    scores = dict(re.findall(r"(?m)^(\S+) +([\d.]+)$", capsys.readouterr().out))
    assert [*scores] == ["yours", "ngram", "0.7M-17M"]
    assert 1 < float(scores["yours"]) < float(scores["0.7M-17M"])


def test_a_drafter_that_is_not_written_is_one_line():
    done = python("-m", "exercises.score", "sampling")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1


def test_a_drafter_that_fails_is_not_said_to_be_unwritten(monkeypatch):
    failing = SimpleNamespace(drafter_13=lambda n_vocab, sample: None)  # no n_vocab
    monkeypatch.setitem(sys.modules, "failing", failing)
    with pytest.raises(AttributeError):
        score.score("failing")
    with pytest.raises(InputError, match="loaded"):
        score.score("nowhere")


def test_the_notebook_goes_on_with_the_solution_of_what_is_not_written(capsys):
    def stub(*arguments):
        raise NotImplementedError

    own = lambda *arguments: right.one_token_6(*arguments)
    wrong = lambda p, q, sample, toss: (sample(q), True)
    for answer in (own, stub, wrong):
        answer.__name__ = "one_token_6"
    assert checked(own) is own and "WRITTEN" not in capsys.readouterr().out
    assert checked(stub) is right.one_token_6 and "WRITTEN" in capsys.readouterr().out
    with pytest.raises(AssertionError):
        checked(wrong)
