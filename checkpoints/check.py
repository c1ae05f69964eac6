"""Examines a checkpoint folder: reads all files that a run reads, compares their sizes and
checksums with the source's, tensors with their checksums, and the logits of 124M with OpenAI's.

A problem does not end the examination, so that one report names all problems.
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

# [{"ids": of a prompt, "top": the five best next tokens, "logits": theirs}] of OpenAI's 124M
GOLDEN = Path(__file__).with_name("golden_124M.json")
# how far a logit may be away, by the dtype in which weights are stored
TOLERANCE = {"float32": 0.05, "float64": 0.05, "float16": 0.5, "bfloat16": 4.0}
MIN_LOGIT_RANGE = 0.01  # between the largest and the smallest logit of a model that works


@dataclass
class Report:
    """The result of a check: three lists of lines to print. `problems` is empty if all is right."""

    compared: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def try_step(self, step, *arguments):
        """Return the result of step(*arguments). If it raises InputError or OSError, return None
        and add the message to the problems.
        """
        try:
            return step(*arguments)
        except InputError as error:
            problem = str(error)
        except OSError as error:
            problem = f"{error.filename}: {error.strerror}; use one that you may read"
        if problem not in self.problems:  # two steps may miss the same file
            self.problems.append(problem)
        return None


def examine(folder, load_model, load_heads):
    """Examine the checkpoint folder at a Path, and return the Report. Reads all its files, and
    shows progress on stderr.

    load_model(folder) returns its Model; load_heads: {name of a file: function(folder, model) that
    loads this head of the model}. They raise InputError for what cannot be used.
    """
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
    tensors = tensors or {}  # if they could not be opened
    examine_files(folder, names_in_folder, tensors, report)
    examine_tensors(tensors, report)
    if report.problems:
        report.not_compared.append("what the model computes")
    else:
        examine_model(folder, config, tensors, load_model, load_heads, report)
    return report


def files_in(folder):
    """The set of the names of a folder's files. Raises OSError if the folder may not be read."""
    return {path.name for path in folder.iterdir() if path.is_file()}


def examine_files(folder, names_in_folder, tensors, report):
    """Compare sizes and checksums of the files in a folder, a Path, with those in its
    download.json, and add the results to the Report.
    names_in_folder: {name of a file}, a set. tensors: {name: Tensor}, whose files are compared, too
    """
    record = report.try_step(read_record, folder) or {}
    names = {name for part in PARTS for name in part} | {t.path.name for t in tensors.values()}
    known = sorted(names_in_folder & (names | record.keys()))
    for name in tqdm(known, desc="files", leave=False, disable=None):
        properties = stated_properties(record.get(name, {}))
        if not properties:
            report.not_compared.append(f"{name}: no size or checksum of a download")
            continue
        source = report.try_step(compare_with_source, folder / name, record[name])
        if source:
            report.compared.append(f"{name}: {' and '.join(properties)} as {source} stated")


def examine_tensors(tensors, report):
    """Read every tensor of {name: Tensor} as a run does, compare its checksum if the file states
    one, and add the results to the Report; also the problems, which are not raised.
    """
    checksums = Counter()  # {"right", "none stated", "unknown", or None for a problem: tensors}
    for tensor in tqdm(tensors.values(), desc="tensors", leave=False, disable=None):
        report.try_step(tensor.read, np.float32)
        checksums[report.try_step(require_checksum, tensor)] += 1
    if tensors:  # what open_weights has compared
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


def examine_model(folder, config, tensors, load_model, load_heads, report):
    """Load the model and its heads, compare its logits with those of OpenAI's 124M if it has that
    shape, and add to the Report. A model for which the memory is missing is `not_compared`.

    folder: a Path; config: its Config; tensors: {name: Tensor} of its weights
    load_model, load_heads: functions, as in `examine`
    """
    try:
        model = load_model(folder)
    except InputError as error:  # all files have been read: this machine lacks the memory
        report.not_compared.append(f"what the model computes: {error}")
        return
    report.try_step(require_logit_spread, folder, model)
    for name, load_head in load_heads.items():
        if (folder / name).is_file() and report.try_step(load_head, folder, model):
            # load_head refuses a head of other weights
            report.compared.append(f"{name}: which weights it was trained on")
    if config != SIZES["124M"]:
        report.not_compared.append("what the model computes")
        return
    verdict = report.try_step(compare_logits, folder, model, tensors)
    if verdict:
        report.compared.append(verdict)


def require_logit_spread(folder, model):
    """Raise InputError if the logits of a utils.Model are all equal, or not finite. Its weights
    are then zero, or stored as another dtype than their file says. folder: named in the message
    """
    ids = [*range(min(model.config.n_ctx, model.config.n_vocab, 8))]
    logits = model.read(ids, model.new_cache())[0]  # [n_vocab]
    if not MIN_LOGIT_RANGE <= np.ptp(logits) < np.inf:  # NaN, too, is not between them
        raise InputError(
            f"{folder}: the logits of all tokens are equal, or not finite: the weights are "
            "zero, damaged, or of another dtype than their file says; fetch them again"
        )


def stated_properties(stated):
    """The names of what can be compared in the metadata of a file: a list of "size", "sha256" and
    "md5", as far as its source stated them.
    """
    return [name for name in ("size", *CHECKSUMS) if stated.get(name) is not None]


def compare_with_source(path, stated):
    """Compare the file at a Path with `stated`, its metadata in download.json: {"url", "size",
    "etag", ...}. Returns the URL of the folder that it came from. Raises InputError if it differs.
    """
    if problem := difference(path, stated):
        raise InputError(f"{path}: {problem}; delete it, then use python main.py download again")
    return stated["url"].rpartition("/")[0]


def require_checksum(tensor):
    """Compare the bytes of a Tensor with their checksum. Returns "right", "none stated", or
    "unknown" if it cannot be computed here. Raises InputError if it is wrong.
    """
    state = tensor.compare_checksum()
    if state == "wrong":
        raise InputError(
            f"{tensor.path}: the bytes of {tensor.name} do not match their checksum; "
            "fetch the file again"
        )
    return state


def compare_logits(folder, model, tensors):
    """Compare a model's logits after some prompts with those of OpenAI's 124M. Returns the result
    as a line. Raises InputError if they differ and the folder is named 124M.

    tensors: {name: Tensor}, whose dtypes decide how far logits may be away
    """
    golden = json.loads(GOLDEN.read_text())
    distances = []
    for entry in golden:
        logits = model.read(entry["ids"], model.new_cache())[0]  # [n_vocab]
        distances.append(distance_of(logits, entry))
    distance = np.max(distances)  # not max(): NaN stays NaN
    are_equal = distance <= max(TOLERANCE[tensor.dtype] for tensor in tensors.values())
    if folder.name == "124M" and not are_equal:
        raise InputError(
            f"{folder}: its logits are not those of OpenAI's 124M; delete it and download "
            "124M again"
        )
    verdict = "are" if are_equal else "are not"
    prompts = plural(len(golden), "prompt")
    return f"logits of {prompts}: {verdict} OpenAI's 124M's, {distance:.2g} away at most"


def distance_of(logits, golden):
    """The error of logits [n_vocab], compared with an entry of GOLDEN: {"top": [id], "logits":
    [number]}, the largest logits first. NaN if a logit is NaN.

    It is the larger of two numbers: the largest difference at the tokens in "top", and by how much
    the largest logit of all other tokens exceeds the last of "logits".
    """
    best, others = logits[golden["top"]], np.delete(logits, golden["top"])
    too_high = others.max() - golden["logits"][-1]
    return np.max([*abs(best - golden["logits"]), too_high])
