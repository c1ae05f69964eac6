"""The shapes of OpenAI's models, and where models are stored."""

import os
import sys
from pathlib import Path

from gpt2 import Config

INCLUDED = Path(__file__).resolve().parents[1] / "models"  # the models that come with this program

SIZES = {
    "82M": Config(50257, 1024, 768, 12, 6),
    "124M": Config(50257, 1024, 768, 12, 12),
    "355M": Config(50257, 1024, 1024, 16, 24),
    "774M": Config(50257, 1024, 1280, 20, 36),
    "1558M": Config(50257, 1024, 1600, 25, 48),
}

OWNER_AND_NAME = r"\w[\w.-]*/\w[\w.-]*"  # of a repository on Hugging Face

# {platform: (the variable that names the folder of a user's data, or ""; the folder without it)}
USER_DATA = {
    "win32": ("LOCALAPPDATA", "~/AppData/Local"),
    "darwin": ("", "~/Library/Application Support"),
    "linux": ("XDG_DATA_HOME", "~/.local/share"),
}


def default_models_dir() -> str:
    """The folder for a user's models: GPT2_MODELS_DIR of the environment; else models/ of this
    program, if it is a checkout that can be written; else speculate/models in the user's data.
    """
    chosen = os.environ.get("GPT2_MODELS_DIR")
    if chosen:
        return chosen
    is_checkout = (INCLUDED.parent / "pyproject.toml").is_file()
    if is_checkout and os.access(INCLUDED, os.W_OK):
        return str(INCLUDED)
    variable, usual = USER_DATA.get(sys.platform, USER_DATA["linux"])
    data = os.path.expanduser(os.environ.get(variable) or usual)
    return os.path.join(data, "speculate", "models")


MODELS_DIR = default_models_dir()
