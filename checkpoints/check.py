"""Examine a checkpoint folder: read all that a run reads, compare its files with what their source
stated and its tensors with their checksums, and the logits of 124M with OpenAI's.

Each step is taken whatever the step before found, so that one report names all that is wrong.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tqdm import tqdm

from checkpoints.errors import InputError, plural
from checkpoints.files import first_of
from checkpoints.folder import PARTS, open_weights, read_config
from checkpoints.registry import SIZES
from checkpoints.transfer import CHECKSUMS, difference, read_record
from checkpoints.vocabulary import load_encoder, require_vocabulary

# of OpenAI's 124M: prompts, the five best next tokens, their logits
GOLDEN = Path(__file__).with_name("golden_124M.json")
# of a logit, by how weights are stored
TOLERANCE = {"float32": 0.05, "float64": 0.05, "float16": 0.5, "bfloat16": 4.0}
MIN_LOGIT_RANGE = 0.01  # between the largest and the smallest logit; less is no choice at all


@dataclass
class Report:
    """The result of a check: three lists of lines to print."""

    compared: list = field(default_factory=list)
    not_compared: list = field(default_factory=list)
    problems: list = field(default_factory=list)

    def try_step(self, step, *arguments):
        """Return what step(*arguments) returns; None if it raises, which is kept as a problem."""
        try:
            return step(*arguments)
        except InputError as error:
            problem = str(error)
        except OSError as error:
            problem = f"{error.filename}: {error.strerror}; use one that you may read"
        if problem not in self.problems:  # two steps may miss the same file
            self.problems.append(problem)
        return None


def examine(folder, load_model):
    """Return the Report of a folder. load_model(folder) returns its Model."""
    report = Report()
    names_in_folder = report.try_step(files_in, folder)
    if names_in_folder is None:
        return report
    for names in PARTS:
        report.try_step(first_of, folder, *names)
    config = report.try_step(read_config, folder)
    encoder = report.try_step(load_encoder, folder)
    if config and encoder:
        report.try_step(require_vocabulary, folder, config, encoder)
    tensors = report.try_step(open_weights, folder, config) if config else None
    tensors = tensors or {}  # none of them could be opened
    examine_files(folder, names_in_folder, tensors, report)
    examine_tensors(tensors, report)
    if report.problems:
        report.not_compared.append("what the model computes")
    else:
        examine_model(folder, config, tensors, load_model, report)
    return report


def files_in(folder):
    """The names of a folder's files. Raises OSError for a folder that may not be entered."""
    return {path.name for path in folder.iterdir() if path.is_file()}


def examine_files(folder, there, tensors, report):
    """Compare the sizes and checksums of files with what is stated of their download."""
    record = report.try_step(read_record, folder) or {}
    names = {name for part in PARTS for name in part} | {t.path.name for t in tensors.values()}
    known = sorted(there & (names | record.keys()))
    for name in tqdm(known, desc="files", leave=False, disable=None):
        facts = stated_properties(record.get(name, {}))
        if not facts:
            report.not_compared.append(f"{name}: no size or checksum of a download")
        elif source := report.try_step(require_same, folder / name, record[name]):
            report.compared.append(f"{name}: {' and '.join(facts)} as {source} stated")


def examine_tensors(tensors, report):
    """Read every tensor as a run does, and compare its checksum where the file states one."""
    checksums = Counter()
    for tensor in tqdm(tensors.values(), desc="tensors", leave=False, disable=None):
        report.try_step(tensor.read, np.float32)
        checksums[report.try_step(compare_checksum, tensor)] += 1
    if tensors:
        report.compared.append(
            f"{len(tensors)} tensors: their shapes, and the sizes of their files"
        )
    if checksums["right"]:
        report.compared.append(f"{checksums['right']} tensors: their CRC-32C")
    if checksums["none stated"]:
        report.not_compared.append(
            f"{checksums['none stated']} tensors: the format has no checksums"
        )
    if checksums["unknown"]:
        reason = "checksums need pip install google-crc32c"
        report.not_compared.append(f"{checksums['unknown']} tensors: {reason}")


def examine_model(folder, config, tensors, load_model, report):
    """Load the model, and compare the logits of 124M with OpenAI's."""
    try:
        model = load_model(folder)
    except InputError as error:  # all files have been read: this machine lacks the memory
        report.not_compared.append(f"what the model computes: {error}")
        return
    report.try_step(require_spread, folder, model)
    if config != SIZES["124M"]:
        report.not_compared.append("what the model computes")
    elif verdict := report.try_step(compare_logits, folder, model, tensors):
        report.compared.append(verdict)


def require_spread(folder, model):
    """Raises InputError if a model's logits tell no token from another: those of weights of zero,
    or of numbers that were stored as another dtype than their file says.
    """
    ids = [*range(min(model.config.n_ctx, model.config.n_vocab, 8))]
    logits = model.read(ids, model.new_cache())[0]
    if not np.ptp(logits) >= MIN_LOGIT_RANGE:  # also NaN
        raise InputError(
            f"{folder}: the logits of all tokens are equal, or no numbers: the weights are zero, "
            "damaged, or of another dtype than their file says; fetch them again"
        )


def stated_properties(stated):
    """The names, "size" or of checksums, that the source of a file stated, as a list."""
    return [fact for fact in ("size", *CHECKSUMS) if stated.get(fact) is not None]


def require_same(path, stated):
    """Return the URL of the source of a file. Raises InputError if the file differs from it."""
    if wrong := difference(path, stated):
        raise InputError(f"{path}: {wrong}; delete it, then use python main.py download again")
    return stated["url"].rpartition("/")[0]


def compare_checksum(tensor):
    """Return "right", "none stated" or "unknown". Raises InputError if the checksum is wrong."""
    state = tensor.checksum()
    if state == "wrong":
        raise InputError(
            f"{tensor.path}: the bytes of {tensor.name} do not match their checksum; "
            "fetch the file again"
        )
    return state


def compare_logits(folder, model, tensors):
    """Whether the logits of some prompts are those of OpenAI's 124M, in words. Raises InputError if
    a folder of that name has others.
    """
    rows = json.loads(GOLDEN.read_text())
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
    logits = f"logits of {plural(len(rows), 'prompt')}"
    return f"{logits}: {verdict} OpenAI's 124M's, {distance:.2g} away at most"


def distance_of(logits, golden):
    """How far logits are from the stored ones of the best tokens, and how far any other token rises
    above the last of those.
    """
    best, others = logits[golden["top"]], np.delete(logits, golden["top"])
    return np.max([*abs(best - golden["logits"]), others.max() - golden["logits"][-1]])
