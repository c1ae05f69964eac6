"""What to say of a model that is nowhere."""

import os
from pathlib import Path

from checkpoints.folder import CONFIGS, problem_with
from checkpoints.hub import repository
from checkpoints.registry import INCLUDED


def no_model(name: str, models_dir: str | Path, folder: Path | None) -> ValueError:
    """The error for a name that is no model: what is there, and what to do. folder: what a download
    has begun, or None.
    """
    if os.path.isfile(name):
        return ValueError(f"{name}: is a file; expected the folder of a model: {Path(name).parent}")
    if not os.path.isdir(models_dir):
        state = "which is no folder"
    elif not os.access(models_dir, os.R_OK | os.X_OK):
        state = "permission denied"
    elif folder:
        state = problem_with(folder)
    else:
        state = f"there are {names_in(models_dir)}"
    is_elsewhere = INCLUDED.resolve() != Path(models_dir).resolve()
    included = f", nor an included one of {names_in(INCLUDED)}" if is_elsewhere else ""
    hint = "use a size that is there, or a folder's path"
    if repository(name) and not os.path.isdir(os.path.dirname(name)):
        hint = f"fetch it with python main.py download {name}"
    return ValueError(f"no model {name!r} in {str(models_dir)!r} ({state}){included}: {hint}")


def names_in(models_dir: str | Path) -> str:
    """The names of the models in a folder, such as "17M, 7M", or "none"."""
    names = {path.parent.name for file in CONFIGS for path in Path(models_dir).glob(f"*/{file}")}
    return ", ".join(sorted(names)) or "none"
