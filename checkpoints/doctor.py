"""Examine a checkpoint folder: compare its files with what their source stated, its tensors with
their shapes and checksums, and the logits of 124M with OpenAI's.

Each comparison is made whatever the one before found, so that one run names all that is wrong.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np
from tqdm import tqdm

from checkpoints.files import InputError, first_of
from checkpoints.folder import PARTS, open_weights, read_config
from checkpoints.registry import SIZES
from checkpoints.transfer import CHECKSUMS, difference, read_record

# of OpenAI's 124M: prompts, the five best next tokens, their logits
GOLDEN = Path(__file__).with_name("golden_124M.json")
# of a logit, by how weights are stored
TOLERANCE = {"float32": 0.05, "float64": 0.05, "float16": 0.5, "bfloat16": 4.0}


def examine(folder, load_model):
    """{"compared": [...], "not compared": [...], "problems": [...]}, each item a line for people.

    load_model(folder) gives the model to compare with OpenAI's 124M.
    """
    compared, left_out, problems = [], [], []

    def attempt(compare, *arguments):
        """What compare(*arguments) returns; None if it raises a problem, which is kept."""
        try:
            return compare(*arguments)
        except (InputError, OSError) as error:
            problems.append(str(error))
            return None

    for names in PARTS:
        attempt(first_of, folder, *names)
    config = attempt(read_config, folder)
    tensors = (config and attempt(open_weights, folder, config)) or {}
    record = attempt(read_record, folder) or {}

    names = {name for part in PARTS for name in part} | {t.path.name for t in tensors.values()}
    there = sorted(name for name in names | record.keys() if (folder / name).is_file())
    for name in tqdm(there, desc="files", leave=False, disable=None):
        if not (facts := stated_facts(record.get(name, {}))):
            left_out.append(f"{name}: no size or checksum of a download")
        elif (source := attempt(require_same, folder / name, record[name])) is not None:
            compared.append(f"{name}: {' and '.join(facts)} as {source} stated")

    bar = tqdm(tensors.values(), desc="tensors", leave=False, disable=None)
    checksums = Counter(attempt(compare_checksum, tensor) for tensor in bar)
    if tensors:
        compared.append(f"{len(tensors)} tensors: their shapes, and the sizes of their files")
    if checksums["right"]:
        compared.append(f"{checksums['right']} tensors: their CRC-32C")
    if checksums["none stated"]:
        left_out.append(f"{checksums['none stated']} tensors: the format has no checksums")
    if checksums["unknown"]:
        reason = "checksums need pip install google-crc32c"
        left_out.append(f"{checksums['unknown']} tensors: {reason}")

    if problems or config != SIZES["124M"]:
        left_out.append("what the model computes")
    elif verdict := attempt(compare_logits, folder, load_model, tensors):
        compared.append(verdict)
    problems = [*dict.fromkeys(problems)]  # a file that is not there may be missed twice
    return {"compared": compared, "not compared": left_out, "problems": problems}


def stated_facts(stated):
    """Which of its size and checksums the source of a file stated."""
    return [fact for fact in ("size", *CHECKSUMS) if stated.get(fact) is not None]


def require_same(path, stated):
    """The source of a file that is as stated there. Raises InputError for another."""
    if wrong := difference(path, stated):
        raise InputError(f"{path}: {wrong}; delete it, then use python main.py download again")
    return stated["url"].rpartition("/")[0]


def compare_checksum(tensor):
    """How a tensor's checksum is. Raises InputError if it is wrong."""
    state = tensor.checksum()
    if state == "wrong":
        raise InputError(
            f"{tensor.path}: the bytes of {tensor.name} do not match their checksum; "
            "fetch the file again"
        )
    return state


def compare_logits(folder, load_model, tensors):
    """Whether the logits of some prompts are those of OpenAI's 124M, in words. Raises InputError if
    a folder of that name has others.
    """
    model, rows = load_model(folder), json.loads(GOLDEN.read_text())
    distance = np.max(
        [distance_of(model.read(row["ids"], model.new_cache())[0], row) for row in rows]
    )
    right = distance <= max(TOLERANCE[tensor.dtype] for tensor in tensors.values())
    if folder.name == "124M" and not right:
        raise InputError(
            f"{folder}: its logits are not those of OpenAI's 124M; delete it and download "
            "124M again"
        )
    verdict = "are" if right else "are not"
    return f"logits of {len(rows)} prompts: {verdict} OpenAI's 124M's, {distance:.2g} away at most"


def distance_of(logits, golden):
    """How far logits are from the stored ones of the best tokens, and how far any other token rises
    above the last of those.
    """
    best, others = logits[golden["top"]], np.delete(logits, golden["top"])
    return np.max([*abs(best - golden["logits"]), others.max() - golden["logits"][-1]])
