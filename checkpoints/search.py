"""Finding the folder of a model: by path, by name in the models directory, in Hugging Face's cache,
or by downloading it.
"""

import os
from glob import glob
from pathlib import Path

from checkpoints.errors import InputError
from checkpoints.folder import WEIGHTS, missing_files
from checkpoints.registry import MODELS_DIR, REPOSITORIES, repository


def locate(size, models_dir):
    """The folder of a model given by size or path, complete or not; None where there is none."""
    if not size:
        return None
    named, given = Path(models_dir) / size, Path(size)
    # with a separator, or as . or .., it names no model in a models directory
    is_path = given.name != size or size == os.pardir
    folders = [given] if is_path else [named, given]
    if repository(size):
        folders.append(named)  # where a download of owner/name is
    return next((folder for folder in folders if os.path.isdir(folder)), None)


def find_cached(size):
    """The folder of a complete model in Hugging Face's cache on this machine, or None."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    home = Path(os.environ.get("HF_HOME") or caches / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    names = [repository(size)]
    if size in REPOSITORIES:
        names.append(names[0].partition("/")[2])  # the short name of old versions
    for name in names:
        # A cache that somebody else wrote, or is writing: what cannot be read is not there.
        try:
            model = hub.expanduser() / f"models--{name.replace('/', '--')}"
            commit = (model / "refs" / "main").read_text().strip()
            if not missing_files(model / "snapshots" / commit):
                return model / "snapshots" / commit
        except (OSError, ValueError, RuntimeError):  # ValueError: InputError, a NUL, no UTF-8
            continue  # RuntimeError: "~" without a home directory
    return None


def find_folder(size, models_dir=MODELS_DIR, download=False):
    """The folder of a model given by size or path, also from Hugging Face's cache; a missing one is
    downloaded if `download` says so.

    A person at a terminal is asked instead. Raises InputError that says what there is and what to
    do.
    """
    folder = locate(size, models_dir)
    # An incomplete folder in the models directory may be an interrupted download.
    if folder and (folder != Path(models_dir) / size or not missing_files(folder)):
        return folder
    if repository(size):
        if model := find_cached(size):
            return model
        from checkpoints.download import fetch_if_wanted  # here, as requests is slow to import

        if model := fetch_if_wanted(size, models_dir, download):
            return model
    if folder and size not in REPOSITORIES:
        return folder  # reading it will say what is missing
    raise InputError(not_found_message(size, models_dir, folder))


def not_found_message(size, models_dir, folder):
    """The error message for a model that is not there, or whose folder is incomplete."""
    if folder:
        state = f"it is incomplete: {folder} lacks {', '.join(missing_files(folder))}"
    else:
        weights = [path for name in WEIGHTS for path in glob(f"*/{name}", root_dir=models_dir)]
        there = sorted({os.path.dirname(path) for path in weights})
        state = f"there are {', '.join(there) or 'none'}"
    if size in REPOSITORIES:
        hint = f"use --download or python main.py download {size}"
    else:
        hint = "use a size that is there, or a folder's path"
    return f"no model {size!r} in {models_dir} ({state}): {hint}"
