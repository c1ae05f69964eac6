"""What is in a checkpoint folder, and whether it is well.

Every examination goes on where the one before found something, so that one run names all that is
wrong; what it finds are lines for people, each with the file it is about and what to do.
"""

import json
import re
from pathlib import Path

import numpy as np
from tqdm import tqdm

from checkpoints.errors import InputError
from checkpoints.folder import missing_files, open_weights, read_config, weights_path
from checkpoints.formats import tf_checkpoint
from checkpoints.registry import SIZES
from checkpoints.transfer import RECORD, read_record, wrong_checksums
from checkpoints.vocabulary import load_encoder, require_vocabulary

# of OpenAI's 124M: prompts, the five best next tokens, their logits
GOLDEN = Path(__file__).with_name("golden_124M.json")
# of a logit, by how weights are stored
TOLERANCE = {"float32": 0.05, "float64": 0.05, "float16": 0.5, "bfloat16": 4.0}
PROBE = "Once upon a time, in 1808,\n\tthe naïve fox said: “don't!” 🦊"
# Wide limits, to find noise and zeros, not to judge.
SPREAD = (1e-3, 5.0)  # standard deviation of a matrix; GPT-2's began with 0.02
MEAN = 100.0  # largest mean of any tensor


def examine(folder, load_model, against=None):
    """Everything there is to report of a folder, as one object that JSON can hold.

    load_model(folder) gives the model to compare with OpenAI's 124M; `against` is the folder of
    another model that is to have the same vocabulary.
    """
    problems = []
    for name in attempt(problems, missing_files, folder) or []:
        problems.append(f"{folder}: has no {name}; a model folder needs it")
    problems += examine_files(folder)
    report = {
        "folder": str(folder),
        "origin": origin(folder),
        "config": None,
        "size": None,
        "vocabulary": None,
        "tensors": [],
        "golden": None,
    }
    encoder = attempt(problems, examine_vocabulary, folder)
    if encoder:
        report["vocabulary"] = encoder.n_vocab
    config = attempt(problems, read_config, folder)
    if config:
        report["config"] = vars(config)
        report["size"] = next((size for size in SIZES if SIZES[size] == config), None)
        if encoder:
            attempt(problems, require_vocabulary, folder, config, encoder)
        tensors = attempt(problems, open_weights, folder, config) or {}
        for name in tqdm(tensors, desc="tensors", leave=False, disable=None):
            report["tensors"].append(examine_tensor(name, tensors[name]))
        problems += [found["problem"] for found in report["tensors"] if found["problem"]]
        if tensors and not problems and config == SIZES["124M"]:
            report |= compare_with_124M(folder, tensors, load_model, problems)
    if against:
        other = attempt(problems, load_encoder, against)
        report["pairs"] = bool(encoder and other and encoder == other)
        if encoder and other and not report["pairs"]:
            problems.append(f"{folder} and {against} have different vocabularies: they cannot pair")
    warnings = [] if problems else examine_padding(folder)
    return report | {"warnings": warnings, "problems": problems, "well": not problems}


def attempt(problems, examine, *arguments):
    """The result of an examination; None, and a line among the problems, where it raises
    InputError.
    """
    try:
        return examine(*arguments)
    except InputError as error:
        problems.append(str(error))
        return None


# ---------------------------------------------------------------- files


def origin(folder):
    """Where the files came from, in words."""
    record = read_record(folder)
    names = [name for name in record if (folder / name).is_file()]
    addresses = {record[name]["url"].rpartition("/")[0] for name in names}
    if addresses:
        return ", ".join(sorted(addresses))
    if folder.parent.name == "snapshots":
        repository = folder.parent.parent.name.removeprefix("models--").replace("--", "/")
        return f"Hugging Face's cache, {repository}"
    return f"where, is not recorded (there is no {RECORD})"


def examine_files(folder):
    """The problems of the files that a server stated sizes or checksums of."""
    problems, record = [], read_record(folder)
    for name in tqdm(record, desc="files", leave=False, disable=None):
        path, said = folder / name, record[name]
        if not path.is_file():
            continue
        same_size = said["size"] in (None, path.stat().st_size)
        if not same_size or wrong_checksums(path, said):
            problems.append(
                f"{path}: is not the file that was downloaded; delete it, then use python main.py "
                "download again"
            )
    return problems


def examine_padding(folder):
    """Warnings of bytes that no reader looks at, and that are zero where nobody meddled."""
    path = weights_path(folder)
    if path.name != "model.ckpt.index":
        return []
    n_bytes = tf_checkpoint.stray_bytes(path.read_bytes())
    if not n_bytes:
        return []
    return [f"{path}: {n_bytes} bytes of its padding are not zero; the tensors are not concerned"]


# ---------------------------------------------------------------- the vocabulary


def examine_vocabulary(folder):
    """The encoder of a folder, which must be able to read what it wrote."""
    encoder = load_encoder(folder)
    probe = "".join(character for character in PROBE if can_encode(encoder, character))
    if encoder.decode(encoder.encode(probe)) != probe:
        raise InputError(
            f"{folder}: its vocabulary and merges do not give a text back; fetch both again"
        )
    return encoder


def can_encode(encoder, text):
    """Whether a vocabulary, which may lack bytes, has all that the text needs."""
    try:
        encoder.encode(text)
        return True
    except ValueError:
        return False


# ---------------------------------------------------------------- tensors


def examine_tensor(name, tensor):
    """What there is to say of a tensor: a dict with a "problem", which is None where it is well."""
    found = {
        "name": name,
        "file": tensor.path.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "problem": None,
        "checksum": "none stated" if tensor.crc32c is None else "right",
        "mean": None,
        "deviation": None,
    }
    try:
        array = tensor.read(np.float32)
        mean = float(array.mean(dtype=np.float64))
        spread = float(array.std(dtype=np.float64))
        found |= {"mean": mean, "deviation": spread}
        odd_matrix = array.ndim == 2 and not (
            SPREAD[0] <= spread <= SPREAD[1] and abs(mean) <= spread
        )
        if odd_matrix or abs(mean) > MEAN:
            raise InputError(
                f"{tensor.path}: {name} has mean {mean:.3g} and spread {spread:.3g}, as no GPT-2; "
                "fetch it again"
            )
    except InputError as error:
        found["problem"] = str(error)
    try:
        tensor.verify()
    except InputError as error:
        found |= {"checksum": "wrong", "problem": str(error)}
    return found


# ---------------------------------------------------------------- OpenAI's 124M


def compare_with_124M(folder, tensors, load_model, problems):
    """{"golden": what the golden prompts give, "is_openai_124M": whether that is right}."""
    rows = attempt(problems, examine_logits, folder, load_model)
    tolerance = max(TOLERANCE[tensor.dtype] for tensor in tensors.values())
    right = bool(rows) and all(row["difference"] <= tolerance for row in rows)
    if not right and is_named_124M(folder):
        problems.append(
            f"{folder}: its logits are not those of OpenAI's 124M; delete it and download 124M "
            "again"
        )
    return {"golden": rows, "is_openai_124M": right}


def examine_logits(folder, load_model):
    """What each golden prompt gives: the five likeliest words, and the largest difference from the
    golden logits.
    """
    model, encoder = load_model(folder), load_encoder(folder)
    rows = []
    for golden in json.loads(GOLDEN.read_text()):
        logits = model.read(golden["ids"], model.new_cache())[0]
        difference = float(abs(logits[golden["top"]] - golden["logits"]).max())
        words = [encoder.decode([i]) for i in np.argsort(-logits)[:5]]
        prompt = encoder.decode(golden["ids"])
        rows.append({"prompt": prompt, "top_five": words, "difference": difference})
    return rows


def is_named_124M(folder):
    """Whether a folder claims to be OpenAI's 124M: by its name, or by where it came from."""
    return folder.name == "124M" or bool(
        re.search(r"(/124M|openai-community/gpt2(/resolve/main)?)$", origin(folder))
    )
