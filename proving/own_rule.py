"""Decoding with a reader's own rule, written as in exercises/mine.py: --rule exercises.mine.

The rule is verify_7, or block_11 with --verification block. How far its distribution is from the
target's, and how many drafts it keeps, is computed on a toy pair, over every random choice. Where
speculative_9 is written, a few tokens come from it as well.
"""

import importlib
import runpy
import sys
from contextlib import contextmanager, redirect_stdout
from functools import cache

from checkpoints.errors import SettingError
from proving.distance import TOY_PROMPT, toy_distributions, toy_pair
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
    to_whole_numbers,
)
from sampling import Rng

EXERCISES = {"token": "verify_7", "block": "block_11"}
# the toy on which each kind of rule shows what is wrong with it
TOYS = {"token": MistakeCase(), "block": MISTAKES["block-residual-of-tokens"].case}
ROUND, K_TOY = TOYS["block"], 3  # the case and K of the round whose kept drafts are counted
# (n_vocab, K) of other rounds in which a rule has to be right
ROUNDS = ((3, K_TOY), (5, 2), (2, 5))
N_LOOP = 20  # tokens from a loop without caches


class Unwritten(SettingError):
    """An exercise that raises NotImplementedError, or is not there."""


class ReaderModule:
    """A reader's module with answers to the exercises. Reading it prints to stderr only, and any
    error of the module is a SettingError.

    name: a module such as exercises.mine, or a .py file
    """

    def __init__(self, name):
        self.name, self.namespace = name, load_namespace(name)

    @contextmanager
    def answer(self, exercise):
        """A context that gives the reader's answer to an exercise, with limits. An error in the
        context becomes a SettingError that names the reader's line; Unwritten if there is no answer
        yet.
        """
        if exercise not in self.namespace:
            problem = f"{self.name}: it has no {exercise}: expected"
            raise Unwritten("rule", f"{problem} one as in exercises/mine.py")
        try:
            yield with_limits(self.namespace[exercise], exercise)
        except SettingError:  # of an answer within this one
            raise
        except NotImplementedError:
            problem = f"{self.name}: {exercise}, or what it calls, is still to be written: expected"
            raise Unwritten("rule", f"{problem} an answer to docs/exercises.md") from None
        except Exception as error:
            said = str(error) if isinstance(error, WrongAnswer) else describe_error(error)
            where = describe_line(error, self.namespace["__file__"])
            problem = f"{self.name}: {exercise} fails{where}: {said}"
            raise SettingError("rule", f"{problem}; try python -m pytest exercises") from None

    def rule(self, verification):
        """The reader's rule in the form of sampling.verify. A result of another form is a
        SettingError.

        verification: "token" or "block"
        """

        def rule(draft, p, q, rng):
            rng = CheckedRng(rng)
            with self.answer(EXERCISES[verification]) as answer:
                # copies, because the Round keeps p and q
                result = answer(list(draft), p.copy(), q.copy(), rng.sample, rng.accept)
                return require_rule_result(result, len(draft), p.shape[-1])

        return rule

    def run_loop(self, n_vocab, *arguments):
        """Call the reader's speculative_9 with these arguments: its new tokens, a tuple. A result
        of another form is a SettingError.
        """
        with self.answer("speculative_9") as speculative:
            expected = f"a list of tokens, each below {n_vocab}"
            result = speculative(*arguments)
            if not isinstance(result, list):
                raise WrongAnswer(f"it returns {result!r}, expected {expected}")
            text = tuple(to_whole_numbers(result, expected))
            if not all(0 <= token < n_vocab for token in text):
                raise WrongAnswer(f"it returns {result!r}, expected {expected}")
            return text

    def rule_figures(self, verification):
        """Enumerate the rule on toy pairs, for the JSON object: rule_distance, the total variation
        distance of its texts from the target's; rule_keeps, of K_TOY drafts the mean number that
        the rule keeps, that `verify` keeps, and the most that an exact rule can keep.

        The distance is that of whole texts, as in the museum. If it is 0 there, it is that of one
        round with a larger vocabulary or more drafts.
        """
        rule = self.rule(verification)
        target, draft = toy_functions(*ROUNDS[0])
        with self.answer(EXERCISES[verification]):
            _, kept = enumerate_round(rule, target, draft, K_TOY)
            far = total_variation(*toy_distributions(TOYS[verification], rule=rule))
            for n_vocab, K in ROUNDS:
                if far <= ROUNDING:
                    far = distance_of_round(rule, n_vocab, K)
        return {
            "rule_distance": far,
            "rule_keeps": {
                "drafted": K_TOY,
                "kept": kept,
                "by_verify": expected_kept(target, draft, K_TOY, block=False),
                "most": expected_kept(target, draft, K_TOY, block=True),
            },
        }

    def loop_distance(self):
        """The total variation distance of the texts of the reader's loop from the target's, on the
        toy pair. None if the loop is still to be written.
        """
        case = TOYS["token"]
        target, draft = toy_pair(case.toy_room, case.toy_draft)
        n_tokens, K = case.toy
        models = row_function(target, case.to_probs), row_function(draft, case.to_probs)

        def run(rng):
            rng = CheckedRng(rng)
            rest = n_tokens, K, rng.sample, rng.accept, None
            return self.run_loop(target.config.n_vocab, *models, list(TOY_PROMPT), *rest)

        try:
            with self.answer("speculative_9"):
                found = enumerate_branches(run)
        except Unwritten:
            return None
        return total_variation(found, chain_rule(target, TOY_PROMPT, n_tokens, case.to_probs))

    def loop_text(self, config, pair, prompt):
        """Write up to N_LOOP tokens with the reader's loop: {"text": ..., "token_ids": a list}.
        None if there is no draft model, or no room in the context.
        """
        models = pair.target, pair.draft.standalone_model
        encoder = pair.encoder
        if None in models:
            return None
        K = config.K if isinstance(config.K, int) else 4  # auto
        room = min(model.config.n_ctx for model in models) - len(prompt.ids) - K
        n_tokens = min(N_LOOP, config.n_tokens, room)
        if n_tokens < 1:
            return None
        functions = [row_function(model, config.to_probs) for model in models]
        rng = CheckedRng(Rng(prompt.seed))
        rest = n_tokens, K, rng.sample, rng.accept, encoder.end_of_text
        ids = list(self.run_loop(encoder.n_vocab, *functions, list(prompt.ids), *rest))
        return {"text": encoder.decode(encoder.without_end(ids)), "token_ids": ids}


def load_namespace(name):
    """Import a module by its name, or run a .py file: {name: value} of its variables. What it
    prints, now and later, goes to stderr. Raises SettingError if it cannot be loaded.
    """
    # its own `print`, because sys.stdout belongs to every thread that decodes
    with_print = {"print": print_to_stderr}
    try:
        with redirect_stdout(sys.stderr):  # while no other thread runs
            if name.endswith(".py"):
                return runpy.run_path(name, init_globals=with_print)
            namespace = vars(importlib.import_module(name))
            namespace.update(with_print)
            return namespace
    except (Exception, SystemExit) as error:
        problem = f"{name}: it cannot be loaded: {describe_error(error)}"
        expected = "expected a module such as exercises.mine, or a .py file"
        raise SettingError("rule", f"{problem}; {expected}") from None


def print_to_stderr(*values, **options):
    """Print to stderr: stdout may be a JSON object."""
    print(*values, **{"file": sys.stderr, **options})


def row_function(model, to_probs):
    """The model in the form of the exercises: a function ids -> [len(ids), n_vocab]. Row i is the
    distribution of the token after ids[: i + 1]. It reads the whole text each time.
    """
    return lambda ids: to_probs(model.read(list(ids), model.new_cache(), n_last=len(ids)))


def next_token_function(model, to_probs):
    """The model as a function of a text, a tuple of the tokens after TOY_PROMPT: the distribution
    of the next token, [n_vocab].
    """
    rows = row_function(model, to_probs)
    return cache(lambda text: rows([*TOY_PROMPT, *text])[-1])


def toy_functions(n_vocab, K):
    """(target, draft) with room for a round of K drafts, as functions of a text."""
    pair = toy_pair(K + 1, ROUND.toy_draft, n_vocab)
    return tuple(next_token_function(model, ROUND.to_probs) for model in pair)


def distance_of_round(rule, n_vocab, K):
    """The total variation distance, from the target's own, of texts that one round of a rule begins
    and the target completes to K + 1 tokens.
    """
    target, draft = toy_functions(n_vocab, K)
    begun, _ = enumerate_round(rule, target, draft, K)
    texts = complete_texts(begun, target, K + 1)
    right = complete_texts({(): 1.0}, target, K + 1)
    return total_variation(texts, right)


@cache
def examine_rule(name, verification):
    """Load a reader's module and enumerate its rule and loop, once: (the ReaderModule, its figures,
    its loop_distance).
    """
    module = ReaderModule(name)
    return module, module.rule_figures(verification), module.loop_distance()


def load_rule(name, verification):
    """The rule of a reader's module, in the form of sampling.verify. It is tried on the toy pair
    first. Raises SettingError if it fails there.
    """
    module, _, _ = examine_rule(name, verification)
    return module.rule(verification)


def measure_rule(name, verification, config, pair, prompt):
    """What the JSON object says of the reader's rule and loop: the figures of the rule, and as
    "own_loop" a text that the loop writes, with its distance on the toy pair; None if there is no
    loop.

    config: a GenerationConfig. prompt: the Prompt of the text
    """
    module, figures, loop_distance = examine_rule(name, verification)
    text = None if loop_distance is None else module.loop_text(config, pair, prompt)
    return figures | {"own_loop": text and text | {"distance": loop_distance}}
