"""Downloads one file over HTTP, over connections that break.

A file arrives as NAME.part and is renamed when it is complete: of the size and with the checksum
that the server states. Every attempt continues where the last one stopped. That is safe only if the
file on the server is still the same: download.json holds what the server stated of each file, and
the reply to a resumed download must state the same (RFC 9110: Range, If-Range, ETag).
"""

import base64
import json
import os
import re
import shutil
from time import sleep
from urllib.parse import urlsplit

import requests
import urllib3
from requests.utils import urldefragauth as without_credentials
from tqdm import tqdm

from checkpoints.errors import InputError, note, with_filename
from checkpoints.files import digest, read_json
from checkpoints.output import replace_atomically

RECORD = "download.json"
CHECKSUMS = ("sha256", "md5")
CHUNK = 1 << 16  # bytes
TIMEOUT = (10, 30)  # seconds to connect, and of silence
ATTEMPTS = 6  # that may fail in a row without a new byte
FAILURES = {  # {types of errors: reason}; their own messages hold the history of a connection
    (requests.Timeout, urllib3.exceptions.TimeoutError): "the server is silent",
    requests.exceptions.SSLError: "the connection is not secure",
    requests.ConnectionError: "no connection",
    urllib3.exceptions.HTTPError: "the connection broke",
}


class Retry(Exception):
    """This attempt failed; another attempt may succeed."""


class HttpError(Exception):
    """This source does not provide the file, so retrying is useless; another source may."""


class Missing(HttpError):
    """The source does not have the file."""


def fetch(folder_url, path):
    """Download folder_url/NAME to the Path `path`, folder/NAME, unless it is there.

    The bytes are appended to NAME.part, which is renamed when it is complete. The folder's
    download.json stores what the server stated of the file. A failed attempt is noted on stderr and
    repeated after a wait. Raises HttpError if the server refuses the file, or if ATTEMPTS in a row
    bring nothing new; InputError for a full disk or a damaged download.json.
    """
    if path.is_file():
        return
    part, record = path.with_name(f"{path.name}.part"), read_record(path.parent)
    max_bytes = n_failures = 0
    while True:
        try:
            download_rest(f"{folder_url}/{path.name}", path.name, part, record)
            require_complete(part, record[path.name])
            part.replace(path)
            return
        except HttpError as error:
            raise type(error)(f"{path.name}: {error}") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, Retry) as error:
            reason = reason_for(error)
        n_bytes = size_of(part)
        n_failures = 1 if n_bytes > max_bytes else n_failures + 1  # new bytes: count anew
        max_bytes = max(max_bytes, n_bytes)
        if n_failures == ATTEMPTS:
            raise HttpError(f"{path.name}: {reason}, {ATTEMPTS} times in a row")
        seconds, server = 2 ** (n_failures - 1), urlsplit(folder_url).hostname
        attempt = f"attempt {n_failures + 1} of {ATTEMPTS} in {seconds} s"
        note(f"{path.name} from {server}: {reason}; {attempt}")
        sleep(seconds)


def size_of(part):
    """The number of bytes in the file at a Path; 0 if the file is not there."""
    return part.stat().st_size if part.is_file() else 0


def reason_for(error):
    """Why an attempt failed, in words: the text in FAILURES for the error, else its own message."""
    for types, reason in FAILURES.items():
        if isinstance(error, types):
            return reason
    return str(error)


def require_complete(part, stated):
    """Delete the file `part` and raise Retry, if it is not as the server stated: a resumed
    download could only add to it. stated: its metadata, {"url", "size", "etag", ...}
    """
    if problem := difference(part, stated):
        part.unlink()
        raise Retry(f"what came {problem}")


# ---------------------------------------------------------------- one attempt


def download_rest(url, name, part, record):
    """Append to the file `part` the bytes that it lacks, by one request to `url`, or by none.

    name: of the complete file. part: the Path of NAME.part, which may not exist yet. record: {file
    name: metadata}, the contents of download.json. If the download begins anew, record[name] is
    replaced, in the file as well. Raises Retry (if the server's file has changed, after deleting
    `part`), HttpError, an error of requests or urllib3, or InputError for a full disk.
    """
    n_have, stated = size_of(part), record.get(name)
    can_resume = n_have and stated and stated["etag"] and stated["url"] == without_credentials(url)
    if not can_resume:
        n_have, stated = 0, None  # the bytes may be of another file
    elif n_have == stated["size"]:
        return
    with request(url, n_have, stated) as reply:
        # 206 sends the bytes from n_have on, useful only if the file is still the same; 416 says
        # that there are none, so that the file is another
        is_resumed = can_resume and continues_download(reply, n_have, stated)
        if reply.status_code in (206, 416) and not is_resumed:
            part.unlink(missing_ok=True)
            raise Retry("the file on the server has changed")
        require_file(reply)
        if reply.status_code == 200:  # the whole file
            n_have, stated = 0, metadata_of(reply, url)
            # emptied before its metadata is stored, which thus never describe another file's bytes
            part.write_bytes(b"")
            record[name] = stated
            with replace_atomically(part.with_name(RECORD)) as temporary:
                temporary.write_text(json.dumps(record, indent=1) + "\n")
        require_space(part, reply.raw.length_remaining or 0)  # None: the server does not say
        units = {"unit": "B", "unit_scale": True, "leave": False, "disable": None}
        bar = tqdm(desc=name, total=stated["size"], initial=n_have, **units)
        with with_filename(part), part.open("ab") as file, bar:
            # read1 does not wait for a full chunk, which a connection that breaks may never bring
            while chunk := reply.raw.read1(CHUNK):
                file.write(chunk)
                file.flush()  # what has come stays, should the program be killed
                bar.update(len(chunk))
            os.fsync(file.fileno())


def request(url, n_have, stated):
    """Request a file and return the requests.Response, of which only the headers have been read.

    n_have: number of bytes that are here. stated: {"etag", ...}, the file's metadata: the server
    sends only the rest if the file is the same; without metadata (None), it sends all. Raises
    HttpError if the URL is malformed, and errors of requests, as for a lost connection.
    """
    headers = {"Accept-Encoding": "identity"}
    if stated:
        headers |= {"Range": f"bytes={n_have}-", "If-Range": stated["etag"]}
    try:
        return requests.get(url, headers=headers, stream=True, timeout=TIMEOUT)
    except ValueError:  # of requests, urllib or a codec, with any wording
        raise HttpError("the address, or the one it redirects to, is not valid") from None


def require_space(part, n_bytes):
    """Raise InputError if n_bytes more do not fit on the disk that the file `part` is on."""
    free = shutil.disk_usage(part.parent).free
    if n_bytes > free:
        figures = f"{n_bytes / 1e9:.2f} GB more are needed, {free / 1e9:.2f} GB are free"
        raise InputError(f"{part}: {figures}; make room, then try again")


def continues_download(reply, n_have, stated):
    """Whether a requests.Response holds the bytes from n_have on of a file with stated["etag"]."""
    # stated["etag"] is never None: see can_resume
    begins_there = reply.headers.get("Content-Range", "").startswith(f"bytes {n_have}-")
    return begins_there and reply.headers.get("ETag") == stated["etag"]


def require_file(reply):
    """Raise HttpError if a reply does not contain the file, or the rest of it: Missing if it is
    not there. Raises Retry instead if another attempt may succeed. reply: a requests.Response
    """
    status, headers = reply.status_code, reply.headers
    if status in (408, 425, 429) or status >= 500:
        raise Retry(f"the server answers {status}")
    if status == 404:
        raise Missing("it is not there")
    if status not in (200, 206):
        raise HttpError(f"the server answers {status}; does it exist, and is it public?")
    if "html" in headers.get("Content-Type", "") or "Content-Encoding" in headers:
        raise HttpError("something else came instead of the file (does the network want a login?)")
    if reply.raw.length_remaining is None and not reply.raw.chunked:
        raise Retry("the server does not say how long the file is")


# ---------------------------------------------------------------- what a server states of a file


def metadata_of(reply, url):
    """The metadata of a file that a reply states: {"url", "size", "etag", and any of CHECKSUMS}.
    Size and etag are None if they are not stated. So is a weak etag: bytes may change under it.
    """
    etag = reply.headers.get("ETag", "")
    stated = {
        "url": without_credentials(url),
        "size": reply.raw.length_remaining,
        "etag": etag if etag.startswith('"') else None,
    }
    for answer in (*reply.history, reply):  # Hugging Face states the checksum when it redirects
        linked_etag = answer.headers.get("X-Linked-Etag", "")
        if re.fullmatch('"[0-9a-f]{64}"', linked_etag):
            stated["sha256"] = linked_etag.strip('"')
    md5 = reply.headers.get("Content-MD5", "")  # from Azure's store, which has OpenAI's files
    if re.fullmatch("[A-Za-z0-9+/]{22}==", md5):
        stated["md5"] = base64.b64decode(md5).hex()
    return stated


def difference(path, stated):
    """How the size or a checksum of the file at a Path differs from `stated`, in words; None if it
    does not. stated: its metadata, {"url", "size", "etag", and any of CHECKSUMS}
    """
    size = path.stat().st_size
    if stated["size"] not in (None, size):
        return f"has {size} bytes of {stated['size']}"
    for name in CHECKSUMS:
        if name in stated and stated[name] != digest([path], name):
            return f"has another {name} checksum than the server states"
    return None


def read_record(folder):
    """Read a folder's download.json: {file name: metadata}, {} if it is not there. Raises
    InputError if it is damaged.
    """
    record = read_json(folder / RECORD, optional=True)
    for stated in record.values():
        complete = isinstance(stated, dict) and stated.keys() >= {"url", "size", "etag"}
        if not (complete and isinstance(stated["url"], str)):
            raise InputError(f"{folder / RECORD}: is damaged; delete it")
    return record
