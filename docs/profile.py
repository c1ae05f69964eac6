"""Where a forward pass spends its time: in products, in attention, or between them.

    python -m docs.profile [17M]    (or 124M, 355M, ..., or a folder: only the shape counts)
    python -m docs.profile 124M --backend cupy    (or cupy-float16: whole passes only)

Times the passes of a model with random weights over some rows, after 64 tokens. All times are those
of the thread that calls, its waits for the others included. v is the verify cost.
"""

import argparse
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import backends.before_numpy  # noqa: F401, isort: skip: BLAS kernels and threads, before NumPy

from backends.backend import get_backend
from checkpoints.registry import MODELS_DIR
from decoding.random_models import random_models

N_READ, ROWS, REPEATS = 64, (1, 2, 3, 5, 9), 20
LINEARS = ("attn", "c_attn"), ("attn", "c_proj"), ("mlp", "c_fc"), ("mlp", "c_proj")
seconds: Counter[str] = Counter()  # of each part, in this pass


@contextmanager
def timed(part):
    """Add the seconds of what is done inside, or of each call of what this decorates."""
    begin = time.perf_counter()
    yield
    seconds[part] += time.perf_counter() - begin


class TimedWeight:
    """A weight whose products `x @ weight` are timed."""

    __array_ufunc__ = None

    def __init__(self, name, weight):
        self.name, self.weight = f"{name} {weight.shape[0]}x{weight.shape[1]}", weight

    def __rmatmul__(self, x):
        with timed(self.name):
            return x @ self.weight


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("name", nargs="?", default="17M")
parser.add_argument("--backend", default="numpy")
asked = parser.parse_args()
try:
    (model,), _ = random_models([asked.name], MODELS_DIR, get_backend(asked.backend))
except ValueError as error:
    parser.error(str(error))
cache = model.new_cache(N_READ + max(ROWS))
if asked.backend == "numpy":  # a call of CuPy's returns before its work is done
    for block in model.params["blocks"]:
        for part, name in LINEARS:
            linear = block[part][name]
            linear["weight"] = TimedWeight(name, linear["weight"])
    model.params["head"] = TimedWeight("head", model.params["head"])
    cache.attend = timed("attention")(cache.attend)

passes: dict[int, list[Counter]] = {n_rows: [] for n_rows in ROWS}
for n_rows in REPEATS * ROWS:  # in turns
    seconds.clear()
    with timed("pass"):
        model.read([0] * (N_READ + n_rows), cache, n_rows)
    passes[n_rows].append(seconds + Counter(rest=2 * seconds["pass"] - seconds.total()))
ms = {
    part: [1e3 * median(one[part] for one in passes[n_rows][1:]) for n_rows in ROWS]
    for part in passes[1][0]
}
ms["v"] = [value / ms["pass"][0] for value in ms["pass"]]
print("| ms, rows: |", " | ".join(map(str, ROWS)), "|\n|", "--- |" * (1 + len(ROWS)))
for part, values in ms.items():
    print(f"| {part} |", " | ".join(f"{value:.3g}" for value in values), "|")
