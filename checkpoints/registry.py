"""The models that this project knows by name: their shapes, where they are published and stored."""

import os
import re
from pathlib import Path

from gpt2 import Config

MODELS_DIR = os.environ.get("GPT2_MODELS_DIR") or str(
    Path(__file__).resolve().parents[1] / "models"
)

SIZES = {
    "82M": Config(50257, 1024, 768, 12, 6),
    "124M": Config(50257, 1024, 768, 12, 12),
    "355M": Config(50257, 1024, 1024, 16, 24),
    "774M": Config(50257, 1024, 1280, 20, 36),
    "1558M": Config(50257, 1024, 1600, 25, 48),
}

REPOSITORIES = {  # on Hugging Face
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
    owner_and_name = re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name, re.ASCII)
    return REPOSITORIES.get(name, name if owner_and_name else None)
