"""Finding the folder of a model: by path, by name in the models directory or among the included
models, in Hugging Face's cache, or by downloading it.
"""

import os
import re
from pathlib import Path

from checkpoints.folder import problem_with
from checkpoints.registry import INCLUDED, MODELS_DIR, OWNER_AND_NAME


def locate(name: str, models_dir: str | Path) -> Path | None:
    """The folder of a model on this machine, even if it lacks files; None if there is none, or for
    the name "". A name without a separator is sought in models_dir, then among the included models,
    then as a path; any other name as a path, and an "owner/name" after that in models_dir.
    """
    inside, path = Path(models_dir) / name, Path(name)
    is_path = path.name != name or name == ".."  # the name of a/b is b, that of "." is ""
    folders = [path] if is_path else [inside, INCLUDED / name, path]
    if re.fullmatch(OWNER_AND_NAME, name, re.ASCII):
        folders.append(inside)  # where a download puts it
    for folder in folders:
        if name != "" and os.path.isdir(folder):  # the path "" would be this folder
            return folder
    return None


def find_folder(name: str, models_dir: str | Path = MODELS_DIR, download: bool = False) -> Path:
    """The folder of a model: in models_dir, of an included model, or a path; else in Hugging Face's
    cache on this machine; else, if `download` is True, models_dir/name, after it was fetched there.

    name: of a folder, its path, or a name on Hugging Face: 124M, gpt2 or an owner/name. A folder
    that lacks files is returned as it is, unless it is models_dir/name and the name one on Hugging
    Face: an interrupted download left it so. It counts as missing, and `download` completes it.

    Raises ValueError, which says what to do, if there is no such model or a download fails; OSError
    if a file cannot be written.
    """
    folder = locate(name, models_dir)
    is_inside = folder == Path(models_dir) / name
    if folder and (not is_inside or not problem_with(folder)):
        return folder
    from checkpoints import elsewhere  # here, as most models are where they are sought

    size = elsewhere.size_of(name)
    if not folder and size != name:  # gpt2: once more, under the name of its size, 124M
        return find_folder(size, models_dir, download=download)
    # `folder` again, if the name is none on Hugging Face
    return elsewhere.find(name, models_dir, incomplete=folder, download=download)
