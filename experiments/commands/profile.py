"""python main.py profile: does scoring K + 1 tokens cost what scoring one costs, and where does a
pass spend its time?

The speed at which this machine streams memory is measured in the same run. What other programs need
for the same passes is in experiments/training/peers.py.
"""

import json as json_format

from experiments.cli.validators import check_choice, check_numbers, parse_list
from experiments.drafting.pairs import CHECKPOINT, RANDOM, load_one
from experiments.measuring.passes import measure_passes
from utils import MODELS_DIR, InputError, get_backend


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


def profile(
    target_model_size="7M",
    models_dir=MODELS_DIR,
    weights="checkpoint",
    rows="1,2,3,5,9",
    repeats=20,
    backend="numpy",
    dtype="float32",
    kernels="auto",
    exact=False,
    json=False,
):
    """Time passes over several numbers of rows against the speed of memory, and say where the time
    goes.

    Args:
        target_model_size: a size in models_dir, or a folder
        models_dir: where the folders of the sizes are
        weights: checkpoint, or random (sizes 82M to 1558M need no files, a folder only its
            config.json)
        rows: how many tokens to score in a pass, separated by commas; 1 is decoding, K + 1 is
            verifying
        repeats: of each measurement; medians are reported
        backend: numpy or cupy
        dtype: float32, or float16 with cupy
        kernels: auto, plain, or WIDTHxTHREADS
        exact: compute rows one by one, so that no bit of a result depends on how many there are
        json: print one JSON object and nothing else
    """
    counts = parse_list("rows", rows, int)
    check_numbers(1, repeats=repeats, rows=min(counts))
    check_choice("weights", weights, CHECKPOINT, RANDOM)
    arrays = get_backend(backend, kernels, exact, dtype)
    model = load_one(target_model_size, models_dir, weights, arrays)
    if max(counts) > model.config.n_ctx:
        raise InputError(
            f"--rows {max(counts)}: expected at most {model.config.n_ctx}, the context"
        )
    result = measure_passes(model, counts, repeats)
    if json:
        print(json_format.dumps(result))
        return
    print(f"{target_model_size}, {weights} weights, {dtype}, {backend}\n")
    show_passes(result)
