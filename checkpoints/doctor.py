"""What is in a checkpoint folder, and whether it is well.

Every examination goes on where the one before found something, so that one run names all that is
wrong; what it finds are lines for people, each with the file it is about and what to do.
"""

import json
from pathlib import Path

import numpy as np
from tqdm import tqdm

from checkpoints.files import InputError
from checkpoints.folder import open_weights, read_config
from checkpoints.registry import SIZES
from checkpoints.transfer import RECORD, difference, read_record
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
    record = attempt(problems, read_record, folder) or {}
    there = sorted(name for name in record if (folder / name).is_file())
    for name in tqdm(there, desc="files", leave=False, disable=None):
        attempt(problems, require_unchanged, folder / name, record[name])
    config = attempt(problems, read_config, folder)
    encoder = attempt(problems, load_encoder, folder)
    if config and encoder:
        attempt(problems, require_vocabulary, folder, config, encoder)
    tensors = config and attempt(problems, open_weights, folder, config)
    bar = tqdm(tensors or {}, desc="tensors", leave=False, disable=None)
    report = {
        "folder": str(folder),
        "origin": origin(folder, [record[name]["url"] for name in there]),
        "config": config and vars(config),
        "size": next((size for size in SIZES if SIZES[size] == config), None),
        "vocabulary": encoder and encoder.n_vocab,
        "tensors": [examine_tensor(name, tensors[name]) for name in bar],
        "golden": None,
    }
    problems += [found["problem"] for found in report["tensors"] if found["problem"]]
    if tensors and not problems and report["size"] == "124M":
        report["golden"] = rows = attempt(problems, examine_logits, folder, load_model)
        tolerance = max(TOLERANCE[tensor.dtype] for tensor in tensors.values())
        right = bool(rows) and all(row["difference"] <= tolerance for row in rows)
        report["is_openai_124M"] = right
        if folder.name == "124M" and not right:
            problems.append(
                f"{folder}: its logits are not those of OpenAI's 124M; delete it and download "
                "124M again"
            )
    if against:
        report["pairs"] = bool(attempt(problems, require_pair, folder, against))
    return report | {"problems": [*dict.fromkeys(problems)], "well": not problems}


def attempt(problems, check, *arguments):
    """The result of a check; None, and a line among the problems, where it raises InputError, or a
    file may not be read.
    """
    try:
        return check(*arguments)
    except (InputError, OSError) as error:
        problems.append(str(error))
        return None


def origin(folder, urls):
    """Where the files came from, in words."""
    if urls:
        return ", ".join(sorted({url.rpartition("/")[0] for url in urls}))
    if folder.parent.name == "snapshots":
        repository = folder.parent.parent.name.removeprefix("models--").replace("--", "/")
        return f"Hugging Face's cache, {repository}"
    return f"where, is not recorded (there is no {RECORD})"


# ---------------------------------------------------------------- checks


def require_unchanged(path, known):
    if difference(path, known):
        raise InputError(
            f"{path}: is not the file that was downloaded; delete it, then use python main.py "
            "download again"
        )


def require_pair(folder, against):
    if load_encoder(folder) != load_encoder(against):
        raise InputError(f"{folder} and {against} have different vocabularies: they cannot pair")
    return True


def examine_tensor(name, tensor):
    """What there is to say of a tensor: a dict with a "problem", which is None where it is well."""
    problems, checksum = [], tensor.checksum()
    if checksum == "wrong":
        problems.append(
            f"{tensor.path}: the bytes of {name} do not match their checksum; fetch the file again"
        )
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


def examine_logits(folder, load_model):
    """Each prompt of GOLDEN: its five likeliest words, and how far its logits are off."""
    model, encoder = load_model(folder), load_encoder(folder)
    rows = []
    for golden in json.loads(GOLDEN.read_text()):
        logits = model.read(golden["ids"], model.new_cache())[0]
        difference = float(abs(logits[golden["top"]] - golden["logits"]).max())
        words = [encoder.decode([i]) for i in np.argsort(-logits)[:5]]
        prompt = encoder.decode(golden["ids"])
        rows.append({"prompt": prompt, "top_five": words, "difference": difference})
    return rows
