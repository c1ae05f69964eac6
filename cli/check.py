"""python main.py check SIZE_OR_PATH: compare a checkpoint folder with what is known of it."""

import sys
from functools import partial

from checkpoints.doctor import examine
from checkpoints.files import InputError, printable
from checkpoints.search import find_folder, locate
from cli.flags import Folder
from utils import get_backend, load_model


def check(*size_or_path, settings: Folder):
    """Compare a model with what is known of it: its files with the sizes and checksums of their
    download, its tensors with their shapes and checksums, and 124M with the logits of OpenAI's.

    Give a size in models_dir, or a folder. The exit code is 0 if nothing that was compared is
    wrong, and 1 if something is. What could not be compared is listed.
    """
    if len(size_or_path) != 1:
        raise InputError(f"check: expected one size or folder, not {len(size_or_path)}")
    (size,) = size_or_path
    # also an incomplete folder: the examination says what it lacks
    folder = locate(size, settings.models_dir) or find_folder(size, settings.models_dir)
    report = examine(folder, partial(load_model, backend=get_backend("numpy", "plain")))
    print(printable(str(folder)))  # a folder may have any name
    for heading, lines in report.items():
        if lines:
            print(f"\n{heading}:", *map(printable, lines), sep="\n  ")
    if report["problems"]:
        sys.exit(1)
    print("\nNothing that was compared is wrong.")
