"""What tells a right answer from a wrong one: check_NAME(answer) fails with an assertion that says
what is wrong.

No check is statistical: a function that chooses is run through every branch of its choices
(experiments/proving/enumeration.py).
"""

import itertools
from types import SimpleNamespace

import numpy as np

from experiments.proving.enumeration import every_branch, total_variation
from sampling import Filter

RNG = np.random.default_rng(0)
PAIRS = [(RNG.dirichlet(np.ones(n)), RNG.dirichlet(np.ones(n))) for n in (2, 3, 5)]
PAIRS += [
    (np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.25, 0.75])),
    (np.array([0.0, 1.0]), np.array([1.0, 0.0])),
]
PAIRS += [(p, p) for p, _ in PAIRS[:1]]


def close(found, expected, what):
    assert np.shape(found) == np.shape(expected), (
        f"{what}: a shape of {np.shape(found)}, expected {np.shape(expected)}"
    )
    assert np.allclose(found, expected, rtol=0, atol=1e-12), f"{what}: {found}, expected {expected}"


def same_law(found, expected, what):
    distance = total_variation(found, expected)
    assert distance < 1e-12, (
        f"{what}: at a total variation distance of {distance:.3g} from the right law; yours is {found}"
    )


def as_law(p):
    return {token: mass for token, mass in enumerate(p) if mass > 0}


def marginal(outcomes, of):
    """{of(outcome): probability} from {outcome: probability}."""
    found = {}
    for outcome, probability in outcomes.items():
        found[of(outcome)] = found.get(of(outcome), 0.0) + probability
    return found


def check_acceptance_1(answer):
    for p, q in PAIRS:
        close(answer(p, q), 1 - abs(p - q).sum() / 2, f"acceptance of p = {p}, q = {q}")


def check_temperature_2(answer):
    for logits in ([0.0, 1.0, -2.0], [1e4, 0.0, 1e4 + 1.0], [-3.0, -3.0]):
        for temperature in (0.5, 1.0, 3.0):
            expected = Filter(temperature)(np.array([logits]))[0]
            close(
                answer(np.array(logits), temperature),
                expected,
                f"{logits} at temperature {temperature}",
            )
    close(answer(np.array([0.0, 2.0, 1.0]), 0.0), [0, 1, 0], "[0, 2, 1] at temperature 0")


def check_residual_3(answer):
    close(answer(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.4, 0.4])), [1, 0, 0], "a residual")
    close(
        answer(np.array([0.5, 0.4, 0.1]), np.array([0.2, 0.3, 0.5])), [0.75, 0.25, 0], "a residual"
    )
    close(answer(np.array([0.5, 0.5]), np.array([0.5, 0.5])), [0.5, 0.5], "the residual of p = q")


def check_nucleus_4(answer):
    p = np.array([0.1, 0.4, 0.3, 0.2])
    for top_p, kept in ((0.3, [1]), (0.65, [1, 2]), (0.75, [1, 2, 3]), (1.0, [0, 1, 2, 3])):
        expected = np.where(np.isin(np.arange(4), kept), p, 0)
        close(answer(p.copy(), top_p), expected / expected.sum(), f"the nucleus of {top_p} of {p}")


def check_speedup_5(answer):
    for a, K, c, v in itertools.product(
        (0.0, 0.3, 0.8, 1.0), (1, 2, 5), (0.0, 0.1, 0.5), (1.0, 1.5, 3.0)
    ):
        # n accepted, then one more token
        tokens = sum((n + 1) * a**n * (1 - a) for n in range(K)) + (K + 1) * a**K
        close(
            answer(a, K, c, v),
            tokens / (K * c + v),
            f"speedup at a = {a}, K = {K}, c = {c}, v = {v}",
        )


def check_one_token_6(answer):
    for p, q in PAIRS:
        outcomes = every_branch(lambda choices: tuple(answer(p, q, choices.sample, choices.toss)))
        same_law(
            marginal(outcomes, lambda outcome: outcome[0]),
            as_law(p),
            f"the token of p = {p}, q = {q}",
        )
        kept = marginal(outcomes, lambda outcome: bool(outcome[1])).get(True, 0.0)
        close(kept, np.minimum(p, q).sum(), f"how often the draft is kept for p = {p}, q = {q}")


def check_verify_7(answer):
    rng = np.random.default_rng(1)
    for zeros in (False, True):
        p, q = rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(3), 2)
        if zeros:
            p[0], q[1] = [0, 0.5, 0.5], [0.5, 0.5, 0]
        found = {}
        for draft in itertools.product(
            np.flatnonzero(q[0]).tolist(), np.flatnonzero(q[1]).tolist()
        ):
            outcomes = every_branch(
                lambda choices: tuple(answer(list(draft), q, p, choices.sample, choices.toss))
            )
            for (n, token), probability in outcomes.items():
                text = [*draft[:n], token]
                # rows that were not reached are drawn from p by a later round
                for rest in itertools.product(range(3), repeat=3 - len(text)):
                    mass = np.prod([p[len(text) + i, t] for i, t in enumerate(rest)])
                    whole = (*text, *rest)
                    found[whole] = (
                        found.get(whole, 0.0) + q[0, draft[0]] * q[1, draft[1]] * probability * mass
                    )
        expected = {
            text: p[0, text[0]] * p[1, text[1]] * p[2, text[2]]
            for text in itertools.product(range(3), repeat=3)
        }
        same_law(found, expected, "two drafts and the token after them")
    sure = np.eye(3)
    outcomes = every_branch(
        lambda choices: tuple(answer([0, 1], sure[:2], sure, choices.sample, choices.toss))
    )
    assert outcomes == {(2, 2): 1.0}, (
        f"drafts that are certain and right: expected 2 accepted, then token 2, not {outcomes}"
    )
    outcomes = every_branch(
        lambda choices: tuple(answer([], sure[:0], sure[1:2], choices.sample, choices.toss))
    )
    assert outcomes == {(0, 1): 1.0}, f"no draft at all: expected a token from p[0], not {outcomes}"


def check_catch_up_8(answer):
    text = [5, 6, 7, 8, 9]
    for read, n_last, fed in (
        ([], 1, 5),  # nothing read yet
        ([5, 6, 7, 8], 1, 1),  # plain decoding
        ([5, 6], 2, 3),  # behind
        ([5, 6, 7, 8, 1, 1], 1, 1),  # a rejected draft of two is forgotten
        ([5, 6, 7, 1], 2, 2),  # so is one within the rows asked for
        ([5, 6, 7, 8, 9], 1, 1),  # the last row is read again
    ):
        calls = []

        def forward(new, cache):
            calls.append(list(new))
            begin = len(cache.ids)
            cache.ids += new
            return np.array(
                [cache.ids[: begin + i + 1] + [0] * (9 - begin - i) for i in range(len(new))]
            )

        cache = SimpleNamespace(ids=list(read))
        rows = answer(list(text), cache, n_last, forward)
        what = f"with {read} in the cache and n_last = {n_last}"
        assert cache.ids == text, f"{what}: the cache holds {cache.ids} in the end, expected {text}"
        assert len(calls) == 1 and len(calls[0]) == fed, (
            f"{what}: fed {calls}, expected {fed} ids in one call"
        )
        expected = [text[:end] + [0] * (10 - end) for end in range(6 - n_last, 6)]
        assert np.array_equal(rows, expected), (
            f"{what}: rows that are not those of the last {n_last} ids"
        )


def table(seed):
    """A model of three tokens: a distribution for every prefix."""
    return lambda ids: np.random.default_rng([seed, *ids]).dirichlet(np.ones(3))


def check_speculative_9(answer):
    target, draft, prompt = table(1), table(2), [0]
    for n_tokens, K, end in ((1, 2, None), (3, 1, None), (3, 2, None), (3, 4, 2), (4, 2, 2)):
        texts, expected = {(): 1.0}, {}
        for _ in range(n_tokens):  # the chain rule
            longer = {}
            for text, mass in texts.items():
                for token, probability in enumerate(target([*prompt, *text])):
                    (expected if token == end else longer)[(*text, token)] = mass * probability
            texts = longer
        expected |= texts

        def run(choices):
            return tuple(
                answer(target, draft, list(prompt), n_tokens, K, choices.sample, choices.toss, end)
            )

        found = every_branch(run)
        lengths = {len(text) for text in found if end not in text}
        assert lengths <= {n_tokens}, f"with K = {K}, expected {n_tokens} tokens, not {lengths}"
        same_law(found, expected, f"{n_tokens} tokens with K = {K} and the end {end}")
    passes = 0

    def counted(ids):
        nonlocal passes
        passes += 1
        return np.eye(3)[len(ids) % 3]

    text = every_branch(
        lambda choices: tuple(
            answer(counted, counted, [0], 6, 2, choices.sample, choices.toss, None)
        )
    )
    assert text == {(1, 2, 0, 1, 2, 0): 1.0}, (
        f"with a model that counts, expected 1, 2, 0, 1, 2, 0, not {text}"
    )
    # two rounds of two drafts, each verified at three places: a loop that does not draft asks 6
    # times
    assert passes == 10, (
        f"6 tokens with K = 2, every draft right: the models were asked {passes} times, expected 10"
    )


def check_two_drafts_10(answer):
    for p, q in PAIRS:
        outcomes = every_branch(lambda choices: tuple(answer(p, q, choices.sample, choices.toss)))
        same_law(
            marginal(outcomes, lambda outcome: outcome[0]),
            as_law(p),
            f"the token of p = {p}, q = {q}",
        )
        kept = marginal(outcomes, lambda outcome: bool(outcome[1])).get(True, 0.0)
        once = np.minimum(p, q).sum()
        rest = np.maximum(p - q, 0)
        second = np.minimum(rest / rest.sum(), q).sum() if once < 1 else 0.0
        close(kept, once + (1 - once) * second, f"how often a draft is kept for p = {p}, q = {q}")


CHECKS = {
    name.removeprefix("check_"): check
    for name, check in list(globals().items())
    if name.startswith("check_")
}
