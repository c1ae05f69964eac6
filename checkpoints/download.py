"""Downloads of models from Hugging Face, or a mirror at HF_ENDPOINT, over connections that break.

A file arrives as NAME.TAG.part, where TAG is the server's ETag: what it holds is of this version of
the file and no other. It is renamed once it has the size and the SHA-256 that the server states.
Each attempt goes on where the last one stopped.
"""

import contextlib
import os
import re
import shutil
import warnings
from pathlib import Path
from time import sleep
from urllib.parse import quote, unquote

import requests
import urllib3
from tqdm import tqdm

from checkpoints.files import sha256_of
from checkpoints.folder import WEIGHTS, weights_files
from checkpoints.hub import repository

OPTIONAL_FILES = (  # what a repository may have
    "generation_config.json",
    "tokenizer_config.json",
    "added_tokens.json",
    "tokenizer.json",
)
CHUNK = 1 << 16  # bytes
TIMEOUT = (10, 30)  # seconds to connect, and of silence
QUOTE = quote('"')  # with which the tag in a part's name begins, if the part can be resumed
LONG_TAG = 100  # characters, too many for the name of a part
WAITS = (1, 2, 4, 8, 16)  # seconds after an attempt that failed


class Missing(ValueError):
    """The server does not have the file, or not for the public."""


class Retry(requests.RequestException):
    """This attempt failed; another attempt may succeed."""


def fetch_model(name: str, models_dir: str | Path) -> Path:
    """Download the missing files of a known size, or of an "owner/name" of Hugging Face, into
    models_dir/name, and return this folder. Raises ValueError if they cannot be had.
    """
    folder = Path(models_dir) / name
    folder.mkdir(parents=True, exist_ok=True)
    host = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    url = f"{host.rstrip('/')}/{repository(name)}/resolve/main"
    try:
        fetch(url, folder / "config.json")
        for file in OPTIONAL_FILES:
            with contextlib.suppress(Missing):
                fetch(url, folder / file)
        if not (folder / "tokenizer.json").is_file():
            fetch(url, folder / "vocab.json")
            fetch(url, folder / "merges.txt")
        for file in WEIGHTS:
            try:
                fetch(url, folder / file)
            except Missing:
                continue
            for path in weights_files(folder):  # if that is the index of several
                fetch(url, path)
            return folder
        raise Missing(f"none of {', '.join(WEIGHTS)}")
    except Missing as error:
        with contextlib.suppress(OSError):
            folder.rmdir()  # only an empty one
            if folder.parent != Path(models_dir):  # its owner's
                folder.parent.rmdir()
        raise ValueError(
            f"{name}: Hugging Face has no such public model, or not all its files ({error}); "
            "use the name of one"
        ) from None


def fetch(folder_url: str, path: Path):
    """Download folder_url/NAME to folder/NAME, unless it is there. A failed attempt is repeated
    after a wait, with a warning.
    """
    for wait in (*WAITS, None):
        if path.is_file():
            return
        try:
            return fetch_rest(f"{folder_url}/{path.name}", path)
        except (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            FileNotFoundError,
        ) as error:
            # FileNotFoundError: another process has renamed the part. Messages of requests hold the
            # history of a connection
            reason = str(error) if isinstance(error, Retry) else type(error).__name__
        except OSError as error:  # of the disk: if it is full, that names no file
            error.filename = error.filename2 or error.filename or str(path)
            raise
        if wait is None:
            rest = any(path.parent.glob(f"{path.name}.{QUOTE}*.part"))
            raise ValueError(f"{path}: {reason}; try again{', it goes on where it stopped' * rest}")
        warnings.warn(f"{path.name}: {reason}; the next attempt is in {wait} s")
        sleep(wait)


def fetch_rest(url: str, path: Path):
    """Add to the part of a file what it lacks, by one request, and rename it if it is complete. If
    the server's file is another now, begin anew.
    """
    part, n_have, tag = next(path.parent.glob(f"{path.name}.*.part"), None), 0, ""
    headers = {"Accept-Encoding": "identity"}
    if part:
        n_have = max(0, part.stat().st_size - 1)  # to ask for no byte at all would be an error
        tag = unquote(part.name[len(path.name) + 1 : -len(".part")])
        headers |= {"Range": f"bytes={n_have}-", "If-Range": tag}
    try:
        reply = requests.get(url, headers=headers, stream=True, timeout=TIMEOUT)
    except ValueError as error:  # with any wording, and the password in it
        reason = f"{type(error).__name__} at HF_ENDPOINT, or where that leads"
        raise ValueError(f"{path.name}: {reason}; expected the address of a mirror") from None
    with reply:
        rest = None
        if part and reply.headers.get("ETag") == tag:
            # it may be less than the whole rest; the size of the whole file stands at the end
            content_range = reply.headers.get("Content-Range", "")
            rest = re.fullmatch(rf"bytes {n_have}-[0-9]+/([0-9]{{1,18}})", content_range)
        if part and not rest and reply.status_code in (206, 416):  # of another file
            part.unlink(missing_ok=True)
        require_file(reply, resumed=bool(rest))  # of an error, or a login, the part stays
        if part is None or not rest:
            if part:
                part.unlink(missing_ok=True)
            n_have = 0
            # only a tag in quotes stands for the very same bytes; else every attempt begins anew
            tag = quote(reply.headers.get("ETag", ""), safe="")
            tag = tag if tag.startswith(QUOTE) and len(tag) < LONG_TAG else str(os.getpid())
            part = path.with_name(f"{path.name}.{tag}.part")
            part.touch()
        size = int(rest[1]) if rest else reply.raw.length_remaining  # None if not said
        lacking = 0 if size is None else size - n_have
        if lacking > shutil.disk_usage(part.parent).free:
            raise ValueError(f"{part}: {lacking:,} bytes do not fit on the disk; make room")
        bar = tqdm(desc=path.name, total=size, initial=n_have, leave=False, disable=None)
        # another process may write the same bytes to the same places
        with part.open("r+b") as file, bar:
            file.seek(n_have)
            # read1 does not wait for a full chunk, which a connection that breaks may never bring
            while chunk := reply.raw.read1(CHUNK):
                file.write(chunk)
                file.flush()  # what has come stays, should the program be killed
                bar.update(len(chunk))
    n_come, checksum = part.stat().st_size, stated_checksum(reply)
    if size is not None and n_come < size:
        raise Retry("the server sent a piece of it")
    if size not in (None, n_come) or (checksum and sha256_of([part]) != checksum):
        part.unlink()
        raise Retry("what came is not what the server states")
    os.replace(part, path)


def stated_checksum(reply: requests.Response) -> str | None:
    """The SHA-256 that Hugging Face states for a large file, mostly where it redirects; or None."""
    for answer in (*reply.history, reply):
        tag = answer.headers.get("X-Linked-Etag", "").strip('"')
        if re.fullmatch("[0-9a-f]{64}", tag):
            return tag
    return None


def require_file(reply: requests.Response, resumed: bool):
    """Raise Missing, or Retry, if a reply does not contain a file, or the rest of one."""
    status = reply.status_code
    if status in (401, 403, 404, 410):  # Hugging Face answers 401 where there is nothing
        raise Missing(f"{reply.request.path_url.rpartition('/')[2]}: the server answers {status}")
    if status != (206 if resumed else 200):
        raise Retry(f"the server answers {status}")
    if reply.headers.get("Content-Encoding", "identity") != "identity":
        raise Retry("the server sends the file compressed")
    if not reply.raw.length_remaining and not reply.raw.chunked:
        raise Retry("the server does not say how long the file is, or sends an empty one")
    if "html" in reply.headers.get("Content-Type", ""):
        raise Retry("something else came, as where a network wants a login")
