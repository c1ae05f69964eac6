"""The museum: known ways to get speculative decoding wrong, most of them seen in public code.

A mistake is data, a section of mistakes.ini: a small change of the right code, as a diff. `making`
switches a mistake on, and `measure` says how wrong its texts are, by enumeration.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

import gpt2
import sampling
from backends.backend import get_backend
from checkpoints.registry import MODELS_DIR
from cli.help import unknown
from decoding.decode import begin, decode, load_pair
from decoding.random_models import random_model
from decoding.text_difference import first_difference
from proof.prove import examine
from proof.words import describe_first_wrong
from sampling import NeuralDrafter, SamplingParams

ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)  # that a mistake may end in


@dataclass(frozen=True)
class Mistake:
    """A change of the right code, what is known of it, and where it shows: a section of
    mistakes.ini, whose keys are these. Those that it lacks are in the section DEFAULT.

    seen_in: an issue or pull request as owner/name#number, a file as owner/name/blob/commit/path
    diff: "@@ function @@", then a line "- right" and a line "+ wrong" for each line that changes;
        the right one, without a comment at its end, stands in the function once
    caught_by: the test that fails with it, as path::name
    cost: what it costs, if its distribution is right or as good as right
    example: Python in which it shows, where no text can
    verification, temperature, top_k, top_p: as the flags of these names
    n_tokens, K, n_free, draft_seed: of the texts that `measure` enumerates; n_free is the room
        behind the prompt. If there is a `stop`, a token ends them
    grammar: whether the target stands behind a Grammar
    prompt, n_prompts, stop, seed: of a text by the included models, which begins with n_prompts
        times the prompt
    """

    what: str
    seen_in: str
    diff: str
    caught_by: str
    cost: str
    example: str
    verification: str
    temperature: float
    top_k: int
    top_p: float
    n_tokens: int
    K: int
    n_free: int
    draft_seed: int
    grammar: bool
    prompt: str
    n_prompts: int
    stop: str
    seed: int

    @property
    def to_probs(self) -> SamplingParams:
        return SamplingParams(self.temperature, self.top_k, self.top_p)


def read_mistakes() -> dict[str, Mistake]:
    """The mistakes of mistakes.ini, by name."""
    sections = ConfigParser(interpolation=None)
    sections.optionxform = str  # type: ignore  # K stays K
    sections.read_string(Path(__file__).with_name("mistakes.ini").read_text("utf-8"))
    types: dict[str, Any] = {field.name: field.type for field in fields(Mistake)}
    types["diff"] = str.strip
    one_line = lambda text: " ".join(text.split())
    types |= {key: one_line for key, kind in types.items() if kind is str}
    return {
        name: Mistake(**{key: types[key](text) for key, text in sections[name].items()})
        for name in sections.sections()
    }


MISTAKES = read_mistakes()


# ---------------------------------------------------------------- what some of them need


class Grammar:
    """A target behind a grammar, the simplest there is: once the token `switch` has come, the token
    `banned` may not follow.
    """

    def __init__(self, target: Any, switch: int, banned: int):
        self.target, self.switch, self.banned = target, switch, banned
        self.config, self.new_cache = target.config, target.new_cache

    def read(self, ids, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        logits = self.target.read(ids, cache, n_last)
        for row, end in zip(logits, range(len(ids) - n_last + 1, len(ids) + 1)):
            if self.switch in ids[:end]:  # ids of the draft among them
                row[self.banned] = -np.inf
        return logits


def sample_and_keep(rng: Any, p: np.ndarray) -> int:
    """Sample a token, and keep the random number that chose it."""
    vars(rng).setdefault("kept", []).append(rng.random())
    return sample_again(rng, 1, p)


def sample_again(rng: Any, n_back: int, p: np.ndarray) -> int:
    """Sample a token with the number that was kept n_back calls ago: 1 is the last."""
    return int(sum(p.cumsum()[:-1] <= rng.kept[-n_back]))


HELPERS: dict[str, Any] = {f.__name__: f for f in (sample_and_keep, sample_again)}  # of wrong code


# ---------------------------------------------------------------- switched on


@cache
def edited(function: Callable, *pieces: tuple[str, str]) -> tuple[str, str, CodeType]:
    """A function with pieces (right, wrong) of its source exchanged: (its right source, its wrong
    source, the code of that). Raises LookupError for a right piece that does not stand there once.
    """
    lines, first_line = inspect.getsourcelines(function)
    right = wrong = textwrap.dedent("".join(lines))
    for piece, other in pieces:
        if right.count(piece) != 1:
            raise LookupError(f"{function.__qualname__}: expected {piece!r} in it, once")
        wrong = wrong.replace(piece, other)
    # at its place in its file, so that a traceback finds it there
    padded = "\n" * (first_line - 1) + wrong
    made: dict[str, Any] = {}
    code = compile(padded, str(inspect.getsourcefile(function)), "exec", dont_inherit=True)
    exec(code, function.__globals__, made)
    return right, wrong, made[function.__name__].__code__


@cache
def changes(diff: str) -> dict[Callable, list[tuple[str, str]]]:
    """{function: its pieces, as `edited` takes them} of a diff."""
    found: dict[Callable, list[tuple[str, str]]] = {}
    for function, lines in re.findall(r"@@ (\S+) @@\n([^@]*)", diff):
        found[eval(function)] = re.findall(r"- (.*)\n\+ (.*)", lines)
    return found


@contextmanager
def making(mistake: Mistake) -> Iterator[None]:
    """Make the mistake in a `with` block: its functions have the wrong code, for every caller."""
    wrong = {f: edited(f, *pieces)[2] for f, pieces in changes(mistake.diff).items()}
    right = {function: function.__code__ for function in wrong}  # type: ignore
    try:
        vars(sampling).update(HELPERS)
        for function, code in wrong.items():
            function.__code__ = code  # type: ignore
        with np.errstate(all="ignore"):  # it may divide by 0
            yield
    finally:
        for function, code in right.items():
            function.__code__ = code  # type: ignore
        for name in HELPERS:
            vars(sampling).pop(name, None)


# ---------------------------------------------------------------- how wrong it is

PROMPT, END, N_VOCAB = [1, 0], 2, 3  # of the texts that are enumerated; END ends them


def measure(mistake: Mistake) -> dict[str, Any]:
    """What proof.prove.examine says of the project's own loop with a mistake. Target and draft are
    two GPT-2s with three tokens. Each text gets one more token at its end, N_VOCAB, which the
    models do not know: so a text of another length is another text.
    """
    config = gpt2.Config(N_VOCAB, len(PROMPT) + mistake.n_free, n_embd=4, n_head=2, n_layer=2)
    models = (  # at the usual scale, 0.02, all distributions would be nearly uniform
        random_model(config, get_backend(), float, seed, scale=0.8)
        for seed in (1, mistake.draft_seed)
    )
    target: Any
    target, draft = models
    target = Grammar(target, END, 1) if mistake.grammar else target
    length, to_probs = min(mistake.n_tokens, mistake.n_free), mistake.to_probs
    is_done = (lambda new: new[-1] == END) if mistake.stop else sampling.never

    @cache
    def next_token(text: tuple[int, ...]) -> np.ndarray:  # -> [n_vocab + 1]
        if len(text) == length or text and is_done(text):
            return np.eye(N_VOCAB + 1)[N_VOCAB]
        p = to_probs(target.read([*PROMPT, *text], target.new_cache()))[0]
        return np.append(p, 0.0)

    def run(rng: Any) -> tuple[list[int], int]:
        rule = sampling.RULES[mistake.verification]
        drafter = NeuralDrafter(draft, to_probs, rng)
        with making(mistake):
            rounds = sampling.speculative(
                target, drafter, PROMPT, mistake.n_tokens, mistake.K, to_probs, rng, is_done, rule
            )
            tokens = [one_round.tokens for one_round in rounds]
        # as many passes as rounds after the prefill; the token behind the text has none
        return [*sum(tokens, []), N_VOCAB], len(tokens)

    n_tokens = length + mistake.K + 2  # all of a text counts, also if it is up to K tokens too long
    return examine(run, next_token, n_tokens, N_VOCAB)


# ---------------------------------------------------------------- the command

WIDTH, N_TOKENS, K = 100, 60, 4  # of what is printed, and of the texts by the models


def mistakes(name: str = "") -> None:
    """List known ways to get speculative decoding wrong; with a name, show that mistake at work.

    It shows the lines that are changed, how wrong whole texts of a toy are (exactly), the shortest
    text that goes wrong, and a text by the included models with the mistake and without.

        python main.py mistakes stale-cache
    """
    if not name:
        for name, mistake in MISTAKES.items():
            say(mistake.what, f"{name:<26}", 26)
        return
    if name not in MISTAKES:
        raise unknown("mistake", name, MISTAKES, "python main.py mistakes")
    mistake = MISTAKES[name]
    say(f"{name}: {mistake.what}.")
    print(f"{mistake.diff}\n")
    show_distance(mistake)
    (show_example if mistake.example else show_texts)(mistake)
    say(f"Seen in {mistake.seen_in}.")
    say(f"Caught by {mistake.caught_by}.")


def say(text: str, begin: str = "", indent: int = 0) -> None:
    """Print a paragraph, in lines of whole words."""
    wrapper = textwrap.TextWrapper(WIDTH, break_long_words=False, break_on_hyphens=False)
    wrapper.subsequent_indent = " " * indent
    print(wrapper.fill(begin + text))


def without(mistake: Mistake) -> Mistake:
    """The same settings, and the right code."""
    return replace(mistake, diff="")


def show_distance(mistake: Mistake) -> None:
    """Print how wrong the texts of the toy are, and the shortest one that goes wrong."""
    found, right = measure(mistake), measure(without(mistake))
    if found["problem"]:
        say(f"Enumerated on a toy, {found['problem']}.")
        return
    say(
        f"Enumerated on a toy: a total variation distance of {found['distance']:.4f} from the "
        f"target's texts. With K = {mistake.K}, a text gains {found['kept']:.2f} tokens on "
        f"average, beyond one a pass, and {right['kept']:.2f} without the mistake."
    )
    if found["first_wrong"]:
        say(f"{describe_first_wrong(found['first_wrong'])} ({N_VOCAB} marks the end of a text.)")
    if mistake.cost:
        say(f"The cost: {mistake.cost}.")


def show_example(mistake: Mistake) -> None:
    """Print what the example of a mistake gives without it and with it."""
    print(f"\n{mistake.example}")
    for label, made in (("Right", without(mistake)), ("Wrong", mistake)):
        with making(made):
            print(f"{label}: {eval(mistake.example, {'np': np, **vars(sampling)})}")


def show_texts(mistake: Mistake) -> None:
    """Print a text by the included models without the mistake and one with it, from the same random
    numbers, or the error that it ends in; and where the two begin to differ.
    """
    models = load_pair("17M", "0.7M-17M", MODELS_DIR)
    texts: list[list[int]] = []
    for label, made in (("Right", without(mistake)), ("Wrong", mistake)):
        try:
            result = decoded(made, *models)
        except ERRORS as error:
            say(f"{label}: it fails, {type(error).__name__}: {error}")
            return
        texts.append(result["token_ids"])
        figures = f"{len(texts[-1])} tokens, {result['tokens_per_target_pass']:.2f} per pass"
        print(f"\n{label}, {figures} of the target:\n{result['text']}")
    n = first_difference(*texts)
    print("\nThe two are the same." if n is None else f"\nThey differ from token {n} on.")


def decoded(mistake: Mistake, target: Any, draft: Any, encoder: Any) -> dict[str, Any]:
    """A text of a pair of models with a mistake, as decoding.decode.decode returns it."""
    prompt = " ".join([mistake.prompt] * mistake.n_prompts)
    ids = encoder.encode(prompt)[: target.config.n_ctx - 2]
    if mistake.grammar:
        switch, banned = (encoder.encode(sign)[0] for sign in (",", " and"))
        target = Grammar(target, switch, banned)
    with making(mistake):
        rounds = begin(
            "speculative", target, draft, encoder, ids, N_TOKENS, K=K, seed=mistake.seed,
            to_probs=mistake.to_probs, stop=mistake.stop, verification=mistake.verification,  # type: ignore
        )  # fmt: skip
        return decode(rounds, encoder)
