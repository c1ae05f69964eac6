"""What generate takes besides its settings: the texts to continue, and where results go."""

import sys
from dataclasses import dataclass
from functools import cached_property

from checkpoints.errors import InputError, SettingError
from checkpoints.output import check_output
from cli.flags import FORMS, Group, Json, Workers, check_conflicts, flag
from cli.values import check_number
from decoding.prompt import Prompt

MAX_PROMPTS = 1000  # at a time: each has a thread
DEFAULT = ("Once upon a time there lived a king",)
ONE_PROMPT_FLAGS = ("stream", "trace", "report")  # show one text


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
    prompts: str = flag(
        "",
        f"{FORMS}. Prompts that are too long are skipped, and named on stderr",
        conflicts="prompt",
    )
    prompt_ids: list = flag(
        "", "the prompt as token ids, such as 1,2,3", parse_ids, conflicts="prompt prompts"
    )

    @cached_property
    def given(self):
        """The texts, of the command line, a file or standard input; these are read once."""
        if not self.prompts:
            return [read_prompt(text) for text in self.prompt]
        return [*self.in_file.values()]

    @cached_property
    def in_file(self):
        """{place: text} of the prompts in the file."""
        from cli.prompts import read_prompts  # here: only a file of prompts needs it

        return read_prompts(self.prompts)

    def read(self, pair, seed):
        """The Prompts for a Pair; seed: that of the first. Those of a file that are too long are
        skipped, and named on stderr. Raises InputError.
        """
        if self.prompt_ids:
            for token in self.prompt_ids:
                check_number("prompt_ids", token, 0, pair.encoder.n_vocab - 1)
            return [Prompt.of_ids(self.prompt_ids, pair, seed)]
        if not self.prompts:
            return [Prompt.of(text, pair, seed, n) for n, text in enumerate(self.given, 1)]
        from cli.prompts import select_fitting

        longest = pair.target.config.n_ctx - 1
        fits, _ = select_fitting(self.prompts, self.in_file, pair.encoder.encode, longest)
        return [Prompt.of_ids(ids, pair, seed, self.given[n - 1], n) for n, ids in fits]


@dataclass(frozen=True)
class Output(Json, Workers):
    heading = "Output"

    download: bool = flag(
        False,
        "download models that are missing: 82M, 124M, 355M, 774M, 1558M, or a Hugging Face "
        "repository as owner/name",
    )
    batch_size: int = flag(
        8, "how many of several prompts to decode together", least=1, most=MAX_PROMPTS
    )
    out: str = flag(
        "",
        "write one JSON object per prompt to this file, a line each; an interrupted run continues "
        "where it stopped, if settings, prompts and models are the same",
    )

    def check(self):
        if self.out:
            check_output("out", self.out, (".jsonl",))


def has_several_results(texts, output):
    """Whether to decode as several prompts: more than one, a file of prompts, or --out."""
    return bool(texts.prompts or output.out or len(texts.prompt) > 1)


def check_combination(texts, settings, output):
    """Raises InputError, before models are loaded, for conflicting flags and unreadable prompts."""
    check_conflicts(settings, output)
    if has_several_results(texts, output):
        for name in filter(settings.has, ONE_PROMPT_FLAGS):
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
