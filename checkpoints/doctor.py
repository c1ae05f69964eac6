"""What is in a checkpoint folder, and whether it is well.

Every examination goes on where the one before found something, so that one run names all that is
wrong; what it finds are lines for people, each with the file it is about and what to do.
"""

import json
from pathlib import Path

import numpy as np
from tqdm import tqdm

from checkpoints.errors import InputError, printable
from checkpoints.folder import missing_files, open_weights, read_config
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


class Problems(list):
    """The lines for people, each once, as InputError has them."""

    def add(self, line):
        line = printable(line)
        if line not in self:
            self.append(line)

    def attempt(self, examine, *arguments):
        """The result of an examination; None, and its line here, where it raises InputError."""
        try:
            return examine(*arguments)
        except InputError as error:
            self.add(str(error))
            return None


def examine(folder, load_model, against=None):
    """Everything there is to report of a folder, as one object that JSON can hold.

    load_model(folder) gives the model to compare with OpenAI's 124M; `against` is the folder of
    another model that is to have the same vocabulary.
    """
    problems = Problems()
    for name in problems.attempt(missing_files, folder) or []:
        problems.add(f"{folder}: has no {name}; a model folder needs one")
    for path in changed_files(folder):
        problems.add(
            f"{path}: is not the file that was downloaded; delete it, then use python main.py "
            "download again"
        )
    config = problems.attempt(read_config, folder)
    encoder = problems.attempt(load_encoder, folder)
    if config and encoder:
        problems.attempt(require_vocabulary, folder, config, encoder)
    tensors = problems.attempt(open_weights, folder, config) if config else None
    tensors = tensors or {}
    bar = tqdm(tensors, desc="tensors", leave=False, disable=None)
    report = {
        "folder": str(folder),
        "origin": origin(folder),
        "config": vars(config) if config else None,
        "size": next((size for size in SIZES if SIZES[size] == config), None),
        "vocabulary": encoder.n_vocab if encoder else None,
        "tensors": [examine_tensor(name, tensors[name], problems) for name in bar],
        "golden": None,
    }
    if tensors and not problems and config == SIZES["124M"]:
        report["golden"] = rows = problems.attempt(examine_logits, folder, load_model)
        tolerance = max(TOLERANCE[tensor.dtype] for tensor in tensors.values())
        right = bool(rows) and all(row["difference"] <= tolerance for row in rows)
        report["is_openai_124M"] = right
        if folder.name == "124M" and not right:
            problems.add(
                f"{folder}: its logits are not those of OpenAI's 124M; delete it and download "
                "124M again"
            )
    if against:
        other = problems.attempt(load_encoder, against)
        report["pairs"] = bool(encoder and other and encoder == other)
        if encoder and other and not report["pairs"]:
            problems.add(f"{folder} and {against} have different vocabularies: they cannot pair")
    return report | {"problems": problems, "well": not problems}


def origin(folder):
    """Where the files came from, in words."""
    record = read_record(folder)
    urls = {known["url"] for name, known in record.items() if (folder / name).is_file()}
    if urls:
        return ", ".join(sorted({url.rpartition("/")[0] for url in urls}))
    if folder.parent.name == "snapshots":
        repository = folder.parent.parent.name.removeprefix("models--").replace("--", "/")
        return f"Hugging Face's cache, {repository}"
    return f"where, is not recorded (there is no {RECORD})"


def changed_files(folder):
    """The files that are not what their server stated when they were downloaded."""
    record = read_record(folder)
    there = [name for name in sorted(record) if (folder / name).is_file()]
    bar = tqdm(there, desc="files", leave=False, disable=None)
    return [folder / name for name in bar if difference(folder / name, record[name])]


def examine_tensor(name, tensor, problems):
    """What there is to say of a tensor: a dict with a "problem", which is None where it is well."""
    found = Problems()
    found.attempt(tensor.verify)
    checksum = "none stated" if tensor.crc32c is None else "wrong" if found else "right"
    array = found.attempt(tensor.read, np.float32)
    mean = spread = None
    if array is not None:
        mean = float(array.mean(dtype=np.float64))
        spread = float(array.std(dtype=np.float64))
        is_even = SPREAD[0] <= spread <= SPREAD[1] and abs(mean) <= spread
        if abs(mean) > MEAN or (array.ndim == 2 and not is_even):
            found.add(
                f"{tensor.path}: {name} has mean {mean:.3g} and spread {spread:.3g}, as no GPT-2; "
                "fetch it again"
            )
    problems += found[:1]
    return {
        "name": name,
        "file": tensor.path.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "problem": found[0] if found else None,
        "checksum": checksum,
        "mean": mean,
        "deviation": spread,
    }


def examine_logits(folder, load_model):
    """What each prompt of GOLDEN gives: the five likeliest words, and the largest difference from
    the golden logits.
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
