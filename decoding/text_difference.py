"""Why two texts differ that should be equal: rounding, or a bug."""

from itertools import zip_longest
from typing import Any

import numpy as np

from decoding.coupled import noisy_log_probs
from gpt2 import Model
from sampling import SamplingParams

MOST_ROWS = 9  # of the passes that are compared
# how many times `rounding` passes may differ by: they do by less than once, by 1.9 times with
# contrived weights
MOST_SUM_ERRORS = 5
LEAST = -1e4  # in place of a score of minus infinity, that of a removed token


def first_difference(first: list[int], second: list[int]) -> int | None:
    """The index of the first token in which two texts differ; None for equal texts.

    >>> first_difference([1, 2, 3], [1, 5, 3]), first_difference([1, 2, 3], [1, 2])
    (1, 2)
    """
    for i, (token, other_token) in enumerate(zip_longest(first, second)):
        if token != other_token:
            return i
    return None


def explain_difference(
    target: Model,
    ids: list[int],
    first: list[int],
    second: list[int],
    to_probs: SamplingParams = SamplingParams(),
    noise_seed: int | None = None,
) -> dict[str, Any]:
    """Explain why two texts differ that should be equal: by rounding, which decides between tokens
    of nearly equal scores, or by a bug. It looks at the scores of the two tokens at their first
    difference. The score of a token is what it is chosen by, the largest wins: its logit or, with
    shared noise, log p plus noise.

    ids: token ids of the prompt; first, second: the ids of the two texts that follow it
    to_probs: makes p of logits; noise_seed: of the noise that draft and target share, or None

    Returns {"position": index of the first difference, "gap": between the two scores; if one text
    has ended there, between the two best, "float_error": of a score, "verdict": "tie" or "bug"}.

    A pass over several rows rounds differently from a pass over one. So this position is computed
    in passes over 1, 2, 3, ... 9 rows. They agree if no logit differs by more than 5 times the
    error of one sum, `rounding`. The float error of a score is that of one sum (over the
    temperature if there is noise); or, if it is more and the passes agree, the largest difference
    between them. The verdict is "tie" if they agree, no text has ended, and the gap is at most
    twice the float error. Raises ValueError for equal texts.
    """
    position = first_difference(first, second)
    if position is None:
        raise ValueError("the two texts are equal: expected a difference")
    text = ids + first[:position]
    rest = second[position : position + MOST_ROWS - 1]  # any ids: they only make a pass longer
    logits = in_passes(target, text, rest)
    sum_error = rounding(target, logits)
    passes_agree = spread(logits) <= MOST_SUM_ERRORS * sum_error

    # what a token was chosen by in each pass, and how far rounding can put it off
    scores, float_error = logits, sum_error
    if noise_seed is not None and not to_probs.greedy:
        scores = noisy_scores(logits, to_probs, noise_seed, position=len(text))
        float_error = sum_error / to_probs.temperature
    if passes_agree:
        float_error = max(float_error, spread(scores))

    # how far apart the two tokens are, in the pass over one row
    nobody_ended = position < min(len(first), len(second))
    if nobody_ended:
        pair = scores[0, [first[position], second[position]]]
    else:
        pair = np.sort(scores[0])[-2:]  # the two best
    gap = np.ptp(np.maximum(pair, LEAST))  # a number, also if one of them was removed
    is_tie = passes_agree and nobody_ended and gap <= 2 * float_error
    return {
        "position": position,
        "gap": float(gap),
        "float_error": float(float_error),
        "verdict": "tie" if is_tie else "bug",
    }


def noisy_scores(
    logits: np.ndarray, to_probs: SamplingParams, noise_seed: int, position: int
) -> np.ndarray:  # [n_passes, n_vocab] -> the same
    """What draft and target choose a token by if they share noise: log p plus the noise of this
    position of the text. logits: those of the same position in several passes
    """
    p = to_probs(logits)
    return np.array([noisy_log_probs(row, noise_seed, position) for row in p])


def in_passes(target: Model, text: list[int], rest: list[int]) -> np.ndarray:
    """The logits of the token after a text, once from each of 1 + len(rest) passes, as an array
    [1 + len(rest), n_vocab]: row n from a pass that also reads the first n ids of the rest.
    """
    cache = target.new_cache()
    rows = []
    for n in range(len(rest) + 1):
        logits = target.read(text + rest[:n], cache, n_last=n + 1)
        rows.append(logits[0])  # after the text; the other rows follow ids of the rest
    return np.array(rows)


def spread(scores: np.ndarray) -> float:  # [n_passes, n_vocab]
    """The largest difference between two passes in the score of a token; scores below -10,000
    (LEAST), such as minus infinity, count as that.
    """
    return np.ptp(np.maximum(scores, LEAST), axis=0).max()


def rounding(target: Model, logits: np.ndarray) -> float:
    """How far rounding alone puts a logit off, a sum of n_embd products: each addition rounds by
    an epsilon of the sum, counted here as the largest logit; of n roundings, some up and some down,
    about the square root of n remain.
    """
    half = target.backend.name == "cupy-float16"
    epsilon = np.finfo(np.float16 if half else logits.dtype).eps
    return target.config.n_embd**0.5 * epsilon * abs(logits[np.isfinite(logits)]).max()
