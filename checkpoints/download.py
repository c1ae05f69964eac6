"""Downloads of models from OpenAI or Hugging Face, over connections that break.

A file arrives as NAME.TAG.part, where TAG is the server's ETag: what it holds is of this version of
the file and no other. It is renamed once it has the size and the checksum that the server states.
Each attempt goes on where the last one stopped. Two addresses can be changed to a mirror's:
GPT2_OPENAI_ENDPOINT and HF_ENDPOINT.
"""

import base64
import contextlib
import os
import re
import shutil
import warnings
from pathlib import Path
from time import sleep
from urllib.parse import quote, unquote, urlsplit

import requests
import urllib3
from tqdm import tqdm

from checkpoints.files import digest
from checkpoints.folder import WEIGHTS, problem_with, weights_files
from checkpoints.registry import REPOSITORIES, repository

OPENAI = "https://openaipublic.blob.core.windows.net/gpt-2/models"
HUGGING_FACE = "https://huggingface.co"
OPENAI_FILES = (  # the weights last
    "checkpoint",
    "hparams.json",
    "encoder.json",
    "vocab.bpe",
    "model.ckpt.index",
    "model.ckpt.data-00000-of-00001",
)
OPTIONAL_FILES = (  # what a repository may have
    "generation_config.json",
    "tokenizer_config.json",
    "added_tokens.json",
    "tokenizer.json",
)
CHUNK = 1 << 16  # bytes
TIMEOUT = (10, 30)  # seconds to connect, and of silence
ATTEMPTS = 6  # that may fail in a row without a new byte


class Retry(requests.RequestException):
    """This attempt failed; another attempt may succeed."""


class Refused(ValueError):
    """This source does not provide the file; another source may."""


class Missing(Refused):
    """The source does not have the file, or not for the public."""


# ---------------------------------------------------------------- models


def fetch_model(size: str, models_dir: str | Path) -> Path:
    """Download the missing files of a known size, or of an "owner/name" of Hugging Face, into
    models_dir/size, and return this folder. Raises ValueError with the reason of each source.
    """
    folder, reasons = Path(models_dir) / size, []
    folder.mkdir(parents=True, exist_ok=True)
    sources = {"OpenAI": fetch_from_openai, "Hugging Face": fetch_from_hugging_face}
    if size not in REPOSITORIES or size == "82M":
        del sources["OpenAI"]
    for name, fetch_from in sources.items():
        try:
            if problem_with(folder):
                fetch_from(size, folder)
            return folder
        except Refused as error:
            reasons.append(f"{name}: {error}")
    with contextlib.suppress(OSError):
        folder.rmdir()  # only an empty one
    raise ValueError(f"{size} cannot be downloaded: {'; '.join(reasons)}")


def fetch_from_openai(size: str, folder: Path):
    """Download the missing files of a size from OpenAI, or the mirror."""
    base = os.environ.get("GPT2_OPENAI_ENDPOINT") or OPENAI
    for name in OPENAI_FILES:
        fetch(f"{base.rstrip('/')}/{size}", folder / name)


def fetch_from_hugging_face(size: str, folder: Path):
    """Download the missing files of a size or "owner/name" from Hugging Face, or the mirror."""
    host = os.environ.get("HF_ENDPOINT") or HUGGING_FACE
    url = f"{host.rstrip('/')}/{repository(size)}/resolve/main"
    try:
        fetch(url, folder / "config.json")
    except Missing as error:
        raise Refused(f"there is no such public model ({error}); use the name of one") from None
    for name in OPTIONAL_FILES:
        with contextlib.suppress(Missing):
            fetch(url, folder / name)
    if not (folder / "tokenizer.json").is_file():
        fetch(url, folder / "vocab.json")
        fetch(url, folder / "merges.txt")
    for name in WEIGHTS:
        with contextlib.suppress(Missing):
            fetch(url, folder / name)
            for path in weights_files(folder)[1:]:  # if that is the index of several
                fetch(url, path)
            return
    raise Refused(f"it has none of {', '.join(WEIGHTS)}; use another model")


# ---------------------------------------------------------------- one file


def fetch(folder_url: str, path: Path):
    """Download folder_url/NAME to folder/NAME, unless it is there. A failed attempt is repeated
    after a wait, with a warning. Raises Refused if the server refuses the file, or if ATTEMPTS in a
    row bring nothing new.
    """
    most = n_failures = 0
    while not path.is_file():
        try:
            fetch_rest(f"{folder_url}/{path.name}", path)
        except Refused as error:
            raise type(error)(f"{path.name}: {error}") from None
        except FileNotFoundError:  # another process has renamed the part
            if not path.is_file():
                raise
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            # their own messages hold the history of a connection
            reason = str(error) if isinstance(error, Retry) else type(error).__name__
            part = part_of(path)
            n_bytes = part.stat().st_size if part else 0
            n_failures = 1 if n_bytes > most else n_failures + 1  # new bytes: count anew
            most = max(most, n_bytes)
            if n_failures == ATTEMPTS:
                reason = f"{path.name}: {reason}, {ATTEMPTS} times in a row"
                raise Refused(f"{reason}; try again, it goes on where it stopped") from None
            seconds, server = 2 ** (n_failures - 1), urlsplit(folder_url).hostname
            attempt = f"attempt {n_failures + 1} of {ATTEMPTS} in {seconds} s"
            warnings.warn(f"{path.name} from {server}: {reason}; {attempt}")
            sleep(seconds)


def part_of(path: Path) -> Path | None:
    """What has come of a file, or None."""
    return next(path.parent.glob(f"{path.name}.*.part"), None)


def fetch_rest(url: str, path: Path):
    """Add to the part of a file what it lacks, by one request, and rename it if it is complete. If
    the server's file is another now, begin anew.
    """
    part, n_have, tag = part_of(path), 0, ""
    headers = {"Accept-Encoding": "identity"}
    if part:
        n_have = max(0, part.stat().st_size - 1)  # to ask for no byte at all would be an error
        tag = unquote(part.name[len(path.name) + 1 : -len(".part")])
        headers |= {"Range": f"bytes={n_have}-", "If-Range": tag}
    try:
        reply = requests.get(url, headers=headers, stream=True, timeout=TIMEOUT)
    except ValueError:  # with any wording, and the password in it
        raise Refused(
            "the address, or the one it redirects to, is not valid; use another"
        ) from None
    with reply:
        begins = reply.headers.get("Content-Range", "").startswith(f"bytes {n_have}-")
        if not (part and begins and reply.headers.get("ETag") == tag):
            if part:
                part.unlink(missing_ok=True)
            if reply.status_code in (206, 416):
                raise Retry("the file on the server has changed")
            part, n_have = None, 0
        require_file(reply)
        if part is None:
            # only a tag in quotes stands for the very same bytes; else every attempt begins anew
            tag = reply.headers.get("ETag", "")
            tag = tag if tag.startswith('"') else str(os.getpid())
            part = path.with_name(f"{path.name}.{quote(tag, safe='')}.part")
            part.touch()
        lacking = reply.raw.length_remaining  # None if the server does not say
        if lacking and lacking > shutil.disk_usage(part.parent).free:
            raise ValueError(f"{part}: {lacking / 1e9:.2f} GB do not fit on the disk; make room")
        total = lacking and n_have + lacking
        units = {"unit": "B", "unit_scale": True, "leave": False, "disable": None}
        bar = tqdm(desc=path.name, total=total, initial=n_have, **units)
        # another process may write the same bytes to the same places
        with part.open("r+b") as file, bar:
            file.seek(n_have)
            # read1 does not wait for a full chunk, which a connection that breaks may never bring
            while chunk := reply.raw.read1(CHUNK):
                file.write(chunk)
                file.flush()  # what has come stays, should the program be killed
                bar.update(len(chunk))
    require_complete(part, total, reply)
    os.replace(part, path)


def require_file(reply: requests.Response):
    """Raise Refused, or Retry, if a reply does not contain a file, or the rest of one."""
    status, headers = reply.status_code, reply.headers
    if status in (408, 425, 429) or status >= 500:
        raise Retry(f"the server answers {status}")
    if status in (401, 403, 404, 410):  # Hugging Face answers 401 where there is nothing
        raise Missing(f"the server answers {status}")
    if status not in (200, 206):
        raise Refused(f"the server answers {status}")
    if "html" in headers.get("Content-Type", "") or "Content-Encoding" in headers:
        raise Refused("something else came instead of the file; use a network without a login")
    if reply.raw.length_remaining is None and not reply.raw.chunked:
        raise Retry("the server does not say how long the file is")


def require_complete(part: Path, total: int | None, reply: requests.Response):
    """Delete the part and raise Retry unless it has the size and the checksum that the server
    states: more requests could only add to it.
    """
    checksums = {}
    for answer in (*reply.history, reply):  # Hugging Face states it when it redirects
        tag = answer.headers.get("X-Linked-Etag", "").strip('"')
        if re.fullmatch("[0-9a-f]{64}", tag):
            checksums["sha256"] = tag
    # Azure, which has OpenAI's files; in a part of the file, Content-MD5 is of the part
    name = "Content-MD5" if reply.status_code == 200 else "x-ms-blob-content-md5"
    if re.fullmatch("[A-Za-z0-9+/]{22}==", reply.headers.get(name, "")):
        checksums["md5"] = base64.b64decode(reply.headers[name]).hex()
    problems = [name for name in checksums if digest([part], name) != checksums[name]]
    if total not in (None, part.stat().st_size) or problems:
        part.unlink()
        raise Retry(f"what came has another {' and '.join(problems) or 'size'} than was stated")
