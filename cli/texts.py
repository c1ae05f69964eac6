"""What generate takes besides its settings: the texts to continue, and where results go."""

import sys
from dataclasses import dataclass
from functools import cached_property

from checkpoints.errors import InputError, SettingError
from checkpoints.limits import Limits
from cli.flags import FORMS, Group, Json, Workers, check_conflicts, flag
from cli.values import check_number
from decoding.prompt import Prompt

BATCH_SIZES = Limits(1, 1000, whole=True)  # each prompt has a thread
DEFAULT = ("Once upon a time there lived a king",)
ONE_PROMPT_FLAGS = ("stream", "trace", "report")  # show one text


def parse_ids(text):
    """The list of token ids (int) in "1,2,3". Raises SettingError for another text."""
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
    def by_place(self):
        """{place: prompt}; a place is "line 3" of a file, or the number of a --prompt from 1. The
        first use reads the file or standard input.
        """
        if not self.prompts:
            return {n: read_prompt(text) for n, text in enumerate(self.prompt, 1)}
        from cli.prompts import read_prompts  # here: only a file of prompts needs it

        return read_prompts(self.prompts)

    def encode(self, pair, seed):
        """Encode the texts for a Pair to a list of Prompts; prompt n has the seed `seed + n - 1`.

        A prompt of a file that is too long is left out (n counts it) and named on stderr. Raises
        InputError if another is too long, none is left, or texts or ids cannot be encoded.
        """
        if self.prompt_ids:
            tokens = Limits(0, pair.encoder.n_vocab - 1, whole=True)
            for token in self.prompt_ids:
                check_number("prompt_ids", token, tokens)
            return [Prompt.from_ids(self.prompt_ids, pair, seed)]
        if not self.prompts:
            return [Prompt.from_text(text, pair, seed, n) for n, text in self.by_place.items()]
        from cli.prompts import select_fitting  # here: only a file of prompts needs it

        max_tokens = pair.target.config.n_ctx - 1
        fitting, _ = select_fitting(self.prompts, self.by_place, pair.encoder.encode, max_tokens)
        texts = list(self.by_place.values())  # prompt n, from 1, is texts[n - 1]
        return [Prompt.from_ids(ids, pair, seed, texts[n - 1], n) for n, ids in fitting]


@dataclass(frozen=True)
class Output(Json, Workers):
    heading = "Output"

    download: bool = flag(
        False,
        "download models that are missing: 82M, 124M, 355M, 774M, 1558M, or a Hugging Face "
        "repository as owner/name",
    )
    batch_size: int = flag(8, "how many of several prompts to decode together", limits=BATCH_SIZES)
    out: str = flag(
        "",
        "write one JSON object per prompt to this file, a line each; an interrupted run continues "
        "where it stopped, if settings, prompts and models are the same",
    )

    def check(self):
        """Raise InputError if the file of --out exists or cannot be written."""
        if self.out:
            from checkpoints.output import check_output  # here: a plain run writes no file

            check_output("out", self.out, (".jsonl",))


def has_several_results(texts, output):
    """Whether the Texts and Output ask for several results: several --prompt, a file, or --out."""
    return bool(texts.prompts or output.out or len(texts.prompt) > 1)


def check_combination(texts, settings, output):
    """Check the Texts, Settings and Output of `generate` together, and the file of --report. Read
    the prompts, which texts.by_place keeps. Raises InputError for flags that exclude each other,
    and for files that cannot be read or written.
    """
    check_conflicts(settings, output)
    if has_several_results(texts, output):
        for name in filter(settings.is_set, ONE_PROMPT_FLAGS):
            problem = "with several prompts: expected one; give a single --prompt, without --out"
            raise SettingError(name, problem)
    elif output.cluster:
        problem = f"{output.cluster}: expected several prompts; give a file with --prompts"
        raise SettingError("cluster", problem)
    if settings.report:
        from checkpoints.output import check_output

        check_output("report", settings.report, (".html",))
    texts.by_place  # reads the prompts: a file that cannot be used should cost no loading of models


def read_prompt(prompt):
    """Return the prompt (str); for "-", read standard input, and return its text without the last
    line break. Raises InputError if standard input is not UTF-8.
    """
    if prompt != "-":
        return prompt
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is not UTF-8; convert the text first"
        raise InputError(f"standard input: {problem}") from None
    return text.removesuffix("\n").removesuffix("\r")
