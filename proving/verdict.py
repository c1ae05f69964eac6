"""What can be said of an accept/reject rule after enumerating it: which texts come out, which token
is the first with a wrong distribution, how many drafted tokens are kept, and how many can be.

A rule is called as sampling.verify. A model here is a function from a text, a tuple of tokens, to
the distribution of its next token, [n_vocab].
"""

import operator
from collections import defaultdict

import numpy as np

from proving.enumeration import WrongAnswer, enumerate_branches

ROUNDING = 1e-12  # a distance up to this counts as 0


class CheckedRng:
    """An Rng around another Rng. `sample` and `accept` raise WrongAnswer for arguments that are no
    probabilities.

    samples: a list of (the distribution, the token), one for each call of `sample`
    """

    def __init__(self, rng):
        self.rng, self.samples = rng, []

    def sample(self, p):  # [n_vocab] -> token
        """Sample a token from p, and append (p, token) to `samples`. Raises WrongAnswer if p is no
        distribution.
        """
        p = to_array(p, f"sample({p!r}): expected probabilities")
        if p.ndim != 1:
            raise WrongAnswer(f"sample of an array of shape {p.shape}: expected one row")
        if not (p >= 0).all() or abs(p.sum() - 1) > 1e-9:
            raise WrongAnswer(f"sample({format_probs(p)}): expected probabilities that sum to 1")
        token = self.rng.sample(p)
        self.samples.append((p, token))
        return token

    def accept(self, ratio):
        """Toss a coin: True with probability min(1, ratio). Raises WrongAnswer if ratio is no
        number of 0 or more.
        """
        problem = f"accept({ratio!r}): expected a number of 0 or more"
        ratio = to_array(ratio, problem)
        if ratio.size != 1 or not ratio >= 0:
            raise WrongAnswer(problem)
        return self.rng.accept(float(ratio.item()))


def to_array(numbers, problem):
    """Convert a number, or a nested sequence of numbers, to an array of floats. Raises WrongAnswer
    with the text `problem` if that is impossible.
    """
    try:
        return np.array(numbers, float)
    except (TypeError, ValueError):
        raise WrongAnswer(problem) from None


def to_whole_numbers(result, expected, event="it returns"):
    """Convert what a reader's function returned, a sequence of whole numbers, to a list of ints.
    Raises WrongAnswer for anything else, with the message "EVENT result, expected EXPECTED".
    """
    try:
        return [operator.index(number) for number in result]
    except TypeError:
        raise WrongAnswer(f"{event} {result!r}, expected {expected}") from None


def to_tokens(result, n_vocab, expected):
    """Convert what a reader's function returned, a sequence of tokens from 0 to n_vocab - 1, to a
    list of ints. Raises WrongAnswer for anything else. expected: a text for the message
    """
    tokens = to_whole_numbers(result, expected)
    if not all(0 <= token < n_vocab for token in tokens):
        raise WrongAnswer(f"it returns {result!r}, expected {expected}")
    return tokens


def require_rule_result(result, n_drafted, n_vocab):
    """Check what a rule returned, and return it as a list of two ints, [number of accepted tokens,
    next token]. Raises WrongAnswer unless these are two whole numbers, each within its range.

    n_drafted: how many drafted tokens the rule was given
    """
    expected = (
        f"two whole numbers: how many of the {n_drafted} drafted tokens are accepted, and the "
        f"next token, below {n_vocab}"
    )
    numbers = to_whole_numbers(result, expected)
    if len(numbers) == 2:
        n_accepted, next_token = numbers
        if 0 <= n_accepted <= n_drafted and 0 <= next_token < n_vocab:
            return numbers
    raise WrongAnswer(f"it returns {result!r}, expected {expected}")


# ---------------------------------------------------------------- one round


def enumerate_round(rule, target, draft_model, K):
    """Run one round of K drafted tokens through every random choice. Returns ({the tokens of the
    round, a tuple: probability}, the mean number of drafted tokens that the rule keeps).

    rule: a function with the arguments and result of sampling.verify
    target, draft_model: functions from a text, a tuple of tokens, to the distribution of its next
        token, [n_vocab]
    Raises WrongAnswer if the rule does not return (number of accepted tokens, next token).
    """

    def run(rng):
        """Decode one branch of the round, with the choices of rng. Returns its tokens, a tuple."""
        rng = CheckedRng(rng)
        draft, q_rows = [], []
        for _ in range(K):
            q_rows.append(draft_model(tuple(draft)))
            draft.append(rng.sample(q_rows[-1]))
        p = np.array([target(tuple(draft[:i])) for i in range(K + 1)])
        n_vocab = p.shape[1]
        q = np.array(q_rows).reshape(K, n_vocab)  # K may be 0
        result = rule(list(draft), p, q, rng)
        n_accepted, next_token = require_rule_result(result, K, n_vocab)
        return (*draft[:n_accepted], next_token)

    texts = enumerate_branches(run)
    # a round has one token more than drafted tokens are kept
    n_kept = sum((len(text) - 1) * probability for text, probability in texts.items())
    return texts, n_kept


def expected_kept(target, draft_model, K, block):
    """The mean number of K drafted tokens that the right rule keeps, by a formula: the sum, over
    all texts of 1 to K tokens, of the probability that the text is drafted and kept.

    target, draft_model: functions from a text, a tuple of tokens, to the distribution of its next
        token, [n_vocab]
    block: True for block verification, False for the token rule. Among the rules whose every round
        is exact, block verification keeps most (Sun et al. 2024)
    """

    def kept_after(text, p_kept, p_drafted):
        """The part of the sum that belongs to the texts which begin with `text`, a tuple.

        p_kept: the probability that `text` is drafted and kept
        p_drafted: for block verification the probability that it is drafted, else p_kept
        """
        if len(text) == K:
            return 0.0
        p = p_kept * target(text)
        q = p_drafted * draft_model(text)
        total = 0.0
        for token in np.flatnonzero(np.minimum(p, q)):
            p_token_kept = min(p[token], q[token])
            p_token_drafted = q[token] if block else p_token_kept
            longer_text = (*text, int(token))
            total += p_token_kept + kept_after(longer_text, p_token_kept, p_token_drafted)
        return total

    return kept_after((), p_kept=1.0, p_drafted=1.0)


# ---------------------------------------------------------------- texts


def complete_texts(texts, target, n_tokens, end=None):
    """Let the target complete texts in every way, also those of probability 0, to n_tokens or to
    the token `end` (None: no token ends a text). Takes and returns {text, a tuple: probability}.

    target: a function from a text to the distribution of its next token, [n_vocab]
    """
    completed = defaultdict(float)
    unfinished = list(texts.items())
    while unfinished:
        text, probability = unfinished.pop()
        if len(text) >= n_tokens or end in text:
            completed[text] += probability
        else:
            for token, p in enumerate(target(text)):
                unfinished.append(((*text, token), probability * p))
    return completed


def next_token_rows(texts, n_vocab):
    """What follows each beginning of the texts. Returns {beginning, a tuple of tokens: row,
    [n_vocab + 1]}. A row holds the probability of the beginning together with each next token; its
    last entry is the probability that the text ends there.

    texts: {text, a tuple of tokens: probability}
    """
    rows = defaultdict(lambda: np.zeros(n_vocab + 1))
    for text, probability in texts.items():
        for n, token in enumerate(text):
            rows[text[:n]][token] += probability
        rows[text][n_vocab] = probability
    return rows


def describe_first_error(texts, right):
    """Compare two distributions of texts. Returns in words the shortest beginning of a text after
    which the next token has a wrong distribution, with both distributions; of several beginnings of
    that length, the one with the largest error. None if no error is above ROUNDING.

    texts, right: {text, a tuple of tokens: probability}, of an answer and of the target
    """
    n_vocab = 1 + max(token for text in [*texts, *right] for token in text)
    rows, right_rows = next_token_rows(texts, n_vocab), next_token_rows(right, n_vocab)
    errors = {
        beginning: abs(rows[beginning] - right_rows[beginning]).max()
        for beginning in rows.keys() & right_rows.keys()
    }
    wrong = [beginning for beginning, error in errors.items() if error > ROUNDING]
    if not wrong:
        return None
    # the beginning itself decides between equal errors
    first = min(wrong, key=lambda beginning: (len(beginning), -errors[beginning], beginning))
    position = f"after {first}" if first else "the first token"
    yours, expected = format_row(rows[first]), format_row(right_rows[first])
    hidden_error = f", which differ by {errors[first]:.1g}" if yours == expected else ""
    return f"{position}: yours {yours}, right {expected}{hidden_error}"


def format_row(row):
    """The distribution of the next token as text, from a row of next_token_rows.

    >>> format_row(np.array([0.25, 0.125, 0.125]))
    '[0.5, 0.25] and P(end) 0.25'
    """
    *p, p_end = row / row.sum()
    return format_probs(p) + (f" and P(end) {p_end:.4g}" if p_end else "")


def format_probs(p):
    """Probabilities as text, in four digits: "[0.5, 0.3333]"."""
    return "[" + ", ".join(f"{value:.4g}" for value in np.ravel(p)) + "]"


def format_distance(distance):
    """A distance as text: "0.0776", or "1e-06" if four digits would show 0."""
    would_show_0 = ROUNDING < distance < 5e-5
    return f"{distance:.1g}" if would_show_0 else f"{distance:.4f}"
