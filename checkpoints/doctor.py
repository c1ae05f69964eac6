"""What is in a checkpoint folder, and whether it is well.

Every examination goes on where the one before found something, so that one run names all that is
wrong; what it finds are lines for people, each with the file it is about and what to do.
"""

import json
from pathlib import Path

import numpy as np
from tqdm import tqdm

from checkpoints.errors import InputError
from checkpoints.folder import missing_files, open_weights, read_config
from checkpoints.registry import REPOSITORIES, SIZES
from checkpoints.transfer import RECORD, difference, read_record, without_credentials
from checkpoints.vocabulary import load_encoder, require_vocabulary

# of OpenAI's 124M: prompts, the five best next tokens, their logits
GOLDEN = Path(__file__).with_name("golden_124M.json")
# of a logit, by how weights are stored
TOLERANCE = {"float32": 0.05, "float64": 0.05, "float16": 0.5, "bfloat16": 4.0}
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
    encoder = attempt(problems, load_encoder, folder)
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
    return report | {"problems": problems, "well": not problems}


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
    urls = [record[name]["url"] for name in record if (folder / name).is_file()]
    if urls:
        return ", ".join(sorted({without_credentials(url).rpartition("/")[0] for url in urls}))
    if folder.parent.name == "snapshots":
        repository = folder.parent.parent.name.removeprefix("models--").replace("--", "/")
        return f"Hugging Face's cache, {repository}"
    return f"where, is not recorded (there is no {RECORD})"


def examine_files(folder):
    """The problems of the files that a server stated sizes or checksums of."""
    record = read_record(folder)
    files = [path for path in folder.iterdir() if path.is_file() and path.name in record]
    return [
        f"{path}: is not the file that was downloaded; delete it, then use python main.py "
        "download again"
        for path in tqdm(sorted(files), desc="files", leave=False, disable=None)
        if difference(path, record[path.name])
    ]


# ---------------------------------------------------------------- tensors


def examine_tensor(name, tensor):
    """What there is to say of a tensor: a dict with a "problem", which is None where it is well."""
    problems = []
    attempt(problems, tensor.verify)
    checksum = "none stated" if tensor.crc32c is None else "wrong" if problems else "right"
    array = attempt(problems, tensor.read, np.float32)
    mean = spread = None
    if array is not None:
        mean = float(array.mean(dtype=np.float64))
        spread = float(array.std(dtype=np.float64))
        is_even = SPREAD[0] <= spread <= SPREAD[1] and abs(mean) <= spread
        if abs(mean) > MEAN or (array.ndim == 2 and not is_even):
            problems.append(
                f"{tensor.path}: {name} has mean {mean:.3g} and spread {spread:.3g}, as no GPT-2; "
                "fetch it again"
            )
    return {
        "name": name,
        "file": tensor.path.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "problem": problems[0] if problems else None,
        "checksum": checksum,
        "mean": mean,
        "deviation": spread,
    }


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
    source = origin(folder).removesuffix("/resolve/main")
    return folder.name == "124M" or source.endswith(("/124M", REPOSITORIES["124M"]))
