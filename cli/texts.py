"""What generate takes besides its settings: the texts to continue, and where results go."""

import sys
from dataclasses import dataclass
from functools import cached_property

from checkpoints.files import InputError, SettingError
from cli.files import check_output
from cli.flags import FORMS, Group, Json, Workers, check_apart, flag
from cli.prompts import fitting, read_prompts
from cli.values import check_number
from decoding.prompt import Prompt

MOST_TEXTS = 1000  # at a time: each has a thread
DEFAULT = ("Once upon a time there lived a king",)
ALONE = ("stream", "trace", "report")  # show one text


def parse_ids(text):
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        problem = f"{text!r}: expected whole numbers separated by commas"
        raise SettingError("prompt_ids", problem) from None


@dataclass(frozen=True)
class Texts(Group):
    heading = "Text"

    prompt: tuple = flag(
        DEFAULT,
        "the text to continue, or - for standard input; <|endoftext|> in it is ordinary text; "
        "repeat the flag for several prompts",
    )
    prompts: str = flag("", f"{FORMS}. Prompts that are too long are skipped, and named on stderr")
    prompt_ids: list = flag("", "the prompt as token ids, such as 1,2,3", parse_ids)

    @cached_property
    def given(self):
        """The texts, of the command line, a file or standard input; these are read once."""
        if not self.prompts:
            return [read_prompt(text) for text in self.prompt]
        return read_prompts(self.prompts)

    def read(self, settings, pair):
        """The Prompts for a Pair. Those of a file that are too long are skipped, and named on
        stderr. Raises InputError.
        """
        if self.prompt_ids:
            for token in self.prompt_ids:
                check_number("prompt_ids", token, 0, pair.encoder.n_vocab - 1)
            return [Prompt.of_ids(self.prompt_ids, settings, pair)]
        if not self.prompts:
            return [Prompt.of(text, settings, pair, n) for n, text in enumerate(self.given, 1)]
        longest = pair.target.config.n_ctx - 1
        fits, _ = fitting(self.prompts, self.given, pair.encoder.encode, longest)
        return [Prompt.of_ids(ids, settings, pair, self.given[n - 1], n) for n, ids in fits]


@dataclass(frozen=True)
class Output(Json, Workers):
    heading = "Output"

    download: bool = flag(
        False,
        "download models that are missing: 82M, 124M, 355M, 774M, 1558M, or a Hugging Face "
        "repository as owner/name",
    )
    batch_size: int = flag(
        8, "how many of several prompts to decode together", least=1, most=MOST_TEXTS
    )
    out: str = flag(
        "",
        "write one JSON object per prompt to this file, a line each; an interrupted run continues "
        "where it stopped, if settings, prompts and models are the same",
    )

    def check(self):
        if self.out:
            check_output("out", self.out, (".jsonl",))


def several(texts, output):
    """Whether there are several prompts, or a file for results as of several."""
    return bool(texts.prompts or output.out or len(texts.prompt) > 1)


def check_together(texts, settings, output):
    """Refuses, before models are loaded, flags that cannot go together and unreadable prompts."""
    check_apart(settings, output)
    if several(texts, output):
        for name in filter(settings.has, ALONE):
            problem = "with several prompts: expected one; give a single --prompt, without --out"
            raise SettingError(name, problem)
    elif output.cluster:
        problem = f"{output.cluster}: expected several prompts; give a file with --prompts"
        raise SettingError("cluster", problem)
    if settings.report:
        check_output("report", settings.report, (".html",))
    texts.given  # read before the models are: a file that cannot be used should cost no load


def read_prompt(prompt):
    """The prompt itself, or standard input for "-", without its last line break."""
    if prompt != "-":
        return prompt
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is not UTF-8; convert the text first"
        raise InputError(f"standard input: {problem}") from None
    return text.removesuffix("\n").removesuffix("\r")
