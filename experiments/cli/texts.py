"""What generate takes beside its settings: the texts to continue, and where results go."""

import sys
from dataclasses import dataclass

from experiments.data.files import check_output
from experiments.data.prompts import note_form, read_prompts
from experiments.data.reading import MOST_BYTES, require_size
from experiments.data.values import SettingError
from experiments.decoding.batching import check_batch_size
from experiments.decoding.settings import FORMS, Group, Json, Workers, flag
from utils import InputError

DEFAULT = ("Once upon a time there lived a king",)
ALONE = ("stream", "trace", "report", "mistake", "rule")  # what goes with a single prompt only


@dataclass(frozen=True)
class Texts(Group):
    heading = "Text"

    prompt: tuple = flag(
        DEFAULT,
        "the text to continue, or - for standard input; <|endoftext|> in it is ordinary text; "
        "repeat the flag for several prompts",
    )
    prompts: str = flag(
        "",
        FORMS + ". Prompts that are too long are skipped, and named on stderr",
    )
    prompt_ids: str = flag("", "the prompt as token ids, such as 1,2,3")

    def check(self):
        sources = [("prompts", self.prompts), ("prompt_ids", self.prompt_ids)]
        given = [f"--{name} {value!r}" for name, value in sources if value]
        if self.prompt != DEFAULT:
            given.append("--prompt")
        if len(given) > 1:
            raise InputError(f"{given[0]} with {given[1]}: expected one of the two")
        if self.prompt.count("-") > 1:
            raise SettingError("prompt", "- twice: standard input can be read once")

    def read(self):
        """The texts, from the command line, a file or standard input. Raises InputError."""
        if not self.prompts:
            return [read_prompt(text) for text in self.prompt]
        texts, form = read_prompts(self.prompts)
        note_form(self.prompts, texts, form)
        return texts

    def for_session(self, session, texts):
        """The Prompts of a Session, of these texts or of token ids. Raises InputError."""
        if self.prompt_ids:
            return [session.prompt_of_ids(self.prompt_ids)]
        return session.prompts(texts, self.prompts)


@dataclass(frozen=True)
class Output(Json, Workers):
    heading = "Output"

    download: bool = flag(
        False,
        "download models that are missing: 82M, 124M, 355M, 774M, 1558M, or a Hugging Face "
        "repository as owner/name",
    )
    batch_size: int = flag(8, "how many of several prompts to decode together")
    out: str = flag(
        "",
        "write one JSON object per prompt to this file, a line each; an interrupted run continues "
        "where it stopped, if settings, prompts and models are the same",
    )
    verbose: bool = flag(False, "print the chosen kernels on stderr; not with --cluster")

    def check(self):
        check_batch_size(self.batch_size)
        if self.cluster and self.verbose:
            raise InputError(
                f"--verbose with --cluster {self.cluster}: expected one of the two, as the workers "
                "choose their kernels"
            )
        if self.out:
            check_output("out", self.out, (".jsonl",))


def check_together(texts, settings, output):
    """Raises InputError for flags of generate that cannot go together, before its work begins."""
    if settings.trace and output.json:
        raise InputError("--trace with --json: expected one of the two, as JSON is printed alone")
    several = texts.prompts or output.out or len(texts.prompt) > 1
    if output.cluster and not several:
        raise InputError(
            f"--cluster {output.cluster}: expected several prompts; give a file with --prompts"
        )
    if several:
        alone = [name for name in ALONE if getattr(settings, name)]
        alone += ["paths"] if settings.paths > 1 else []
        if alone:
            raise InputError(
                f"--{alone[0]} with several prompts: expected one; give a single --prompt, "
                "without --out"
            )
    if settings.report:
        check_output("report", settings.report, (".html",))


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
