"""Finding the folder of a model: by path, by name in the models directory or among the included
models, in Hugging Face's cache, or by downloading it.
"""

import os
import re
from pathlib import Path

from checkpoints.folder import problem_with
from checkpoints.registry import INCLUDED, MODELS_DIR, OWNER_AND_NAME


def locate(name: str, models_dir: str | Path) -> Path | None:
    """The folder of a model, complete or not; None if there is none. name: in models_dir, else of
    an included model, else a path, else an "owner/name" that was downloaded into models_dir.
    """
    inside, path = Path(models_dir) / name, Path(name)
    # text with a separator, "." and ".." name no model in a models directory
    is_path = path.name != name or name == os.pardir
    folders = [path] if is_path else [inside, INCLUDED / name, path]
    if re.fullmatch(OWNER_AND_NAME, name, re.ASCII):
        folders.append(inside)  # where a download puts it
    return next((folder for folder in folders if name and os.path.isdir(folder)), None)


def find_folder(name: str, models_dir: str | Path = MODELS_DIR, download: bool = False) -> Path:
    """The folder of a model, which may lack files; also in Hugging Face's cache. A missing model is
    downloaded into models_dir if `download` is True.

    name: as `locate` takes it; or a size, or a name of Hugging Face, such as 124M or gpt2. Raises
    ValueError, which says what to do, if there is no such model.
    """
    folder = locate(name, models_dir)
    # what lacks files in models_dir may be a download that was interrupted
    if folder and not (folder == Path(models_dir) / name and problem_with(folder)):
        return folder
    from checkpoints import elsewhere  # here, as most models are where they are sought

    size, remote = elsewhere.size_of(name), elsewhere.repository(name)
    if folder is None and size != name:
        return find_folder(size, models_dir, download)
    if folder and not remote:
        return folder
    if remote and (cached := elsewhere.find_cached(remote)):
        return cached
    if remote and download:
        from checkpoints.download import fetch_model  # here, as requests is slow to import

        return fetch_model(name, models_dir)
    raise elsewhere.no_model(name, models_dir, folder)
