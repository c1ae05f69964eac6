"""Decoding with an accept/reject rule of a reader's own, written as in exercises/mine.py: --rule
exercises.mine.

The rule is verify_7, or block_11 with --verification block. How far its distribution is from the
target's, and how many drafted tokens it keeps, is computed on a toy pair, over every random choice.
If speculative_9 is written, it decodes a few tokens as well.
"""

import importlib
import runpy
import sys
from contextlib import contextmanager, redirect_stdout
from functools import cache, partial

from checkpoints.errors import SettingError
from proving.distance import (
    TOY_END,
    TOY_PROMPT,
    ends_at_toy_end,
    row_function,
    toy_distributions,
    toy_functions,
    toy_pair,
)
from proving.enumeration import WrongAnswer, chain_rule, enumerate_branches, total_variation
from proving.limits import describe_error, describe_line, with_limits
from proving.mistakes import MISTAKES, MistakeCase
from proving.verdict import (
    ROUNDING,
    CheckedRng,
    complete_texts,
    enumerate_round,
    expected_kept,
    require_rule_result,
    to_tokens,
)
from sampling import Rng

EXERCISES = {"token": "verify_7", "block": "block_11"}
# the case on whose toy pair each kind of rule shows what is wrong with it
CASES = {"token": MistakeCase(), "block": MISTAKES["block-residual-of-tokens"].case}
K_KEPT = 3  # of the round whose kept drafts are counted
# (n_vocab, K) of rounds in which a rule has to be right
ROUNDS = ((3, K_KEPT), (5, 2), (2, 5))
N_LOOP = 20  # tokens from a loop without caches


class Unwritten(SettingError):
    """Raised for an exercise that raises NotImplementedError, or is not there."""


class ReaderModule:
    """A reader's module with answers to the exercises, imported or run. What it prints goes to
    stderr, and each of its errors becomes a SettingError.

    name: a module such as exercises.mine, or the path of a .py file
    """

    def __init__(self, name):
        self.name, self.namespace = name, load_namespace(name)

    @contextmanager
    def guard(self, exercise):
        """Context manager: give a `with` block the reader's function for an exercise, with limits
        on its time and calls. An error in the block becomes a SettingError that names the reader's
        line.

        exercise: the name of the function, such as "verify_7"
        Raises Unwritten if the function is missing, or raises NotImplementedError.
        """
        if exercise not in self.namespace:
            raise Unwritten(
                "rule", f"{self.name}: it has no {exercise}: expected one as in exercises/mine.py"
            )
        try:
            yield with_limits(self.namespace[exercise], exercise)
        except SettingError:  # contexts are nested: the inner one has said what is wrong
            raise
        except NotImplementedError:
            raise Unwritten(
                "rule",
                f"{self.name}: {exercise}, or what it calls, is still to be written: "
                "expected an answer to docs/exercises.md",
            ) from None
        except Exception as error:
            reason = str(error) if isinstance(error, WrongAnswer) else describe_error(error)
            line = describe_line(error, self.namespace["__file__"])
            problem = f"{self.name}: {exercise} fails{line}: {reason}"
            raise SettingError("rule", f"{problem}; try python -m pytest exercises") from None

    def rule(self, verification):
        """Return the reader's rule, a function with the arguments and result of sampling.verify.

        verification: "token" for the reader's verify_7, "block" for block_11
        """

        # list of k tokens, [k + 1, n_vocab], [k, n_vocab], sampling.Rng -> [n_accepted, next token]
        def rule(draft, p, q, rng):
            """Call the reader's rule. Returns a list of two ints, the number of accepted tokens and
            the next token. Raises SettingError if the rule fails, or returns something else.
            """
            rng = CheckedRng(rng)
            # the check is inside, so that its WrongAnswer becomes a SettingError, too
            with self.guard(EXERCISES[verification]) as verify:
                # copies, because the Round keeps p and q
                result = verify(list(draft), p.copy(), q.copy(), rng.sample, rng.accept)
                return require_rule_result(result, len(draft), p.shape[-1])

        return rule

    def run_loop(self, n_vocab, target, draft_model, ids, n_tokens, K, rng, end=None):
        """Call the reader's loop, speculative_9. Returns its new tokens, a tuple of ints. Raises
        SettingError if the loop fails, or returns no list of tokens below n_vocab.

        target, draft_model: functions from token ids to [len(ids), n_vocab], the distribution of
            the next token at each position
        ids: the prompt, a list. rng: a sampling.Rng. end: the token that ends a text, or None
        """
        rng = CheckedRng(rng)
        with self.guard("speculative_9") as speculative:
            expected = f"a list of tokens, each below {n_vocab}"
            # a copy, because a wrong loop may append to ids
            result = speculative(
                target, draft_model, list(ids), n_tokens, K, rng.sample, rng.accept, end
            )
            if not isinstance(result, list):
                raise WrongAnswer(f"it returns {result!r}, expected {expected}")
            return tuple(to_tokens(result, n_vocab, expected))

    def enumerate_rule(self, verification):
        """Run the reader's rule on toy pairs through every random choice. Returns a dict, two
        entries of the JSON object of --json:

            rule_distance: the total variation distance of its texts from the target's
            rule_keeps: {"drafted": K_KEPT, "kept": mean number of these that the rule keeps,
                "by_verify": that sampling.verify keeps, "most": that an exact rule can keep}

        verification: "token" or "block"
        Raises SettingError if the rule fails.
        """
        rule = self.rule(verification)
        # one pair for both kinds of rule, so that their figures compare; a round has K + 1 tokens
        target, draft_model = toy_functions(CASES["block"], K_KEPT + 1)
        # errors of the enumeration itself, such as too many branches, become SettingErrors, too
        with self.guard(EXERCISES[verification]):
            _, n_kept = enumerate_round(rule, target, draft_model, K_KEPT)
            # of whole texts, as for a mistake
            distance = total_variation(*toy_distributions(CASES[verification], rule=rule))
            # if that is 0: of single rounds, until one of them shows that the rule is wrong
            for n_vocab, K in ROUNDS:
                if distance <= ROUNDING:
                    distance = round_distance(rule, n_vocab, K)
        return {
            "rule_distance": distance,
            "rule_keeps": {
                "drafted": K_KEPT,
                "kept": n_kept,
                "by_verify": expected_kept(target, draft_model, K_KEPT, block=False),
                "most": expected_kept(target, draft_model, K_KEPT, block=True),
            },
        }

    def enumerate_loop(self):
        """Run the reader's loop, speculative_9, on the toy pair through every random choice.
        Returns the total variation distance of its texts from the target's, a float; None if the
        loop is still to be written. Raises SettingError if the loop fails.
        """
        case = CASES["token"]
        pair = toy_pair(case.toy_n_free, case.toy_draft_seed)
        models = [row_function(model, case.to_probs) for model in pair]
        n_vocab, n_tokens, K = pair[0].config.n_vocab, case.toy_n_tokens, case.toy_K
        run = partial(self.run_loop, n_vocab, *models, TOY_PROMPT, n_tokens, K, end=TOY_END)
        try:
            # run_loop guards each call; this also names what the enumeration finds wrong
            with self.guard("speculative_9"):
                texts = enumerate_branches(run)  # calls run(rng) for each branch
        except Unwritten:
            return None
        target_texts = chain_rule(pair[0], TOY_PROMPT, n_tokens, case.to_probs, ends_at_toy_end)
        return total_variation(texts, target_texts)

    def write_text(self, config, pair, prompt):
        """Write up to N_LOOP tokens with the reader's loop, speculative_9. Returns {"text": str,
        "token_ids": list of ints}; None if the draft is no model that can run without the target,
        or if the context has no room for a token and K more. Raises SettingError if the loop fails.

        config: a GenerationConfig. pair: a Pair of target and draft. prompt: a Prompt
        """
        target, draft_model, encoder = pair.target, pair.draft.standalone_model, pair.encoder
        if draft_model is None:
            return None
        K = config.K if isinstance(config.K, int) else 4  # "auto" is for the project's loop only
        n_ctx = min(target.config.n_ctx, draft_model.config.n_ctx)
        # - K: at the end, a reader's loop may draft K tokens more than it needs
        n_tokens = min(N_LOOP, config.n_tokens, n_ctx - len(prompt.ids) - K)
        if n_tokens < 1:
            return None
        models = [row_function(model, config.to_probs) for model in (target, draft_model)]
        rng, end = Rng(prompt.seed), encoder.end_of_text
        ids = list(self.run_loop(encoder.n_vocab, *models, prompt.ids, n_tokens, K, rng, end))
        return {"text": encoder.decode(encoder.without_end(ids)), "token_ids": ids}


def load_namespace(name):
    """Import a module or run a .py file. Returns its variables, {name: value}. What the module or
    file prints, now and later, goes to stderr. Raises SettingError if it cannot be loaded.

    name: a module such as exercises.mine, or the path of a .py file
    """
    # The module gets a `print` of its own. To redirect sys.stdout when its functions run would
    # redirect what other threads print, too.
    own_print = {"print": print_to_stderr}
    try:
        with redirect_stdout(sys.stderr):  # here no other thread runs yet
            if name.endswith(".py"):
                return runpy.run_path(name, init_globals=own_print)
            namespace = vars(importlib.import_module(name))
            namespace.update(own_print)
            return namespace
    except (Exception, SystemExit) as error:
        problem = f"{name}: it cannot be loaded: {describe_error(error)}"
        expected = "expected a module such as exercises.mine, or a .py file"
        raise SettingError("rule", f"{problem}; {expected}") from None


def print_to_stderr(*values, **options):
    """Print to stderr: stdout may be a JSON object."""
    print(*values, **{"file": sys.stderr, **options})


def round_distance(rule, n_vocab, K):
    """Enumerate one round of K drafted tokens on a toy pair, and let the target complete the texts
    of the round to K + 1 tokens. Returns the total variation distance of these texts from the
    target's own. Raises what the rule raises, and WrongAnswer if the rule cannot be enumerated.

    rule: a function with the arguments and result of sampling.verify
    """
    target, draft_model = toy_functions(CASES["block"], K + 1, n_vocab)
    round_texts, _ = enumerate_round(rule, target, draft_model, K)
    texts = complete_texts(round_texts, target, K + 1)
    target_texts = complete_texts({(): 1.0}, target, K + 1)
    return total_variation(texts, target_texts)


@cache
def examine_rule(name, verification):
    """Load a reader's module and enumerate its rule and loop. Returns (the ReaderModule, the dict
    {"rule_distance", "rule_keeps"} of its enumerate_rule, the total variation distance of its loop,
    None without a loop), and keeps all three for the next call. Raises SettingError if the module,
    the rule or the loop fails.

    name: a module such as exercises.mine, or the path of a .py file
    verification: "token" or "block"
    """
    module = ReaderModule(name)
    return module, module.enumerate_rule(verification), module.enumerate_loop()


def load_rule(name, verification):
    """Load a reader's module, try it on the toy pair, and return its rule: a function (draft, p, q,
    rng) -> [number of accepted tokens, next token]. Raises SettingError if the module, the rule or
    its loop fails.

    name: a module such as exercises.mine, or the path of a .py file
    verification: "token" or "block"
    """
    module, _, _ = examine_rule(name, verification)
    return module.rule(verification)


def measure_rule(name, verification, config, pair, prompt):
    """Measure a reader's rule and loop. Returns entries of the JSON object, a dict: "rule_distance"
    and "rule_keeps", the rule's distance from the target's distribution and how many drafts it
    keeps, as from ReaderModule.enumerate_rule; and "own_loop", {"text", "token_ids", "distance"}: a
    text that the loop writes after the prompt, and the same distance of the loop. All distances are
    of texts on the toy pair. "own_loop" is None if there is no loop or no text. Raises SettingError
    if the module, the rule or the loop fails.

    name: a module such as exercises.mine, or the path of a .py file
    verification: "token" or "block"
    config: a GenerationConfig. pair: a Pair of target and draft. prompt: a Prompt
    """
    module, figures, loop_distance = examine_rule(name, verification)
    own_loop = None
    if loop_distance is not None:
        own_loop = module.write_text(config, pair, prompt)
    if own_loop:
        own_loop["distance"] = loop_distance
    return figures | {"own_loop": own_loop}
