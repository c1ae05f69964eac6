"""Fetching one file over HTTP, over connections that break.

A file arrives as NAME.part and is renamed when it is whole: of the size the server states, with the
checksum it states, and accepted by the caller's own check. Every attempt goes on where the last one
stopped, which is safe only if the file is still the same: the record holds what the server said of
each file, and a resumed reply must say the same (RFC 9110: Range, If-Range, ETag).
"""

import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
from time import sleep

import requests
import urllib3

from checkpoints.errors import InputError
from checkpoints.files import feed, read_json

RECORD = "download.json"
CHUNK = 1 << 16  # bytes
TIMEOUT = (10, 30)  # seconds to connect, and of silence
ATTEMPTS = 6  # in a row that bring nothing new
LONGEST_WAIT = 120  # seconds that a server may ask for
CHECKSUMS = {"sha256": "sha256", "git": "sha1", "md5": "md5"}  # {name: algorithm of hashlib}
REFUSALS = {
    401: "it does not exist or is private",
    403: "access is forbidden",
    404: "it is not there",
}
FAILURES = {  # the first that fits: other errors hold the whole history of a connection
    requests.Timeout: "the server is silent",
    urllib3.exceptions.TimeoutError: "the server is silent",
    requests.exceptions.SSLError: "the connection is not secure",
    requests.ConnectionError: "no connection",
    urllib3.exceptions.HTTPError: "the connection broke",
}


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


def fetch(url, path, record, bar, check):
    """Fetch a file until it is whole, then give it its name. Raises Refused where this source does
    not give it.

    record is what is known of the folder's files, {name: facts}, kept up to date in the folder's
    download.json. check(part, name) says what is wrong with content that cannot be right, or None.
    """
    part = path.with_name(path.name + ".part")
    most = failures = 0
    while True:
        try:
            known = receive(url, part, record, bar)
            if wrong := difference(part, known) or check(part, path.name):
                part.unlink()  # nothing can be added that would mend it
                raise Again(wrong)
            os.replace(part, path)
            return
        except (requests.RequestException, urllib3.exceptions.HTTPError, Again) as error:
            have = size_of(part)
            failures = 1 if have > most else failures + 1
            most = max(most, have)
            reason = next((FAILURES[kind] for kind in FAILURES if isinstance(error, kind)), error)
            if failures == ATTEMPTS:
                raise Refused(f"{reason}, {ATTEMPTS} times in a row") from None
            bar.set_postfix_str(f"{reason}; trying again")
            asked = getattr(error, "wait", None)
            sleep(2 ** (failures - 1) if asked is None else asked)


def size_of(part):
    return part.stat().st_size if part.is_file() else 0


# ---------------------------------------------------------------- one attempt


def receive(url, part, record, bar):
    """One attempt: bring part nearer to the whole file. Returns what is known of that; raises
    Again, Refused, or an error of requests or urllib3.
    """
    name = part.name.removesuffix(".part")
    known, have = record.get(name), size_of(part)
    if not have or not known or known["url"] != without_credentials(url) or not tag_of(known):
        known, have = None, 0  # what is there may be of another file
    if known and have == known["size"]:
        return known
    headers = {"Accept-Encoding": "identity"}
    if known:
        headers |= {"Range": f"bytes={have}-", "If-Range": tag_of(known)}
    try:
        reply = requests.get(url, headers=headers, stream=True, timeout=TIMEOUT)
    except ValueError:  # of requests, urllib or a codec, with any wording
        raise Refused("the address, or the one it redirects to, is not valid") from None
    with reply:
        if reply.status_code in (206, 416) and not (known and goes_on(reply, have, known)):
            part.unlink(missing_ok=True)
            raise Again("the file on the server has changed")
        require_file(reply)
        if reply.status_code == 200:
            known, have = facts(reply, url), 0
            # emptied before its facts are stored, which thus never describe another file's bytes
            part.write_bytes(b"")
            record[name] = known
            write_record(part.parent, record)
        require_space(part, name, (known["size"] or 0) - have)
        bar.reset(known["size"])
        bar.n = bar.initial = have  # which the rate does not count
        # read1 does not wait for a full chunk, which a connection that breaks may never bring
        with part.open("ab") as file:
            while chunk := reply.raw.read1(CHUNK):
                file.write(chunk)
                file.flush()  # what has come stays, should the program be killed
                bar.update(len(chunk))
            os.fsync(file.fileno())
    return known


def goes_on(reply, have, known):
    """Whether a reply brings the rest, from this byte on, of the file that is known."""
    from_there = reply.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    return from_there and reply.headers.get("ETag") == known["etag"]


def require_file(reply):
    """Raises Refused or Again for a reply that does not bring the file."""
    status = reply.status_code
    if status in (408, 425, 429) or status >= 500:
        wait = number(reply.headers.get("Retry-After", ""))
        if wait and wait > LONGEST_WAIT:
            raise Refused(f"the server answers {status} and asks to come back in {wait} s", status)
        raise Again(f"the server answers {status}", wait)
    if status not in (200, 206):
        raise Refused(f"the server answers {status}: {REFUSALS.get(status, 'no file')}", status)
    if "html" in reply.headers.get("Content-Type", ""):
        raise Refused("a web page came instead of the file (does the network want a login?)")
    if reply.headers.get("Content-Encoding", "identity") != "identity":
        raise Refused("the server sends the file compressed, though asked not to")
    length, encoding = map(reply.headers.get, ("Content-Length", "Transfer-Encoding"))
    if number(length or "") is None and encoding != "chunked":
        raise Again("the server does not say how long the file is")


def require_space(part, name, needed):
    """Raises InputError if the disk has not so many bytes left."""
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        figures = f"{name} needs {needed / 1e9:.2f} GB more, {free / 1e9:.2f} GB are free"
        raise InputError(f"{part.parent}: {figures}; make room, then try again")


# ---------------------------------------------------------------- what is known of a file


def facts(reply, url):
    """What a reply says of the whole file: size, entity tag and checksums; size and tag are None
    where it does not.
    """
    # Of a reply and the redirections before it, the first has the last word: it is the source's,
    # not a store's.
    said = {}
    for one in [reply, *reversed(reply.history)]:
        said |= dict(one.headers.lower_items())
    length = reply.headers.get("Content-Length", "")
    found = {
        "url": without_credentials(url),
        "size": number(said.get("x-linked-size", length)),
        "etag": reply.headers.get("ETag"),
    }
    if "x-repo-commit" in said:
        # Hugging Face: the hash of a large file, or git's of a small one, is its entity tag
        linked = said.get("x-linked-etag", said.get("etag", "")).strip('W/"')
        if re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", linked):
            found["git" if len(linked) == 40 else "sha256"] = linked
    if "content-md5" in said:  # OpenAI's files lie in Azure's store
        with contextlib.suppress(ValueError):
            found["md5"] = base64.b64decode(said["content-md5"], validate=True).hex()
    return found


def number(text):
    """The whole number of a header; None for what is none, or has more than 15 digits."""
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else None


def tag_of(known):
    """The entity tag where it stands for the very same bytes (does not begin with W/), or None."""
    tag = str(known["etag"])
    return tag if re.fullmatch(r'"[!#-~]*"', tag) else None


def without_credentials(url):
    """A URL that may be stored and shown: without "user:password@".

    >>> without_credentials("https://user:sec@ret@example.org/a@b")
    'https://example.org/a@b'
    >>> without_credentials("https://example.org?q=a@b")
    'https://example.org?q=a@b'
    """
    return re.sub(r"^([^/?#]*//)[^/?#]*@", r"\1", url)


def difference(path, known):
    """In what a file is not the one that the server stated, in words; None if it is."""
    size = path.stat().st_size
    if known["size"] not in (None, size):
        return f"{size} bytes came of {known['size']}"
    for name, algorithm in CHECKSUMS.items():
        if known.get(name) and known[name] != digest(path, name, algorithm):
            return f"its {name} checksum is not the one the server states"
    return None


def digest(path, name, algorithm):
    """A checksum of a file, in hexadecimal."""
    found = hashlib.new(algorithm, usedforsecurity=False)
    if name == "git":  # its name of a content
        found.update(b"blob %d\0" % path.stat().st_size)
    feed(found, path)
    return found.hexdigest()


def write_record(folder, record):
    """Store what is known of a folder's files."""
    new = folder / (RECORD + ".new")
    new.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(new, folder / RECORD)


def read_record(folder):
    """What is known of a folder's files. A damaged entry is left out, which only costs another
    beginning.
    """
    try:
        record = read_json(folder / RECORD)
    except InputError:
        return {}
    return {
        name: known
        for name, known in record.items()
        if isinstance(known, dict)
        and {"size", "etag"} <= known.keys()
        and isinstance(known.get("url"), str)
    }
