"""Why two texts differ that should be equal: rounding, or a bug."""

from itertools import zip_longest

import numpy as np

from decoding.coupled import noisy_log_probs


def first_difference(first, second):
    """The index of the first token in which two texts (lists of ids) differ; None for equal texts.

    >>> first_difference([1, 2, 3], [1, 5, 3]), first_difference([1, 2, 3], [1, 2])
    (1, 2)
    """
    for i, (token, other_token) in enumerate(zip_longest(first, second)):
        if token != other_token:
            return i


def explain_difference(target, ids, first, second, score=None):
    """Explain why two texts differ that should be equal, by the scores at the first difference.

    target: a Model; ids: [id] of the prompt; first, second: [id], what two decoders wrote after it
    score: a function (logits [n_vocab], position) -> scores [n_vocab], of which a decoder takes the
        largest; None if it takes the largest logit

    Returns {"position": index of the first difference, "gap": between the two best scores,
    "float_error": of these scores, "verdict": "tie" or "bug"}. The scores are computed twice: in
    one pass over the whole text, and as in plain decoding, one row at a time after the prompt. The
    float error is the largest difference, at least one rounding of the largest score. A gap of up
    to twice this error is a tie, which rounding may break either way; a larger gap is a bug.
    """
    position = first_difference(first, second)
    text = ids + first[:position]
    at_once = target.read(text, target.new_cache())[0]
    cache = target.new_cache()
    for end in range(len(ids) - 1, len(text)):  # at first all of the prompt but its last id
        target.read(text[:end], cache, n_last=0)
    one_by_one = target.read(text, cache)[0]
    if score:
        at_once, one_by_one = score(at_once, len(text)), score(one_by_one, len(text))
    # a removed token has a score of minus infinity; the difference of two of them would be NaN
    at_once, one_by_one = np.maximum(at_once, -1e4), np.maximum(one_by_one, -1e4)
    epsilon = np.finfo(at_once.dtype).eps
    error = max(abs(at_once - one_by_one).max(), epsilon * abs(at_once).max())
    second_best, best = np.sort(at_once)[-2:]
    gap = best - second_best
    return {
        "position": position,
        "gap": float(gap),
        "float_error": float(error),
        "verdict": "tie" if gap <= 2 * error else "bug",
    }


def shared_noise_scores(to_probs, seed, logits, position):  # [n_vocab] -> [n_vocab]
    """The scores that `explain_difference` compares under shared noise: log probability plus noise.
    to_probs: SamplingParams; seed: that of the text; position: of the token to choose
    """
    return noisy_log_probs(to_probs(logits[None])[0], seed, position)
