"""Fetching one file over HTTP, over connections that break.

A file arrives as NAME.part and is renamed when it is whole: of the size the server states, with the
checksum it states, and accepted by the caller's own check. Every attempt goes on where the last one
stopped, which is safe only if the file is still the same: the record holds what the server said of
each file, and a resumed reply must say the same (RFC 9110: Range, If-Range, ETag).
"""

import base64
import contextlib
import email.utils
import hashlib
import json
import os
import re
import shutil
import time

import requests
import urllib3

from checkpoints.errors import InputError
from checkpoints.files import feed, read_json

RECORD = "download.json"
CHUNK = 1 << 16  # bytes
TIMEOUT = (10, 30)  # seconds to connect, and of silence
ATTEMPTS = 6  # in a row that bring nothing new
LONGEST_WAIT = 120  # seconds that a server may ask for
CHECKSUMS = {"sha256": 64, "git": 40, "md5": 32}  # hexadecimal digits
WEB_PAGE = "a web page came instead of the file (does the network want a login?)"


class Refused(Exception):
    """This source does not give the file, however often it is asked; another may. status is HTTP's,
    or None.
    """

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


class Again(Exception):
    """This attempt failed, the next may not. wait is the seconds the server asks for, or None."""

    def __init__(self, message, wait=None):
        super().__init__(message)
        self.wait = wait


def fetch(url, path, record, bar, check, sleep=time.sleep, timeout=TIMEOUT):
    """Fetch a file until it is whole, then give it its name. Raises Refused where this source does
    not give it.

    record is what is known of the folder's files, {name: facts}, kept up to date in the folder's
    download.json. check(part, name) raises Again for content that cannot be right.
    """
    part = path.with_name(path.name + ".part")
    most = failures = 0
    while True:
        try:
            said = receive(url, part, record, bar, timeout)
            try:
                check_stated(part, said)
                check(part, path.name)
            except Again:
                if part.stat().st_size >= (said["size"] or 0):
                    part.unlink()  # nothing can be added that would mend it
                raise
            os.replace(part, path)
            return
        except (requests.RequestException, Again) as error:
            have = size_of(part)
            failures = 1 if have > most else failures + 1
            most = max(most, have)
            reason = str(error) if isinstance(error, Again) else describe(error)
            if failures == ATTEMPTS:
                raise Refused(f"{reason}, {ATTEMPTS} times in a row") from None
            bar.set_postfix_str(f"{reason}; trying again")
            wait = getattr(error, "wait", None)
            sleep(2 ** (failures - 1) if wait is None else wait)


def size_of(part):
    return part.stat().st_size if part.is_file() else 0


def describe(error):
    """A network error in a few words; those of requests hold the whole history of a connection."""
    kinds = {
        requests.Timeout: "the server is silent",
        requests.exceptions.SSLError: "the connection is not secure",
        requests.ConnectionError: "no connection",
    }
    for kind, words in kinds.items():
        if isinstance(error, kind):
            return words
    return type(error).__name__


# ---------------------------------------------------------------- one attempt


def receive(url, part, record, bar, timeout):
    """One attempt: bring part nearer to the whole file. Returns what the server says of that;
    raises Again or Refused.
    """
    name = part.name.removesuffix(".part")
    known = record.get(name)
    have = size_of(part)
    if not have or not known or known["url"] != without_credentials(url) or not known["etag"]:
        have, known = 0, None  # what is there may be of another file
    if known and have == known["size"]:
        return known
    headers = {"Accept-Encoding": "identity"}
    if known:
        headers |= {"Range": f"bytes={have}-", "If-Range": known["etag"]}
    with ask(url, headers, timeout) as reply:
        resumed = reply.status_code == 206
        answered_range = reply.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if reply.status_code == 416 or (resumed and not answered_range):
            part.unlink(missing_ok=True)
            raise Again("the server has another file, or another part of it, than asked for")
        check_status(reply)
        said = facts(reply, url)
        if resumed and not (known and same_file(said, known)):
            part.unlink(missing_ok=True)
            raise Again("the file on the server has changed")
        if not resumed:
            have, known = 0, said
            # emptied before its facts are stored, which thus never describe another file's bytes
            part.write_bytes(b"")
            write_record(part.parent, record | {name: known})
            record[name] = known
        if said["size"] is None and reply.headers.get("Transfer-Encoding") != "chunked":
            raise Again("the server does not say how long the file is")
        if reply.headers.get("Content-Encoding", "identity") != "identity":
            raise Refused("the server sends the file compressed, though asked not to")
        require_space(part, name, (said["size"] or 0) - have)
        bar.reset(known["size"])
        bar.n = bar.initial = have  # which the rate does not count
        append(reply, part, bar)
    return known


def ask(url, headers, timeout):
    """The reply to a request. Raises Refused for an address, here or in a redirection, that is
    none.
    """
    try:
        return requests.get(url, headers=headers, stream=True, timeout=timeout)
    except ValueError:  # of requests, urllib or a codec, with any wording
        raise Refused("the address, or the one it redirects to, is not valid") from None


def append(reply, part, bar):
    """Write what arrives to the end of part, all of it, also when the connection breaks."""
    with part.open("ab") as file:
        for chunk in arriving(reply):
            file.write(chunk)
            file.flush()  # what has come stays, should the program be killed
            bar.update(len(chunk))
        os.fsync(file.fileno())


def arriving(reply):
    """Yield the bytes of a reply as they come: read1 does not wait for a chunk to be full, which a
    connection that breaks may never fill.
    """
    try:
        while chunk := reply.raw.read1(CHUNK):
            yield chunk
    except urllib3.exceptions.TimeoutError:
        raise Again("the server is silent") from None
    except (urllib3.exceptions.HTTPError, OSError):
        raise Again("the connection broke") from None


def require_space(part, name, needed):
    """Raises InputError if the disk has not so many bytes left."""
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        figures = f"{name} needs {needed / 1e9:.2f} GB more, {free / 1e9:.2f} GB are free"
        raise InputError(f"{part.parent}: {figures}; make room, then try again")


# ---------------------------------------------------------------- what a reply says


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
        raise Refused(WEB_PAGE)


def number(text):
    """The whole number of a header; None for what is none, or has more than 15 digits."""
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else None


def retry_after(reply):
    """The seconds in a Retry-After header, which may hold a date; None where there is none."""
    value = reply.headers.get("Retry-After", "")
    if number(value) is not None:
        return number(value)
    try:
        return max(0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def without_credentials(url):
    """A URL that may be stored and shown: without "user:password@".

    >>> without_credentials("https://user:secret@example.org/a@b")
    'https://example.org/a@b'
    """
    return re.sub(r"^([^/?#]*//)[^/?#]*@", r"\1", url)


def strong_tag(text):
    """An entity tag that stands for the very same bytes (none that begins with W/), or None."""
    return text if re.fullmatch(r'"[!#-~]*"', text) else None


def facts(reply, url):
    """What a reply says of the whole file: size, entity tag and checksums, None where it says
    nothing.
    """
    # Of a reply and the redirections before it, the first has the last word: it is the source's,
    # not a store's.
    said = {}
    for one in [reply, *reversed(reply.history)]:
        said |= dict(one.headers.lower_items())
    size = reply.headers.get("Content-Length", "")
    if reply.status_code == 206:
        size = reply.headers.get("Content-Range", "").rpartition("/")[2]
    found = {
        "url": without_credentials(url),
        "size": number(said.get("x-linked-size", size)),
        "etag": strong_tag(reply.headers.get("ETag", "")),
    }
    if "x-repo-commit" in said:
        # Hugging Face: the hash of a large file, or git's of a small one, is its entity tag
        linked = said.get("x-linked-etag", said.get("etag", "")).strip('W/"')
        found["sha256"] = linked if is_checksum(linked, "sha256") else None
        found["git"] = linked if is_checksum(linked, "git") else None
    if reply.status_code == 200 and "content-md5" in said:  # OpenAI's files lie in Azure's store
        with contextlib.suppress(ValueError):
            found["md5"] = base64.b64decode(said["content-md5"], validate=True).hex()
    return found


def same_file(new, old):
    """Whether two replies speak of one file; what only one of them says does not count."""
    if new["etag"] != old["etag"]:
        return False
    return all(old.get(name) in (None, value) for name, value in new.items() if value)


# ---------------------------------------------------------------- whether it is whole


def is_checksum(value, kind):
    return isinstance(value, str) and bool(re.fullmatch(f"[0-9a-f]{{{CHECKSUMS[kind]}}}", value))


def digest(path, kind):
    """The checksum of a file, in hexadecimal: "sha256", "md5", or "git" for git's name of its
    content.
    """
    found = hashlib.new({"git": "sha1"}.get(kind, kind), usedforsecurity=False)
    if kind == "git":
        found.update(b"blob %d\0" % path.stat().st_size)
    feed(found, path)
    return found.hexdigest()


def wrong_checksums(path, said):
    """Of the checksums stated for a file, those its bytes do not have."""
    stated = [kind for kind in CHECKSUMS if said.get(kind)]
    return [kind for kind in stated if digest(path, kind) != said[kind]]


def check_stated(part, said):
    """Raises Again for a file of another size or checksum than the server states, Refused for a web
    page.
    """
    with part.open("rb") as file:
        if re.match(rb"\s*<(!doctype|html|head|\?xml)", file.read(CHUNK), re.IGNORECASE):
            part.unlink()
            raise Refused(WEB_PAGE)
    size = part.stat().st_size
    if said["size"] not in (None, size):
        raise Again(f"{size} bytes came of {said['size']}")
    if wrong := wrong_checksums(part, said):
        raise Again(f"its {wrong[0]} checksum is not the one the server states")


# ---------------------------------------------------------------- the record of a folder


def write_record(folder, record):
    """Store the facts of a folder's files."""
    new = folder / (RECORD + ".new")
    new.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(new, folder / RECORD)


def read_record(folder):
    """The facts of a folder's files. Those that are damaged are left out, which only costs another
    beginning.
    """
    try:
        record = read_json(folder / RECORD)
    except InputError:
        return {}
    found = {}
    for name, said in record.items():
        if is_plain(name) and is_sound(said):
            # older records may hold credentials
            found[name] = said | {"url": without_credentials(said["url"])}
    return found


def is_plain(name):
    """Whether this is the name of a file in the folder itself."""
    return name.isprintable() and name not in ("", ".", "..") and not {*name} & {*"/\\:"}


def is_sound(said):
    """Whether these can be the facts of a file."""
    if not isinstance(said, dict) or not {"url", "size", "etag"} <= said.keys():
        return False
    size, etag = said["size"], said["etag"]
    checksums = [(said[kind], kind) for kind in CHECKSUMS if said.get(kind) is not None]
    return (
        isinstance(said["url"], str)
        and said["url"].isprintable()
        and (size is None or (type(size) is int and size >= 0))
        and (etag is None or (isinstance(etag, str) and strong_tag(etag) is not None))
        and all(is_checksum(value, kind) for value, kind in checksums)
    )
