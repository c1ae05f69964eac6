"""python main.py profile: does scoring K + 1 tokens cost what scoring one costs, and where does a
pass spend its time?

The speed at which this machine streams memory is measured in the same run.
"""

import json
from dataclasses import dataclass

from cli.flags import Json, Machine, Target, Weights, flag
from cli.from_flags import spec_from
from cli.values import check_length, check_number, parse_list

from backends.machine import describe_machine
from checkpoints.limits import POSITIVE
from experiments.benchmark.passes import measure_passes
from experiments.benchmark.tables import legend, markdown_table, table

KERNEL_LEGEND = "- 1/2/2 threads on 2/9/8 rows at a time: in passes over one, few and many tokens"
COLUMNS = ["past", "rows", "milliseconds", "gb_per_s", "of_streaming", "against_the_first"]


@dataclass(frozen=True)
class ProfileSettings(Machine, Weights, Target):
    """What is timed: the passes of a model."""

    rows: str = flag(
        "1,2,3,5,9",
        "how many tokens to score in a pass, separated by commas; 1 is decoding, K + 1 is "
        "verifying",
    )
    repeats: int = flag(
        20,
        "how often to time each pass; medians are reported. A prefill is repeated a quarter as "
        "often",
        limits=POSITIVE,
    )

    def check(self):
        """Raise SettingError for a number of rows below 1."""
        check_number("rows", min(self.row_counts()), POSITIVE)

    def row_counts(self):
        """Return the value of --rows, a list of ints. Raises SettingError."""
        return parse_list("rows", self.rows, int)


def print_passes(result):
    """Print the JSON object of the profile command (a dict, from `measure_passes`) as tables."""
    bandwidth = result["bandwidth_gb_per_s"]
    gigabytes = result["weights_bytes"] / 1e9
    print(f"Streaming read: {bandwidth:.1f} GB/s. A pass reads {gigabytes:.3f} GB of weights.\n")
    rows = []
    first_times = {}  # {tokens before the pass: milliseconds of the first row with as many}
    for row in result["rows"]:
        first = first_times.setdefault(row["past"], row["milliseconds"])
        of_streaming, against = row["gb_per_s"] / bandwidth, row["milliseconds"] / first
        rows.append(row | {"of_streaming": of_streaming, "against_the_first": against})
    print(table(rows, COLUMNS))
    print(f"\n{legend(rows, COLUMNS)}")
    print("\nPrefill of {tokens} tokens: {milliseconds:.0f} ms\n".format(**result["prefill"]))
    print(markdown_table(["weight", "kernel"], result["kernels"].items()))
    if any("threads" in kernel for kernel in result["kernels"].values()):
        print(f"\n{KERNEL_LEGEND}")
    print("\nA one-row pass, and the choice of a token after it:\n")
    print(markdown_table(["part", "ms"], result["breakdown"].items()))


def profile(settings: ProfileSettings, output: Json):
    """Time passes over several numbers of rows against the speed of memory, and say where the time
    goes.

    Examples:
        python main.py profile --target_model_size 124M --weights random
        python main.py profile --target_model_size 355M --backend cupy
    """
    rows, size, weights = settings.row_counts(), settings.target_model_size, settings.weights
    target = spec_from(settings, size).load().target
    check_length("rows", max(rows), target.config.n_ctx)
    result = measure_passes(target, rows, settings.repeats)
    if output.json:
        print(json.dumps({"machine": describe_machine(settings.backend)} | result))
        return
    print(f"{size}, {weights} weights, {settings.dtype}, {settings.backend}\n")
    print_passes(result)
