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
    """Return the Path of a model's folder, complete or not; None if there is none.

    size: a name in models_dir, a path, or an "owner/name" that was downloaded
    """
    if not size:
        return None
    by_name, by_path = Path(models_dir) / size, Path(size)
    # text with a separator, "." (whose name is "") and ".." name no model in a models directory
    is_path = by_path.name != size or size == os.pardir
    folders = [by_path] if is_path else [by_name, by_path]
    if repository(size):
        folders.append(by_name)  # a download of owner/name is in models_dir/owner/name
    return next((folder for folder in folders if os.path.isdir(folder)), None)


def find_cached(size):
    """Return the Path of a complete model in Hugging Face's cache on this machine, or None.

    size: one of REPOSITORIES, or an "owner/name"
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    home = Path(os.environ.get("HF_HOME") or caches / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    names = [repository(size)]
    if size in REPOSITORIES:
        names.append(names[0].partition("/")[2])  # the short name of old versions
    for name in names:
        # another program wrote the cache, or is writing it: files that cannot be read do not count
        try:
            model = hub.expanduser() / f"models--{name.replace('/', '--')}"
            commit = (model / "refs" / "main").read_text().strip()
            if not missing_files(model / "snapshots" / commit):
                return model / "snapshots" / commit
        except (OSError, ValueError, RuntimeError):  # ValueError: InputError, a NUL, no UTF-8
            continue  # RuntimeError: "~" without a home directory
    return None


def find_folder(size, models_dir=MODELS_DIR, download=False):
    """Return the Path of a model's folder, which may lack files, also in Hugging Face's cache. A
    missing model is downloaded if `download` is True, or if the person at a terminal says yes.

    size: a name in models_dir, a path, or an "owner/name" of Hugging Face. Raises InputError, which
    says which models there are, if there is no such model.
    """
    folder = locate(size, models_dir)
    # an incomplete folder in the models directory may be an interrupted download: see below
    if folder and (folder != Path(models_dir) / size or not missing_files(folder)):
        return folder
    if repository(size):
        if model := find_cached(size):
            return model
        from checkpoints.download import fetch_if_wanted  # here, as requests is slow to import

        if model := fetch_if_wanted(size, models_dir, download):
            return model
    if folder and size not in REPOSITORIES:  # for one of these, the error offers a download
        return folder  # reading it will say what is missing
    raise InputError(not_found_message(size, models_dir, folder))


def not_found_message(size, models_dir, folder):
    """The error message for a missing model. folder: the Path of its incomplete folder, or None."""
    if folder:
        state = f"it is incomplete: {folder} lacks {', '.join(missing_files(folder))}"
    else:
        weights = [path for name in WEIGHTS for path in glob(f"*/{name}", root_dir=models_dir)]
        names = sorted({os.path.dirname(path) for path in weights})
        state = f"there are {', '.join(names) or 'none'}"
    if size in REPOSITORIES:
        hint = f"fetch it with python main.py download {size}"
    else:
        hint = "use a size that is there, or a folder's path"
    return f"no model {size!r} in {models_dir} ({state}): {hint}"
