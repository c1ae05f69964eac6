"""Downloads of models from OpenAI or Hugging Face.

Two addresses can be changed to a mirror's: GPT2_OPENAI_ENDPOINT and HF_ENDPOINT.
"""

import contextlib
import os
import sys
from pathlib import Path

from checkpoints import locks
from checkpoints.errors import InputError, note
from checkpoints.folder import SHARDS_INDEX, missing_files, other_weights_files
from checkpoints.registry import REPOSITORIES, TF_DATA, TF_INDEX, gigabytes, repository
from checkpoints.transfer import HttpError, Missing, fetch

OPENAI = "https://openaipublic.blob.core.windows.net/gpt-2/models"
HUGGING_FACE = "https://huggingface.co"
SOURCES = {"openai": "OpenAI", "huggingface": "Hugging Face"}
# the weights last
OPENAI_FILES = ("checkpoint", "hparams.json", "encoder.json", "vocab.bpe", TF_INDEX, TF_DATA)


def fetch_if_wanted(size, models_dir, download):
    """Fetch a model of that size or "owner/name" if `download` is True. If not, ask the person at a
    terminal, for a known size. Returns the Path of the model's folder; None if it is not wanted.
    Raises InputError if it cannot be downloaded.
    """
    at_terminal = sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()
    if not download and size in REPOSITORIES and at_terminal:
        print(f"download {size} ({gigabytes(size)})? [y/N] ", end="", file=sys.stderr, flush=True)
        download = sys.stdin.readline().strip().lower() in ("y", "yes")
    return fetch_model(size, models_dir) if download else None


def fetch_model(size, models_dir, source="auto"):
    """Download the missing files of a model into models_dir/size, and return that Path. Waits while
    another process downloads it.

    size: one of REPOSITORIES, or an "owner/name" of Hugging Face. source: "auto" or one of SOURCES.
    Raises InputError for a wrong source, for a folder that cannot be written, and with the reason
    of every source if none has all files.
    """
    by_openai = size in REPOSITORIES and size != "82M"
    sources = list(SOURCES) if by_openai else ["huggingface"]
    if source not in ("auto", *sources):
        raise InputError(f"--source {source!r}: expected auto or {' or '.join(sources)} for {size}")
    folder = Path(models_dir) / size
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            if missing_files(folder):
                fetch_from_first_source(sources if source == "auto" else [source], size, folder)
    except OSError as error:
        place = error.filename or folder
        raise InputError(
            f"{place}: cannot be written ({error.strerror}); use another --models_dir"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # only an empty one
    return folder


def fetch_from_first_source(sources, size, folder):
    """Download the missing files into a folder, a Path, from the first of [key of SOURCES] that has
    all, then delete the .part files of other sources. Raises InputError with each source's reason.
    """
    reasons = []
    for source in sources:
        fetch_from = fetch_from_openai if source == "openai" else fetch_from_hugging_face
        try:
            fetch_from(size, folder)
        except HttpError as error:
            reasons.append(f"{SOURCES[source]}: {error}")
            continue
        for part in folder.glob("*.part"):  # of the other source
            part.unlink()
        return
    raise InputError(
        f"{size} cannot be downloaded ({'; '.join(reasons)}); try again, it goes on where it "
        "stopped"
    )


def fetch_from_openai(size, folder):
    """Download the missing files of a size into a folder (a Path) from OpenAI, or the mirror
    at GPT2_OPENAI_ENDPOINT. Raises HttpError if a file cannot be had, InputError for a full disk.
    """
    base = os.environ.get("GPT2_OPENAI_ENDPOINT") or OPENAI
    for name in OPENAI_FILES:
        fetch(f"{base.rstrip('/')}/{size}", folder / name)  # which adds /name


def fetch_from_hugging_face(size, folder):
    """Download the missing files of a size or "owner/name" from Hugging Face, or the mirror at
    HF_ENDPOINT: the weights in one file, else in several. Raises HttpError if a file cannot be had,
    InputError for a full disk.
    """
    host = os.environ.get("HF_ENDPOINT") or HUGGING_FACE
    url = f"{host.rstrip('/')}/{repository(size)}/resolve/main"
    for name in ("config.json", "vocab.json", "merges.txt"):
        fetch(url, folder / name)
    for name in ("model.safetensors", SHARDS_INDEX):
        try:
            fetch(url, folder / name)
        except Missing:
            continue
        # if that is the index of several files
        for path in other_weights_files(folder / name):
            fetch(url, path)
        return
    raise HttpError(
        "it has no model.safetensors; a pickle (pytorch_model.bin) is never opened: convert it"
    )


@contextlib.contextmanager
def locked(folder):
    """Context manager: lock a folder (Path), so that another process that downloads it waits.
    Without effect on Windows, which opens no folder. A lock on a file would leave a file there.
    """
    if locks.fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            locks.lock(descriptor)
        except BlockingIOError:
            note(f"{folder}: another process is downloading it; waiting")
            locks.lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)
