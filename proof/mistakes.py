"""The museum: known ways to get speculative decoding wrong, most of them seen in public code.

A mistake is data: a small change of the right code, pieces of source that stand in a function once.
`making` switches a mistake on, and `measure` says how wrong its texts are, by enumeration.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from types import CodeType
from typing import Any, Literal

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

ROMSTO = "romsto/Speculative-Decoding/blob"
FEIFEIBEAR = "feifeibear/LLMSpeculativeSampling/blob"
LMFLOW = "OptimalScale/LMFlow/blob/1b223f7693/src/lmflow/pipeline/inferencer.py"

# tests that catch several mistakes
ENUMERATED = "tests/test_exact.py::test_distribution_of_the_loop_with_tables"
CACHES = "tests/test_exact.py::test_distribution_of_the_loop_with_real_models_and_caches"
PERFECT = "tests/test_sampling.py::test_a_perfect_draft_is_always_accepted"

ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)  # that a mistake may end in


@dataclass(frozen=True)
class Mistake:
    """A change of the right code, what is known of it, and where it shows.

    seen_in: an issue or pull request as owner/name#number, a file as owner/name/blob/commit/path
    changes: {function: {right source: wrong source}}
    caught_by: the test that fails with it, as path::name
    cost: what it costs, if its distribution is right or as good as right
    prompt, stop, seed: of a text by the included models
    example: Python in which it shows, where no text can
    n_tokens, K, n_free, draft_seed: of the texts that `measure` enumerates; n_free is the room
        behind the prompt. If there is a `stop`, a token ends them
    grammar: whether the target stands behind a Grammar
    helpers: functions that only the wrong code calls
    """

    what: str
    seen_in: str
    changes: dict[Callable, dict[str, str]]
    caught_by: str = ENUMERATED
    cost: str = ""
    verification: Literal["token", "block"] = "token"
    to_probs: SamplingParams = SamplingParams(1.0)
    prompt: str = "Once upon a time"
    stop: str = ""
    seed: int = 123
    example: str = ""
    n_tokens: int = 3
    K: int = 2
    n_free: int = 4
    draft_seed: int = 2
    grammar: bool = False
    helpers: dict[str, Callable] = field(default_factory=dict)


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


# ---------------------------------------------------------------- the mistakes

roll_back, propose = gpt2.Model.roll_back, NeuralDrafter.propose
verify, verify_block, loop = sampling.verify, sampling.verify_block, sampling.speculative

# a cache with room for tokens that are appended and never forgotten
ROOM = {sampling.prefill: {"target.new_cache(length)": "target.new_cache()"}}
# as in programs whose cache knows its length, and not its ids: a pass returns its own last rows
NOT_COMPARED = {"while cache.ids[:n_kept] != ids[:n_kept]:": "while False:"}
LAST_ROWS = {
    gpt2.Model.read: {
        "cache.hidden[1 + len(ids) - n_last : 1 + len(ids)]": (
            "cache.hidden[len(cache.ids) + 1 - n_last : len(cache.ids) + 1]"
        )
    }
}
SAMPLE_DRAFT, REPLACE = "self.rng.sample(q[-1])", "rng.sample(residual(p[i], q[i]))"
ACCEPT, RATIO = "rng.accept(p[i, token] / q[i, token])", "p[i, token] / q[i, token]"
BONUS = "len(draft), rng.sample(p[len(draft)])"

MISTAKES = {
    "resample-from-p": Mistake(
        what="a rejected token is replaced by a sample from p instead of from norm(max(0, p - q))",
        seen_in=f"{ROMSTO}/b08d133d67/ngram_assisted/ngram_assisted.py",
        changes={verify: {REPLACE: "rng.sample(p[i])"}},
    ),
    "draft-noise-again": Mistake(
        what="a rejected token is replaced with the same random number that drafted it",
        seen_in="vllm-project/vllm#54282",
        changes={
            propose: {SAMPLE_DRAFT: "sample_and_keep(self.rng, q[-1])"},
            verify: {REPLACE: "sample_again(rng, len(draft) - i, residual(p[i], q[i]))"},
        },
        draft_seed=5,  # replacements are spread over two tokens
        helpers={"sample_and_keep": sample_and_keep, "sample_again": sample_again},
    ),
    "greedy-draft": Mistake(
        what="the draft model proposes its likeliest token, and hands over its softmax as q, "
        "from which nothing was drawn",
        seen_in="huggingface/transformers#32867",
        changes={propose: {SAMPLE_DRAFT: "int(q[-1].argmax())"}},
    ),
    "greedy-ratio": Mistake(
        what="temperature 0 takes the likeliest token, but accepts it "
        "by the ratio of softmax probabilities",
        seen_in="jaymody/speculative-sampling#3, "
        f"{ROMSTO}/42225288c6/sampling/speculative_decoding.py",
        changes={
            SamplingParams.__call__: {
                "one_hot(logits.argmax(axis=-1), logits.shape[-1])": "SamplingParams(1.0)(logits)"
            },
            propose: {SAMPLE_DRAFT: "int(q[-1].argmax())"},
            verify: {
                REPLACE: "int(residual(p[i], q[i]).argmax())",
                "rng.sample(p[len(draft)])": "int(p[len(draft)].argmax())",
            },
        },
        to_probs=SamplingParams(0.0),
    ),
    "u-is-0": Mistake(
        what="the random number of every coin is 0, because the device has no generator for it: "
        "every draft token that is possible is accepted",
        seen_in="vllm-project/vllm-ascend#13730",
        changes={verify: {ACCEPT: f"0.0 < {RATIO}"}},
    ),
    "first-draft-unverified": Mistake(
        what="verification begins with the second draft token",
        seen_in="ohdearquant/lattice#243",
        changes={verify: {"if not rng": "if i > 0 and not rng"}},
    ),
    "missing-bonus": Mistake(
        what="after a full accept the target's last row is thrown away",
        seen_in="ohdearquant/lattice#509",
        caught_by=PERFECT,
        changes={
            verify: {BONUS: "(len(draft) - 1, draft[-1]) if draft else (0, rng.sample(p[0]))"}
        },
        cost="a full accept gives K tokens instead of K + 1",
    ),
    "bonus-from-wrong-row": Mistake(
        what="after a full accept the bonus token comes from the row of the last draft token",
        seen_in="no public code; easy to make",
        changes={verify: {"rng.sample(p[len(draft)])": "rng.sample(p[len(draft) - 1])"}},
    ),
    "reseed": Mistake(
        what="the generator is seeded again before every coin: each is the same",
        seen_in=f"{FEIFEIBEAR}/76117cfdc0/sampling/speculative_sampling.py",
        caught_by="tests/test_sampling.py::test_verify_draws_every_coin_anew",
        changes={verify: {ACCEPT: f"vars(rng).setdefault('coin', rng.random()) < {RATIO}"}},
    ),
    "residual-nan": Mistake(
        what="the residual is divided by its sum, also where p <= q "
        "everywhere by rounding and the sum is 0",
        seen_in=f"jaymody/speculative-sampling#5, {FEIFEIBEAR}/ec08458ac0/sampling/utils.py",
        caught_by="tests/test_sampling.py::test_residual_by_hand_and_when_rounding_leaves_none",
        changes={sampling.residual: {"rest / total if total > 0 else p": "rest / total"}},
        cost="a crash where a coin meets a rounding error: too rare in float64 for any text here",
        example="residual(p=np.array([0.25, 0.75]), q=np.array([0.25, np.nextafter(0.75, 1)]))",
    ),
    "filter-on-draft-only": Mistake(
        what="temperature, top-k and top-p reach the draft model, and never the target",
        seen_in="vllm-project/vllm#9834, vllm-project/vllm#10198",
        changes={loop: {"p = to_probs(target": "p = SamplingParams(1.0)(target"}},
        to_probs=SamplingParams(0.7),
    ),
    "filter-on-target-only": Mistake(
        what="temperature, top-k and top-p reach the target, and never the draft model",
        seen_in=f"{LMFLOW} (the temperature)",
        caught_by=PERFECT,
        changes={propose: {"self.to_probs(": "SamplingParams(1.0)("}},
        to_probs=SamplingParams(0.7, top_k=2),
        draft_seed=1,  # the target itself: without the mistake all is accepted
        cost="the draft model proposes what the target has ruled out",
    ),
    "ratio-of-raw-q": Mistake(
        what="the draft model draws from its filtered distribution, and the "
        "ratio is taken with the unfiltered one",
        seen_in="huggingface/transformers#47932",
        changes={
            propose: {
                "q.append(self.to_probs(self.model.read(ids + draft, self.cache))[0])": (
                    "logits = self.model.read(ids + draft, self.cache); "
                    "q.append(SamplingParams(1.0)(logits)[0])"
                ),
                SAMPLE_DRAFT: "self.rng.sample(self.to_probs(logits)[0])",
            }
        },
        to_probs=SamplingParams(0.7),
    ),
    "top-p-argsort": Mistake(
        what="top-p zeroes the positions that an argsort of the already sorted "
        "probabilities names: those of other tokens",
        seen_in=f"{LMFLOW} (which never passes a top_p to it)",
        caught_by="tests/test_sampling.py::test_filter_of_a_real_vocabulary_matches_a_full_sort",
        changes={
            sampling.keep_top_p: {
                "keep_best(p, p, k, ranked[k - 1])": "p[np.argsort(np.sort(p)[::-1])[k:]] = 0"
            }
        },
        to_probs=SamplingParams(1.0, top_p=0.8),
    ),
    "divide-by-temperature-0": Mistake(
        what="temperature 0 gets no special case: logits / 0",
        seen_in="vllm-project/vllm#27077",
        caught_by="tests/test_sampling.py::test_filter_on_four_tokens_by_hand",
        changes={SamplingParams.__call__: {"if self.greedy:": "if False:"}},
        to_probs=SamplingParams(0.0),
    ),
    "grammar-begins-next-round": Mistake(
        what="whether a grammar applies is decided once a round, before the draft: if the token "
        "that switches it on is drafted and accepted, what follows in the round is not checked",
        seen_in="vllm-project/vllm#44297, vllm-project/vllm#44993, vllm-project/vllm#48228 (where "
        "the grammar then lags behind the text)",
        caught_by="tests/proof/test_mistakes.py::test_a_grammar_may_begin_inside_a_draft",
        changes={Grammar.read: {"ids[:end]": "ids[: len(ids) - n_last + 1]"}},
        prompt="There was once a king who was brave",
        seed=8,
        grammar=True,
    ),
    "stale-cache": Mistake(
        what="the keys and values of rejected tokens stay in the cache, "
        "and what follows is appended after them",
        seen_in="ml-explore/mlx-lm#1109 (in a recurrent state)",
        caught_by=CACHES,
        changes=ROOM | LAST_ROWS | {roll_back: NOT_COMPARED | {"del cache.ids[n_kept:]": "pass"}},
        n_free=20,  # for all tokens that are never forgotten
    ),
    "rollback-off-by-one": Mistake(
        what="rolling back forgets one position too few: one rejected token stays in the cache",
        seen_in="ml-explore/mlx-examples#149 (before merging)",
        caught_by=CACHES,
        changes=ROOM
        | LAST_ROWS
        | {roll_back: NOT_COMPARED | {"del cache.ids[n_kept:]": "del cache.ids[n_kept + 1 :]"}},
    ),
    "whole-text-with-cache": Mistake(
        what="the whole text is fed again, with a cache that has read it",
        seen_in="romsto/Speculative-Decoding#1",
        caught_by=CACHES,
        changes=ROOM
        | LAST_ROWS
        | {roll_back: NOT_COMPARED | {"return ids[n_kept:]": "return ids"}},
        n_free=20,
    ),
    "draft-one-behind": Mistake(
        what="the draft model reads the newest token only; after a full accept it lacks the one "
        "before",
        seen_in="ohdearquant/lattice#1396 (an MTP head), lablup/mlxcel#994 (which also lost two "
        "tokens after a rejection)",
        caught_by=PERFECT,
        changes=LAST_ROWS
        | {
            roll_back: NOT_COMPARED
            | {"return ids[n_kept:]": "return ids[-n_last:] if n_last else ids"}
        },
        n_tokens=4,  # room for a full accept and another draft after it
        K=1,
        draft_seed=8,  # of which much is accepted
        cost="the draft model guesses from a text with holes",
    ),
    "end-ignored": Mistake(
        what="the end of the text is looked for in the last token of a "
        "round only, not inside an accepted run",
        seen_in="huggingface/transformers#31301, huggingface/transformers#47912, "
        "LostRuins/koboldcpp#1276",
        caught_by="tests/test_sampling.py::test_the_end_may_lie_anywhere_in_an_accepted_run",
        changes={loop: {"break": "pass"}},
        stop=",",
    ),
    "too-many-tokens": Mistake(
        what="the last round keeps all it has: up to K tokens more than were asked for",
        seen_in="jaymody/speculative-sampling/blob/03b4759da6/main.py, "
        f"{FEIFEIBEAR}/76117cfdc0/sampling/speculative_sampling.py",
        caught_by="tests/test_sampling.py::test_exactly_the_tokens_asked_for",
        changes=ROOM | {loop: {"length - len(text) - 1": "n_tokens + 9"}},
        n_tokens=2,
    ),
    "context-unchecked": Mistake(
        what="nothing ends the text where the context ends",
        seen_in="no public code; in turboderp-org/exllamav2#274 and vllm-project/vllm#5342 it is a "
        "draft that passes the end of its own context",
        caught_by="tests/test_sampling.py::test_the_context_ends_the_text",
        changes={sampling.prefill: {"min(len(ids) + n_tokens, n_ctx)": "len(ids) + n_tokens"}},
        prompt=400 * "Once upon a time ",  # more than the context holds
        n_free=2,
    ),
    "token-0-is-padding": Mistake(
        what="token 0 is taken for padding and dropped; it is the exclamation mark",
        seen_in=f"{FEIFEIBEAR}/ec08458ac0/sampling/utils.py (raises an error)",
        caught_by="tests/test_sampling.py::test_token_zero_is_a_token_like_any_other",
        changes={
            loop: {
                "tokens = text[n_before:]": "tokens = [one for one in text[n_before:] if one != 0]"
            }
        },
        prompt="Fie! Fie! Fie!",
    ),
    "block-residual-of-tokens": Mistake(
        verification="block",
        what="a rejected block is continued from norm(max(0, p - q)), the token rule's residual",
        seen_in="vllm-project/vllm-ascend#7807 (with another fault: the token rule's coins)",
        changes={verify_block: {"residual(w[t] * p[t], q[t])": "residual(p[t], q[t])"}},
        to_probs=SamplingParams(1.5),
        draft_seed=9,
    ),
    "block-whole-or-none": Mistake(
        verification="block",
        what="one coin is tossed, for the whole block: if that fails, no token is accepted",
        seen_in="no public code; easy to make",
        changes={verify_block: {"reversed(range(len(draft) + 1))": "(len(draft), 0)"}},
    ),
    "block-coin-is-p": Mistake(
        verification="block",
        what="a shorter block is accepted with its weight w[t], as the whole one is",
        seen_in="no public code; easy to make",
        changes={verify_block: {"accept(S / (S + 1 - w[t]))": "accept(w[t])"}},
    ),
    "block-unclipped": Mistake(
        verification="block",
        what="the ratios are multiplied without the limit of 1 at each position",
        seen_in="no public code; easy to make",
        changes={
            verify_block: {
                "min(1.0, w[-1] * p[i, token] / q[i, token])": "w[-1] * p[i, token] / q[i, token]"
            }
        },
    ),
}


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


@contextmanager
def making(mistake: Mistake) -> Iterator[None]:
    """Make the mistake in a `with` block: its functions have the wrong code, for every caller."""
    right_code = {function: function.__code__ for function in mistake.changes}  # type: ignore
    wrong_code = {f: edited(f, *pieces.items())[2] for f, pieces in mistake.changes.items()}
    try:
        for function, code in wrong_code.items():
            function.__code__ = code  # type: ignore
            function.__globals__.update(mistake.helpers)  # type: ignore
        with np.errstate(all="ignore"):  # it may divide by 0
            yield
    finally:
        for function, code in right_code.items():
            function.__code__ = code  # type: ignore
            for name in mistake.helpers:
                function.__globals__.pop(name, None)  # type: ignore


def changed_lines(mistake: Mistake) -> Iterator[str]:
    """Yield the lines that a mistake changes, as a diff: a function, then "- right", "+ wrong"."""
    for function, pieces in mistake.changes.items():
        yield f"@@ {function.__module__}.{function.__qualname__} @@"
        right, wrong, _ = edited(function, *pieces.items())
        for line, other in zip(right.splitlines(), wrong.splitlines()):
            if line != other:
                yield f"- {line.split('  #')[0].strip()}"
                yield f"+ {other.split('  #')[0].strip()}"


# ---------------------------------------------------------------- how wrong it is

PROMPT, END, N_VOCAB = [1, 0], 2, 3  # of the texts that are enumerated; END ends them


def measure(mistake: Mistake) -> dict[str, Any]:
    """What proof.prove.examine says of the project's own loop with a mistake. Target and draft are
    two GPT-2s with three tokens. Behind each text stands another, N_VOCAB, so that its length
    counts, too.
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
            rounds = loop(
                target, drafter, PROMPT, mistake.n_tokens, mistake.K, to_probs, rng, is_done, rule
            )
            tokens = [one_round.tokens for one_round in rounds]
        # as many passes as rounds after the prefill; the token behind the text has none
        return [*sum(tokens, []), N_VOCAB], len(tokens)

    return examine(run, next_token, length + mistake.K + 2, N_VOCAB)


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
    print(*changed_lines(mistake), "", sep="\n")
    show_distance(mistake)
    (show_example if mistake.example else show_texts)(mistake)
    say(f"Seen in {mistake.seen_in}.")
    say(f"Caught by {mistake.caught_by}.")


def say(text: str, begin: str = "", indent: int = 0) -> None:
    """Print a paragraph, in lines of whole words."""
    wrapper = textwrap.TextWrapper(WIDTH, break_long_words=False, break_on_hyphens=False)
    wrapper.subsequent_indent = " " * indent
    print(wrapper.fill(begin + text))


def show_distance(mistake: Mistake) -> None:
    """Print how wrong the texts of the toy are, and the shortest one that goes wrong."""
    found, right = measure(mistake), measure(replace(mistake, changes={}))
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
    for label, made in (("Right", replace(mistake, changes={})), ("Wrong", mistake)):
        with making(made):
            print(f"{label}: {eval(mistake.example, {'np': np, **vars(sampling)})}")


def show_texts(mistake: Mistake) -> None:
    """Print a text by the included models without the mistake and one with it, from the same random
    numbers.
    """
    target: Any
    target, draft, encoder = load_pair("17M", "0.7M-17M", MODELS_DIR)
    ids = encoder.encode(mistake.prompt)[: target.config.n_ctx - 2]
    if mistake.grammar:
        switch, banned = (encoder.encode(sign)[0] for sign in (",", " and"))
        target = Grammar(target, switch, banned)
    texts: list[list[int]] = []
    for label, made in (("Right", replace(mistake, changes={})), ("Wrong", mistake)):
        try:
            with making(made):
                rounds = begin(
                    "speculative", target, draft, encoder, ids, N_TOKENS, K=K, seed=mistake.seed,
                    to_probs=mistake.to_probs, stop=mistake.stop, verification=mistake.verification,
                )  # fmt: skip
                result = decode(rounds, encoder)
        except ERRORS as error:
            say(f"{label}: it fails, {type(error).__name__}: {error}")
            return
        texts.append(result["token_ids"])
        figures = f"{len(texts[-1])} tokens, {result['tokens_per_target_pass']:.2f} per pass"
        print(f"\n{label}, {figures} of the target:")
        print(result["text"])
    n = first_difference(*texts)
    print("\nThe two are the same." if n is None else f"\nThey differ from token {n} on.")
