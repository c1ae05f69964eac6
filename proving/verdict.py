"""What can be said of a rule after enumerating it: which texts come out, where the first of them is
wrong, how many drafted tokens are kept, and how many can be.

A rule has the form of sampling.verify. A model here is a function from a text, a tuple, to the
distribution of its next token.
"""

import operator
from collections import defaultdict

import numpy as np

from proving.enumeration import WrongAnswer, enumerate_branches

ROUNDING = 1e-12  # a distance up to this is none


class CheckedRng:
    """An Rng around another Rng. `sample` and `accept` raise WrongAnswer for arguments that are no
    probabilities.

    samples: a list of (the distribution, the token), one for each call of `sample`
    """

    def __init__(self, branches):
        self.branches, self.samples = branches, []

    def sample(self, p):
        p = to_array(p, f"sample({p!r}): expected probabilities")
        if p.ndim != 1:
            raise WrongAnswer(f"sample of an array of shape {p.shape}: expected one row")
        if not (p >= 0).all() or abs(p.sum() - 1) > 1e-9:
            raise WrongAnswer(f"sample({format_probs(p)}): expected probabilities that sum to 1")
        token = self.branches.sample(p)
        self.samples.append((p, token))
        return token

    def accept(self, ratio):
        expected = f"accept({ratio!r}): expected a number of 0 or more"
        ratio = to_array(ratio, expected)
        if ratio.size != 1 or not ratio >= 0:
            raise WrongAnswer(expected)
        return self.branches.accept(float(ratio.item()))


def to_array(numbers, problem):
    """The numbers as an array of floats. Raises WrongAnswer(problem) if they are no numbers."""
    try:
        return np.array(numbers, float)
    except (TypeError, ValueError):
        raise WrongAnswer(problem) from None


def to_whole_numbers(result, expected, said="it returns"):
    """The result as a list of ints. Raises WrongAnswer if it is no sequence of whole numbers.

    expected, said: for the message, what the result should be and how it came about
    """
    try:
        return [operator.index(number) for number in result]
    except TypeError:
        raise WrongAnswer(f"{said} {result!r}, expected {expected}") from None


def require_rule_result(result, n_drafted, n_vocab):
    """The result of a rule as two ints, [number of accepted tokens, next token]. Raises WrongAnswer
    if it has another form, or one of the numbers is out of its range.
    """
    expected = (
        f"two whole numbers: how many of the {n_drafted} drafted tokens are accepted, and the "
        f"next token, below {n_vocab}"
    )
    numbers = to_whole_numbers(result, expected)
    if len(numbers) != 2 or not 0 <= numbers[0] <= n_drafted or not 0 <= numbers[1] < n_vocab:
        raise WrongAnswer(f"it returns {result!r}, expected {expected}")
    return numbers


# ---------------------------------------------------------------- one round


def enumerate_round(rule, target, draft_model, K):
    """Enumerate one round of K drafted tokens: ({text, the tokens of the round: probability}, the
    mean number of drafts that the rule keeps).
    """

    def run(branches):
        rng, draft, q = CheckedRng(branches), [], []
        for _ in range(K):
            q.append(draft_model(tuple(draft)))
            draft.append(rng.sample(q[-1]))
        p = np.array([target(tuple(draft[:i])) for i in range(K + 1)])
        q = np.array(q).reshape(K, p.shape[1])
        result = rule(list(draft), p, q, rng)
        n_accepted, token = require_rule_result(result, K, p.shape[1])
        return (*draft[:n_accepted], token)

    texts = enumerate_branches(run)
    # every text has one token more than drafts are kept
    return texts, sum((len(text) - 1) * mass for text, mass in texts.items())


def expected_kept(target, draft_model, K, block, text=(), accepted=1.0, drafted=1.0):
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
        total += both + expected_kept(target, draft_model, K, block, (*text, int(token)), *later)
    return total


# ---------------------------------------------------------------- texts


def complete_texts(texts, target, n_tokens, end=None):
    """Let the target complete texts up to n_tokens or the token `end`: {text: probability}, from
    texts {text: probability}.
    """
    found, todo = defaultdict(float), list(texts.items())
    while todo:
        text, mass = todo.pop()
        if len(text) >= n_tokens or end in text:
            found[text] += mass
        else:
            todo += [((*text, token), mass * p) for token, p in enumerate(target(text))]
    return found


def next_token_rows(texts, n_vocab):
    """The distribution of what follows each beginning of a text: {beginning, a tuple: [n_vocab +
    1]}. The last entry is the probability that the text ends there.
    """
    rows = defaultdict(lambda: np.zeros(n_vocab + 1))
    for text, mass in texts.items():
        for n, token in enumerate(text):
            rows[text[:n]][token] += mass
        rows[text][n_vocab] = mass
    return {text: row / row.sum() for text, row in rows.items() if row.sum() > 1e-12}


def describe_first_error(texts, right):
    """Describe the first difference of two distributions {text: probability}: the shortest
    beginning whose next token has a wrong distribution, and of several the one with the largest
    error. None if there is no difference.
    """
    n_vocab = 1 + max(token for text in [*texts, *right] for token in text)
    yours, expected = next_token_rows(texts, n_vocab), next_token_rows(right, n_vocab)
    off = {text: abs(yours[text] - expected[text]).max() for text in yours.keys() & expected.keys()}
    wrong = [text for text in off if off[text] > 1e-9]
    if not wrong:
        return None
    text = min(wrong, key=lambda text: (len(text), -off[text], text))
    place = f"after {text}" if text else "the first token"
    shown_rows = format_row(yours[text]), format_row(expected[text])
    nearly = f", which differ by {off[text]:.1g}" if shown_rows[0] == shown_rows[1] else ""
    return f"{place}: yours {shown_rows[0]}, right {shown_rows[1]}{nearly}"


def format_row(distribution):
    """A row of next_token_rows as text: "[0.5, 0.25] and P(end) 0.25"."""
    *tokens, end = distribution
    return format_probs(tokens) + (f" and P(end) {end:.4g}" if end else "")


def format_probs(p):
    """Probabilities as text, in four digits: "[0.5, 0.3333]"."""
    return "[" + ", ".join(f"{value:.4g}" for value in np.ravel(p)) + "]"


def format_distance(distance):
    """A distance as text: "0.0776", or "1e-06" where four digits would show 0."""
    hidden = ROUNDING < distance < 5e-5
    return f"{distance:.1g}" if hidden else f"{distance:.4f}"
