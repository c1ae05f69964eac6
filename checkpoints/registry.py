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


def repository(size):
    """The Hugging Face repository "owner/name" of a model; None if there is none.

    >>> repository("124M"), repository("some/model"), repository("17M")
    ('openai-community/gpt2', 'some/model', None)
    """
    if size in REPOSITORIES:
        return REPOSITORIES[size]
    return size if re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", size, re.ASCII) else None


def gigabytes(size):
    """The download of a name in SIZES as text: "0.5 GB" for "124M", whose weights are float32."""
    return f"{4 * SIZES[size].n_parameters / 1e9:.1f} GB"


# TensorFlow's files of a checkpoint; OpenAI's have one file of data
TF_INDEX = "model.ckpt.index"
TF_DATA = "model.ckpt.data-00000-of-00001"
