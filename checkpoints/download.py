"""Downloads of models from Hugging Face, or a mirror at HF_ENDPOINT, over connections that break.

A file arrives as a *part*, NAME.TAG.part, where TAG is the server's ETag: what it holds is of this
version of the file and no other. It is renamed once it has the size and the SHA-256 that the server
states. Each attempt goes on where the last one stopped.
"""

import contextlib
import math
import os
import re
import shutil
import warnings
from pathlib import Path
from time import sleep
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

import requests
import urllib3.exceptions as http
from tqdm import tqdm

from checkpoints.files import TEXT_LIMIT, sha256_of
from checkpoints.folder import OPTIONAL, WEIGHTS, weights_files

CHUNK = 1 << 16  # bytes
TIMEOUT = (10, 30)  # seconds to connect, and of silence
QUOTE = quote('"')  # with which the tag in a part's name begins, if the part can be resumed
LONG_TAG = 100  # characters, too many for the name of a part
WAITS = (1, 2, 4, 8, 16)  # seconds after an attempt that failed
# why a request makes no connection
UNREACHED = (http.NewConnectionError, http.ConnectTimeoutError, http.ProxyError)
# why an attempt fails; FileNotFoundError: another process has renamed the part
FAILURES = (requests.RequestException, http.HTTPError, FileNotFoundError)


class Missing(ValueError):
    """The server does not have the file, or not for the public."""


class Retry(requests.RequestException):
    """This attempt failed; another attempt may succeed."""


class Part(NamedTuple):
    """What has come of a file. tag: the ETag of its version; n_bytes: where the next attempt goes
    on, one byte before its end: to ask for no byte at all would be an error; size: of the whole
    file in bytes, None as long as the server has not stated it.
    """

    path: Path
    tag: str
    n_bytes: int = 0
    size: int | None = None


# ---------------------------------------------------------------- a model


def fetch_model(repository: str, folder: Path) -> None:
    """Download the missing files of an "owner/name" into a folder, which is made, from Hugging Face
    or the mirror at HF_ENDPOINT. Files that are there stay as they are.

    Raises ValueError if there is no such model, if the server cannot be reached or fails again and
    again, if its index of shards is damaged, and if a file does not fit on the disk; OSError if a
    file cannot be written. Parts stay then, but no folder that was made and is empty.
    """
    host = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        fetch_files(f"{host.rstrip('/')}/{repository}/resolve/main", folder)
    except Missing as error:
        problem = f"Hugging Face has no such public model, or not all its files ({error})"
        raise ValueError(f"{repository}: {problem}; use the name of one") from None
    finally:
        with contextlib.suppress(OSError):  # from the innermost on, until one holds something
            for path in made:
                path.rmdir()


def fetch_files(url: str, folder: Path) -> None:
    """Download the files of the model at a URL into a folder; those that are there stay. They are
    config.json, a tokenizer.json or else vocab.json and merges.txt, the other files of OPTIONAL
    that the server has, and the weights: the first of WEIGHTS that it has, and if that is an index,
    the shards that it names.

    Raises Missing, which names a file that the server lacks; ValueError for a damaged index, and if
    a download fails; OSError of the disk.
    """
    fetch(url, folder / "config.json")
    for name in OPTIONAL:  # one is tokenizer.json
        fetch_if_there(url, folder / name)
    if not (folder / "tokenizer.json").is_file():
        fetch(url, folder / "vocab.json")
        fetch(url, folder / "merges.txt")
    if not any(fetch_if_there(url, folder / name) for name in WEIGHTS):  # up to the first
        raise Missing(f"none of {', '.join(WEIGHTS)}")
    for path in weights_files(folder):
        fetch(url, path)


# ---------------------------------------------------------------- a file


def fetch_if_there(folder_url: str, path: Path) -> bool:
    """Download a file, as `fetch` does. Returns whether the server has it."""
    try:
        fetch(folder_url, path)
    except Missing:
        return False
    return True


def fetch(folder_url: str, path: Path) -> None:
    """Download folder_url/NAME to path, whose name is NAME, unless it is there. A failed attempt is
    repeated with a warning, after 1, 2, 4, 8, 16 seconds; only once if no server was ever reached.

    Raises Missing if the server does not have the file; ValueError if no attempt succeeded, which
    names the server, and for a file that does not fit on the disk or is too long; OSError, which
    names the file, for an error of the disk.
    """
    was_reached = False
    for attempt, wait in enumerate((*WAITS, None), 1):  # None: this attempt is the last
        if path.is_file():
            return
        try:
            return fetch_rest(f"{folder_url}/{path.name}", path)
        except FAILURES as error:
            # a message of requests holds the history of a connection
            reason = str(error) if isinstance(error, Retry) else type(error).__name__
            was_reached = was_reached or not found_nobody(error)
        except OSError as error:  # of the disk: if it is full, that names no file
            error.filename = str(path)
            raise
        host = urlsplit(folder_url).hostname  # without a password
        if attempt == 2 and not was_reached:
            raise ValueError(f"{host}: cannot be reached; try again with a network, or a mirror")
        if wait is None:
            can_resume = any(path.parent.glob(f"{path.name}.{QUOTE}*.part"))
            goes_on = ", it goes on where it stopped" if can_resume else ""
            raise ValueError(f"{host}: {path.name}: {reason}; try again{goes_on}")
        warnings.warn(f"{path.name}: {reason}; the next attempt is in {wait} s")
        sleep(wait)


def found_nobody(error: Exception) -> bool:
    """Whether a request made no connection: no network, no such host, nobody who answers there.
    error: of requests, which has that of urllib3 among its args, which has the reason
    """
    reasons = [getattr(cause, "reason", None) for cause in error.args]
    return any(isinstance(reason, UNREACHED) for reason in reasons)


def fetch_rest(url: str, path: Path) -> None:
    """By one request, download what the part of a file lacks, or begin a part, and rename it `path`
    if it is complete then. A part of another version of the file is removed.

    Raises Missing if the server lacks the file; one of FAILURES, such as Retry, if the part is not
    complete; ValueError for a URL that is none, and for a file that does not fit on the disk or is
    too long; OSError of the disk.
    """
    begun = find_part(path)
    with ask(url, begun) as reply:
        part = place_of(reply, path, begun)
        receive(reply, part, path.name)
    complete(part, path, stated_checksum(reply))


def find_part(path: Path) -> Part | None:
    """The Part that an earlier attempt has left of the file `path`, its size unknown; or None."""
    found = next(path.parent.glob(f"{path.name}.*.part"), None)
    if found is None:
        return None
    tag = unquote(found.name[len(path.name) + 1 : -len(".part")])
    n_bytes = max(0, found.stat().st_size - 1)  # the last byte comes once more: see Part
    return Part(found, tag, n_bytes)


def new_part(path: Path, tag: str, size: int | None) -> Part:
    """Make an empty part of the file `path`, of this version and size. Only a tag in quotes stands
    for the very same bytes: a part with another, or a long one, has the number of this process for
    a tag in its name, and is never resumed.
    """
    quoted = quote(tag, safe="")
    can_resume = quoted.startswith(QUOTE) and len(quoted) < LONG_TAG
    in_name = quoted if can_resume else os.getpid()
    part = path.with_name(f"{path.name}.{in_name}.part")
    part.touch()
    return Part(part, tag, size=size)


def ask(url: str, part: Part | None) -> requests.Response:
    """Request a file, or of a begun part what it lacks: the server sends that if the file is still
    of the part's version, else all of it. The content is not read yet. Raises RequestException
    without a reply, and ValueError for a URL that is none.
    """
    headers = {"Accept-Encoding": "identity"}  # not compressed
    if part:
        headers |= {"Range": f"bytes={part.n_bytes}-", "If-Range": part.tag}
    try:
        return requests.get(url, headers=headers, stream=True, timeout=TIMEOUT)
    except ValueError as error:  # with any wording, and the password in it
        reason = f"{type(error).__name__} at HF_ENDPOINT, or where that leads"
        name = url.rpartition("/")[2]
        raise ValueError(f"{name}: {reason}; expected the address of a mirror") from None


def place_of(reply: requests.Response, path: Path, begun: Part | None) -> Part:
    """The part that the content of a reply belongs to: the one that was begun, if the reply goes on
    there, else a new one. A begun part of another version of the file is removed.

    Raises Missing if the server lacks the file, and Retry for a reply without it: the part stays
    then. Raises Retry for a reply that goes on elsewhere, too: the part is removed then.
    """
    if begun and reply.status_code in (206, 416):  # the rest, or: there is no such rest
        size = size_if_rest(reply, begun)
        if size is None:
            begun.path.unlink(missing_ok=True)
            raise Retry("the server has another version of the file")
        require_file(reply, 206)
        return begun._replace(size=size)
    require_file(reply, 200)
    if begun:
        begun.path.unlink(missing_ok=True)
    return new_part(path, reply.headers.get("ETag", ""), reply.raw.length_remaining)


def size_if_rest(reply: requests.Response, part: Part) -> int | None:
    """The size of the whole file, if a reply goes on where the part ends, in the same version; else
    None. The reply may not bring all the rest: "bytes 5-7/100" means three bytes of a hundred.
    """
    content_range = reply.headers.get("Content-Range", "")
    said = re.fullmatch(rf"bytes {part.n_bytes}-[0-9]+/([0-9]{{1,18}})", content_range)
    return int(said[1]) if said and reply.headers.get("ETag") == part.tag else None


def require_file(reply: requests.Response, expected: int) -> None:
    """Raise Missing if the server does not have the file, or not for the public. Raise Retry if the
    reply has not the expected status, 200 with a file or 206 with the rest of one; if it is
    compressed, or a page of HTML; and if it does not say where it ends.
    """
    status = reply.status_code
    if status in (401, 403, 404, 410):  # Hugging Face answers 401 where there is nothing
        raise Missing(f"{reply.request.path_url.rpartition('/')[2]}: the server answers {status}")
    if status != expected:
        raise Retry(f"the server answers {status}")
    if reply.headers.get("Content-Encoding", "identity") != "identity":
        raise Retry("the server sends the file compressed")
    if not reply.raw.length_remaining and not reply.raw.chunked:
        raise Retry("the server does not say how long the file is, or sends an empty one")
    if "html" in reply.headers.get("Content-Type", ""):
        raise Retry("something else came, as where a network wants a login")


def receive(reply: requests.Response, part: Part, name: str) -> None:
    """Write the content of a reply into a part, from the byte part.n_bytes on, and show a bar.

    name: of the file; only weights, *.safetensors and *.bin, may have more than TEXT_LIMIT bytes
    Raises ValueError, before it writes, if the rest does not fit on the disk; and if the file has
    more bytes than it may: then the part is removed.
    """
    require_room(part)
    limit = math.inf if name.endswith((".safetensors", ".bin")) else TEXT_LIMIT
    bar = tqdm(desc=name, total=part.size, initial=part.n_bytes, leave=False, disable=None)
    # another process may write the same bytes to the same places
    with part.path.open("r+b") as file, bar:
        file.seek(part.n_bytes)
        # read1 does not wait for a full chunk, which a connection that breaks may never bring
        while file.tell() <= limit and (chunk := reply.raw.read1(CHUNK)):
            file.write(chunk)
            file.flush()  # what has come stays, should the program be killed
            bar.update(len(chunk))
    if part.path.stat().st_size > limit:
        part.path.unlink()
        raise ValueError(f"{name}: more than {limit:,} bytes came; use another mirror or model")


def require_room(part: Part) -> None:
    """Raise ValueError if what a part lacks, as far as that is known, does not fit on the disk."""
    lacking = 0 if part.size is None else part.size - part.n_bytes
    if lacking > shutil.disk_usage(part.path.parent).free:
        raise ValueError(f"{part.path}: {lacking:,} bytes do not fit on the disk; make room")


def complete(part: Part, path: Path, checksum: str | None) -> None:
    """Give a part the name of its file, if it is whole. checksum: its SHA-256 as the server states
    it, or None. Raises Retry if bytes are lacking; or if size or checksum differ from what the
    server stated: then the part is removed.
    """
    n_come = part.path.stat().st_size
    size = n_come if part.size is None else part.size  # None: the server stated none
    if n_come < size:
        raise Retry("the server sent a piece of it")
    if n_come > size or (checksum and sha256_of([part.path]) != checksum):
        part.path.unlink()
        raise Retry("what came is not what the server states")
    os.replace(part.path, path)


def stated_checksum(reply: requests.Response) -> str | None:
    """The SHA-256 that Hugging Face states for a large file, in the reply or, mostly, in a redirect
    that led to it; None if none is stated.
    """
    for answer in (*reply.history, reply):
        tag = answer.headers.get("X-Linked-Etag", "").strip('"')
        if re.fullmatch("[0-9a-f]{64}", tag):
            return tag
    return None
