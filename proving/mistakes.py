"""The museum: ways to get speculative decoding wrong, most of them seen in public implementations.

A mistake is data, a small change of the right code: {function: {right piece: wrong piece}}, pieces
of source that stand in the function once. proving/patching.py switches one on,
proving/distance.py computes how wrong it is.
"""

from dataclasses import dataclass

import gpt2
import sampling
from proving.patching import made
from sampling import Filter
from utils import InputError

# tests that catch several
ENUMERATED = "tests/test_exact.py::test_distribution_of_the_loop_with_tables"
CACHES = "tests/test_exact.py::test_distribution_of_the_loop_with_real_models_and_caches"
PERFECT = "tests/test_sampling.py::test_a_perfect_draft_is_always_accepted"


@dataclass(frozen=True)
class Scene:
    """Where a mistake shows: the filter, and what else it takes."""

    filter: Filter = Filter(1.0)
    prompt: str = "Once upon a time"
    stop: str = ""  # a string that ends the text; on the toy, token 2 does if there is one
    full: bool = False  # the prompt leaves room for two tokens only
    toy: tuple = (3, 2)  # tokens and K there
    toy_room: int = 4  # positions of its context after the prompt
    toy_draft: int = 2  # the seed of its draft
    verification: str = "token"  # or "block", the rule it is made in


@dataclass(frozen=True)
class Mistake:
    """A change of the right code, and what is known of it.

    seen_in: where; an issue or pull request as owner/name#number, a file as
        owner/name/blob/commit/path
    changes: {function or method: {right source: wrong source}}
    caught_by: the test that fails with it, unless it is the enumeration
    cost: what a mistake does whose distribution is right
    not_by: drafts that cannot make it
    """

    what: str
    seen_in: str
    changes: dict
    caught_by: str = ENUMERATED
    scene: Scene = Scene()
    cost: str = ""
    not_by: tuple = ()


# files that several were seen in
ROMSTO = "romsto/Speculative-Decoding/blob"
FEIFEIBEAR = "feifeibear/LLMSpeculativeSampling/blob"
LMFLOW = "OptimalScale/LMFlow/blob/1b223f7693/src/lmflow/pipeline/inferencer.py"

# where most of them are made
roll_back = gpt2.Model.roll_back
propose = sampling.NeuralDrafter.propose
verify = sampling.verify
verify_block = sampling.verify_block
loop = sampling.speculative

# a cache with room for what is appended and never forgotten
ROOM = {sampling.prefill: {"target.new_cache(length)": "target.new_cache()"}}
NOTHING_FORGOTTEN = {"cache.length = min(": "n_known = min("}
BONUS = "len(draft), chance.sample(p[len(draft)])"

MISTAKES = {
    "greedy-ratio": Mistake(
        what="temperature 0 takes the likeliest token, but accepts it "
        "by the ratio of softmax probabilities",
        seen_in="jaymody/speculative-sampling#3, "
        f"{ROMSTO}/42225288c6/sampling/speculative_decoding.py",
        changes={
            Filter.__call__: {"one_hot(tokens, logits.shape[-1])": "Filter(1.0)(logits)"},
            propose: {"self.chance.sample(q[-1][0])": "int(q[-1].argmax())"},
            verify: {
                "chance.sample(residual(p[i], q[i]))": "int(residual(p[i], q[i]).argmax())",
                "chance.sample(p[len(draft)])": "int(p[len(draft)].argmax())",
            },
        },
        scene=Scene(Filter(0.0)),
    ),
    "greedy-draft": Mistake(
        what="the draft model proposes its likeliest token, and hands over its softmax as q, "
        "from which nothing was drawn",
        seen_in="huggingface/transformers#32867",
        changes={propose: {"self.chance.sample(q[-1][0])": "int(q[-1].argmax())"}},
        not_by=("ngram",),
    ),
    "resample-from-p": Mistake(
        what="a rejected token is replaced by a sample from p instead of from norm(max(0, p - q))",
        seen_in=f"{ROMSTO}/b08d133d67/ngram_assisted/ngram_assisted.py",
        changes={verify: {"chance.sample(residual(p[i], q[i]))": "chance.sample(p[i])"}},
    ),
    "filter-on-draft-only": Mistake(
        what="temperature, top-k and top-p reach the draft model, and never the target",
        seen_in="vllm-project/vllm#9834, vllm-project/vllm#10198",
        changes={loop: {"p = filter(target": "p = Filter(1.0)(target"}},
        scene=Scene(Filter(0.7)),
    ),
    "filter-on-target-only": Mistake(
        what="temperature, top-k and top-p reach the target, and never the draft model",
        seen_in=LMFLOW,
        caught_by=PERFECT,
        changes={propose: {"self.filter(": "Filter(1.0)("}},
        scene=Scene(Filter(0.7, top_k=2)),
        cost="the draft model proposes what the target has ruled out",
        not_by=("ngram",),
    ),
    "ratio-of-raw-q": Mistake(
        what="the draft model draws from its filtered distribution, and the "
        "ratio is taken with the unfiltered one",
        seen_in="huggingface/transformers#47932, deepseek-ai/DeepSpec#31",
        changes={
            propose: {
                "self.filter(logits)": "Filter(1.0)(logits)",
                "self.chance.sample(q[-1][0])": "self.chance.sample(self.filter(logits)[0])",
            }
        },
        scene=Scene(Filter(0.7)),
        not_by=("ngram",),
    ),
    "top-p-argsort": Mistake(
        what="top-p zeroes the positions that an argsort of the already sorted "
        "probabilities names: those of other tokens",
        seen_in=LMFLOW,
        caught_by="tests/test_sampling.py::test_filter_of_a_real_vocabulary_matches_a_full_sort",
        changes={
            sampling.keep_top_p: {
                "keep_best(p, p, k, ranked[k - 1])": "p[np.argsort(np.sort(p)[::-1])[k:]] = 0"
            }
        },
        scene=Scene(Filter(1.0, top_p=0.8)),
    ),
    "reseed": Mistake(
        what="the generator is seeded again before every coin: each is the same",
        seen_in=f"{FEIFEIBEAR}/76117cfdc0/sampling/speculative_sampling.py",
        caught_by="tests/test_sampling.py::test_verify_draws_every_coin_anew",
        changes={verify: {"chance.toss(p[i, token]": "Chance(123).toss(p[i, token]"}},
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
        scene=Scene(prompt="Fie! Fie! Fie!"),
    ),
    "divide-by-temperature-0": Mistake(
        what="temperature 0 gets no special case: logits / 0",
        seen_in="anarchy-ai/LLM-VM#239, vllm-project/vllm#27077",
        caught_by="tests/test_sampling.py::test_filter_on_four_tokens_by_hand",
        changes={Filter.__call__: {"if self.greedy:": "if False:"}},
        scene=Scene(Filter(0.0)),
    ),
    "stale-cache": Mistake(
        what="the keys and values of rejected tokens stay in the cache, "
        "and what follows is appended after them",
        seen_in="romsto/Speculative-Decoding#1, ml-explore/mlx-lm#1109",
        caught_by=CACHES,
        changes=ROOM | {roll_back: NOTHING_FORGOTTEN | {"ids[cache.length :]": "ids[n_known:]"}},
        scene=Scene(toy_room=20),  # for all that is never forgotten
    ),
    "rollback-off-by-one": Mistake(
        what="rolling back forgets one position too few: one rejected token stays in the cache",
        seen_in="ml-explore/mlx-examples#149, huggingface/transformers#30042, "
        "huggingface/transformers#30413",
        caught_by=CACHES,
        changes=ROOM
        | {
            roll_back: NOTHING_FORGOTTEN
            | {
                "return ids[cache.length :]": (
                    "cache.length = min(cache.length, n_known + 1); return ids[n_known:]"
                )
            }
        },
    ),
    "whole-text-with-cache": Mistake(
        what="the whole text is fed again, with a cache that has read it",
        seen_in="romsto/Speculative-Decoding#4",
        caught_by=CACHES,
        changes=ROOM | {roll_back: {"ids[cache.length :]": "ids"}},
        scene=Scene(toy_room=20),
    ),
    "draft-one-behind": Mistake(
        what="the draft model reads the newest token only; after a full accept it lacks the one "
        "before",
        seen_in="not seen; gpt-fast, mlx-lm and lucidrains have a line of code against it",
        caught_by=PERFECT,
        changes={roll_back: {"ids[cache.length :]": "ids[-n_last:] if n_last else ids"}},
        # room for a full accept and another draft after it
        scene=Scene(toy=(4, 1)),
        cost="the draft model guesses from a text with holes",
        not_by=("ngram", "medusa"),
    ),
    "missing-bonus": Mistake(
        what="after a full accept the target's last row is thrown away",
        seen_in="ohdearquant/lattice#509",
        caught_by=PERFECT,
        changes={
            verify: {BONUS: "(len(draft) - 1, draft[-1]) if draft else (0, chance.sample(p[0]))"}
        },
        cost="a full accept gives K tokens instead of K + 1",
    ),
    "bonus-from-wrong-row": Mistake(
        what="after a full accept the bonus token comes from the row of the last drafted token",
        seen_in="not seen; easy to make",
        changes={verify: {"chance.sample(p[len(draft)])": "chance.sample(p[len(draft) - 1])"}},
    ),
    "first-draft-unverified": Mistake(
        what="verification begins with the second drafted token",
        seen_in="ohdearquant/lattice#243",
        changes={verify: {"if not chance": "if i > 0 and not chance"}},
    ),
    "end-ignored": Mistake(
        what="the end of the text is looked for in the last token of a "
        "round only, not inside an accepted run",
        seen_in="huggingface/transformers#31301, huggingface/transformers#47912, "
        "LostRuins/koboldcpp#1276",
        caught_by="tests/test_sampling.py::test_the_end_may_lie_anywhere_in_an_accepted_run",
        changes={loop: {"break": "pass"}},
        scene=Scene(stop="sun"),
    ),
    "too-many-tokens": Mistake(
        what="the last round keeps all it has: up to K tokens more than were asked for",
        seen_in="jaymody/speculative-sampling/blob/03b4759da6/main.py, "
        f"{FEIFEIBEAR}/76117cfdc0/sampling/speculative_sampling.py",
        caught_by="tests/test_sampling.py::test_exactly_the_tokens_asked_for",
        changes=ROOM | {loop: {"min(k, length - len(text) - 1)": "k"}},
        scene=Scene(toy=(2, 2)),
    ),
    "context-unchecked": Mistake(
        what="nothing ends the text where the context ends",
        seen_in="turboderp-org/exllamav2#274, vllm-project/vllm#5342",
        caught_by="tests/test_sampling.py::test_the_context_ends_the_text",
        changes={sampling.prefill: {"min(len(ids) + n_tokens, n_ctx)": "len(ids) + n_tokens"}},
        scene=Scene(full=True, toy_room=2),
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
        scene=Scene(verification="block"),
    ),
    "block-coin-is-p": Mistake(
        what="a shorter block is accepted with P[t], as the whole one is",
        seen_in="not seen; easy to make",
        changes={verify_block: {"toss(S / (S + 1 - P[t]))": "toss(P[t])"}},
        scene=Scene(verification="block"),
    ),
    "block-unclipped": Mistake(
        what="the ratios are multiplied without the limit of 1 at each position",
        seen_in="not seen; easy to make",
        changes={
            verify_block: {
                "min(1.0, P[-1] * p[i, token] / q[i, token])": "P[-1] * p[i, token] / q[i, token]"
            }
        },
        scene=Scene(verification="block"),
    ),
    "block-residual-of-tokens": Mistake(
        what="a rejected block is continued from norm(max(0, p - q)), the token rule's residual",
        seen_in="vllm-project/vllm-ascend#7807",
        changes={verify_block: {"residual(P[t] * p[t], q[t])": "residual(p[t], q[t])"}},
        scene=Scene(Filter(1.5), verification="block", toy_draft=9),
    ),
}

ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)  # what a mistake may end in


def find(name):
    """The Mistake of that name. Raises InputError that lists the names."""
    if name not in MISTAKES:
        raise InputError(f"mistake {name!r}: expected one of {', '.join(MISTAKES)}")
    return MISTAKES[name]


def rule_of(name):
    """The accept/reject rule, "token" or "block", that a mistake is made in; None where it is made
    elsewhere.
    """
    mistake = find(name)
    in_a_rule = mistake.changes.keys() & {verify, verify_block}
    return mistake.scene.verification if in_a_rule else None


def require_made(name, rule, draft_name):
    """Raises InputError where the rule or the draft in use cannot make the mistake.

    rule: "token" or "block", or another one, which has none of these parts
    """
    mistake = find(name)
    problem = None
    used = {"token": {verify, sampling.residual}, "block": {verify_block, sampling.residual}}
    parts = set().union(*used.values())
    if draft_name in mistake.not_by:
        problem = f"--draft_model_size {draft_name} cannot make it; expected a draft model"
    elif mistake.changes.keys() & (parts - used.get(rule, set())):
        problem = (
            "the rule in use cannot make it; expected no --rule or --coupled, and --verification "
            f"{mistake.scene.verification}"
        )
    if problem:
        raise InputError(f"--mistake {name}: {problem}")


def mistaken(name):
    """sampling.speculative with the mistake of that name made in each of its rounds, and nowhere
    else: what happens between two rounds is none of its business.

    Raises InputError for an unknown name, and where the mistake makes the program fail.
    """
    mistake = find(name)

    def loop(*arguments, **options):
        with made(mistake):
            rounds = sampling.speculative(*arguments, **options)
        while True:
            try:
                with made(mistake):
                    round = next(rounds, None)
            except InputError:  # of a reader's own rule, which says what is wrong
                raise
            except ERRORS as error:
                raise InputError(
                    f"--mistake {name}: it makes the program fail "
                    f"({type(error).__name__}: {error}); try another"
                ) from None
            if round is None:
                return
            yield round

    return loop
