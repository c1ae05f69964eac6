"""What can be said of a rule after enumerating it: which texts come out, where the first of them is
wrong, how many drafted tokens are kept, and how many can be.

A rule has the form of sampling.verify. A model here is a function from a text, a tuple, to the
distribution of its next token.
"""

import operator
from collections import defaultdict

import numpy as np

from proving.enumeration import every_branch


class Wrong(AssertionError):
    """What a reader's function does wrong, in one line."""


class Choices:
    """A Chance for one branch, whose `sample` and `toss` refuse what is no probability.

    samples: (the distribution, the token) of each call of `sample`
    """

    def __init__(self, branches):
        self.branches, self.samples = branches, []

    def sample(self, p):
        p = np.array(p, float)
        if p.ndim != 1:
            raise Wrong(f"sample of an array of shape {p.shape}: expected one row")
        if not (p >= 0).all() or abs(p.sum() - 1) > 1e-9:
            raise Wrong(f"sample({shown(p)}): expected probabilities that sum to 1")
        token = self.branches.sample(p)
        self.samples.append((p, token))
        return token

    def toss(self, ratio):
        if not ratio >= 0:
            raise Wrong(f"toss({ratio}): expected a number of 0 or more")
        return self.branches.toss(ratio)


def whole_numbers(result, expected):
    """The result as a list of integers; 0.5 is none. `expected` says what it should be."""
    try:
        return [operator.index(number) for number in result]
    except TypeError:
        raise Wrong(f"it returns {result!r}, expected {expected}") from None


def accepted_and_next(result, n_drafted, n_vocab):
    """What a rule returns: (number accepted, next token)."""
    expected = (
        f"two whole numbers: how many of the {n_drafted} drafted tokens are accepted, and the "
        f"next token, below {n_vocab}"
    )
    numbers = whole_numbers(result, expected)
    if len(numbers) != 2 or not 0 <= numbers[0] <= n_drafted or not 0 <= numbers[1] < n_vocab:
        raise Wrong(f"it returns {result!r}, expected {expected}")
    return numbers


# ---------------------------------------------------------------- one round


def one_round(rule, target, draft_model, K):
    """({text: probability} of the tokens of one round, the mean number of K drafts kept)."""

    def run(branches):
        chance, draft, q = Choices(branches), [], []
        for _ in range(K):
            q.append(draft_model(tuple(draft)))
            draft.append(chance.sample(q[-1]))
        p = np.array([target(tuple(draft[:i])) for i in range(K + 1)])
        q = np.array(q).reshape(K, p.shape[1])
        result = rule(list(draft), q, p, chance)
        n_accepted, token = accepted_and_next(result, K, p.shape[1])
        return (*draft[:n_accepted], token)

    texts = every_branch(run)
    # every text has one token more than drafts are kept
    return texts, sum((len(text) - 1) * mass for text, mass in texts.items())


def can_be_kept(target, draft_model, K, block, text=(), accepted=1.0, drafted=1.0):
    """The mean number of K drafts that the right rule keeps: the sum of min(p, q) at each place.

    Token by token, what was drafted but not accepted is lost for what follows. As a block it counts
    for longer texts, too, and no rule whose every round is exact keeps more (Sun et al. 2024).
    """
    if len(text) == K:
        return 0.0
    p, q = accepted * target(text), drafted * draft_model(text)
    total = 0.0
    for token in np.flatnonzero(np.minimum(p, q)):
        both = min(p[token], q[token])
        later = both, q[token] if block else both
        total += both + can_be_kept(target, draft_model, K, block, (*text, int(token)), *later)
    return total


# ---------------------------------------------------------------- texts


def completed(texts, target, n_tokens, end=None):
    """{text: probability} of texts that the target goes on with, up to n_tokens or the end."""
    found, todo = defaultdict(float), list(texts.items())
    while todo:
        text, mass = todo.pop()
        if len(text) >= n_tokens or end in text:
            found[text] += mass
        else:
            todo += [((*text, token), mass * p) for token, p in enumerate(target(text))]
    return found


def next_tokens(texts, n_vocab):
    """{beginning: the distribution of what follows it}; its last entry is that the text ends."""
    rows = defaultdict(lambda: np.zeros(n_vocab + 1))
    for text, mass in texts.items():
        for n, token in enumerate(text):
            rows[text[:n]][token] += mass
        rows[text][n_vocab] += mass
    return {text: row / row.sum() for text, row in rows.items() if row.sum() > 1e-12}


def first_wrong(texts, right):
    """Where texts first leave the right ones, a pair of {text: probability}, in words: the shortest
    beginning whose next token is wrong, and of these the most wrong. None if there is none.
    """
    n_vocab = 1 + max(token for text in [*texts, *right] for token in text)
    yours, expected = next_tokens(texts, n_vocab), next_tokens(right, n_vocab)
    off = {text: abs(yours[text] - expected[text]).max() for text in yours.keys() & expected.keys()}
    wrong = [text for text in off if off[text] > 1e-9]
    if not wrong:
        return None
    text = min(wrong, key=lambda text: (len(text), -off[text], text))
    place = f"after {text}" if text else "the first token"
    return f"{place}: yours {row(yours[text])}, right {row(expected[text])}"


def row(distribution):
    """A row of next_tokens; the end is named where it may come."""
    *tokens, end = distribution
    return shown(tokens) + (f" and P(end) {end:.4g}" if end else "")


def shown(p):
    """Probabilities in four digits."""
    return "[" + ", ".join(f"{value:.4g}" for value in np.ravel(p)) + "]"
