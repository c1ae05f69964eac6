"""python main.py check SIZE_OR_PATH: what is in a checkpoint folder, and whether it is well."""

import json
import sys
from dataclasses import dataclass

from checkpoints.doctor import examine
from checkpoints.errors import printable
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
    models_dir, against = settings.models_dir, settings.against
    folder = folder_of(size_or_path[0], models_dir)
    other = folder_of(against, models_dir) if against else None
    report = examine(folder, load_plain, other)
    if settings.json:
        print(json.dumps(report))
    else:
        show(report)
    if not report["well"]:
        sys.exit(1)


def folder_of(size, models_dir):
    """The folder of a model, also an incomplete one: the examination says what it lacks."""
    return locate(size, models_dir) or find_folder(size, models_dir)


def load_plain(folder):
    return load_model(folder, get_backend("numpy", "plain"))


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
        mean, spread = figure(found["mean"]), figure(found["deviation"])
        print_row(found["name"], shape, found["dtype"], found["checksum"], mean, spread)
    if report["golden"]:
        show_golden(report["golden"], report["is_openai_124M"])
    if report.get("pairs"):
        print("\nThe two can pair: they have one vocabulary.")
    if report["well"]:
        print("\nAll is well.")
        return
    plural = "s" if len(report["problems"]) > 1 else ""
    print(f"\n{len(report['problems'])} problem{plural}:")
    for problem in report["problems"]:
        print(f"  {printable(problem)}")


def show_golden(rows, is_openai):
    """Print what the golden prompts give, and what that means."""
    for row in rows:
        words = ", ".join(map(repr, row["top_five"]))
        distance = f"its golden logits are {row['difference']:.2g} away"
        print(f"\n{row['prompt']!r} goes on with {words}; {distance}", end="")
    verdict = "are" if is_openai else "are not"
    print(f"\n\nThese {verdict} the weights of OpenAI's 124M.")


def print_row(name, shape, dtype, checksum, mean, spread):
    print(f"{name:<24} {shape:<14} {dtype:<10} {checksum:<12} {mean:>9} {spread:>9}")


def figure(value):
    return "-" if value is None else f"{value:.4f}"
