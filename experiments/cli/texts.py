"""The texts that generate continues: from flags, standard input or a file."""

import sys

from experiments.data.files import check_output
from experiments.data.prompts import read_prompts
from experiments.data.reading import MOST_BYTES, require_size
from experiments.decoding.batching import check_batch_size
from utils import InputError

DEFAULT = ("Once upon a time there lived a king",)
ALONE = ("stream", "trace", "report", "mistake")  # what goes with a single prompt only


def read_prompt(prompt):
    """The prompt itself, or standard input for "-", without its last line break."""
    if prompt != "-":
        return prompt
    if sys.stdin is None:
        raise InputError("--prompt -: standard input is closed; give the text after --prompt")
    data = sys.stdin.buffer.read(MOST_BYTES + 1)
    require_size(data, "standard input", MOST_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"standard input: byte {error.start} is not UTF-8; convert the text first"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


def choose_texts(prompt, prompts):
    """(the texts of --prompt, None) or (those of the file of --prompts, the name of its form).

    Raises InputError.
    """
    if prompt.count("-") > 1:
        raise InputError("--prompt - twice: standard input can be read once")
    if prompts:
        return read_prompts(prompts)
    return [read_prompt(text) for text in prompt], None


def check_job(settings, prompt, prompts, prompt_ids, batch_size, out, json, cluster, verbose):
    """Raises InputError for flags of generate that cannot go together, before its work begins."""
    sources = [("prompts", prompts), ("prompt_ids", prompt_ids)]
    given = [f"--{name} {value!r}" for name, value in sources if value]
    if prompt != DEFAULT:
        given.append("--prompt")
    if len(given) > 1:
        raise InputError(f"{given[0]} with {given[1]}: expected one of the two")
    check_batch_size(batch_size)
    if settings.trace and json:
        raise InputError("--trace with --json: expected one of the two, as JSON is printed alone")
    several = prompts or out or len(prompt) > 1
    if cluster and not several:
        raise InputError(
            f"--cluster {cluster}: expected several prompts; give a file with --prompts"
        )
    if cluster and verbose:
        raise InputError(
            f"--verbose with --cluster {cluster}: expected one of the two, as the workers choose "
            "their kernels"
        )
    if several:
        alone = [name for name in ALONE if getattr(settings, name)]
        if settings.paths > 1:
            alone.append("paths")
        if alone:
            raise InputError(
                f"--{alone[0]} with several prompts: expected one; give a single --prompt, "
                "without --out"
            )
    if out:
        check_output("out", out, (".jsonl",))
    if settings.report:
        check_output("report", settings.report, (".html",))
