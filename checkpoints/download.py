"""Downloads of models from OpenAI or Hugging Face.

Two addresses can be changed to a mirror's: GPT2_OPENAI_ENDPOINT and HF_ENDPOINT.
"""

import contextlib
import os
import sys
from pathlib import Path

from tqdm import tqdm

from checkpoints.errors import InputError
from checkpoints.files import read_json
from checkpoints.folder import SHARDS_INDEX, missing_files
from checkpoints.formats import safetensors, tf_checkpoint
from checkpoints.formats.tf_checkpoint import DATA, INDEX
from checkpoints.registry import REPOSITORIES, gigabytes, repository
from checkpoints.transfer import Refused, fetch, read_record

try:
    import fcntl
except ImportError:  # Windows: two processes are not kept apart there
    fcntl = None

OPENAI = "https://openaipublic.blob.core.windows.net/gpt-2/models"
HUGGING_FACE = "https://huggingface.co"
SOURCES = {"openai": "OpenAI", "huggingface": "Hugging Face"}
# the weights last
OPENAI_FILES = ("checkpoint", "hparams.json", "encoder.json", "vocab.bpe", INDEX, DATA)


def fetch_if_wanted(size, models_dir, download):
    """Fetch a model if `download` says so, or the person at the terminal. Returns its folder, or
    None.
    """
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
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be made ({error.strerror}); use another --models_dir"
        ) from None
    bar = tqdm(unit="B", unit_scale=True, unit_divisor=1000, leave=False, disable=None)
    try:
        with locked(folder), bar:
            if missing_files(folder):
                from_any(sources if source == "auto" else [source], size, folder, bar)
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # only an empty one
    return folder


def from_any(sources, size, folder, bar):
    """Fetch what a folder lacks from the first source that has it all."""
    record = read_record(folder)

    def get(url, name):
        bar.set_description(f"{size} {name}")
        try:
            if not (folder / name).is_file():
                fetch(url, folder / name, record, bar, require_sound)
        except Refused as error:
            raise Refused(f"{name}: {error}", error.status) from None
        return folder / name

    reasons = []
    for source in sources:
        try:
            from_openai(size, get) if source == "openai" else from_hugging_face(size, get)
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


def from_openai(size, get):
    base = os.environ.get("GPT2_OPENAI_ENDPOINT") or OPENAI
    for name in OPENAI_FILES:
        get(f"{base.rstrip('/')}/{size}/{name}", name)


def from_hugging_face(size, get):
    host = os.environ.get("HF_ENDPOINT") or HUGGING_FACE
    base = f"{host.rstrip('/')}/{repository(size)}/resolve/main"
    for name in ("config.json", "vocab.json", "merges.txt"):
        get(f"{base}/{name}", name)
    try:
        get(f"{base}/model.safetensors", "model.safetensors")
    except Refused as error:
        if error.status != 404:
            raise
        try:
            index = get(f"{base}/{SHARDS_INDEX}", SHARDS_INDEX)
        except Refused:
            raise Refused(
                "it has no model.safetensors; a pickle (pytorch_model.bin) is never opened: "
                "convert it"
            ) from None
        for path in sorted({*safetensors.shards(index).values()}):
            get(f"{base}/{path.name}", path.name)


def require_sound(part, name):
    """Raises InputError for a file that is plainly not what its name says, also where no server
    stated a checksum.
    """
    if name.endswith(".json"):
        read_json(part)
    elif name.endswith(".safetensors"):
        safetensors.read_table(part)
    elif name == INDEX:
        tf_checkpoint.read_index(part, part.with_name(DATA))
    elif name == DATA:
        for tensor in tf_checkpoint.read_table(part.with_name(INDEX), data=part).values():
            tensor.verify()


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
            print(f"{folder}: another process is downloading it; waiting", file=sys.stderr)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
