"""python main.py mistakes: a museum of the ways to get speculative decoding wrong, each of them to
be switched on.

A mistake is written as what it is, a small change of the right code: {place: [(right, wrong),
...]}, pieces of source that stand in one function. Switching it on compiles the function's own
source with those pieces exchanged and gives the function that code, so everybody who holds it has
the mistake, until it is switched off again. No loop is copied here.

How wrong each is gets computed, not sampled: the law of the real loop on a toy pair (two GPT-2s
with three tokens), every branch of it, against the chain rule of the target alone.
"""

import difflib
import inspect
import json as json_format
import textwrap
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

import gpt2
import sampling
from experiments.decoding.running import decode, speculation
from experiments.proving.enumeration import chain_rule, law, total_variation
from sampling import Filter
from utils import MODELS_DIR, InputError, get_backend, load_pair, random_model

# ---------------------------------------------------------------- what a mistake is, and how it is made


@dataclass(frozen=True)
class Setting:
    """Where a mistake shows: the filter, and what else it takes."""

    filter: Filter = Filter(1.0)
    prompt: str = "Once upon a time"
    stop: str = ""  # a string that ends the text; on the toy, token 2 does if there is one
    full: bool = False  # the prompt leaves room for two tokens only
    toy: tuple = (3, 2)  # tokens and K there


@dataclass(frozen=True)
class Mistake:
    """A change of the right code, {function or method: [(right source, wrong source), ...]}, and
    what is known of it.

    caught_by is the test that fails with it; cost says what a mistake does whose law is right.
    """

    what: str
    seen_in: str
    caught_by: str
    changes: dict
    setting: Setting = Setting()
    cost: str = ""


def changed(function, pieces):
    """(right source, wrong source, code of the wrong one). Raises LookupError for a piece that is
    not there exactly once.
    """
    right = wrong = textwrap.dedent(inspect.getsource(function))
    for old, new in pieces:
        if right.count(old) != 1:
            raise LookupError(
                f"{function.__qualname__} has {old!r} {right.count(old)} times: expected once"
            )
        wrong = wrong.replace(old, new)
    begin, found = inspect.getsourcelines(function)[1], {}
    # compiled at its own place in its own file, so that a traceback, and whoever asks for the
    # source, finds it
    code = compile(
        "\n" * (begin - 1) + wrong, inspect.getsourcefile(function), "exec", dont_inherit=True
    )
    exec(code, function.__globals__, found)
    return right, wrong, found[function.__name__].__code__


@contextmanager
def made(mistake):
    """Within this context the code makes the mistake."""
    wrong = {function: changed(function, pieces)[2] for function, pieces in mistake.changes.items()}
    right = {function: function.__code__ for function in wrong}
    try:
        for function, code in wrong.items():
            function.__code__ = code
        with np.errstate(all="ignore"):
            yield
    finally:
        for function, code in right.items():
            function.__code__ = code


def find(name):
    """The Mistake of that name. Raises InputError that lists the names."""
    if name not in MISTAKES:
        raise InputError(f"mistake {name!r}: expected one of {', '.join(MISTAKES)}")
    return MISTAKES[name]


def committing(name, decode):
    """`decode` (experiments/decoding/running.py) with the mistake of that name in its speculative
    rounds.

    Its autoregressive rounds stay right, so that there is something to compare with. Raises
    InputError for an unknown name, and where the mistake makes the program fail.
    """
    mistake = find(name)

    def rounds(*arguments, **named):
        try:
            with made(mistake):
                yield from decode(*arguments, **named)
        except ERRORS as error:
            what = f"{type(error).__name__}: {error}"
            raise InputError(
                f"--mistake {name}: it makes the program fail ({what}); try another"
            ) from None

    return lambda decoder, *rest, **named: (decode if decoder == "autoregressive" else rounds)(
        decoder, *rest, **named
    )


# ---------------------------------------------------------------- the museum

read, propose, verify, loop = (
    gpt2.Model.read_batch,
    sampling.NeuralDrafter.propose,
    sampling.verify,
    sampling.speculative,
)
LAW = "tests/test_exact.py::test_law_of_the_loop_with_tables"
CACHES = "tests/test_exact.py::test_law_of_the_loop_with_real_models_and_caches"
# for what is appended and never forgotten
ROOM = {sampling.prefill: [("target.new_cache(length)", "target.new_cache()")]}
PERFECT = "tests/test_sampling.py::test_a_perfect_draft_is_always_accepted"

MISTAKES = {
    "greedy-ratio": Mistake(
        "temperature 0 takes the likeliest token, but accepts it by the ratio of softmax probabilities",
        "jaymody/speculative-sampling #3, #9; romsto",
        LAW,
        {
            Filter.__call__: [
                ("one_hot(logits.argmax(axis=-1), logits.shape[-1])", "Filter(1.0)(logits)")
            ],
            propose: [("sample(q[-1][0], self.rng)", "int(q[-1].argmax())")],
            verify: [
                ("sample(residual(p[i], q[i]), rng)", "int(residual(p[i], q[i]).argmax())"),
                ("sample(p[len(draft)], rng)", "int(p[len(draft)].argmax())"),
            ],
        },
        Setting(Filter(0.0)),
    ),
    "greedy-draft": Mistake(
        "the draft proposes its likeliest token, and calls the softmax it did not draw from q",
        "transformers #32867",
        LAW,
        {propose: [("sample(q[-1][0], self.rng)", "int(q[-1].argmax())")]},
    ),
    "resample-from-p": Mistake(
        "a rejected token is replaced by a sample from p instead of from norm(max(0, p - q))",
        "romsto, n-gram path",
        LAW,
        {verify: [("sample(residual(p[i], q[i]), rng)", "sample(p[i], rng)")]},
    ),
    "filter-on-draft-only": Mistake(
        "the draft's temperature, top-k and top-p never reach the target",
        "vLLM #9834, PR #10198; DeepSpec #31",
        LAW,
        {loop: [("p = filter(target", "p = Filter(1.0)(target")]},
        Setting(Filter(0.7)),
    ),
    "filter-on-target-only": Mistake(
        "the target's temperature, top-k and top-p never reach the draft",
        "LMFlow",
        PERFECT,
        {propose: [("self.filter(", "Filter(1.0)(")]},
        Setting(Filter(0.7, top_k=2)),
        cost="the law is right, as q is what was drawn from, but the draft proposes what the target has ruled out",
    ),
    "ratio-of-raw-q": Mistake(
        "the draft draws from its filtered distribution, and the ratio is taken with the unfiltered one",
        "vLLM #9834; transformers #47932",
        LAW,
        {
            propose: [
                ("self.filter(logits)", "Filter(1.0)(logits)"),
                ("sample(q[-1][0], self.rng)", "sample(self.filter(logits)[0], self.rng)"),
            ]
        },
        Setting(Filter(0.7)),
    ),
    "top-p-argsort": Mistake(
        "top-p zeroes the places an argsort of the already sorted probabilities names: other tokens' places",
        "LMFlow",
        "tests/test_sampling.py::test_filter_of_a_real_vocabulary_matches_a_full_sort",
        {
            sampling.keep_top_p: [
                ("keep_likeliest(p, k, candidates[0])", "p[np.argsort(np.sort(p)[::-1])[k:]] = 0"),
            ]
        },
        Setting(Filter(1.0, top_p=0.8)),
    ),
    "reseed": Mistake(
        "the generator is seeded again before every coin: each is the same",
        "feifeibear, --seed",
        "tests/test_sampling.py::test_verify_draws_every_coin_anew",
        {verify: [("q[i, token], rng)", "q[i, token], np.random.default_rng(123))")]},
    ),
    "token-0-is-padding": Mistake(
        "token 0 is taken for padding and dropped; it is the exclamation mark",
        "feifeibear, sample()",
        "tests/test_sampling.py::test_token_zero_is_a_token_like_any_other",
        {
            loop: [
                (
                    "tokens = text[n_text:]",
                    "tokens = [token for token in text[n_text:] if token != 0]",
                )
            ]
        },
        Setting(prompt="Fie! Fie! Fie!"),
    ),
    "divide-by-temperature-0": Mistake(
        "temperature 0 is no case of its own: logits / 0",
        "LLM-VM PR #239",
        "tests/test_sampling.py::test_filter_on_four_tokens_by_hand",
        {Filter.__call__: [("if self.greedy:", "if False:")]},
        Setting(Filter(0.0)),
    ),
    "stale-cache": Mistake(
        "the keys and values of rejected drafts stay in the cache, and what follows is appended after them",
        "romsto #1, #4; mlx-examples PR #149",
        CACHES,
        ROOM
        | {
            read: [
                (
                    "cache.length = start = min(cache.length,",
                    "start, n_known = cache.length, min(cache.length,",
                ),
                ("ids[start:]", "ids[n_known:]"),
            ]
        },
    ),
    "rollback-off-by-one": Mistake(
        "rolling back forgets one position too few: one rejected draft stays in the cache",
        "transformers #30042, #30413",
        CACHES,
        ROOM
        | {
            read: [
                (
                    "cache.length = start = min(cache.length,",
                    "start, n_known = cache.length, min(cache.length,",
                ),
                ("ids[start:]", "ids[n_known:]; start = min(start, n_known + 1)"),
            ]
        },
    ),
    "whole-text-with-cache": Mistake(
        "the whole text is fed again, with a cache that has read it",
        "romsto #4",
        CACHES,
        ROOM | {read: [("ids[start:]", "ids")]},
    ),
    "draft-one-behind": Mistake(
        "the draft reads the newest token only; after a full accept it lacks the one before",
        "patched by hand in gpt-fast, mlx-lm, lucidrains",
        PERFECT,
        {read: [("ids[start:]", "ids[-n_last:] if n_last else ids")]},
        Setting(toy=(4, 1)),  # room for a full accept and another draft after it
        cost="the law is right, as q is what was drawn from, but the draft guesses from a text with holes",
    ),
    "missing-bonus": Mistake(
        "after a full accept the target's last row is thrown away",
        "several",
        PERFECT,
        {
            verify: [
                (
                    "len(draft), sample(p[len(draft)], rng)",
                    "(len(draft) - 1, draft[-1]) if draft else (0, sample(p[0], rng))",
                )
            ]
        },
        cost="the law is right, but a full accept gives K tokens instead of K + 1",
    ),
    "bonus-from-wrong-row": Mistake(
        "after a full accept the bonus token comes from the row of the last draft",
        "several",
        LAW,
        {verify: [("sample(p[len(draft)], rng)", "sample(p[len(draft) - 1], rng)")]},
    ),
    "first-draft-unverified": Mistake(
        "verification begins with the second draft",
        "lattice #243",
        LAW,
        {verify: [("if not toss", "if i > 0 and not toss")]},
    ),
    "end-ignored": Mistake(
        "the end of the text is looked for in the last token of a round only, not inside an accepted run",
        "transformers #31301, #47912; koboldcpp #1276",
        "tests/test_sampling.py::test_the_end_may_lie_anywhere_in_an_accepted_run",
        {loop: [("break", "pass")]},
        Setting(stop="sun"),
    ),
    "too-many-tokens": Mistake(
        "the last round keeps all it has: up to K tokens more than were asked for",
        "jaymody; feifeibear",
        "tests/test_sampling.py::test_exactly_the_tokens_asked_for",
        {loop: [("min(k, length - len(text) - 1)", "k")]},
        Setting(toy=(2, 2)),
    ),
    "context-unchecked": Mistake(
        "nothing ends the text where the context ends",
        "exllamav2 #274; vLLM #5342",
        "tests/test_sampling.py::test_the_context_ends_the_text",
        {
            sampling.prefill: [
                ("min(len(ids) + n_tokens, target.config.n_ctx)", "len(ids) + n_tokens")
            ]
        },
        Setting(full=True),
    ),
    "residual-nan": Mistake(
        "the residual is divided by its sum, also where p <= q everywhere by rounding and the sum is 0",
        "several",
        "tests/test_sampling.py::test_residual_by_hand_and_when_rounding_leaves_none",
        {sampling.residual: [("rest / total if total > 0 else p", "rest / total")]},
        cost="the law is right, but for a crash where a coin meets a rounding error: too rare in float64 to be seen here",
    ),
}

# ---------------------------------------------------------------- how wrong each is

ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)  # what a mistake may end in
N_TOKENS, SEED = 60, 123  # on a real pair, with K = 4, as main.py's
TOY_PROMPT, TOY_END = [1, 0], 2


def text_of(rounds):
    """The tokens of rounds; if an error ends them, its name comes last: a crash is an outcome as
    well.
    """
    tokens = []
    try:
        for one in rounds:
            tokens += [int(token) for token in one.tokens]
    except ERRORS as error:
        tokens.append(type(error).__name__)
    return tuple(tokens)


def distance(setting, mistake=None):
    """Total variation distance between the law of the speculative loop and the target's own, on the
    toy.

    The toy: two GPT-2s of two layers and three tokens. The law is that of whole texts, so that a
    wrong length counts too.
    """
    n_ctx, (n_tokens, K) = len(TOY_PROMPT) + (2 if setting.full else 4), setting.toy
    config, arrays = (
        gpt2.Config(3, n_ctx, n_embd=4, n_head=2, n_layer=2),
        get_backend(kernels="plain"),
    )
    target, draft = (random_model(config, arrays, np.float64, seed, scale=0.8) for seed in (1, 2))
    ended = (lambda generated: generated[-1] == TOY_END) if setting.stop else sampling.never
    right = chain_rule(target, TOY_PROMPT, n_tokens, setting.filter, ended)

    def run():
        drafter = sampling.NeuralDrafter(draft, setting.filter, None)
        return text_of(loop(target, drafter, TOY_PROMPT, n_tokens, K, setting.filter, None, ended))

    with made(mistake) if mistake else nullcontext():
        return total_variation(law(run), right)


def first_difference(target, draft, encoder, mistake, known):
    """Where the mistake leaves the text of the right code, seed and all else equal; None if it does
    not within 60 tokens.

    known: {setting: right text} of those computed before. At temperature 0 if it shows there,
    otherwise at its own setting. Not asked at a temperature of a mistake whose law is right: its
    text may differ, and not be wrong.
    """
    setting = mistake.setting
    ids = encoder.encode(setting.prompt)
    if setting.full:
        n = target.config.n_ctx - 2
        ids = (ids * n)[-n:]
    for filter in (Filter(0.0), setting.filter)[: 1 if mistake.cost else 2]:
        arguments = (
            target,
            draft,
            ids,
            N_TOKENS,
            4,
            filter,
            SEED,
            sampling.stop_condition(encoder, setting.stop),
        )
        key = filter, setting.prompt, setting.stop, setting.full
        right = known[key] = known.get(key) or text_of(decode("speculative", *arguments))
        with made(mistake):
            wrong = text_of(decode("speculative", *arguments))
        if right != wrong:
            return next(
                (i for i, (a, b) in enumerate(zip(right, wrong)) if a != b),
                min(len(right), len(wrong)),
            )
    return None


def tokens_per_pass(target, draft, encoder, mistake):
    """Tokens per target pass at temperature 0, right and with the mistake."""
    arguments = (
        "speculative",
        target,
        draft,
        encoder.encode(mistake.setting.prompt),
        N_TOKENS,
        4,
        Filter(0.0),
        SEED,
    )
    right = speculation(list(decode(*arguments))[1:])
    with made(mistake):
        wrong = speculation(list(decode(*arguments))[1:])
    return right["tokens_per_target_pass"], wrong["tokens_per_target_pass"]


# ---------------------------------------------------------------- the command


def show_changes(mistake):
    """The mistake as a diff of the functions it is made in."""
    for function, pieces in mistake.changes.items():
        right, wrong, _ = changed(function, pieces)
        lines = list(
            difflib.unified_diff(right.splitlines(), wrong.splitlines(), lineterm="", n=1)
        )[2:]
        print(f"    {function.__module__}.py, {function.__qualname__}")
        print(textwrap.indent("\n".join(lines), "    "))


def mistakes(
    *names, target_model_size="7M", draft_model_size="0.7M", models_dir=MODELS_DIR, json=False
):
    """The known ways to get speculative decoding wrong: how wrong each is, where it shows first,
    which test catches it.

    Without names a table of all; with names those, and the lines of code they change. Distance is
    the total variation distance from the target's law of whole texts, computed exactly on a toy
    pair: 0 is right, 1 has nothing in common. Wrong from is the first token, counted from 0, in
    which a text of 60 tokens by the pair of models leaves the right one.

    Args:
        target_model_size: a size in models_dir, or a folder
        draft_model_size: a size in models_dir, or a folder
        models_dir: where the folders of the sizes are
        json: print one JSON object and nothing else
    """
    if draft_model_size == "ngram":
        raise InputError(
            "--draft_model_size 'ngram': expected a model; some of the mistakes are a neural draft's"
        )
    chosen = {name: find(name) for name in names or MISTAKES}
    target, draft, encoder = load_pair(
        target_model_size, draft_model_size, models_dir, get_backend(kernels="plain")
    )
    longest = max(len(encoder.encode(mistake.setting.prompt)) for mistake in MISTAKES.values())
    if (n_ctx := min(target.config.n_ctx, draft.config.n_ctx)) <= longest:
        raise InputError(
            f"a context of {n_ctx} tokens: expected more than {longest}, the longest prompt of a mistake"
        )
    rows, known = [], {}
    for name, mistake in tqdm(chosen.items(), desc="mistakes", leave=False, disable=None):
        found = (
            distance(mistake.setting, mistake),
            first_difference(target, draft, encoder, mistake, known),
        )
        rows.append(
            {
                "name": name,
                "seen_in": mistake.seen_in,
                "total_variation": found[0],
                "first_difference": found[1],
            }
        )
        rows[-1]["caught_by"] = mistake.caught_by
    if json:
        return print(json_format.dumps({"mistakes": rows}))
    print(f"{'mistake':<24} {'distance':>8} {'wrong from':>11}  seen in")
    for row, mistake in zip(rows, chosen.values()):
        first = "-" if row["first_difference"] is None else row["first_difference"]
        print(f"{row['name']:<24} {row['total_variation']:>8.4f} {first:>11}  {row['seen_in']}")
        print(f"    {mistake.what}")
        if mistake.cost:
            right, wrong = tokens_per_pass(target, draft, encoder, mistake)
            figures = (
                f"; {wrong:.2f} tokens per target pass, not {right:.2f}" if wrong != right else ""
            )
            print(f"    {mistake.cost}{figures}")
        print(f"    caught by {row['caught_by']}")
        if names:
            show_changes(mistake)
