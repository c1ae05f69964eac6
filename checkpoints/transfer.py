"""Fetching one file over HTTP, over connections that break.

A file arrives as NAME.part and is renamed when it is whole: of the size and with the checksum that
the server states. Every attempt goes on where the last one stopped, which is safe only if the file
is still the same: the record holds what the server said of each file, and a resumed reply must say
the same (RFC 9110: Range, If-Range, ETag).
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
ATTEMPTS = 6  # in a row that bring nothing new
FAILURES = {  # the first that fits: other errors hold the whole history of a connection
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
    """Fetch a file that is not there until it is whole, then give it its name. Raises HttpError, or
    InputError for a full disk. What is known of it is kept in the folder's download.json.
    """
    if path.is_file():
        return
    part, record = path.with_name(f"{path.name}.part"), read_record(path.parent)
    most = failures = 0
    while True:
        try:
            download_rest(f"{folder_url}/{path.name}", path.name, part, record)
            if wrong := difference(part, record[path.name]):
                part.unlink()  # nothing can be added that would mend it
                raise Retry(f"what came {wrong}")
            part.replace(path)
            return
        except HttpError as error:
            raise type(error)(f"{path.name}: {error}") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, Retry) as error:
            have = size_of(part)
            failures = 1 if have > most else failures + 1
            most = max(most, have)
            reason = next((FAILURES[kind] for kind in FAILURES if isinstance(error, kind)), error)
            if failures == ATTEMPTS:
                raise HttpError(f"{path.name}: {reason}, {ATTEMPTS} times in a row") from None
            wait, server = 2 ** (failures - 1), urlsplit(folder_url).hostname
            attempt = f"attempt {failures + 1} of {ATTEMPTS} in {wait} s"
            note(f"{path.name} from {server}: {reason}; {attempt}")
            sleep(wait)


def size_of(part):
    return part.stat().st_size if part.is_file() else 0


# ---------------------------------------------------------------- one attempt


def download_rest(url, name, part, record):
    """Make one request, and append the bytes that arrive to `part`.

    Raises Retry, HttpError, or an error of requests or urllib3.
    """
    have, stated = size_of(part), record.get(name)
    if not (have and stated and stated["etag"] and stated["url"] == without_credentials(url)):
        have, stated = 0, None  # what is there may be of another file
    if stated and have == stated["size"]:
        return
    headers = {"Accept-Encoding": "identity"}
    if stated:
        headers |= {"Range": f"bytes={have}-", "If-Range": stated["etag"]}
    try:
        reply = requests.get(url, headers=headers, stream=True, timeout=TIMEOUT)
    except ValueError:  # of requests, urllib or a codec, with any wording
        raise HttpError("the address, or the one it redirects to, is not valid") from None
    with reply:
        if reply.status_code in (206, 416) and not (
            stated and continues_download(reply, have, stated)
        ):
            part.unlink(missing_ok=True)
            raise Retry("the file on the server has changed")
        require_file(reply)
        if reply.status_code == 200:
            stated, have = metadata_of(reply, url), 0
            # emptied before its metadata is stored, which thus never describe another file's bytes
            part.write_bytes(b"")
            record[name] = stated
            with replace_atomically(part.with_name(RECORD)) as new:
                new.write_text(json.dumps(record, indent=1) + "\n")
        needed, free = reply.raw.length_remaining or 0, shutil.disk_usage(part.parent).free
        if needed > free:
            figures = f"{needed / 1e9:.2f} GB more are needed, {free / 1e9:.2f} GB are free"
            raise InputError(f"{part}: {figures}; make room, then try again")
        units = {"unit": "B", "unit_scale": True, "leave": False, "disable": None}
        bar = tqdm(desc=name, total=stated["size"], initial=have, **units)
        with with_filename(part), part.open("ab") as file, bar:
            # read1 does not wait for a full chunk, which a connection that breaks may never bring
            while chunk := reply.raw.read1(CHUNK):
                file.write(chunk)
                file.flush()  # what has come stays, should the program be killed
                bar.update(len(chunk))
            os.fsync(file.fileno())


def continues_download(reply, have, stated):
    """Whether a reply has the bytes from `have` on of the file whose metadata is `stated`."""
    from_there = reply.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    return from_there and reply.headers.get("ETag") == stated["etag"]


def require_file(reply):
    """Raises HttpError or Retry for a reply that does not bring the file."""
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
    """What a reply says of the whole file: size, entity tag and checksums. Size and tag are None
    where it does not, the tag also where it does not stand for the very same bytes.
    """
    etag = reply.headers.get("ETag", "")
    stated = {
        "url": without_credentials(url),
        "size": reply.raw.length_remaining,
        "etag": etag if etag.startswith('"') else None,
    }
    for answer in (*reply.history, reply):  # Hugging Face states it where it redirects
        if match := re.fullmatch('"([0-9a-f]{64})"', answer.headers.get("X-Linked-Etag", "")):
            stated["sha256"] = match[1]
    # OpenAI's files lie in Azure's store
    if match := re.fullmatch("[A-Za-z0-9+/]{22}==", reply.headers.get("Content-MD5", "")):
        stated["md5"] = base64.b64decode(match[0]).hex()
    return stated


def difference(path, stated):
    """How a file differs from what the server stated, in words; None if it does not."""
    size = path.stat().st_size
    if stated["size"] not in (None, size):
        return f"has {size} bytes of {stated['size']}"
    for name in CHECKSUMS:
        if name in stated and stated[name] != digest([path], name):
            return f"has another {name} checksum than the server states"
    return None


def read_record(folder):
    """What is known of a folder's files, {name: metadata}."""
    record = read_json(folder / RECORD, optional=True)
    for stated in record.values():
        complete = isinstance(stated, dict) and stated.keys() >= {"url", "size", "etag"}
        if not (complete and isinstance(stated["url"], str)):
            raise InputError(f"{folder / RECORD}: is damaged; delete it")
    return record
