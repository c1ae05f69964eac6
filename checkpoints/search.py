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
    """The folder of a model: where `locate` finds it; else in Hugging Face's cache on this machine;
    else, if `download` is True, models_dir/name, into which it is fetched from Hugging Face.

    name: as `locate` takes it; or a size or a name of Hugging Face, such as 124M or gpt2. A folder
    may lack files; but one of such a name in models_dir that does counts as missing: its download
    was interrupted, and goes on.

    Raises ValueError, which says what to do, if there is no such model; and what fetch_model does.
    """
    folder, inside = locate(name, models_dir), Path(models_dir) / name
    is_begun = folder == inside and problem_with(inside) != ""
    if folder and not is_begun:
        return folder
    from checkpoints import elsewhere  # here, as most models are where they are sought

    size, remote = elsewhere.size_of(name), elsewhere.repository(name)
    if not folder and size != name:
        return find_folder(size, models_dir, download)
    if is_begun and not remote:  # by no download
        return inside
    if remote and (cached := elsewhere.find_cached(remote)):
        return cached
    if remote and download:
        from checkpoints.download import fetch_model  # here, as requests is slow to import

        fetch_model(remote, inside)
        return inside
    raise elsewhere.no_model(name, models_dir, folder)
