"""What the user gave, checked: settings, and texts as token ids. Every refusal is an InputError of
one line.
"""

import sys

from experiments.data.files import check_output
from experiments.data.prompts import read_prompts
from sampling import Filter
from utils import InputError

ONCE = ("Once upon a time",)  # the prompt where none is given


def read_prompt(prompt):
    """The prompt itself, or standard input for "-", without its last line break."""
    if prompt != "-":
        return prompt
    if sys.stdin is None:
        raise InputError("--prompt -: standard input is closed; give the text after --prompt")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise InputError(
            f"standard input: byte {error.start} is not UTF-8; convert the text first"
        ) from None


def choose_texts(
    prompt, prompts, batch_size, stream, trace, report, mistake, coupled, out, **others
):
    """The texts to continue. Raises InputError for flags that cannot go together."""
    if prompts and prompt != ONCE:
        raise InputError(f"--prompts {prompts!r} with --prompt: expected one of the two")
    if prompt.count("-") > 1:
        raise InputError("--prompt - twice: standard input can be read once")
    if not 1 <= batch_size <= 1000:
        raise InputError(f"--batch_size {batch_size}: expected 1 to 1000")
    if out:
        check_output("out", out, (".jsonl",), new=True)
    if mistake and (trace or report or coupled):
        raise InputError(
            "--mistake with --trace, --report or --coupled: expected it alone, they watch the right code"
        )
    texts = read_prompts(prompts) if prompts else [read_prompt(text) for text in prompt]
    for name, value in (
        ("stream", stream),
        ("trace", trace),
        ("report", report),
        ("mistake", mistake),
    ):
        if value and (len(texts) > 1 or prompts or out):
            raise InputError(
                f"--{name} with several prompts: expected one; give a single --prompt, without --out"
            )
    return texts


def parse_K(text):
    """A number of drafts, or "auto". Raises InputError."""
    try:
        return text if text == "auto" else int(text)
    except ValueError:
        raise InputError(f"--K {text!r}: expected one whole number, or auto") from None


def check_settings(
    K,
    n_tokens_to_generate,
    seed,
    temperature,
    top_k,
    top_p,
    mode="both",
    draft_confidence=0.0,
    coupled=False,
    trace=False,
    report="",
    json=False,
    **others,
):
    """The Filter of these settings. Raises InputError for one that makes no sense."""
    least = {
        "K": (1 if K == "auto" else K, 1),
        "n_tokens_to_generate": (n_tokens_to_generate, 1),
        "seed": (seed, 0),
    }
    for name, (value, bound) in least.items():
        if value < bound:
            raise InputError(f"--{name} {value}: expected {bound} or more")
    if not 0 <= draft_confidence <= 1:
        raise InputError(f"--draft_confidence {draft_confidence}: expected a probability, 0 to 1")
    if draft_confidence and coupled:
        raise InputError(
            "--draft_confidence with --coupled: expected one of the two, as noise hides what the draft is sure of"
        )
    if mode not in ("both", "autoregressive", "speculative"):
        raise InputError(f"--mode {mode!r}: expected both, autoregressive or speculative")
    if trace and json:
        raise InputError("--trace with --json: expected one of the two, as JSON is printed alone")
    for name, value in (("trace", trace), ("report", report)):
        if value and mode == "autoregressive":
            raise InputError(
                f"--{name} with --mode autoregressive: expected --mode both or speculative, which it is about"
            )
    if report:
        check_output("report", report, (".html",))
    try:
        return Filter(temperature, top_k, top_p)
    except ValueError as error:
        raise InputError(f"--{error}") from None


def token_ids(name, text, encoder):
    try:
        return encoder.encode(text)
    except ValueError as error:
        raise InputError(f"--{name}: {error}") from None


def prompt_ids(text, encoder, n_ctx, n_tokens):
    """The prompt as token ids; an empty one starts from <|endoftext|>. Raises InputError if it does
    not fit.
    """
    ids = token_ids("prompt", text, encoder) or [encoder.end_of_text]
    if len(ids) >= n_ctx:
        raise InputError(
            f"the prompt has {len(ids)} tokens: expected at most {n_ctx - 1}, the context less one; shorten it"
        )
    if len(ids) + n_tokens > n_ctx:
        print(
            f"note: the context ends after {n_ctx - len(ids)} of {n_tokens} tokens", file=sys.stderr
        )
    return ids
