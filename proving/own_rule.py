"""Decoding with a reader's own rule, written as in exercises/mine.py: --rule exercises.mine.

The rule is verify_7, or block_11 with --verification block. How far its distribution is from the
target's, and how many drafts it keeps, is computed on a toy pair, over every random choice. Where
speculative_9 is written, a few tokens come from it as well.
"""

import importlib
import runpy
import sys
import traceback
from contextlib import contextmanager, redirect_stdout
from functools import cache

from proving.distance import TOY_PROMPT, toy_distributions, toy_pair
from proving.enumeration import chain_rule, every_branch, total_variation
from proving.mistakes import MISTAKES, Scene
from proving.verdict import (
    Choices,
    Wrong,
    accepted_and_next,
    can_be_kept,
    completed,
    one_round,
    whole_numbers,
)
from sampling import Chance
from utils import SettingError

EXERCISES = {"token": "verify_7", "block": "block_11"}
# the toy on which each kind of rule shows what is wrong with it
TOYS = {"token": Scene(), "block": MISTAKES["block-residual-of-tokens"].scene}
ROUND, K_TOY = TOYS["block"], 3  # one round of this many drafts, of which each rule keeps some
ROUNDING = 1e-12
N_LOOP = 20  # tokens from a loop without caches


class Unwritten(SettingError):
    """An exercise that raises NotImplementedError, or is not there."""


class Own:
    """The functions of a module with answers to the exercises.

    name: a module such as exercises.mine, or a .py file
    """

    def __init__(self, name):
        self.name, self.namespace = name, namespace_of(name)

    @contextmanager
    def answer(self, exercise):
        """The reader's function. Whatever goes wrong while it is used is a SettingError."""
        if exercise not in self.namespace:
            problem = f"{self.name}: it has no {exercise}: expected"
            raise Unwritten("rule", f"{problem} one as in exercises/mine.py")
        try:
            with redirect_stdout(sys.stderr):  # stdout may be a JSON object
                yield self.namespace[exercise]
        except NotImplementedError:
            problem = f"{self.name}: {exercise}, or what it calls, is still to be written: expected"
            raise Unwritten("rule", f"{problem} an answer to docs/exercises.md") from None
        except (Exception, SystemExit) as error:
            frames = traceback.extract_tb(error.__traceback__)
            file = self.namespace["__file__"]
            own = [frame.lineno for frame in frames if frame.filename == file]
            where = f" in line {own[-1]}" if own else ""
            problem = f"{self.name}: {exercise} fails{where}: {described(error)}"
            raise SettingError("rule", f"{problem}; try python -m pytest exercises") from None

    def rule(self, verification):
        """The reader's rule in the form of sampling.verify, and what it returns looked at."""

        def rule(draft, q, p, chance):
            with self.answer(EXERCISES[verification]) as answer:
                result = answer(list(draft), q, p, chance.sample, chance.toss)
                return accepted_and_next(result, len(draft), p.shape[-1])

        return rule

    def loop(self, n_vocab, *arguments):
        """The text of the reader's loop."""
        with self.answer("speculative_9") as speculative:
            expected = f"a list of tokens, each below {n_vocab}"
            result = speculative(*arguments)
            text = tuple(whole_numbers(result, expected))
            if not all(0 <= token < n_vocab for token in text):
                raise Wrong(f"it returns {result!r}, expected {expected}")
            return text

    def figures(self, verification):
        """What the toy says of the rule: the total variation distance of its texts from the
        target's; and of K_TOY drafts how many it keeps on average, how many `verify` keeps, and the
        most that a rule with the target's distribution can.

        The distance is that of the museum, if it shows there. Otherwise it is that of one round,
        whose drafts are longer.
        """
        target, draft = (
            after_toy_prompt(model, ROUND.filter) for model in toy_pair(K_TOY + 1, ROUND.toy_draft)
        )
        rule = self.rule(verification)
        begun, kept = one_round(rule, target, draft, K_TOY)
        far = total_variation(*toy_distributions(TOYS[verification], rule=rule))
        if far <= ROUNDING:
            # the target goes on with what the round has begun; and it writes all by itself
            texts, right = (completed(some, target, K_TOY + 1) for some in (begun, {(): 1.0}))
            far = total_variation(texts, right)
        return {
            "rule_distance": far,
            "rule_keeps": {
                "drafted": K_TOY,
                "kept": kept,
                "by_verify": can_be_kept(target, draft, K_TOY, block=False),
                "most": can_be_kept(target, draft, K_TOY, block=True),
            },
        }

    def loop_distance(self):
        """The same for the reader's loop; None where it is not written."""
        scene = TOYS["token"]
        target, draft = toy_pair(scene.toy_room, scene.toy_draft)
        n_tokens, K = scene.toy
        models = rows_by(target, scene.filter), rows_by(draft, scene.filter)

        def run(chance):
            chance = Choices(chance)
            rest = n_tokens, K, chance.sample, chance.toss, None
            return self.loop(target.config.n_vocab, *models, list(TOY_PROMPT), *rest)

        try:
            found = every_branch(run)
        except Unwritten:
            return None
        return total_variation(found, chain_rule(target, TOY_PROMPT, n_tokens, scene.filter))

    def text_of_loop(self, settings, pair, prompt):
        """Some tokens by the reader's loop; None if there is no model or no room for it."""
        models = pair.target, pair.draft.alone
        encoder = pair.encoder
        if None in models:
            return None
        K = settings.K if isinstance(settings.K, int) else 4  # auto
        room = min(model.config.n_ctx for model in models) - len(prompt.ids) - K
        n_tokens = min(N_LOOP, settings.n_tokens_to_generate, room)
        if n_tokens < 1:
            return None
        functions = [rows_by(model, settings.filter) for model in models]
        chance = Chance(prompt.seed)
        rest = n_tokens, K, chance.sample, chance.toss, encoder.end_of_text
        ids = list(self.loop(encoder.n_vocab, *functions, list(prompt.ids), *rest))
        return {"text": encoder.decode(encoder.without_end(ids)), "token_ids": ids}


def namespace_of(name):
    """{name: what it stands for} in the module of that name, or in that .py file."""
    try:
        with redirect_stdout(sys.stderr):  # stdout may be a JSON object
            if name.endswith(".py"):
                return runpy.run_path(name)
            return vars(importlib.import_module(name))
    except (Exception, SystemExit) as error:
        problem = f"{name}: it cannot be loaded: {described(error)}"
        expected = "expected a module such as exercises.mine, or a .py file"
        raise SettingError("rule", f"{problem}; {expected}") from None


def described(error):
    """An error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def rows_by(model, filter):
    """ids -> for each of them, the distribution of the token that follows. It reads the whole text
    each time.
    """
    return lambda ids: filter(model.read(list(ids), model.new_cache(), n_last=len(ids)))


def after_toy_prompt(model, filter):
    """A text -> the distribution of the token that follows it on the toy."""
    rows = rows_by(model, filter)
    return cache(lambda text: rows([*TOY_PROMPT, *text])[-1])


@cache
def examined(name, verification):
    """(the Own of that name, the figures of its rule, the distance of its loop)."""
    own = Own(name)
    return own, own.figures(verification), own.loop_distance()


def own_rule(name, verification):
    """The rule of a reader's module. It meets the toy first: one that fails decodes nothing."""
    own, _, _ = examined(name, verification)
    return own.rule(verification)


def own_figures(settings, pair, prompt):
    """What the JSON object says of the reader's rule and loop."""
    own, figures, loop_distance = examined(settings.rule, settings.verification)
    text = None if loop_distance is None else own.text_of_loop(settings, pair, prompt)
    return figures | {"own_loop": text and text | {"distance": loop_distance}}
