"""Finding the folder of a model: by path, by name in the models directory, in Hugging Face's cache,
or by downloading it.
"""

import os
import warnings
from pathlib import Path

from checkpoints.folder import CONFIGS, problem_with
from checkpoints.registry import MODELS_DIR, repository, size_of


def locate(name: str, models_dir: str | Path) -> Path | None:
    """The folder of a model, complete or not; None if there is none. name: in models_dir, a path,
    or an "owner/name" that was downloaded.
    """
    inside, path = Path(models_dir) / name, Path(name)
    # text with a separator, "." and ".." name no model in a models directory
    is_path = path.name != name or name == os.pardir
    folders = [path] if is_path else [inside, path]
    if repository(name):
        folders.append(inside)  # a download of owner/name is in models_dir/owner/name
    return next((folder for folder in folders if name and os.path.isdir(folder)), None)


def find_cached(name: str) -> Path | None:
    """The folder of an "owner/name" in Hugging Face's cache on this machine, or None. One that
    lacks files is passed over with a warning.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    home = Path(os.environ.get("HF_HOME") or caches / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    try:  # another program wrote the cache, or is writing it
        model = hub.expanduser() / f"models--{name.replace('/', '--')}"
        folder = model / "snapshots" / (model / "refs" / "main").read_text().strip()
        problem = problem_with(folder)
    except (OSError, ValueError, RuntimeError):  # a NUL, no UTF-8, "~" without a home
        return None
    if problem:
        warnings.warn(f"Hugging Face's cache is passed over: {problem}")
    return None if problem else folder


def find_folder(name: str, models_dir: str | Path = MODELS_DIR, download: bool = False) -> Path:
    """The folder of a model, which may lack files; also in Hugging Face's cache. A missing model is
    downloaded if `download` is True.

    name: in models_dir, a path, or an "owner/name" of Hugging Face. Raises ValueError, which says
    what to do, if there is no such model.
    """
    if locate(name, models_dir) is None:
        name = size_of(name)
    folder = locate(name, models_dir)
    # an incomplete folder in the models directory may be an interrupted download
    if folder and (folder != Path(models_dir) / name or not problem_with(folder)):
        return folder
    if owner_and_name := repository(name):
        if cached := find_cached(owner_and_name):
            return cached
        if download:
            from checkpoints.download import fetch_model  # here, as requests is slow to import

            return fetch_model(name, models_dir)
    if os.path.isfile(name):
        raise ValueError(f"{name}: is a file; expected the folder of a model: {Path(name).parent}")
    if folder and not repository(name):
        return folder  # reading it will say what is missing
    names = {path.parent.name for file in CONFIGS for path in Path(models_dir).glob(f"*/{file}")}
    state = problem_with(folder) if folder else f"there are {', '.join(sorted(names)) or 'none'}"
    if not os.path.isdir(models_dir):
        state = "which is no folder"
    elif not os.access(models_dir, os.R_OK | os.X_OK):
        state = "permission denied"
    hint = f"fetch it with python main.py download {name}"
    is_remote = repository(name) and not os.path.isdir(os.path.dirname(name))
    hint = hint if is_remote else "use a size that is there, or a folder's path"
    raise ValueError(f"no model {name!r} in {str(models_dir)!r} ({state}): {hint}")
