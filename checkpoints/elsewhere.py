"""Models that are not where they are sought: names on Hugging Face, its cache on this machine, a
download, and the error for a model that is nowhere.
"""

import os
import re
import warnings
from pathlib import Path

from checkpoints.folder import CONFIGS, problem_with
from checkpoints.registry import INCLUDED, OWNER_AND_NAME

REPOSITORIES = {  # {size: owner/name on Hugging Face}
    "82M": "distilbert/distilgpt2",
    "124M": "openai-community/gpt2",
    "355M": "openai-community/gpt2-medium",
    "774M": "openai-community/gpt2-large",
    "1558M": "openai-community/gpt2-xl",
}


def size_of(name: str) -> str:
    """The size that a name of Hugging Face means, or a size in lower case; another name as it is.

    >>> size_of("gpt2"), size_of("openai-community/gpt2-xl"), size_of("124m"), size_of("mine")
    ('124M', '1558M', '124M', 'mine')
    """
    for size, repository in REPOSITORIES.items():
        if name in (repository, repository.partition("/")[2], size.lower()):
            return size
    return name


def repository(name: str) -> str | None:
    """The Hugging Face repository "owner/name" of a model; None if there is none.

    >>> repository("124M"), repository("some/model"), repository("17M")
    ('openai-community/gpt2', 'some/model', None)
    """
    if re.fullmatch(OWNER_AND_NAME, name, re.ASCII):
        return name
    return REPOSITORIES.get(name)


def find(name: str, models_dir: str | Path, incomplete: Path | None, download: bool) -> Path:
    """Seek a model in Hugging Face's cache on this machine, then, if `download` is True, fetch what
    models_dir/name lacks of it, and return its folder. Raises ValueError, which says what to do, if
    there is no such model, or the download fails; OSError if a file cannot be written.

    incomplete: models_dir/name, if that folder is there but lacks files, else None. It is returned
        for a name that is none of Hugging Face's: whoever loads it says which file is missing
    """
    remote = repository(name)
    if remote is None:
        if incomplete:
            return incomplete
        raise no_model(name, models_dir, incomplete=None)
    cached = find_cached(remote)
    if cached:
        return cached
    if not download:
        raise no_model(name, models_dir, incomplete)
    from checkpoints.download import fetch_model  # here, as requests is slow to import

    folder = Path(models_dir) / name
    fetch_model(remote, folder)
    return folder


def hub_cache() -> Path:
    """The folder where Hugging Face's programs keep what they download: $HF_HUB_CACHE, else
    $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub, by the
    variables of the environment that are set.
    """
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{caches}/huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub")


def find_cached(name: str) -> Path | None:
    """The folder of the model `name`, an "owner/name", in Hugging Face's cache on this machine.
    None if it is not there or cannot be read, and with a warning if it lacks files.
    """
    try:  # another program wrote the cache, or is writing it
        model = hub_cache().expanduser() / f"models--{name.replace('/', '--')}"
        commit = (model / "refs" / "main").read_text().strip()  # the newest that was fetched
        folder = model / "snapshots" / commit
        problem = problem_with(folder)
    except (OSError, ValueError, RuntimeError):  # a NUL, no UTF-8, "~" without a home
        return None
    if problem:
        warnings.warn(f"Hugging Face's cache is passed over: {problem}")
        return None
    return folder


def no_model(name: str, models_dir: str | Path, incomplete: Path | None) -> ValueError:
    """The ValueError, for the caller to raise, about a name that is no model in models_dir. It says
    which models are there and among the included ones, and what to do: download it, if the name is
    one of Hugging Face's and does not begin with a folder that is there. For a file, it says that.

    incomplete: models_dir/name if it is there but lacks files, as a download that was interrupted
    leaves it: then the error says what is missing instead of which models are there; else None
    """
    if os.path.isfile(name):
        return ValueError(f"{name}: is a file; expected the folder of a model: {Path(name).parent}")
    if not os.path.isdir(models_dir):
        state = "which is no folder"
    elif incomplete:
        state = problem_with(incomplete)
    else:
        state = f"there are {names_in(models_dir)}"
    included = ""
    if INCLUDED.resolve() != Path(models_dir).resolve():
        included = f", nor an included one of {names_in(INCLUDED)}"
    begins_with_folder = os.path.isdir(os.path.dirname(name))  # a path rather than owner/name
    if repository(name) and not begins_with_folder:
        hint = f"fetch it with python main.py download {name}"
    else:
        hint = "use a size that is there, or a folder's path"
    return ValueError(f"no model {name!r} in {str(models_dir)!r} ({state}){included}: {hint}")


def names_in(models_dir: str | Path) -> str:
    """The names of the models in a folder, such as "17M, owner/name", or "none"."""
    root = Path(models_dir)
    names: set[str] = set()
    for file in CONFIGS:
        found = [*root.glob(f"*/{file}"), *root.glob(f"*/*/{file}")]
        names.update(path.parent.relative_to(root).as_posix() for path in found)
    return ", ".join(sorted(names)) or "none"
