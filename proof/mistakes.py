"""The museum: known ways to get speculative decoding wrong, most of them seen in public code.

A mistake is data, a section of mistakes.ini: a small change of the right code, as a diff. `making`
switches a mistake on, and `measure` says how wrong its texts are, by enumeration.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any
from unittest.mock import patch

import numpy as np

import gpt2
import sampling
from backends.backend import get_backend
from checkpoints.registry import MODELS_DIR
from cli.help import unknown
from decoding.decode import begin, decode, load_pair
from decoding.random_models import random_model
from decoding.text_difference import first_difference
from proof.examine import examine
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
        """logits -> the distribution to sample from, by temperature, top_k and top_p."""
        return SamplingParams(self.temperature, self.top_k, self.top_p)

    def is_done(self, new: Sequence[int]) -> bool:
        """Whether the new tokens, at least one, of a text of `measure` are all: with a `stop`, if
        the last is END.
        """
        return bool(self.stop) and new[-1] == END


def read_mistakes() -> dict[str, Mistake]:
    """The mistakes of mistakes.ini, {name of the section: the Mistake}. Each value is converted to
    the type that Mistake says; a text becomes one line, except for the diff, which keeps its lines.
    Raises TypeError for a key that is missing, KeyError for one that Mistake does not have,
    ValueError for a value that is no number where a number is expected.
    """
    sections = ConfigParser(interpolation=None)
    sections.optionxform = str  # type: ignore  # K stays K, not k
    sections.read_string(Path(__file__).with_name("mistakes.ini").read_text("utf-8"))
    kinds: dict[str, Any] = {field.name: field.type for field in fields(Mistake)}
    found: dict[str, Mistake] = {}
    for name in sections.sections():
        values: dict[str, Any] = {}
        for key, text in sections[name].items():  # with those of DEFAULT
            words = text.strip() if key == "diff" else " ".join(text.split())
            values[key] = kinds[key](words)  # int("3"), float("0.5"); a bool is False if empty
        found[name] = Mistake(**values)
    return found


MISTAKES = read_mistakes()


# ---------------------------------------------------------------- what some of them need


class Grammar:
    """A target behind a grammar, the simplest there is: after the token `switch`, anywhere in the
    text, the token `banned` is never sampled. It can be used where a model can.
    """

    def __init__(self, target: Any, switch: int, banned: int):
        self.target, self.switch, self.banned = target, switch, banned
        self.config, self.new_cache = target.config, target.new_cache

    def read(self, ids: list[int], cache: Any, n_last: int = 1) -> np.ndarray:
        """The target's logits after each of the last n_last of the ids, [n_last, n_vocab], with
        -inf for the banned token where `switch` has come. The cache is the target's, which appends
        to it what it reads.
        """
        logits = self.target.read(ids, cache, n_last)
        for i, row in enumerate(logits):
            end = len(ids) - n_last + 1 + i  # row follows so many of the ids
            if self.switch in ids[:end]:
                row[self.banned] = -np.inf
        return logits


def sample_and_keep(rng: Any, p: np.ndarray) -> int:  # [n_vocab] -> token
    """Sample a token with the probabilities p by rng.random(), and append that number to the list
    rng.kept, which is made if it is not there.
    """
    if not hasattr(rng, "kept"):
        rng.kept = []
    rng.kept.append(rng.random())
    return sample_again(rng, n_back=1, p=p)


def sample_again(rng: Any, n_back: int, p: np.ndarray) -> int:  # [n_vocab] -> token
    """Sample a token with the probabilities p by a uniform number in [0, 1) of the list rng.kept:
    the last if n_back is 1, the one before if it is 2.
    """
    u = rng.kept[-n_back]
    is_passed = p.cumsum()[:-1] <= u  # of each token but the last
    return int(is_passed.sum())  # the first token that u has not passed


# {name: function} that wrong code calls, and finds in the module sampling
HELPERS: dict[str, Any] = {f.__name__: f for f in (sample_and_keep, sample_again)}


# ---------------------------------------------------------------- switched on


@cache
def edited(function: Callable, *pieces: tuple[str, str]) -> tuple[str, str]:
    """Exchange pieces (right, wrong) in the source of a function, which is not changed itself.
    Returns (its right source, its wrong source), not indented. Raises LookupError for a right piece
    that does not stand in it exactly once. Calls with the same arguments share one result.
    """
    right = textwrap.dedent(inspect.getsource(function))
    wrong = right
    for right_piece, wrong_piece in pieces:
        if right.count(right_piece) != 1:
            raise LookupError(f"{function.__qualname__}: expected {right_piece!r} in it, once")
        wrong = wrong.replace(right_piece, wrong_piece)
    return right, wrong


@cache
def compiled(function: Callable, source: str) -> CodeType:
    """Compile another source of a function, not indented. Returns its code, which can take the
    place of function.__code__; the function is not changed. A traceback finds the lines where those
    of the function are.
    """
    n_lines_before = function.__code__.co_firstlineno - 1
    file = str(inspect.getsourcefile(function))
    module = compile("\n" * n_lines_before + source, file, "exec", dont_inherit=True)
    made: dict[str, Any] = {}  # {its name: the new function}, once the definition has run
    exec(module, function.__globals__, made)
    return made[function.__name__].__code__


@cache
def changes(diff: str) -> dict[Callable, list[tuple[str, str]]]:
    """The changes of a diff, {function: [(a right piece of its source, the wrong one), ...]}. A
    diff is, for each function, a line "@@ its name @@", as this module can evaluate it, such as
    "@@ sampling.verify @@", then a line "- right" and a line "+ wrong" for each piece.
    """
    found: dict[Callable, list[tuple[str, str]]] = {}
    for name, lines in re.findall(r"@@ (\S+) @@\n([^@]*)", diff):  # no piece has an @
        # the key is the function that has this name here
        found[eval(name)] = re.findall(r"- (.*)\n\+ (.*)", lines)
    return found


@contextmanager
def making(mistake: Mistake) -> Iterator[None]:
    """Context manager: inside, the functions that the diff of a mistake names have the wrong code,
    for every caller, the module sampling has the functions sample_and_keep and sample_again
    (HELPERS), which some wrong code calls, and NumPy does not warn of arithmetic. At the end, also
    of a block that raises, functions and module are what they were. Raises LookupError if the diff
    does not fit the source of the functions.
    """
    right: dict[Any, CodeType] = {}
    wrong: dict[Any, CodeType] = {}
    for function, pieces in changes(mistake.diff).items():
        _, source = edited(function, *pieces)
        right[function] = function.__code__
        wrong[function] = compiled(function, source)
    try:
        for function, code in wrong.items():
            function.__code__ = code
        # create: the module has no functions of these names, and gets them
        with patch.multiple(sampling, create=True, **HELPERS), np.errstate(all="ignore"):
            yield
    finally:
        for function, code in right.items():
            function.__code__ = code


# ---------------------------------------------------------------- how wrong it is

PROMPT, END, N_VOCAB = [1, 0], 2, 3  # of the texts that are enumerated; END ends them


def measure(mistake: Mistake) -> dict[str, Any]:
    """Enumerate the texts of the project's own loop with a mistake. Target and draft are the
    toy_models. Returns what proof.examine does, a dict with

    distance: the total variation distance from the target's texts
    kept: the tokens of a text minus the passes of the target, on average
    problem: "", or why not every branch can be taken: then distance and kept are None
    first_wrong: None, or the shortest wrong text, a dict

    Each text gets one more token at its end, N_VOCAB, which the models do not know: so a text of
    another length is another text.
    """
    target, draft = toy_models(mistake)
    K, to_probs = mistake.K, mistake.to_probs
    rule = sampling.RULES[mistake.verification]

    def run(rng: Any) -> tuple[list[int], int]:
        """A text by the loop with the mistake, and its number of passes of the target."""
        drafter = NeuralDrafter(draft, to_probs, rng)
        text: list[int] = []
        n_passes = 0  # one in each round; the token N_VOCAB takes none
        with making(mistake):
            for one_round in sampling.speculative(
                target, drafter, PROMPT, mistake.n_tokens, K, to_probs, rng, mistake.is_done, rule
            ):
                text += one_round.tokens
                n_passes += 1
        return [*text, N_VOCAB], n_passes

    longest_right = min(mistake.n_tokens, mistake.n_free)  # n_free: the room in the context
    longest = longest_right + K + 1  # a wrong text may be a round too long
    return examine(run, with_an_end(target, mistake), n_tokens=longest + 1, end=N_VOCAB)


def with_an_end(target: Any, mistake: Mistake) -> Callable:
    """A model, a GPT-2 or a Grammar, as a function text -> [N_VOCAB + 1]: the distribution of the
    token that follows PROMPT and a text, a tuple of new tokens. A text that is at its end is
    followed by the token N_VOCAB for certain, another one never. It ends after mistake.n_tokens
    tokens, where the context is full, or where mistake.is_done says so.
    """
    longest = min(mistake.n_tokens, mistake.n_free)  # n_free: the room in the context

    @cache
    def next_token(text: tuple[int, ...]) -> np.ndarray:
        if len(text) == longest or (text and mistake.is_done(text)):
            return np.eye(N_VOCAB + 1)[N_VOCAB]
        logits = target.read([*PROMPT, *text], target.new_cache())  # [1, N_VOCAB]
        return np.append(mistake.to_probs(logits)[0], 0.0)

    return next_token


def toy_models(mistake: Mistake) -> tuple[Any, Any]:
    """Make the two models with which a mistake is measured. Returns (target, draft), GPT-2s with
    N_VOCAB tokens, two layers and float64; n_ctx, the most tokens that they read, is len(PROMPT) +
    mistake.n_free. Their weights are random, but the same each time: by the seed 1 for the target,
    mistake.draft_seed for the draft. If mistake.grammar, the target is a Grammar of that GPT-2: it
    never gives token 1 after END.
    """
    config = gpt2.Config(N_VOCAB, len(PROMPT) + mistake.n_free, n_embd=4, n_head=2, n_layer=2)
    scale = 0.8  # at the usual one, 0.02, all distributions would be nearly uniform
    target: Any = random_model(config, get_backend(), float, 1, scale=scale)
    draft = random_model(config, get_backend(), float, mistake.draft_seed, scale=scale)
    if mistake.grammar:
        target = Grammar(target, switch=END, banned=1)
    return target, draft


# ---------------------------------------------------------------- the command

WIDTH, N_TOKENS, K = 100, 60, 4  # of what is printed, and of the texts by the models


def mistakes(name: str = "") -> None:
    """List known ways to get speculative decoding wrong; with a name, show that mistake at work.

    It shows the lines that are changed, how wrong whole texts of a toy are (exactly), the shortest
    text that goes wrong, and a text by the included models with the mistake and without.

        python main.py mistakes stale-cache
    """
    if not name:
        for key, mistake in MISTAKES.items():
            say(mistake.what, begin=f"{key:<26}", indent=26)
        return
    if name not in MISTAKES:
        raise unknown("mistake", name, MISTAKES, "python main.py mistakes")
    mistake = MISTAKES[name]
    say(f"{name}: {mistake.what}.")
    print(f"{mistake.diff}\n")
    show_distance(mistake)
    if mistake.example:
        show_example(mistake)
    else:
        show_texts(mistake)
    say(f"Seen in {mistake.seen_in}.")
    say(f"Caught by {mistake.caught_by}.")


def say(text: str, begin: str = "", indent: int = 0) -> None:
    """Print begin + text as a paragraph of at most WIDTH columns, in lines of whole words, with so
    many spaces before each line but the first.
    """
    wrapper = textwrap.TextWrapper(WIDTH, break_long_words=False, break_on_hyphens=False)
    wrapper.subsequent_indent = " " * indent
    print(wrapper.fill(begin + text))


def show_distance(mistake: Mistake) -> None:
    """Enumerate the texts of a toy with a mistake and without. Print how wrong they are, how many
    tokens they gain, the shortest text that goes wrong, and what else the mistake costs; or why
    they cannot be enumerated.
    """
    found = measure(mistake)
    right = measure(replace(mistake, diff=""))  # without a change
    if found["problem"]:
        say(f"Enumerated on a toy, {found['problem']}.")
        return
    distance = f"a total variation distance of {found['distance']:.4f} from the target's texts"
    gained = f"a text gains {found['kept']:.2f} tokens on average, beyond one a pass"
    without_it = f"{right['kept']:.2f} without the mistake"
    say(f"Enumerated on a toy: {distance}. With K = {mistake.K}, {gained}, and {without_it}.")
    if found["first_wrong"]:
        shown = describe_first_wrong(found["first_wrong"], "Texts that begin")
        if N_VOCAB in found["first_wrong"]["text"]:
            shown += f" ({N_VOCAB} marks the end of a text.)"
        say(shown)
    if mistake.cost:
        say(f"The cost: {mistake.cost}.")


def show_example(mistake: Mistake) -> None:
    """Print the example of a mistake, an expression of Python with the names of the module sampling
    and np, and its values without the mistake and with it.
    """
    print(f"\n{mistake.example}")
    # without a diff nothing is changed
    for label, made in (("Right", replace(mistake, diff="")), ("Wrong", mistake)):
        with making(made):
            value = eval(mistake.example, {"np": np, **vars(sampling)})
            print(f"{label}: {value}")


def show_texts(mistake: Mistake) -> None:
    """Print a text by the included models without the mistake, then one with it, from the same
    seed, each with its tokens per pass of the target, and from which token on the two differ. If
    the code raises one of ERRORS (ArithmeticError, LookupError, TypeError, ValueError) as it writes
    a text, print the error in place of that text, and return: what would follow is not printed.
    """
    target, draft, encoder = load_pair("17M", "0.7M-17M", MODELS_DIR)
    texts: list[list[int]] = []
    # without a diff nothing is changed
    for label, made in (("Right", replace(mistake, diff="")), ("Wrong", mistake)):
        try:
            result = decoded(made, target, draft, encoder)
        except ERRORS as error:
            say(f"{label}: it fails, {type(error).__name__}: {error}")
            return
        ids = result["token_ids"]
        texts.append(ids)
        figures = f"{len(ids)} tokens, {result['tokens_per_target_pass']:.2f} per pass"
        print(f"\n{label}, {figures} of the target:\n{result['text']}")
    right, wrong = texts
    n = first_difference(right, wrong)
    print("\nThe two are the same." if n is None else f"\nThey differ from token {n} on.")


def decoded(mistake: Mistake, target: Any, draft: Any, encoder: Any) -> dict[str, Any]:
    """A text by two models with a mistake, of at most N_TOKENS new tokens. Returns {"text",
    "token_ids" (the new ones), "tokens_per_target_pass", ...}, as decoding.decode.decode does.
    Raises what the wrong code raises.

    mistake: its prompt (n_prompts times, cut so that two new tokens have room), temperature, top_k,
        top_p, stop, verification and seed are the settings of the text. If it has a grammar, the
        target is kept from " and" after a comma
    """
    prompt = " ".join([mistake.prompt] * mistake.n_prompts)
    ids = encoder.encode(prompt)[: target.config.n_ctx - 2]
    if mistake.grammar:
        comma, and_ = encoder.encode(",")[0], encoder.encode(" and")[0]
        target = Grammar(target, switch=comma, banned=and_)
    options: dict[str, Any] = dict(to_probs=mistake.to_probs, seed=mistake.seed, K=K)
    options |= dict(stop=mistake.stop, verification=mistake.verification)
    with making(mistake):
        rounds = begin("speculative", target, draft, encoder, ids, N_TOKENS, **options)
        return decode(rounds, encoder)
