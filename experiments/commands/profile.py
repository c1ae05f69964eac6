"""python main.py profile: does scoring K + 1 tokens cost what scoring one costs, and where does a
pass spend its time?

The speed at which this machine streams memory is measured in the same run. What other programs need
for the same passes is in experiments/measuring/peers.py.
"""

import json as json_format
import re

from checkpoints.folder import LARGEST, MOST_LAYERS
from experiments.cli.validators import check_choice, check_numbers, parse_list
from experiments.drafting.pairs import CHECKPOINT, RANDOM, load_one
from experiments.measuring import passes
from gpt2 import Config
from utils import MODELS_DIR, SIZES, InputError, get_backend

# of a shape that is given by its layers, width and vocabulary
HEAD, CONTEXT = 64, 1024


def show_passes(result):
    """What was measured, for people."""
    bandwidth, first = result["bandwidth_gb_per_s"], result["rows"][0]
    gigabytes = result["weights_bytes"] / 1e9
    print(f"Streaming read: {bandwidth:.1f} GB/s. A pass reads {gigabytes:.3f} GB of weights.\n")
    against = f"against {first['rows']} row"
    print(f"{'rows':>5} {'ms':>9} {'GB/s':>6} {'of streaming':>13} {against:>14}")
    for row in result["rows"]:
        share = row["gb_per_s"] / bandwidth
        ratio = row["milliseconds"] / first["milliseconds"]
        print(f"{row['rows']:>5} {row['milliseconds']:>9.3f}", end=" ")
        print(f"{row['gb_per_s']:>6.1f} {share:>12.0%} {ratio:>14.2f}")
    print("\nPrefill of {tokens} tokens: {milliseconds:.0f} ms".format(**result["prefill"]))
    print("\nKernels:")
    for shape, kernel in result["kernels"].items():
        print(f"  {shape}: {kernel}")
    print("\nA one-row pass, and the choice of a token after it, in ms:")
    for part, milliseconds in result["breakdown"].items():
        print(f"  {part:<24} {milliseconds:8.3f}")


def check_context(counts, config):
    """Raises InputError for more rows than a text may have."""
    if max(counts) > config.n_ctx:
        raise InputError(f"--rows {max(counts)}: expected at most {config.n_ctx}, the context")


def parse_shape(text):
    """The Config of "124M", or of "LAYERSxWIDTHxVOCABULARY" such as "4x512x2048"."""
    if text in SIZES:
        return SIZES[text]
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*x[1-9]\d*", text):
        raise InputError(
            f"--compare_kernels {text!r}: expected {', '.join(SIZES)}, or LAYERSxWIDTHxVOCABULARY "
            "such as 4x512x2048"
        )
    n_layer, n_embd, n_vocab = map(int, text.split("x"))
    if n_layer > MOST_LAYERS or not all(2 <= n <= LARGEST for n in (n_embd, n_vocab)):
        raise InputError(
            f"--compare_kernels {text!r}: expected at most {MOST_LAYERS} layers, and a width and "
            f"a vocabulary of 2 to {LARGEST}"
        )
    n_head = max(1, n_embd // HEAD)
    if n_embd % n_head:
        raise InputError(f"--compare_kernels {text!r}: expected a width that {HEAD} divides")
    return Config(n_vocab, CONTEXT, n_embd, n_head, n_layer)


def show_kernels(shape, seconds, rows):
    """auto against the best of the fixed choices, for people."""
    fixed = [name for name in seconds if name != "auto"]
    for n in rows:
        best = min(fixed, key=lambda name: seconds[name][n])
        auto = seconds["auto"][n]
        print(f"{shape:<14} {n:>5} {1e3 * auto:>9.3f} {1e3 * seconds[best][n]:>9.3f}", end=" ")
        print(f"{best:>7} {auto / seconds[best][n]:>7.2f}")


def profile_kernels(shapes, rows, repeats, json):
    """Passes of each shape with each choice of --kernels."""
    found = {}
    if not json:
        print(f"{'shape':<14} {'rows':>5} {'auto, ms':>9} {'best, ms':>9} {'best':>7} {'ratio':>7}")
    for shape, config in shapes.items():
        found[shape] = passes.compare_kernels(config, rows, repeats)
        if not json:
            show_kernels(shape, found[shape], rows)
    if json:
        print(json_format.dumps(found))


def profile(
    target_model_size="17M",
    models_dir=MODELS_DIR,
    weights="checkpoint",
    rows="1,2,3,5,9",
    repeats=20,
    backend="numpy",
    dtype="float32",
    kernels="auto",
    exact=False,
    compare_kernels="",
    json=False,
):
    """Time passes over several numbers of rows against the speed of memory, and say where the time
    goes.

    Args:
        target_model_size: a size in models_dir, or a folder
        models_dir: the folder that holds a folder for each size
        weights: checkpoint, or random (sizes 82M to 1558M need no files, a folder only its
            config.json)
        rows: how many tokens to score in a pass, separated by commas; 1 is decoding, K + 1 is
            verifying
        repeats: of each measurement; medians are reported
        backend: what computes: numpy, or cupy on a GPU
        dtype: float32, or float16 with cupy
        kernels: auto, plain, or WIDTHxTHREADS
        exact: compute rows one by one, so that no bit of a result depends on how many there are
        compare_kernels: instead, time random weights of these shapes with each choice of --kernels:
            sizes or LAYERSxWIDTHxVOCABULARY, separated by commas
        json: print one JSON object and nothing else
    """
    counts = parse_list("rows", rows, int)
    check_numbers(1, repeats=repeats, rows=min(counts))
    check_choice("weights", weights, CHECKPOINT, RANDOM)
    if compare_kernels:
        given = {"--backend": backend != "numpy", "--dtype": dtype != "float32"}
        given |= {"--kernels": kernels != "auto", "--exact": exact}
        for flag in given:
            if given[flag]:
                raise InputError(
                    f"--compare_kernels with {flag}: expected one of the two; it measures every "
                    "choice of --kernels, with NumPy in float32"
                )
        names = parse_list("compare_kernels", compare_kernels)
        shapes = {name: parse_shape(name) for name in names}
        for config in shapes.values():
            check_context(counts, config)
        profile_kernels(shapes, counts, repeats, json)
        return
    arrays = get_backend(backend, kernels, exact, dtype)
    model = load_one(target_model_size, models_dir, weights, arrays)
    check_context(counts, model.config)
    result = passes.measure_passes(model, counts, repeats)
    if json:
        print(json_format.dumps(result))
        return
    print(f"{target_model_size}, {weights} weights, {dtype}, {backend}\n")
    show_passes(result)
