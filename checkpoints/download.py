"""Downloads of checkpoints from OpenAI or Hugging Face, over connections that break.

A file arrives as NAME.part and is renamed when it is whole: of the size the server states, with the
checksum it states, and sound by what the file itself says (JSON that parses, a header that fits the
length, the CRCs of TensorFlow's format). Every attempt goes on where the last one stopped, which is
safe only if the file is still the same: download.json in the folder holds what the server said of
each file, and a resumed reply must say the same (RFC 9110: Range, If-Range, ETag).

Two addresses can be changed to a mirror's: GPT2_OPENAI_ENDPOINT and HF_ENDPOINT.
"""

import base64
import contextlib
import email.utils
import hashlib
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import requests
from tqdm import tqdm

from checkpoints.errors import InputError
from checkpoints.files import read_json
from checkpoints.folder import missing_files
from checkpoints.formats import safetensors, tf_checkpoint
from checkpoints.registry import REPOSITORIES, gigabytes, repository

try:
    import fcntl
except ImportError:  # Windows: two processes are not kept apart there
    fcntl = None

OPENAI = "https://openaipublic.blob.core.windows.net/gpt-2/models"
HUGGING_FACE = "https://huggingface.co"
SOURCES = {"openai": "OpenAI", "huggingface": "Hugging Face"}
DATA = "model.ckpt.data-00000-of-00001"
# the weights last
OPENAI_FILES = ("checkpoint", "hparams.json", "encoder.json", "vocab.bpe", "model.ckpt.index", DATA)
TOKENIZER = {  # sha256; every GPT-2 has the same, from either source
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
RECORD = "download.json"
CHUNK = 1 << 16  # bytes
TIMEOUT = (10, 30)  # seconds to connect, and of silence
ATTEMPTS = 6  # in a row that bring nothing new
LONGEST_WAIT = 120  # seconds that a server may ask for


class Refused(Exception):
    """This source does not give the file, however often it is asked; another may. status is HTTP's,
    or None.
    """

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


class Again(Exception):
    """This attempt failed, the next may not. wait is how many seconds the server asks for, or None."""

    def __init__(self, message, wait=None):
        super().__init__(message)
        self.wait = wait


# ---------------------------------------------------------------- one file


def retry_after(reply):
    """The seconds in a Retry-After header, which may hold a date; None where there is none."""
    value = reply.headers.get("Retry-After", "")
    if value.isdecimal():
        return int(value)
    with contextlib.suppress(TypeError, ValueError):
        return max(0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return None


def check_status(reply):
    """Raises Refused or Again for a reply that does not bring the file."""
    status, wait = reply.status_code, retry_after(reply)
    if status in (408, 416, 425, 429) or status >= 500:
        if wait and wait > LONGEST_WAIT:
            raise Refused(
                f"the server answers {status} and asks to come back in {wait:.0f} s", status
            )
        raise Again(f"the server answers {status}", wait)
    if status not in (200, 206):
        meaning = {
            401: "it does not exist or is private",
            403: "access is forbidden",
            404: "it is not there",
        }
        raise Refused(f"the server answers {status}: {meaning.get(status, 'no file')}", status)
    if "html" in reply.headers.get("Content-Type", ""):
        raise Refused("a web page came instead of the file (does the network want a login?)")


def facts(reply, url):
    """What a reply says of the whole file: size, entity tag and checksums, None where it says
    nothing.
    """
    said = {
        name: value
        for one in [reply, *reply.history[::-1]]
        for name, value in one.headers.lower_items()
    }
    # of a reply and the redirections before it, the first has the last word: it is the source's,
    # not a store's
    size = reply.headers.get("Content-Length", "")
    if reply.status_code == 206:
        size = reply.headers.get("Content-Range", "").rpartition("/")[2]
    size = said.get("x-linked-size", size)
    tag, linked = (
        reply.headers.get("ETag", "W/"),
        said.get("x-linked-etag", said.get("etag", "")).strip('W/"'),
    )
    found = {
        "url": url,
        "size": int(size) if size.isdecimal() else None,
        "etag": None if tag.startswith("W/") else tag,
    }
    if "x-repo-commit" in said:
        # Hugging Face: the hash of a large file, or git's of a small one, is its entity tag
        found["sha256"] = linked if re.fullmatch("[0-9a-f]{64}", linked) else None
        found["git"] = linked if re.fullmatch("[0-9a-f]{40}", linked) else None
    if reply.status_code == 200 and "content-md5" in said:  # OpenAI's files lie in Azure's store
        with contextlib.suppress(ValueError):
            found["md5"] = base64.b64decode(said["content-md5"], validate=True).hex()
    return found


def same_file(new, old):
    """Whether two replies speak of one file; what only one of them says does not count."""
    return new["etag"] == old["etag"] and all(
        old.get(name) in (None, value) for name, value in new.items() if value
    )


def receive(url, part, record, bar, timeout):
    """One attempt: bring part nearer to the whole file. Returns what the server says of that;
    raises Again or Refused.
    """
    name, known = part.name.removesuffix(".part"), {}
    have = part.stat().st_size if part.is_file() else 0
    if have and record.get(name, {}).get("url") == url and record[name]["etag"]:
        # else it may be of another file
        known = record[name]
        if have == known["size"]:
            return known
    have, headers = have if known else 0, {"Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": known["etag"]}
    with requests.get(url, headers=headers, stream=True, timeout=timeout) as reply:
        resumed = reply.status_code == 206
        if (
            reply.status_code == 416
            or resumed
            and not reply.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        ):
            part.unlink(missing_ok=True)
            raise Again("the server has another file, or another part of it, than asked for")
        check_status(reply)
        said = facts(reply, url)
        if resumed and not (known and same_file(said, known)):
            part.unlink(missing_ok=True)
            raise Again("the file on the server has changed")
        if not resumed:
            have, known = 0, said
            # before its facts, so that these never describe another file's bytes
            part.write_bytes(b"")
            write_record(part.parent, record | {name: known})
            record[name] = known
        if said["size"] is None and reply.headers.get("Transfer-Encoding") != "chunked":
            raise Again("the server does not say how long the file is")
        if reply.headers.get("Content-Encoding", "identity") != "identity":
            raise Refused("the server sends the file compressed, though asked not to")
        free = shutil.disk_usage(part.parent).free
        if said["size"] and said["size"] - have > free:
            needed = f"{name} needs {(said['size'] - have) / 1e9:.2f} GB more, {free / 1e9:.2f} GB are free"
            raise InputError(f"{part.parent}: {needed}; make room, then try again")
        bar.reset(known["size"])
        bar.n = bar.initial = have  # which the rate does not count
        with part.open("ab") as file:
            for chunk in reply.iter_content(CHUNK):
                if file.tell() == 0 and re.match(
                    rb"\s*<(!doctype|html|head|\?xml)", chunk, re.IGNORECASE
                ):
                    raise Refused(
                        "a web page came instead of the file (does the network want a login?)"
                    )
                file.write(chunk)
                file.flush()  # what has come stays, should the program be killed
                bar.update(len(chunk))
            os.fsync(file.fileno())
    return known


def digest(path, kind):
    """The checksum of a file, in hexadecimal: "sha256", "md5", or "git" for git's name of its
    content.
    """
    found = hashlib.new({"git": "sha1"}.get(kind, kind), usedforsecurity=False)
    if kind == "git":
        found.update(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def wrong_checksums(path, said):
    """Of the checksums stated for a file, those its bytes do not have."""
    return [
        kind
        for kind in ("sha256", "git", "md5")
        if said.get(kind) and digest(path, kind) != said[kind]
    ]


def check_whole(part, name, said):
    """Raises Again for a file of another size or content than stated, or one that is plainly no
    such file.
    """
    size = part.stat().st_size
    if said["size"] not in (None, size):
        raise Again(f"{size} bytes came of {said['size']}")
    if wrong := wrong_checksums(part, said):
        raise Again(f"its {wrong[0]} checksum is not the one the server states")
    try:
        if name.endswith(".json"):
            read_json(part)
        elif name.endswith(".safetensors"):
            safetensors.read_table(part)
        elif name.endswith(".index"):
            tf_checkpoint.read_entries(part.read_bytes())
        elif name == DATA:
            for tensor in tf_checkpoint.read_table(
                part.with_name("model.ckpt.index"), data=part
            ).values():
                tensor.verify()
    except (InputError, ValueError, IndexError) as error:
        raise Again(f"what came is damaged ({error})") from None
    if name in TOKENIZER and digest(part, "sha256") != TOKENIZER[name]:
        raise Again("what came is not GPT-2's")


def fetch(url, path, record, bar, sleep=time.sleep, timeout=TIMEOUT):
    """Fetch a file until it is whole, then give it its name. Raises Refused where this source does
    not give it.

    record is what is known of the folder's files, {name: facts}, kept up to date in the folder's
    download.json.
    """
    part, most, failures = path.with_name(path.name + ".part"), 0, 0
    while True:
        try:
            said = receive(url, part, record, bar, timeout)
            try:
                check_whole(part, path.name, said)
            except Again:
                if part.stat().st_size >= (said["size"] or 0):
                    # nothing can be added that would mend it
                    part.unlink()
                raise
            return os.replace(part, path)
        except (requests.RequestException, Again) as error:
            have = part.stat().st_size if part.is_file() else 0
            most, failures = max(most, have), 1 if have > most else failures + 1
            reason = str(error) if isinstance(error, Again) else describe(error)
            if failures == ATTEMPTS:
                raise Refused(f"{reason}, {ATTEMPTS} times in a row") from None
            bar.set_postfix_str(f"{reason}; trying again")
            wait = getattr(error, "wait", None)
            sleep(2 ** (failures - 1) if wait is None else wait)


def describe(error):
    """A network error in a few words; those of requests hold the whole history of a connection."""
    kinds = {
        requests.Timeout: "the server is silent",
        requests.exceptions.SSLError: "the connection is not secure",
    }
    kinds |= {
        requests.exceptions.ChunkedEncodingError: "the connection broke",
        requests.ConnectionError: "no connection",
    }
    return next(
        (words for kind, words in kinds.items() if isinstance(error, kind)), type(error).__name__
    )


# ---------------------------------------------------------------- one model


def write_record(folder, record):
    """Store the facts of a folder's files."""
    new = folder / (RECORD + ".new")
    new.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(new, folder / RECORD)


def read_record(folder):
    """The facts of a folder's files; {} where nothing (legible) is known, which only costs another
    beginning.
    """
    with contextlib.suppress(InputError):
        record = read_json(folder / RECORD)
        if all(
            isinstance(value, dict) and {"url", "size", "etag"} <= value.keys()
            for value in record.values()
        ):
            return record
    return {}


def from_openai(size, get):
    base = os.environ.get("GPT2_OPENAI_ENDPOINT") or OPENAI
    for name in OPENAI_FILES:
        get(f"{base.rstrip('/')}/{size}/{name}", name)


def from_hugging_face(size, get):
    base = f"{(os.environ.get('HF_ENDPOINT') or HUGGING_FACE).rstrip('/')}/{repository(size)}/resolve/main"
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
                "it has no model.safetensors; a pickle (pytorch_model.bin) is never opened: convert it"
            ) from None
        for path in sorted(set(safetensors.shards(index).values())):
            get(f"{base}/{path.name}", path.name)


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


def fetch_model(size, models_dir, source="auto", **options):
    """Bring a model's folder to completion and return its path. Raises InputError with the reason
    of every source.

    size is one of REPOSITORIES or an "owner/name" of Hugging Face; `options` go to fetch.
    """
    folder, reasons = Path(models_dir) / size, []
    names = ["huggingface"] if size not in REPOSITORIES or size == "82M" else list(SOURCES)
    if source != "auto" and source not in names:
        raise InputError(f"--source {source!r}: expected auto or {' or '.join(names)} for {size}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be made ({error.strerror}); use another --models_dir"
        ) from None
    with (
        locked(folder),
        tqdm(unit="B", unit_scale=True, unit_divisor=1000, leave=False, disable=None) as bar,
    ):
        if not missing_files(folder):
            return folder
        record = read_record(folder)

        def get(url, name):
            bar.set_description(f"{size} {name}")
            try:
                if not (folder / name).is_file():
                    fetch(url, folder / name, record, bar, **options)
            except Refused as error:
                raise Refused(f"{name}: {error}", error.status) from None
            return folder / name

        for name in names if source == "auto" else [source]:
            try:
                {"openai": from_openai, "huggingface": from_hugging_face}[name](size, get)
                break
            except Refused as error:
                reasons.append(f"{SOURCES[name]}: {error}")
        else:
            raise InputError(
                f"{size} cannot be downloaded ({'; '.join(reasons)}); try again, it goes on where it stopped"
            )
        for part in folder.glob("*.part"):  # of the other source
            part.unlink()
    return folder


def fetch_if_wanted(size, models_dir, download):
    """Fetch a model if `download` says so, or the person at the terminal. Returns its folder, or
    None.
    """
    if (
        not download
        and size in REPOSITORIES
        and sys.stdin
        and sys.stdin.isatty()
        and sys.stderr.isatty()
    ):
        print(f"download {size} ({gigabytes(size)})? [y/N] ", end="", file=sys.stderr, flush=True)
        download = sys.stdin.readline().strip().lower() in ("y", "yes")
    return fetch_model(size, models_dir) if download else None
