"""GPT-2's output head is its token embedding. Some files have it twice."""

import warnings

import numpy as np

from checkpoints.formats.tensor import Tensor

ROUNDING = 2.0**-10, 2.0**-24  # of float16: relative, and near 0


def require_tied(head: Tensor, wte: Tensor) -> None:
    """Raise ValueError unless an output head has the numbers of the token embedding. If they differ
    by float16's rounding only, warn that the embedding is taken.
    """
    b = wte.stored()
    a = head.stored()[: len(b)]  # without padding, as wte is
    if np.array_equal(a, b):
        return
    parts = (slice(begin, begin + 1024) for begin in range(0, len(b), 1024))  # to spare memory
    if a.shape != b.shape or not all(np.allclose(a[part], b[part], *ROUNDING) for part in parts):
        raise ValueError(f"{head.path}: lm_head.weight differs from wte.weight; GPT-2 ties them")
    warnings.warn(
        f"{head.path}: lm_head.weight is wte.weight, but for rounding: wte.weight is used"
    )
