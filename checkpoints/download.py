"""Downloads of models from OpenAI or Hugging Face.

Two addresses can be changed to a mirror's: GPT2_OPENAI_ENDPOINT and HF_ENDPOINT.
"""

import contextlib
import os
import sys
from pathlib import Path

from checkpoints.files import InputError, note
from checkpoints.folder import SHARDS_INDEX, missing_files, named_in
from checkpoints.registry import REPOSITORIES, TF_DATA, TF_INDEX, gigabytes, repository
from checkpoints.transfer import Missing, Refused, fetch

try:
    import fcntl
except ImportError:  # Windows: two processes are not kept apart there
    fcntl = None

OPENAI = "https://openaipublic.blob.core.windows.net/gpt-2/models"
HUGGING_FACE = "https://huggingface.co"
SOURCES = {"openai": "OpenAI", "huggingface": "Hugging Face"}
# the weights last
OPENAI_FILES = ("checkpoint", "hparams.json", "encoder.json", "vocab.bpe", TF_INDEX, TF_DATA)


def fetch_if_wanted(size, models_dir, download):
    """Fetch a model if `download` says so, or the person at the terminal: its folder, or None."""
    at_terminal = sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()
    if not download and size in REPOSITORIES and at_terminal:
        print(f"download {size} ({gigabytes(size)})? [y/N] ", end="", file=sys.stderr, flush=True)
        download = sys.stdin.readline().strip().lower() in ("y", "yes")
    return fetch_model(size, models_dir) if download else None


def fetch_model(size, models_dir, source="auto"):
    """Bring a model's folder to completion and return its path. Raises InputError with the reason
    of every source.

    size is one of REPOSITORIES or an "owner/name" of Hugging Face.
    """
    by_openai = size in REPOSITORIES and size != "82M"
    sources = list(SOURCES) if by_openai else ["huggingface"]
    if source not in ("auto", *sources):
        raise InputError(f"--source {source!r}: expected auto or {' or '.join(sources)} for {size}")
    folder = Path(models_dir) / size
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder):
            if missing_files(folder):
                from_any(sources if source == "auto" else [source], size, folder)
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # only an empty one
    return folder


def from_any(sources, size, folder):
    """Fetch what a folder lacks from the first source that has it all."""
    reasons = []
    for source in sources:
        fetch_from = from_openai if source == "openai" else from_hugging_face
        try:
            fetch_from(size, folder)
        except Refused as error:
            reasons.append(f"{SOURCES[source]}: {error}")
            continue
        for part in folder.glob("*.part"):  # of the other source
            part.unlink()
        return
    raise InputError(
        f"{size} cannot be downloaded ({'; '.join(reasons)}); try again, it goes on where it "
        "stopped"
    )


def from_openai(size, folder):
    base = os.environ.get("GPT2_OPENAI_ENDPOINT") or OPENAI
    for name in OPENAI_FILES:
        fetch(f"{base.rstrip('/')}/{size}", folder / name)


def from_hugging_face(size, folder):
    host = os.environ.get("HF_ENDPOINT") or HUGGING_FACE
    url = f"{host.rstrip('/')}/{repository(size)}/resolve/main"
    for name in ("config.json", "vocab.json", "merges.txt"):
        fetch(url, folder / name)
    for name in ("model.safetensors", SHARDS_INDEX):
        try:
            fetch(url, folder / name)
        except Missing:
            continue
        for path in named_in(folder / name):
            fetch(url, path)
        return
    raise Refused(
        "it has no model.safetensors; a pickle (pytorch_model.bin) is never opened: convert it"
    )


@contextlib.contextmanager
def locked(folder):
    """Alone with a folder: another process that wants it waits here."""
    if not fcntl:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"{folder}: another process is downloading it; waiting")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
