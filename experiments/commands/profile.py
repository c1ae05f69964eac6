"""python main.py profile: does scoring K + 1 tokens cost what scoring one costs, and where does a
pass spend its time?

The speed at which this machine streams memory is measured in the same run.
"""

import json
import re
from dataclasses import dataclass

from checkpoints.folder import LARGEST, MOST_LAYERS
from experiments.data.values import (
    SettingError,
    check_length,
    check_numbers,
    parse_list,
)
from experiments.decoding.settings import Json, Machine, Target, Weights, flag
from experiments.drafting.load import load
from experiments.measuring import passes
from experiments.measuring.checked_texts import (
    ACCEPTANCE,
    BOUND,
    DRAFT,
    PEER,
    PROMPT,
    measure_texts,
)
from gpt2 import Config
from utils import SIZES

# of a shape that is given by its layers, width and vocabulary
HEAD, CONTEXT = 64, 1024


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
    )
    texts: bool = flag(
        False,
        "also write texts: the included pair's must be those of NumPy in float32; the target's, "
        "and drafts by 124M's shape with random weights, are timed, beside transformers if torch "
        "finds a GPU",
    )
    n_tokens_to_generate: int = flag(64, "with --texts: how many tokens to write in a timed text")
    compare_kernels: str = flag(
        "",
        "instead, time random weights of these shapes with each choice of --kernels: sizes or "
        "LAYERSxWIDTHxVOCABULARY, separated by commas",
    )

    def check(self):
        n_tokens = self.n_tokens_to_generate
        check_numbers(1, repeats=self.repeats, rows=min(self.counts()))
        check_numbers(1, n_tokens_to_generate=n_tokens)
        if self.compare_kernels:
            for name in ("backend", "dtype", "kernels", "exact", "texts"):
                if getattr(self, name) != getattr(ProfileSettings, name):
                    problem = f"with --{name}: expected one of the two; it tries all --kernels"
                    raise SettingError("compare_kernels", problem)
            for config in self.shapes().values():
                self.check_context(config)

    def check_context(self, config):
        """Refuses more than a text of this model can hold."""
        most = max(self.counts())
        if most > config.n_ctx:
            raise SettingError("rows", f"{most}: expected at most {config.n_ctx}, the context")
        if self.texts:
            room = config.n_ctx - len(PROMPT)
            check_length("n_tokens_to_generate", self.n_tokens_to_generate, room)

    def counts(self):
        return parse_list("rows", self.rows, int)

    def shapes(self):
        """{name: Config} of --compare_kernels."""
        names = parse_list("compare_kernels", self.compare_kernels)
        return {name: parse_shape(name) for name in names}


def parse_shape(text):
    """The Config of "124M", or of "LAYERSxWIDTHxVOCABULARY" such as "4x512x2048"."""
    if text in SIZES:
        return SIZES[text]

    def refuse(expected):
        raise SettingError("compare_kernels", f"{text!r}: expected {expected}")

    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*x[1-9]\d*", text):
        refuse(f"{', '.join(SIZES)}, or LAYERSxWIDTHxVOCABULARY such as 4x512x2048")
    n_layer, n_embd, n_vocab = map(int, text.split("x"))
    if n_layer > MOST_LAYERS or not all(2 <= n <= LARGEST for n in (n_embd, n_vocab)):
        refuse(f"at most {MOST_LAYERS} layers, and a width and a vocabulary of 2 to {LARGEST}")
    n_head = max(1, n_embd // HEAD)
    if n_embd % n_head:
        refuse(f"a width that {HEAD} divides")
    return Config(n_vocab, CONTEXT, n_embd, n_head, n_layer)


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


def show_kernels(shape, seconds, rows):
    """auto against the best of the fixed choices, for people."""
    fixed = [name for name in seconds if name != "auto"]
    for n in rows:
        best = min(fixed, key=lambda name: seconds[name][n])
        auto = seconds["auto"][n]
        print(f"{shape:<14} {n:>5} {1e3 * auto:>9.3f} {1e3 * seconds[best][n]:>9.3f}", end=" ")
        print(f"{best:>7} {auto / seconds[best][n]:>7.2f}")


def show_texts(result):
    """What --texts found, for people."""
    (same,), (row,), where = result["parity"], result["speeds"], result["machine"]
    verdict, far = "", same["largest_difference"]
    if same["dtype"] == "float32":
        verdict = " (ok)" if far <= BOUND else f" (above {BOUND:g})"
    names = ", ".join(f"{name} {is_same}" for name, is_same in same["same_texts"].items())
    print(f"\n{where['gpu'] or where['cpu']}, {where['date']}")
    print(
        f"The included pair's logits differ from NumPy's by {far:.2g}{verdict}; same text: {names}"
    )
    print(f"Launching takes {row['launch_share']:.0%} of a one-row pass. Tokens/s:")
    coin = f"speculative, tokens of {DRAFT} accepted by coin ({ACCEPTANCE})"
    for way, what in {"plain": "plain", "speculative": coin, PEER: PEER}.items():
        if row.get(way):
            print(f"  {what:<56} {row[way]:8.1f}")


def profile_kernels(settings, as_json):
    """Passes of each shape with each choice of --kernels."""
    found, rows = {}, settings.counts()
    if not as_json:
        print(f"{'shape':<14} {'rows':>5} {'auto, ms':>9} {'best, ms':>9} {'best':>7} {'ratio':>7}")
    for shape, config in settings.shapes().items():
        found[shape] = passes.compare_kernels(config, rows, settings.repeats)
        if not as_json:
            show_kernels(shape, found[shape], rows)
    if as_json:
        print(json.dumps(found))


def profile(settings: ProfileSettings, output: Json):
    """Time passes over several numbers of rows against the speed of memory, and say where the time
    goes.

    Examples:
        python main.py profile --target_model_size 124M --weights random
        python main.py profile --backend cupy --texts --target_model_size 355M --weights random
    """
    if settings.compare_kernels:
        profile_kernels(settings, output.json)
        return
    size, weights = settings.target_model_size, settings.weights
    target = load(size, [], settings.models_dir, settings.get_backend(), weights).target
    settings.check_context(target.config)
    result = passes.measure_passes(target, settings.counts(), settings.repeats)
    if settings.texts:
        result |= measure_texts(target, settings)
    if output.json:
        print(json.dumps(result))
        return
    print(f"{size}, {weights} weights, {settings.dtype}, {settings.backend}\n")
    show_passes(result)
    if settings.texts:
        show_texts(result)
