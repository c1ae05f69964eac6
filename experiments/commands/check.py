"""python main.py check SIZE_OR_PATH: what is in a checkpoint folder, and whether it is well."""

import json
import sys
from dataclasses import dataclass
from functools import partial

from checkpoints.doctor import examine
from checkpoints.files import printable
from checkpoints.search import find_folder, locate
from experiments.decoding.settings import Folder, Json, flag
from utils import InputError, get_backend, load_model


@dataclass(frozen=True)
class CheckSettings(Json, Folder):
    against: str = flag("", "another size or folder: could the two be draft and target?")


def check(*size_or_path, settings: CheckSettings):
    """Examine a checkpoint: its files, tensors, checksums, vocabulary, and for OpenAI's 124M what
    it predicts.

    Give a size in models_dir, or a folder. The exit code is 0 when all is well, and 1 when
    something is not.
    """
    if len(size_or_path) != 1:
        raise InputError(
            f"check: expected one size or folder, not {len(size_or_path)}; "
            "for a pair, use check A --against B"
        )
    # also an incomplete folder: the examination says what it lacks
    sizes = [*size_or_path, *filter(None, [settings.against])]
    folder, *other = (
        locate(size, settings.models_dir) or find_folder(size, settings.models_dir)
        for size in sizes
    )
    load = partial(load_model, backend=get_backend("numpy", "plain"))
    report = examine(folder, load, *other)
    if settings.json:
        print(json.dumps(report))
    else:
        show(report)
    if not report["well"]:
        sys.exit(1)


def show(report):
    """Print a report for people."""
    # a folder may have any name
    print(f"{printable(report['folder'])}\nfrom {printable(report['origin'])}")
    if report["config"]:
        shape = ", ".join(f"{name} {value}" for name, value in report["config"].items())
        known = f" (that of {report['size']})" if report["size"] else ""
        print(f"shape: {shape}{known}")
    if report["vocabulary"]:
        print(f"vocabulary: {report['vocabulary']} tokens")
    if report["tensors"]:
        print()
        print_row("tensor", "shape", "stored as", "checksum", "mean", "spread")
    for found in report["tensors"]:
        shape = " x ".join(map(str, found["shape"]))
        figures = [
            "-" if found[name] is None else f"{found[name]:.4f}" for name in ("mean", "deviation")
        ]
        print_row(found["name"], shape, found["dtype"], found["checksum"], *figures)
    if any(found["checksum"] == "unknown" for found in report["tensors"]):
        print("\nChecksums could not be computed: pip install google-crc32c")
    for row in report["golden"] or []:
        words = ", ".join(map(repr, row["top_five"]))
        distance = f"its golden logits are {row['difference']:.2g} away"
        print(f"\n{row['prompt']!r} goes on with {words}; {distance}")
    if report["golden"]:
        verdict = "are" if report["is_openai_124M"] else "are not"
        print(f"\nThese {verdict} the weights of OpenAI's 124M.")
    if report.get("pairs"):
        print("\nThe two can pair: they have one vocabulary.")
    n = len(report["problems"])
    print(f"\n{n} problem{'s' if n > 1 else ''}:" if n else "\nAll is well.")
    for problem in report["problems"]:
        print(f"  {printable(problem)}")


def print_row(name, shape, dtype, checksum, mean, spread):
    print(f"{name:<24} {shape:<14} {dtype:<10} {checksum:<12} {mean:>9} {spread:>9}")
