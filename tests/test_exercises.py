"""The checks of the exercises: they accept right answers, most of them the project's own code, and
refuse wrong ones.
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sampling
from exercises import mine
from exercises.checks import CHECKS
from experiments.proving.candidates import best_rho, left_over
from gpt2 import Config, Model
from sampling import Filter, NeuralDrafter, never, residual, speculative

ROOT = Path(sampling.__file__).resolve().parent


def with_choices(function):
    """The function, with the chance of the exercise (sample, toss) in place of the project's."""

    def call(*arguments, sample, toss, **named):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sampling, "sample", lambda p, rng: sample(p))
            patch.setattr(sampling, "toss", lambda r, rng: toss(r))
            return function(*arguments, **named)

    return call


def verify(draft, q, p, sample, toss):
    return with_choices(sampling.verify)(draft, q, p, None, sample=sample, toss=toss)


def one_token(p, q, sample, toss):
    token = sample(q)
    n, last = verify([token], q[None], np.stack([p, p]), sample, toss)
    return (token, True) if n else (last, False)


def two_drafts(p, q, sample, toss, second=residual):
    for row in (p, second(p, q)):
        token = sample(q)
        if toss(row[token] / q[token]):
            return token, True
    return sample(residual(row, q)), False


def block(draft, q, p, sample, toss):
    return with_choices(sampling.verify_block)(draft, q, p, None, sample=sample, toss=toss)


def siblings(target, draft_model, ids, sample, toss, without=True):
    p, q = target(ids), draft_model(ids)
    for _ in range(2):
        token = sample(q)
        if toss(p[token] / q[token]):
            child, last = below(target, draft_model, [*ids, token], sample, toss)
            return [token, child, *last]
        p = residual(p, q)
        if without:
            q = np.where(np.arange(len(q)) == token, 0, q)
            q = q / q.sum()
    return [sample(p)]


def below(target, draft_model, ids, sample, toss):
    """The token below an accepted sibling, and the bonus if it is the draft's."""
    child, accepted = one_token(target(ids), draft_model(ids), sample, toss)
    return child, [sample(target([*ids, child]))] if accepted else []


def catch_up(ids, cache, n_last, forward):
    """Model.read itself, with the forward pass of the exercise in the place of GPT-2's."""

    class Cache:
        """The list of the exercise, which its forward pass makes longer."""

        length = property(
            lambda self: len(cache.ids), lambda self, n: cache.ids.__delitem__(slice(n, None))
        )
        advance = lambda self, rows: None

    class Forward(Model):
        embed = lambda self, new, cache: new
        past = lambda self, cache: None
        blocks = lambda self, new, look_back: forward(list(new), cache)
        logits = lambda self, rows: rows

    return Forward(Config(10, 10, 1, 1, 1), {}, None).read(ids, Cache(), n_last)


def loop(target, draft_model, ids, n_tokens, K, sample, toss, end):
    """speculative and NeuralDrafter themselves, around models without caches."""

    def model(distribution):
        def read(text, cache, n_last=1):
            rows = [distribution(text[: len(text) - n_last + 1 + i]) for i in range(n_last)]
            with np.errstate(divide="ignore"):
                return np.log(np.array(rows).reshape(n_last, 3))

        return SimpleNamespace(
            config=SimpleNamespace(n_vocab=3, n_ctx=99),
            new_cache=lambda *n_positions: SimpleNamespace(length=0),
            read=read,
        )

    ended = never if end is None else lambda generated: generated[-1] == end
    filter = Filter(1.0)

    def run():
        drafter = NeuralDrafter(model(draft_model), filter, None)
        rounds = speculative(model(target), drafter, ids, n_tokens, K, filter, None, ended)
        return [token for one in rounds for token in one.tokens]

    return with_choices(run)(sample=sample, toss=toss)


def speedup(a, K, c, v):
    return sum(a**n for n in range(K + 1)) / (K * c + v)


def nucleus(p, top_p):
    return Filter(1.0, top_p=top_p)(np.log(p)[None])[0]


def temperature(logits, temperature):
    return Filter(temperature)(logits[None])[0]


RIGHT = {
    "acceptance_1": lambda p, q: np.minimum(p, q).sum(),
    "temperature_2": temperature,
    "residual_3": residual,
    "nucleus_4": nucleus,
    "speedup_5": speedup,
    "one_token_6": one_token,
    "verify_7": verify,
    "catch_up_8": catch_up,
    "speculative_9": loop,
    "two_drafts_10": two_drafts,
    "block_11": block,
    "siblings_12": siblings,
}


def changed_verify(change):
    def answer(draft, q, p, sample, toss):
        n, token = verify(draft, q, p, sample, toss)
        return change(draft, n, token, q, p, sample)

    return answer


def with_the_residual_of_verify(draft, q, p, sample, toss):
    n, token = block(draft, q, p, sample, toss)
    return n, sample(residual(p[n], q[n])) if n < len(draft) else token


def one_more_than_it_kept(draft, q, p, sample, toss):
    n, token = block(draft, q, p, sample, toss)
    return min(n + 1, len(draft)), token


def no_drafting(target, draft_model, ids, n_tokens, K, sample, toss, end):
    text = list(ids)
    while len(text) < len(ids) + n_tokens and (len(text) == len(ids) or text[-1] != end):
        text.append(sample(target(text)))
    return text[len(ids) :]


def whole_text(ids, cache, n_last, forward):
    cache.ids.clear()
    return forward(ids, cache)[-n_last:]


def nothing_forgotten(ids, cache, n_last, forward):
    return forward(ids[-n_last:], cache)


WRONG = [
    ("acceptance_1", lambda p, q: (p * q).sum()),
    ("acceptance_1", lambda p, q: abs(p - q).sum() / 2),
    (
        "temperature_2",
        lambda logits, t: np.exp(logits / (t or 1)) / np.exp(logits / (t or 1)).sum(),
    ),
    ("temperature_2", lambda logits, t: temperature(logits, 1.0)),
    ("residual_3", lambda p, q: np.maximum(p - q, 0)),
    ("residual_3", lambda p, q: abs(p - q) / abs(p - q).sum()),
    ("residual_3", lambda p, q: np.maximum(p - q, 0) / np.maximum(p - q, 0).sum()),
    ("nucleus_4", lambda p, top_p: np.where(p >= 1 - top_p, p, 0)),
    ("nucleus_4", lambda p, top_p: nucleus(np.sort(p)[::-1], top_p)),
    ("speedup_5", lambda a, K, c, v: (1 - a ** (K + 1)) / (1 - a) / (K * c + v) if a < 1 else 0.0),
    ("speedup_5", lambda a, K, c, v: (1 + a * K) / (K * c + v)),
    ("speedup_5", lambda a, K, c, v: speedup(a, K, c, 1)),
    ("one_token_6", lambda p, q, sample, toss: (sample(p), True)),
    ("one_token_6", lambda p, q, sample, toss: (sample(q), True)),
    (
        "one_token_6",
        lambda p, q, sample, toss: (
            (x, True) if toss(p[x := sample(q)] / q[x]) else (sample(p), False)
        ),
    ),
    ("verify_7", lambda draft, q, p, sample, toss: (0, sample(p[0]))),
    (
        "verify_7",
        changed_verify(
            lambda draft, n, token, q, p, sample: (n, token if n < len(draft) else sample(p[-2]))
        ),
    ),
    ("verify_7", changed_verify(lambda draft, n, token, q, p, sample: (n, sample(p[n])))),
    ("catch_up_8", whole_text),
    ("catch_up_8", nothing_forgotten),
    ("speculative_9", no_drafting),
    ("speculative_9", lambda *arguments: loop(*arguments[:-1], None)),
    ("speculative_9", lambda target, draft, ids, n, *rest: loop(target, draft, ids, n + 1, *rest)),
    ("two_drafts_10", one_token),
    (
        "two_drafts_10",
        lambda p, q, sample, toss: two_drafts(p, q, sample, toss, second=lambda p, q: p),
    ),
    ("block_11", verify),
    ("block_11", with_the_residual_of_verify),
    ("block_11", one_more_than_it_kept),
    ("siblings_12", lambda *arguments: siblings(*arguments, without=False)),
    ("siblings_12", lambda target, draft, ids, sample, toss: [sample(target(ids))]),
]


def test_there_are_twelve_with_a_stub_a_check_and_an_answer_each():
    assert list(CHECKS) == list(RIGHT) and all(callable(getattr(mine, name)) for name in CHECKS)
    assert [int(name.rsplit("_", 1)[1]) for name in CHECKS] == list(range(1, 13))


def asks_again(target, draft_model, *rest):
    """A loop that keeps no distribution of the draft model."""
    return loop(target, lambda ids: (draft_model(ids), draft_model(ids))[0], *rest)


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
    [*RIGHT.items(), ("speculative_9", asks_again), ("two_drafts_10", k_sequential)],
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
    assert "expected" in str(refused.value) or "right law" in str(refused.value)


def test_what_a_reader_sees():
    """Each exercise that is still to be written is one line that says so; a reader's own answers
    stay out of this.
    """
    open_ones = [
        name
        for name in CHECKS
        if "raise NotImplementedError" in inspect.getsource(getattr(mine, name))
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "exercises"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (
        re.findall(r"(?m)^(\w+): still to be written, in exercises/mine.py$", done.stdout)
        == open_ones
    )
