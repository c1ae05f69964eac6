"""Downloads of models from Hugging Face, or a mirror at HF_ENDPOINT, over connections that break.

A file arrives as a *part*, NAME.TAG.part, where TAG is the server's ETag: what it holds is of this
version of the file and no other. It is renamed once it has the size and the SHA-256 that the server
states. Each attempt goes on where the last one stopped.

All files are of one version of the model, the commit that the first one had: the file commit.txt in
the folder keeps it for the next call.
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

from checkpoints.checksum import sha256_of
from checkpoints.files import TEXT_LIMIT
from checkpoints.folder import OPTIONAL, WEIGHTS, weights_files

CHUNK = 1 << 16  # bytes
TIMEOUT = (10, 30)  # seconds to connect, and of silence
QUOTE = quote('"')  # with which the tag in a part's name begins, if the part can be resumed
COMMIT = "commit.txt"
COMMIT_ID = "[0-9a-f]{40}"
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
    """A part of a file: what has come of it so far, in a file of its own at `path`.

    tag: the ETag of the file's version. size: of the whole file in bytes, None as long as the
    server has not stated it. start: the first byte that the next attempt asks for. That is the last
    one of the part, which comes once more: to ask for none would be an error.
    """

    path: Path
    tag: str
    start: int = 0
    size: int | None = None


# ---------------------------------------------------------------- a model


def fetch_model(repository: str, folder: Path) -> None:
    """Download the files of a model that a folder lacks; the folder is made if need be, and files
    that are there stay as they are. repository: "owner/name" on Hugging Face, or on the mirror
    whose address the environment variable HF_ENDPOINT has.

    Raises ValueError if there is no such model, if the server cannot be reached or fails again and
    again, if its list of shards is damaged, and if a file does not fit on the disk; OSError if a
    file cannot be written. Then what has come of a file stays, for the next call to go on with;
    folders that this call made, and into which nothing came, are removed.
    """
    host = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        fetch_files(f"{host.rstrip('/')}/{repository}/resolve/main", folder)
    except Missing as error:
        problem = f"Hugging Face has no such public model, or not all its files ({error})"
        advice = "use the name of one"
        if version_in(folder) != "main":
            advice = f"delete {folder} for its newest version, or {advice}"
        raise ValueError(f"{repository}: {problem}; {advice}") from None
    finally:
        with contextlib.suppress(OSError):  # another process may write there
            for path in made:  # the innermost first
                if not any(path.iterdir()):  # as after an error
                    path.rmdir()


def fetch_files(url: str, folder: Path) -> None:
    """Download the files of a model into a folder; those that are there stay. They are
    config.json; tokenizer.json or else vocab.json and merges.txt; those of generation_config.json
    and the lists of tokens (OPTIONAL) that the server has; and the weights: model.safetensors, or
    else its index with the files that this names, or else pytorch_model.bin, or its index
    (WEIGHTS). url: of the folder on the server, so that url/NAME is a file.

    Raises Missing, which names a file that the server lacks; ValueError for a damaged index, and if
    a download fails; OSError of the disk.
    """
    fetch(url, folder / "config.json")
    for name in OPTIONAL:
        fetch_if_there(url, folder / name)
    if not (folder / "tokenizer.json").is_file():  # one of OPTIONAL
        fetch(url, folder / "vocab.json")
        fetch(url, folder / "merges.txt")
    # any() stops at the first that the server has
    if not any(fetch_if_there(url, folder / name) for name in WEIGHTS):
        raise Missing(f"none of {', '.join(WEIGHTS)}")
    for path in weights_files(folder):  # the shards, if that was an index
        fetch(url, path)


def version_in(folder: Path) -> str:
    """The version of which the files in a folder are: the commit in its commit.txt (COMMIT), as
    `keep_commit` writes it, or "main", the newest, if none is there.
    """
    path = folder / COMMIT
    said = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return said if re.fullmatch(COMMIT_ID, said) else "main"


def keep_commit(reply: requests.Response, folder: Path) -> bool:
    """Write the commit that a reply states, or a redirect that led to it, in the header
    X-Repo-Commit, to commit.txt (COMMIT) in a folder, unless that is there. Returns False if that
    is there, with another commit. If none is stated, as by some mirrors, nothing is written.
    """
    stated = [answer.headers.get("X-Repo-Commit", "") for answer in reply.history + [reply]]
    for commit in stated:
        if re.fullmatch(COMMIT_ID, commit):
            if version_in(folder) == "main":
                write_once(folder / COMMIT, commit)
            return version_in(folder) == commit
    return True


def write_once(path: Path, text: str) -> None:
    """Write a small file whole, unless another process has written one there meanwhile. Raises
    OSError of the disk; then nothing is left.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        try:
            os.link(part, path)  # which never overwrites
        except FileExistsError:
            pass
        except OSError:  # a disk without links
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


# ---------------------------------------------------------------- a file


def fetch_if_there(folder_url: str, path: Path) -> bool:
    """Download folder_url/NAME to `path`, whose name is NAME, unless it is there. Returns whether
    it is there now: False if the server does not have the file. Raises ValueError if the download
    fails otherwise, and OSError of the disk, as `fetch` does.
    """
    try:
        fetch(folder_url, path)
    except Missing:
        return False
    return True


def fetch(folder_url: str, path: Path) -> None:
    """Download folder_url/NAME to `path`, whose name is NAME, unless it is there. After a failed
    attempt it warns, waits 1, 2, 4, 8 and then 16 seconds (WAITS), and tries again: six attempts at
    most, and only two if neither of the first two reached a server, as without a network.

    Raises Missing if the server does not have the file; ValueError if no attempt succeeded, which
    names the server, and for a file that does not fit on the disk or is too long; OSError, which
    names the file, for an error of the disk.
    """
    errors: list[Exception] = []  # of the attempts so far
    while True:
        error = attempt(f"{folder_url}/{path.name}", path)
        if error is None:
            return
        errors.append(error)
        host = urlsplit(folder_url).hostname  # without a password
        if len(errors) == 2 and all(map(found_nobody, errors)):
            raise ValueError(f"{host}: cannot be reached; try again with a network, or a mirror")
        if len(errors) > len(WAITS):
            raise ValueError(f"{host}: {path.name}: {reason_of(error)}; {advice_about(path)}")
        wait = WAITS[len(errors) - 1]
        warnings.warn(f"{path.name}: {reason_of(error)}; the next attempt is in {wait} s")
        sleep(wait)


def reason_of(error: Exception) -> str:
    """Why an attempt failed, in words: the message of a Retry; of any other error only the name of
    its class, as a message of requests holds the history of a connection.
    """
    return str(error) if isinstance(error, Retry) else type(error).__name__


def attempt(url: str, path: Path) -> Exception | None:
    """Make one attempt to fetch the file at a URL to `path`, unless it is there; of "main" in the
    URL, the newest version, `version_in` the folder takes the place. Returns None if it is there
    then, else the error of the connection or the server (FAILURES), after which another
    attempt may succeed. Raises other errors, as fetch_rest does; an OSError of the disk then names
    the file.
    """
    if path.is_file():  # from the start, or another process has fetched it meanwhile
        return None
    version = version_in(path.parent)  # another process may have found it meanwhile
    try:
        fetch_rest(url.replace("/resolve/main/", f"/resolve/{version}/"), path)
    except FAILURES as error:
        return error
    except OSError as error:  # of the disk: if it is full, that names no file
        error.filename = str(path)
        raise
    return None


def advice_about(path: Path) -> str:
    """What to do, in words, when all attempts to fetch the file `path` have failed. It depends on
    whether a part of the file is there that the next attempt can go on with.
    """
    resumable = f"{path.name}.{QUOTE}*.part"  # as new_part names a part with an ETag in quotes
    if any(path.parent.glob(resumable)):
        return "try again, it goes on where it stopped"
    return "try again"


def found_nobody(error: Exception) -> bool:
    """Whether a request made no connection: no network, no such host, nobody who answers there.

    error: what the request raised. If that is an error of requests, its args may have urllib3's,
    and that has as its `reason` why no connection was made, one of UNREACHED.
    """
    reasons = [getattr(cause, "reason", None) for cause in error.args]
    return any(isinstance(reason, UNREACHED) for reason in reasons)


def fetch_rest(url: str, path: Path) -> None:
    """Make one attempt to fetch the file at a URL to `path`, by one request. If an earlier attempt
    left a part of the file, beside `path`, the request is for the rest, which is added to the part.
    Otherwise, or if the server has another version by now, it is for the whole file: the old part
    is removed then. When the part has all bytes, it is renamed to `path`.

    Raises Missing if the server lacks the file; Retry, or another of FAILURES, if this attempt does
    not bring all the rest, or brings something else, and another may; ValueError for a URL that is
    none, and for a file that does not fit on the disk or is too long; OSError of the disk.
    """
    begun = find_part(path)
    with ask(url, begun) as reply:
        part = place_of(reply, path, begun)
        if not keep_commit(reply, path.parent):
            part.path.unlink(missing_ok=True)
            raise Retry("the server has another version of the model")
        require_room(part)
        is_of_weights = path.suffix in (".safetensors", ".bin")
        receive(reply, part, path.name, limit=math.inf if is_of_weights else TEXT_LIMIT)
    complete(part, path, stated_checksum(reply))


def find_part(path: Path) -> Part | None:
    """What an earlier attempt to fetch the file `path` has left beside it: the first bytes of the
    file, in one of its own with the name NAME.TAG.part. NAME is that of `path`, TAG the ETag of the
    file's version, quoted as in a URL. Returns None if there is no such file; of several, which
    only attempts at the same time can leave, any. The Part does not know how large the whole file
    is (its size is None); the next request is to begin at its last byte (start).
    """
    found = list(path.parent.glob(f"{path.name}.*.part"))
    if not found:
        return None
    file = found[0]
    tag = unquote(file.name.removeprefix(f"{path.name}.").removesuffix(".part"))
    n_bytes = file.stat().st_size
    return Part(file, tag, start=max(0, n_bytes - 1))  # its last byte comes once more


def new_part(path: Path, tag: str, size: int | None) -> Part:
    """Make an empty part NAME.TAG.part of the file `path`, whose version has this ETag, and this
    size in bytes, None if that is unknown.

    Only an ETag in quotes stands for the very same bytes ('W/"..."' does not). With another, or one
    that is too long for a name, TAG is the number of this process, and no attempt resumes the part.
    """
    escaped = quote(tag, safe="")  # with %22 for a quote (QUOTE)
    can_resume = tag.startswith('"') and len(escaped) < LONG_TAG
    in_name = escaped if can_resume else os.getpid()
    file = path.with_name(f"{path.name}.{in_name}.part")
    file.touch()
    return Part(file, tag, size=size)


def ask(url: str, part: Part | None) -> requests.Response:
    """Request the file at a URL, or if a part of it was begun, what that lacks: the server then
    sends the rest, unless it has another version of the file, which it sends whole. Returns the
    reply, whose content is not read yet. Raises RequestException if none comes, and ValueError for
    a URL that is none: the user gave its beginning as HF_ENDPOINT, or the server led to it.
    """
    headers = {"Accept-Encoding": "identity"}  # not compressed
    if part:
        headers |= {"Range": f"bytes={part.start}-", "If-Range": part.tag}
    try:
        return requests.get(url, headers=headers, stream=True, timeout=TIMEOUT)
    except ValueError as error:  # such as InvalidURL; its text may show a password in the URL
        reason = f"{type(error).__name__} at HF_ENDPOINT, or where that leads"
        name = url.rpartition("/")[2]
        raise ValueError(f"{name}: {reason}; expected the address of a mirror") from None


def place_of(reply: requests.Response, path: Path, begun: Part | None) -> Part:
    """The Part of the file `path` that the content of a reply is to be written into: what has come
    of the file so far, on the disk.

    begun: the Part whose rest was requested, or None if the whole file was. If the reply is its
        rest, it is returned, with the size of the file. If the reply is a whole file, `begun` is
        removed from the disk, and a new, empty Part is made

    Raises Retry if the reply is no rest of `begun`, which is removed then: another piece, one of
    another version, or the answer that there is no rest. Raises Missing if the server lacks the
    file, and Retry if something else came in its place (`require_file`): then `begun` stays.
    """
    if begun and reply.status_code in (206, 416):  # a piece, or: there is no such rest
        size = size_if_rest(reply, begun)
        if size is None:
            begun.path.unlink(missing_ok=True)
            raise Retry("the server has another version of the file")
        require_file(reply, expected=206)
        return begun._replace(size=size)
    require_file(reply, expected=200)
    if begun:
        begun.path.unlink(missing_ok=True)
    return new_part(path, reply.headers.get("ETag", ""), reply.raw.length_remaining)


def size_if_rest(reply: requests.Response, part: Part) -> int | None:
    """The size of the whole file in bytes, as a reply states it, if the reply goes on at byte
    part.start and its ETag is that of the part; else None. The header "Content-Range: bytes
    5-7/100" gives 100 for start = 5: the reply need not bring all the rest.
    """
    if reply.headers.get("ETag") != part.tag:  # or the reply has none: part.tag is a str
        return None
    content_range = reply.headers.get("Content-Range", "")
    # first byte, last byte (which is not used), size of the file; no file needs more than 18 digits
    said = re.fullmatch("bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18})", content_range)
    if said is None or int(said[1]) != part.start:
        return None
    return int(said[2])


def require_file(reply: requests.Response, expected: int) -> None:
    """Check that a reply, whose content is not read yet, brings bytes of a file. expected: the
    status that it should have, 200 for a whole file, 206 for the rest of one.

    Raises Missing for the statuses 401, 403, 404 and 410: the server does not have the file, or not
    for the public. Raises Retry for any other status that is not `expected`; for a content that is
    compressed, HTML or empty; and for one whose end nothing tells, as it has neither a length nor
    chunks.
    """
    status = reply.status_code
    if status in (401, 403, 404, 410):  # Hugging Face answers 401 where there is nothing
        raise Missing(f"{reply.request.path_url.rpartition('/')[2]}: the server answers {status}")
    if status != expected:
        raise Retry(f"the server answers {status}")
    if reply.headers.get("Content-Encoding", "identity") != "identity":
        raise Retry("the server sends the file compressed")
    has_end = reply.raw.length_remaining or reply.raw.chunked  # chunks end with an empty one
    if not has_end:
        raise Retry("the server does not say how long the file is, or sends an empty one")
    if "html" in reply.headers.get("Content-Type", ""):
        raise Retry("something else came, as where a network wants a login")


def receive(reply: requests.Response, part: Part, name: str, limit: float) -> None:
    """Write the content of a reply into a part, from the byte part.start on, up to where the
    content or the connection ends, and show a bar on a terminal.

    name: of the file; limit: how many bytes the file may have, at most
    Raises ValueError if it has more: then the part is removed. Raises an error of requests or
    urllib3 (FAILURES) if a read fails.
    """
    # disable=None: no bar where stderr is no terminal
    bar = tqdm(desc=name, total=part.size, initial=part.start, leave=False, disable=None)
    # r+b keeps the bytes that are there, which another process may be writing, too
    with part.path.open("r+b") as file, bar:
        file.seek(part.start)
        while file.tell() <= limit:
            # read1 does not wait for a full chunk, which a connection that breaks may never bring
            chunk = reply.raw.read1(CHUNK)
            if not chunk:  # the end
                break
            file.write(chunk)
            file.flush()  # what has come stays, should the program be killed
            bar.update(len(chunk))
    if part.path.stat().st_size > limit:
        part.path.unlink()
        raise ValueError(f"{name}: more than {limit:,} bytes came; use another mirror or model")


def require_room(part: Part) -> None:
    """Raise ValueError if what a part lacks, as far as that is known, does not fit on the disk."""
    lacking = 0 if part.size is None else part.size - part.start
    if lacking > shutil.disk_usage(part.path.parent).free:
        raise ValueError(f"{part.path}: {lacking:,} bytes do not fit on the disk; make room")


def complete(part: Part, path: Path, checksum: str | None) -> None:
    """Rename a part to `path`, the name of its file, if it is whole. checksum: the SHA-256 of the
    file in hexadecimal, as the server states it, or None if it states none.

    Raises Retry if bytes are lacking, and the part stays; and if there are too many, or the
    checksum is another: then the part is removed. Without a stated size, any size is right.
    """
    n_come = part.path.stat().st_size
    if part.size is not None and n_come < part.size:
        raise Retry("the server sent a piece of it")
    if part.size not in (None, n_come) or (checksum and sha256_of([part.path]) != checksum):
        part.path.unlink()
        raise Retry("what came is not what the server states")
    os.replace(part.path, path)


def stated_checksum(reply: requests.Response) -> str | None:
    """The SHA-256 of a large file in hexadecimal, as Hugging Face states it in the header
    X-Linked-Etag of the reply or, mostly, of a redirect that led to it; None if none is stated.
    """
    for answer in reply.history + [reply]:
        tag = answer.headers.get("X-Linked-Etag", "").strip('"')
        if re.fullmatch("[0-9a-f]{64}", tag):
            return tag
    return None
