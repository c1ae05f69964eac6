"""Downloads of models from OpenAI or Hugging Face.

A file that has arrived must also be sound by what it says itself: JSON that parses, a header that
fits the length, the CRCs of TensorFlow's format. Two addresses can be changed to a mirror's:
GPT2_OPENAI_ENDPOINT and HF_ENDPOINT.
"""

import contextlib
import os
import sys
from pathlib import Path

from tqdm import tqdm

from checkpoints.errors import InputError
from checkpoints.files import read_json, sha256_of
from checkpoints.folder import missing_files
from checkpoints.formats import safetensors, tf_checkpoint
from checkpoints.formats.tf_checkpoint import DATA
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
OPENAI_FILES = ("checkpoint", "hparams.json", "encoder.json", "vocab.bpe", "model.ckpt.index", DATA)
TOKENIZER = {  # sha256; every GPT-2 has the same, from either source
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}


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
    names = list(SOURCES)
    if size not in REPOSITORIES or size == "82M":
        names = ["huggingface"]
    if source != "auto" and source not in names:
        raise InputError(f"--source {source!r}: expected auto or {' or '.join(names)} for {size}")
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
                from_any(names if source == "auto" else [source], size, folder, bar)
    except BaseException:
        with contextlib.suppress(OSError):
            folder.rmdir()  # only an empty one
        raise
    return folder


def from_any(sources, size, folder, bar):
    """Fetch what a folder lacks from the first source that has it all."""
    record = read_record(folder)

    def get(url, name):
        bar.set_description(f"{size} {name}")
        try:
            if not (folder / name).is_file():
                fetch(url, folder / name, record, bar, what_is_wrong)
        except Refused as error:
            raise Refused(f"{name}: {error}", error.status) from None
        return folder / name

    reasons = []
    for source in sources:
        try:
            if source == "openai":
                from_openai(size, get)
            else:
                from_hugging_face(size, get)
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
            index = get(f"{base}/model.safetensors.index.json", "model.safetensors.index.json")
        except Refused:
            raise Refused(
                "it has no model.safetensors; a pickle (pytorch_model.bin) is never opened: "
                "convert it"
            ) from None
        for path in sorted(set(safetensors.shards(index).values())):
            get(f"{base}/{path.name}", path.name)


def what_is_wrong(part, name):
    """In words, what makes a file plainly not what its name says; None if nothing does."""
    try:
        if name.endswith(".json"):
            read_json(part)
        elif name.endswith(".safetensors"):
            safetensors.read_table(part)
        elif name.endswith(".index"):
            tf_checkpoint.read_entries(part.read_bytes())
        elif name == DATA:
            index = part.with_name("model.ckpt.index")
            for tensor in tf_checkpoint.read_table(index, data=part).values():
                tensor.verify()
    except (InputError, ValueError, IndexError) as error:
        return f"what came is damaged ({error})"
    if name in TOKENIZER and sha256_of([part]) != TOKENIZER[name]:
        return "what came is not GPT-2's"
    return None


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
