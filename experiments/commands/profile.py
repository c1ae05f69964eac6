"""python main.py profile: does scoring K + 1 tokens cost what scoring one costs, and where does a
pass spend its time?

The speed at which this machine streams memory is measured in the same run.
"""

import json
import re
from dataclasses import dataclass

from experiments.data.values import check_length, check_numbers, parse_list
from experiments.decoding.settings import Json, Machine, Target, Weights, flag
from experiments.drafting.load import load
from experiments.measuring import passes
from experiments.measuring.tables import aligned, table
from gpt2 import Config
from utils import config_of

# of a shape that is given by its layers, width and vocabulary
SHAPE = r"([1-9]\d{0,2})x([1-9]\d{1,5})x([1-9]\d{1,6})"
HEAD, CONTEXT = 64, 1024
COLUMNS = ["rows", "milliseconds", "gb_per_s", "of_streaming", "against_the_first"]


@dataclass(frozen=True)
class ProfileSettings(Machine, Weights, Target):
    """What is timed: the passes of a model, and its texts; or every choice of --kernels."""

    rows: str = flag(
        "1,2,3,5,9",
        "how many tokens to score in a pass, separated by commas; 1 is decoding, K + 1 is "
        "verifying",
    )
    repeats: int = flag(
        20,
        "of each pass; medians are reported. A prefill, or a text, is repeated a quarter as often",
        least=1,
    )
    texts: bool = flag(
        False,
        "also write texts: the included pair's must be those of NumPy in float32; the target's, "
        "and drafts by 124M's shape with random weights, are timed, beside transformers if torch "
        "finds a GPU",
    )
    n_tokens_to_generate: int = flag(
        64, "with --texts: how many tokens to write in a timed text", least=1
    )
    compare_kernels: str = flag(
        "",
        "instead, time random weights of these shapes with each choice of --kernels: sizes, "
        "folders with a config.json, or LAYERSxWIDTHxVOCABULARY, separated by commas",
    )

    def check(self):
        check_numbers(1, rows=min(self.counts()))
        if self.compare_kernels:
            for config in self.shapes().values():
                self.check_context(config)

    def check_context(self, config):
        """Refuses more than a text of this model can hold."""
        check_length("rows", max(self.counts()), config.n_ctx)
        if self.texts:
            room = config.n_ctx - len(passes.PROMPT)
            check_length("n_tokens_to_generate", self.n_tokens_to_generate, room)

    def counts(self):
        return parse_list("rows", self.rows, int)

    def shapes(self):
        """{name: Config} of --compare_kernels."""
        names = parse_list("compare_kernels", self.compare_kernels)
        return {name: shape_of(name, self.models_dir) for name in names}


def shape_of(name, models_dir):
    """The Config of LAYERSxWIDTHxVOCABULARY such as "4x512x2048", of a size, or of a folder."""
    match = re.fullmatch(SHAPE, name)
    if not match:
        return config_of(name, models_dir)
    n_layer, n_embd, n_vocab = map(int, match.groups())
    n_head = 1 if n_embd % HEAD else n_embd // HEAD
    return Config(n_vocab, CONTEXT, n_embd, n_head, n_layer)


def show_passes(result):
    """What was measured, for people."""
    bandwidth, first = result["bandwidth_gb_per_s"], result["rows"][0]["milliseconds"]
    gigabytes = result["weights_bytes"] / 1e9
    print(f"Streaming read: {bandwidth:.1f} GB/s. A pass reads {gigabytes:.3f} GB of weights.\n")
    for row in result["rows"]:
        of_streaming = row["gb_per_s"] / bandwidth
        row |= {"of_streaming": of_streaming, "against_the_first": row["milliseconds"] / first}
    print(table(result["rows"], COLUMNS))
    print("\nPrefill of {tokens} tokens: {milliseconds:.0f} ms\n".format(**result["prefill"]))
    print(aligned(["weight", "kernel"], result["kernels"].items()))
    print("\nA one-row pass, and the choice of a token after it:\n")
    parts = result["breakdown"].items()
    print(aligned(["part", "ms"], parts))


def table_of_kernels(found):
    """auto against the best of the fixed choices, for people."""
    lines = []
    for shape, seconds in found.items():
        for n, auto in seconds["auto"].items():
            best, name = min((seconds[name][n], name) for name in seconds if name != "auto")
            lines.append([shape, n, 1e3 * auto, 1e3 * best, name, auto / best])
    return aligned(["shape", "rows", "auto, ms", "best, ms", "best", "ratio"], lines)


def show_texts(result):
    """What --texts found, for people."""
    (same,), (row,), where = result["parity"], result["speeds"], result["machine"]
    far, bound = same["largest_difference"], f"expected at most {passes.BOUND:g} in float32"
    names = ", ".join(f"{name} {is_same}" for name, is_same in same["same_texts"].items())
    print(f"\n{where['gpu'] or where['cpu']}, {where['date']}")
    print(f"The included pair's logits differ from NumPy's by {far:.2g} ({bound}).")
    print(f"Same text: {names}. Launching takes {row['launch_share']:.0%} of a one-row pass.\n")
    coin = f"speculative, tokens of {passes.DRAFT} accepted by coin ({passes.ACCEPTANCE})"
    ways = {"plain": "plain", "speculative": coin, passes.PEER: passes.PEER}
    lines = [(what, row[way]) for way, what in ways.items() if row.get(way)]
    print(aligned(["decoder", "tok/s"], lines))


def profile(settings: ProfileSettings, output: Json):
    """Time passes over several numbers of rows against the speed of memory, and say where the time
    goes.

    Examples:
        python main.py profile --target_model_size 124M --weights random
        python main.py profile --backend cupy --texts --target_model_size 355M --weights random
    """
    rows, repeats = settings.counts(), settings.repeats
    if settings.compare_kernels:
        shapes = settings.shapes().items()
        found = {shape: passes.compare_kernels(config, rows, repeats) for shape, config in shapes}
        print(json.dumps(found) if output.json else table_of_kernels(found))
        return
    size, weights = settings.target_model_size, settings.weights
    target = load(size, [], settings.models_dir, settings.get_backend(), weights).target
    settings.check_context(target.config)
    result = passes.measure_passes(target, rows, repeats)
    if settings.texts:
        result |= passes.measure_texts(target, settings)
    if output.json:
        print(json.dumps(result))
        return
    print(f"{size}, {weights} weights, {settings.dtype}, {settings.backend}\n")
    show_passes(result)
    if settings.texts:
        show_texts(result)
