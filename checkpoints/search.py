"""Finding the folder of a model: by path, by name in the models directory, in Hugging Face's cache,
or by downloading it.
"""

import glob
import os
from pathlib import Path

from checkpoints.errors import InputError
from checkpoints.folder import WEIGHTS, missing_files
from checkpoints.registry import MODELS_DIR, REPOSITORIES, repository


def is_path(size):
    """Whether this has a separator, or is . or ..: then it names no model in a models directory."""
    return Path(size).name != size or size == os.pardir


def locate(size, models_dir):
    """The folder of a model given by size or path, complete or not; None where there is none."""
    if not size:
        return None
    named = Path(models_dir) / size
    folders = [Path(size)] if is_path(size) else [named, Path(size)]
    if repository(size):
        folders.append(named)  # where a download of owner/name is
    return next((folder for folder in folders if os.path.isdir(folder)), None)


def cache_folder():
    """Hugging Face's cache on this machine, whether it exists or not."""
    home = os.environ.get("HF_HOME")
    if not home:
        home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    return cache.expanduser()


def snapshots(model):
    """The snapshots of a repository in the cache: that of its main branch, or all of them."""
    main = model / "refs" / "main"
    if main.is_file():
        return [model / "snapshots" / main.read_text().strip()]
    return sorted((model / "snapshots").iterdir())


def cached(size):
    """The folder of a complete model in Hugging Face's cache, or None."""
    names = [repository(size)]
    if size in REPOSITORIES:
        names.append(names[0].partition("/")[2])  # the short name of old versions
    for name in filter(None, names):
        # A cache that somebody else wrote, or is writing: what cannot be read is not there.
        try:
            model = cache_folder() / f"models--{name.replace('/', '--')}"
            for folder in snapshots(model):
                if not missing_files(folder):
                    return folder
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
        if found := cached(size):
            return found
        from checkpoints.download import fetch_if_wanted  # here, as requests is slow to import

        if fetched := fetch_if_wanted(size, models_dir, download):
            return fetched
    if folder and size not in REPOSITORIES:
        return folder  # reading it will say what is missing
    raise InputError(not_found(size, models_dir, folder))


def not_found(size, models_dir, folder):
    """What to tell a person whose model is not there, or whose folder is incomplete."""
    found = [path for name in WEIGHTS for path in glob.glob(f"*/{name}", root_dir=models_dir)]
    there = sorted({os.path.dirname(path) for path in found})
    if folder:
        state = f"it is incomplete: {folder} lacks {', '.join(missing_files(folder))}"
    elif there:
        state = f"there are {', '.join(there)}"
    else:
        state = "there are none"
    if is_path(size) and not repository(size):
        return f"no folder {size!r}: give the path of a model, or a name in {models_dir} ({state})"
    if size in REPOSITORIES:
        hint = f"use --download or python main.py download {size}"
    else:
        hint = "put its folder there"
    return f"no model {size!r} in {models_dir} ({state}): {hint}, or give a folder's path"
