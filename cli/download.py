"""python main.py download 124M 355M: fetch models from OpenAI or Hugging Face."""

from dataclasses import dataclass

from checkpoints.download import SOURCES, fetch_model
from checkpoints.errors import InputError
from checkpoints.registry import REPOSITORIES, repository
from checkpoints.search import find_folder
from cli.flags import Folder, flag


@dataclass(frozen=True)
class DownloadSettings(Folder):
    source: str = flag(
        "auto",
        "auto, which is OpenAI and then Hugging Face, or openai, or huggingface",
        choices=("auto", *SOURCES),
    )


def download(*sizes: str, settings: DownloadSettings):
    """Fetch models: from OpenAI or Hugging Face, or not at all where Hugging Face's cache on this
    machine has them.

    Give sizes (82M, 124M, 355M, 774M, 1558M) or Hugging Face repositories of GPT-2s (owner/name).
    An interrupted download continues where it stopped; the environment variables
    GPT2_OPENAI_ENDPOINT and HF_ENDPOINT set a mirror.
    """
    unknown = [repr(size) for size in sizes if not repository(size)]
    if unknown or not sizes:
        raise InputError(
            f"{' '.join(['download', *unknown])}: expected sizes, of {', '.join(REPOSITORIES)}, "
            "or Hugging Face repositories as owner/name"
        )
    models_dir, source = settings.models_dir, settings.source
    for size in sizes:
        if source == "auto":
            folder = find_folder(size, models_dir, download=True)
        else:
            folder = fetch_model(size, models_dir, source)
        n_bytes = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{size}: {folder}, {n_bytes / 1e9:.2f} GB")
