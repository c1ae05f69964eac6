"""Hugging Face's hub: names of models there, and its cache on this machine."""

import os
import re
import warnings
from pathlib import Path

from checkpoints.folder import problem_with
from checkpoints.registry import OWNER_AND_NAME

REPOSITORIES = {  # {size: owner/name on Hugging Face}
    "82M": "distilbert/distilgpt2",
    "124M": "openai-community/gpt2",
    "355M": "openai-community/gpt2-medium",
    "774M": "openai-community/gpt2-large",
    "1558M": "openai-community/gpt2-xl",
}


def size_of(name: str) -> str:
    """The size that a name of Hugging Face means; any other name as it is.

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
    owner_and_name = re.fullmatch(OWNER_AND_NAME, name, re.ASCII)
    return REPOSITORIES.get(name, name if owner_and_name else None)


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
