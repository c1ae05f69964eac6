"""python main.py check SIZE_OR_PATH: load a checkpoint folder, and say what is wrong with it."""

import sys
from functools import partial

from decoding.head_files import load_head
from decoding.load import HEADS

from checkpoints.check import examine
from checkpoints.errors import printable
from checkpoints.search import find_folder, locate
from cli.flags import Folder
from utils import get_backend, load_model


def check(size_or_folder: str, *, settings: Folder):
    """Load a model as a run does, then compare it with what is known of it: its files with the
    sizes and checksums of their download, its tensors with their checksums, and 124M with the
    logits of OpenAI's.

    Give a size in models_dir, or a folder. The exit code is 0 if the model can be used and nothing
    that was compared is wrong, else 1. What could not be compared is listed.
    """
    # locate also returns an incomplete folder, and the report says what it lacks; find_folder says
    # what to do if there is none
    models_dir = settings.models_dir
    folder = locate(size_or_folder, models_dir) or find_folder(size_or_folder, models_dir)
    load = partial(load_model, backend=get_backend("numpy", "plain"))
    heads = {f"{name}.safetensors": partial(load_head, name) for name in HEADS}
    report = examine(folder, load, heads)
    print(printable(str(folder)))  # a folder may have any name
    sections = {
        "compared": report.compared,
        "not compared": report.not_compared,
        "problems": report.problems,
    }
    for heading, lines in sections.items():
        if lines:
            print(f"\n{heading}:", *map(printable, lines), sep="\n  ")
    if report.problems:
        sys.exit(1)
    print("\nNothing that was compared is wrong.")
