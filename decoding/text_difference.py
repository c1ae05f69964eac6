"""Why two texts differ that should be equal: rounding, or a bug."""

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np

from decoding.coupled import noisy_log_probs
from gpt2 import Model
from sampling import SamplingParams


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
    n_rows: int,
    score: Callable | None = None,
) -> dict[str, Any]:
    """Explain why two texts differ that should be equal, by the scores at the first difference.

    ids: of the prompt; first: the autoregressive text; second: the speculative one, whose passes
    had up to n_rows rows. score: a function (logits [n_vocab], position) -> scores [n_vocab], of
    which a decoder takes the largest; None if it takes the largest logit

    Returns {"position": index of the first difference, "gap": between the two best scores,
    "float_error": of these scores, "verdict": "tie" or "bug"}. One pass over one row decided the
    first text, one of up to n_rows rows the second, in which the row may have been any. All of them
    are computed again. The float error is the largest difference between them, and at least one
    rounding of the largest score. A gap of up to twice this error is a tie, which rounding may
    break either way; a larger gap is a bug.
    """
    position = first_difference(first, second)
    if position is None:
        raise ValueError("the two texts are equal: expected a difference")
    text = ids + first[:position]
    cache = target.new_cache()
    for end in range(len(ids) - 1, len(text)):  # as the autoregressive loop reads
        target.read(text[:end], cache, n_last=0)
    rows = [target.read(text, cache)[0]]
    continued = text + second[position : position + n_rows - 1]
    for n in range(2, n_rows + 1):
        for row in range(n):  # a pass over n rows, of which this one decided
            end = len(text) + n - 1 - row
            if n <= end <= len(continued):
                rows.append(target.read(continued[:end], cache, n_last=n)[row])
    if score:
        rows = [score(row, len(text)) for row in rows]
    # a removed token has a score of minus infinity; the difference of two of them would be NaN
    scores = np.maximum(rows, -1e4)  # [n_passes, n_vocab]; the first pass had one row
    epsilon = np.finfo(scores.dtype).eps
    error = max(np.ptp(scores, axis=0).max(), epsilon * abs(scores).max())
    second_best, best = np.sort(scores[0])[-2:]
    gap = best - second_best
    return {
        "position": position,
        "gap": float(gap),
        "float_error": float(error),
        "verdict": "tie" if gap <= 2 * error else "bug",
    }


def shared_noise_scores(to_probs: SamplingParams, seed: int, logits, position: int):
    """The scores that `explain_difference` compares under shared noise: log probability plus noise.
    [n_vocab] -> [n_vocab]. position: of the token to choose
    """
    return noisy_log_probs(to_probs(logits[None])[0], seed, position)
