"""The museum: MISTAKES, ways to get speculative decoding wrong, most of them seen in public
implementations. The functions here are for the flag --mistake.

A mistake is data, a small change of the right code: {function: {right piece: wrong piece}}, pieces
of source that stand in the function once. proving/patching.py switches a mistake on,
proving/distance.py computes how wrong it is.
"""

import shlex
from dataclasses import dataclass, field
from typing import Callable

import gpt2
import sampling
from checkpoints.errors import InputError
from proving.patching import apply_mistake
from proving.reused_noise import sample_again, sample_and_keep
from sampling import SamplingParams

# tests that catch several mistakes
ENUMERATED = "tests/test_exact.py::test_distribution_of_the_loop_with_tables"
CACHES = "tests/test_exact.py::test_distribution_of_the_loop_with_real_models_and_caches"
PERFECT = "tests/test_sampling.py::test_a_perfect_draft_is_always_accepted"


@dataclass(frozen=True)
class MistakeCase:
    """Where a mistake shows: in a text by real models, and on the toy pair, two tiny GPT-2s
    (proving/distance.py).

    stop: a string that ends the text; if it is set, the token TOY_END ends the toy pair's texts
    full: whether the prompt is repeated until the context has room for two tokens only
    toy_n_tokens, toy_K: how many tokens the toy pair writes, and K
    toy_n_free, toy_draft_seed: n_free and draft_seed of distance.toy_pair
    verification: "token" or "block", the rule with which the mistake is made
    """

    to_probs: SamplingParams = SamplingParams(1.0)
    prompt: str = "Once upon a time"
    stop: str = ""
    full: bool = False
    toy_n_tokens: int = 3
    toy_K: int = 2
    toy_n_free: int = 4
    toy_draft_seed: int = 2
    verification: str = "token"


# ---------------------------------------------------------------- with which SamplingParams


def always(to_probs):
    """True: a mistake can show with any SamplingParams."""
    return True


def is_sampling(to_probs):
    """Whether tokens are sampled by a SamplingParams: the temperature is not 0."""
    return not to_probs.greedy


def changes_p(to_probs):
    """Whether the probabilities of a SamplingParams are other than the softmax of the logits."""
    return to_probs.temperature != 1 or bool(to_probs.top_k) or to_probs.top_p < 1


# ---------------------------------------------------------------- the mistakes


@dataclass(frozen=True)
class Mistake:
    """A change of the right code, and what is known of it.

    what: the mistake in a few words
    seen_in: where; an issue or pull request as owner/name#number, a file as
        owner/name/blob/commit/path
    changes: {function or method: {right source: wrong source}}
    caught_by: the test that fails with it, as path::name
    cost: what the mistake costs, if its distribution is right; else ""
    not_by: values of --draft_model_size with which it cannot be made
    shows_with: a function from the SamplingParams in use to whether it can show
    helpers: {name: function} of functions that only the wrong code calls
    """

    what: str
    seen_in: str
    changes: dict
    caught_by: str = ENUMERATED
    case: MistakeCase = MistakeCase()
    cost: str = ""
    not_by: tuple = ()
    shows_with: Callable = always
    helpers: dict = field(default_factory=dict)


# files that several mistakes were seen in
ROMSTO = "romsto/Speculative-Decoding/blob"
FEIFEIBEAR = "feifeibear/LLMSpeculativeSampling/blob"
LMFLOW = "OptimalScale/LMFlow/blob/1b223f7693/src/lmflow/pipeline/inferencer.py"

# functions in which most of the mistakes are made
roll_back = gpt2.Model.roll_back
propose = sampling.NeuralDrafter.propose
verify = sampling.verify
verify_block = sampling.verify_block
loop = sampling.speculative

# a cache with room for tokens that are appended and never forgotten
ROOM = {sampling.prefill: {"target.new_cache(length)": "target.new_cache()"}}
# as in programs whose cache knows its length, and not its ids
NOT_COMPARED = {"while cache.ids[:n_kept] != ids[:n_kept]:": "while False:"}
BONUS = "len(draft), rng.sample(p[len(draft)])"

MISTAKES = {
    "greedy-ratio": Mistake(
        what="temperature 0 takes the likeliest token, but accepts it "
        "by the ratio of softmax probabilities",
        seen_in="jaymody/speculative-sampling#3, "
        f"{ROMSTO}/42225288c6/sampling/speculative_decoding.py",
        changes={
            SamplingParams.__call__: {
                "one_hot(logits.argmax(axis=-1), logits.shape[-1])": "SamplingParams(1.0)(logits)"
            },
            propose: {"self.rng.sample(q[-1])": "int(q[-1].argmax())"},
            verify: {
                "rng.sample(residual(p[i], q[i]))": "int(residual(p[i], q[i]).argmax())",
                "rng.sample(p[len(draft)])": "int(p[len(draft)].argmax())",
            },
        },
        case=MistakeCase(SamplingParams(0.0)),
    ),
    "greedy-draft": Mistake(
        what="the draft model proposes its likeliest token, and hands over its softmax as q, "
        "from which nothing was drawn",
        seen_in="huggingface/transformers#32867",
        changes={propose: {"self.rng.sample(q[-1])": "int(q[-1].argmax())"}},
        not_by=("ngram",),
        shows_with=is_sampling,
    ),
    "resample-from-p": Mistake(
        what="a rejected token is replaced by a sample from p instead of from norm(max(0, p - q))",
        seen_in=f"{ROMSTO}/b08d133d67/ngram_assisted/ngram_assisted.py",
        changes={verify: {"rng.sample(residual(p[i], q[i]))": "rng.sample(p[i])"}},
        shows_with=is_sampling,
    ),
    "draft-noise-again": Mistake(
        what="a rejected token is replaced with the same random number that drafted it",
        seen_in="vllm-project/vllm#54282",
        changes={
            propose: {"self.rng.sample(q[-1])": "sample_and_keep(self.rng, q[-1])"},
            verify: {
                "rng.sample(residual(p[i], q[i]))": (
                    "sample_again(rng, len(draft) - i, residual(p[i], q[i]))"
                )
            },
        },
        case=MistakeCase(toy_draft_seed=5),  # replacements are spread over two tokens
        not_by=("ngram",),
        shows_with=is_sampling,
        helpers={"sample_and_keep": sample_and_keep, "sample_again": sample_again},
    ),
    "filter-on-draft-only": Mistake(
        what="temperature, top-k and top-p reach the draft model, and never the target",
        seen_in="vllm-project/vllm#9834, vllm-project/vllm#10198",
        changes={loop: {"p = to_probs(target": "p = SamplingParams(1.0)(target"}},
        case=MistakeCase(SamplingParams(0.7)),
        shows_with=changes_p,
    ),
    "filter-on-target-only": Mistake(
        what="temperature, top-k and top-p reach the target, and never the draft model",
        seen_in=f"{LMFLOW} (the temperature)",
        caught_by=PERFECT,
        changes={propose: {"self.to_probs(": "SamplingParams(1.0)("}},
        case=MistakeCase(SamplingParams(0.7, top_k=2)),
        cost="the draft model proposes what the target has ruled out",
        not_by=("ngram",),
    ),
    "ratio-of-raw-q": Mistake(
        what="the draft model draws from its filtered distribution, and the "
        "ratio is taken with the unfiltered one",
        seen_in="huggingface/transformers#47932",
        changes={
            propose: {
                "self.to_probs(logits)": "SamplingParams(1.0)(logits)",
                "self.rng.sample(q[-1])": "self.rng.sample(self.to_probs(logits)[0])",
            }
        },
        case=MistakeCase(SamplingParams(0.7)),
        not_by=("ngram",),
        shows_with=lambda to_probs: is_sampling(to_probs) and changes_p(to_probs),
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
        case=MistakeCase(SamplingParams(1.0, top_p=0.8)),
        shows_with=lambda to_probs: is_sampling(to_probs) and to_probs.top_p < 1,
    ),
    "reseed": Mistake(
        what="the generator is seeded again before every coin: each is the same",
        seen_in=f"{FEIFEIBEAR}/76117cfdc0/sampling/speculative_sampling.py",
        caught_by="tests/test_sampling.py::test_verify_draws_every_coin_anew",
        changes={verify: {"rng.accept(p[i, token]": "Rng(123).accept(p[i, token]"}},
        shows_with=is_sampling,
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
        case=MistakeCase(prompt="Fie! Fie! Fie!"),
    ),
    "divide-by-temperature-0": Mistake(
        what="temperature 0 gets no special case: logits / 0",
        seen_in="vllm-project/vllm#27077",
        caught_by="tests/test_sampling.py::test_filter_on_four_tokens_by_hand",
        changes={SamplingParams.__call__: {"if self.greedy:": "if False:"}},
        case=MistakeCase(SamplingParams(0.0)),
        shows_with=lambda to_probs: to_probs.greedy,
    ),
    "stale-cache": Mistake(
        what="the keys and values of rejected tokens stay in the cache, "
        "and what follows is appended after them",
        seen_in="ml-explore/mlx-lm#1109 (in a recurrent state)",
        caught_by=CACHES,
        changes=ROOM | {roll_back: NOT_COMPARED | {"del cache.ids[n_kept:]": "pass"}},
        case=MistakeCase(toy_n_free=20),  # for all tokens that are never forgotten
    ),
    "rollback-off-by-one": Mistake(
        what="rolling back forgets one position too few: one rejected token stays in the cache",
        seen_in="ml-explore/mlx-examples#149 (before merging)",
        caught_by=CACHES,
        changes=ROOM
        | {roll_back: NOT_COMPARED | {"del cache.ids[n_kept:]": "del cache.ids[n_kept + 1 :]"}},
    ),
    "whole-text-with-cache": Mistake(
        what="the whole text is fed again, with a cache that has read it",
        seen_in="romsto/Speculative-Decoding#1",
        caught_by=CACHES,
        changes=ROOM | {roll_back: NOT_COMPARED | {"return ids[n_kept:]": "return ids"}},
        case=MistakeCase(toy_n_free=20),
    ),
    "draft-one-behind": Mistake(
        what="the draft model reads the newest token only; after a full accept it lacks the one "
        "before",
        seen_in="not seen; gpt-fast, mlx-lm and lucidrains have a line of code against it",
        caught_by=PERFECT,
        changes={
            roll_back: NOT_COMPARED
            | {"return ids[n_kept:]": "return ids[-n_last:] if n_last else ids"}
        },
        # room for a full accept and another draft after it
        case=MistakeCase(toy_n_tokens=4, toy_K=1),
        cost="the draft model guesses from a text with holes",
        not_by=("ngram", "medusa"),
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
        what="after a full accept the bonus token comes from the row of the last drafted token",
        seen_in="not seen; easy to make",
        changes={verify: {"rng.sample(p[len(draft)])": "rng.sample(p[len(draft) - 1])"}},
    ),
    "first-draft-unverified": Mistake(
        what="verification begins with the second drafted token",
        seen_in="ohdearquant/lattice#243",
        changes={verify: {"if not rng": "if i > 0 and not rng"}},
    ),
    "end-ignored": Mistake(
        what="the end of the text is looked for in the last token of a "
        "round only, not inside an accepted run",
        seen_in="huggingface/transformers#31301, huggingface/transformers#47912, "
        "LostRuins/koboldcpp#1276",
        caught_by="tests/test_sampling.py::test_the_end_may_lie_anywhere_in_an_accepted_run",
        changes={loop: {"break": "pass"}},
        case=MistakeCase(stop="sun"),
    ),
    "too-many-tokens": Mistake(
        what="the last round keeps all it has: up to K tokens more than were asked for",
        seen_in="jaymody/speculative-sampling/blob/03b4759da6/main.py, "
        f"{FEIFEIBEAR}/76117cfdc0/sampling/speculative_sampling.py",
        caught_by="tests/test_sampling.py::test_exactly_the_tokens_asked_for",
        changes=ROOM | {loop: {"min(k, length - len(text) - 1)": "k"}},
        case=MistakeCase(toy_n_tokens=2, toy_K=2),
    ),
    "context-unchecked": Mistake(
        what="nothing ends the text where the context ends",
        seen_in="not seen; in turboderp-org/exllamav2#274 and vllm-project/vllm#5342 it is a draft "
        "that passes the end of its own context",
        caught_by="tests/test_sampling.py::test_the_context_ends_the_text",
        changes={sampling.prefill: {"min(len(ids) + n_tokens, n_ctx)": "len(ids) + n_tokens"}},
        case=MistakeCase(full=True, toy_n_free=2),
    ),
    "residual-nan": Mistake(
        what="the residual is divided by its sum, also where p <= q "
        "everywhere by rounding and the sum is 0",
        seen_in=f"jaymody/speculative-sampling#5, {FEIFEIBEAR}/ec08458ac0/sampling/utils.py",
        caught_by="tests/test_sampling.py::test_residual_by_hand_and_when_rounding_leaves_none",
        changes={sampling.residual: {"rest / total if total > 0 else p": "rest / total"}},
        cost="a crash where a coin meets a rounding error: too rare in float64 to be seen here",
    ),
    "block-whole-or-none": Mistake(
        what="one coin is tossed, for the whole block: if that fails, no token is accepted",
        seen_in="not seen; easy to make",
        changes={verify_block: {"reversed(range(len(draft) + 1))": "(len(draft), 0)"}},
        case=MistakeCase(verification="block"),
        shows_with=is_sampling,
    ),
    "block-coin-is-p": Mistake(
        what="a shorter block is accepted with P[t], as the whole one is",
        seen_in="not seen; easy to make",
        changes={verify_block: {"accept(S / (S + 1 - P[t]))": "accept(P[t])"}},
        case=MistakeCase(verification="block"),
        shows_with=is_sampling,
    ),
    "block-unclipped": Mistake(
        what="the ratios are multiplied without the limit of 1 at each position",
        seen_in="not seen; easy to make",
        changes={
            verify_block: {
                "min(1.0, P[-1] * p[i, token] / q[i, token])": "P[-1] * p[i, token] / q[i, token]"
            }
        },
        case=MistakeCase(verification="block"),
        shows_with=is_sampling,
    ),
    "block-residual-of-tokens": Mistake(
        what="a rejected block is continued from norm(max(0, p - q)), the token rule's residual",
        seen_in="vllm-project/vllm-ascend#7807 (with another fault: the token rule's coins)",
        changes={verify_block: {"residual(P[t] * p[t], q[t])": "residual(p[t], q[t])"}},
        case=MistakeCase(SamplingParams(1.5), verification="block", toy_draft_seed=9),
        shows_with=is_sampling,
    ),
}

# errors that a mistake may end in
ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)

# ---------------------------------------------------------------- for the flag --mistake


def get_mistake(name):
    """The Mistake of that name. Raises InputError, which lists the names, if there is none."""
    if name not in MISTAKES:
        raise InputError(f"mistake {name!r}: expected one of {', '.join(MISTAKES)}")
    return MISTAKES[name]


def changed_rule(name):
    """The accept/reject rule that the mistake of that name changes, "token" or "block". None if it
    changes neither, but for example sampling.residual, which both call. Raises InputError for an
    unknown name.
    """
    mistake = get_mistake(name)
    changed_rules = mistake.changes.keys() & {verify, verify_block}
    return mistake.case.verification if changed_rules else None  # its case runs the changed rule


def case_flags(name):
    """The flags of main.py with which the mistake of that name shows, as one str. Raises InputError
    for an unknown name.

    >>> case_flags("end-ignored")
    '--temperature 1.0 --stop sun'
    """
    case = get_mistake(name).case
    flags = {  # None for a value that main.py has by default
        "prompt": case.prompt if case.prompt != MistakeCase.prompt else None,
        "temperature": case.to_probs.temperature,
        "top_k": case.to_probs.top_k,
        "top_p": case.to_probs.top_p if case.to_probs.top_p < 1 else None,
        "stop": case.stop or None,
    }
    return " ".join(
        f"--{flag} {shlex.quote(str(value))}" for flag, value in flags.items() if value is not None
    )


def require_usable(name, rule, draft_name):
    """Raise InputError if the rule or the draft in use never runs the code that the mistake of that
    name changes, or if there is no such mistake.

    rule: "token", "block", or another name for a rule that runs neither sampling.verify nor
        sampling.verify_block
    draft_name: the value of --draft_model_size
    """
    mistake = get_mistake(name)
    if draft_name in mistake.not_by:
        raise InputError(
            f"--mistake {name}: --draft_model_size {draft_name} cannot make it; "
            "expected a draft model"
        )
    other_rules = {"token": {verify_block}, "block": {verify}}
    # a rule of another name runs none of the functions of sampling.py's two rules
    not_run = other_rules.get(rule, {verify, verify_block, sampling.residual})
    if mistake.changes.keys() & not_run:
        raise InputError(
            f"--mistake {name}: the rule in use cannot make it; expected no --rule or --coupled, "
            f"and --verification {mistake.case.verification}"
        )


def loop_with_mistake(name):
    """Return the speculative loop with the mistake of that name: a generator function with the
    arguments of sampling.speculative. The mistake is on during each round, and off between two
    rounds. Raises InputError for an unknown name.

    The loop itself raises InputError if the mistake makes the program fail.
    """
    mistake = get_mistake(name)

    def wrong_loop(*arguments, **options):
        """Yield the Rounds of a text with the mistake. Raises InputError if the program fails."""
        with apply_mistake(mistake):  # a generator keeps the code that it was made with
            rounds = sampling.speculative(*arguments, **options)
        while True:
            try:
                with apply_mistake(mistake):  # in the functions that the generator calls
                    this_round = next(rounds, None)
            except InputError:  # of a reader's own rule: it says already what is wrong
                raise
            except ERRORS as error:
                raise InputError(
                    f"--mistake {name}: it makes the program fail "
                    f"({type(error).__name__}: {error}); try another"
                ) from None
            if this_round is None:
                return
            yield this_round

    return wrong_loop
