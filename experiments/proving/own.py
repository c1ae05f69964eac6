"""Decoding with a reader's own rule, written as in exercises/mine.py: --rule exercises.mine.

The rule is verify_7, or block_11 with --verification block; while verify_7 is not written, it is
sampling.verify with residual_3. How far its distribution is from the target's is computed on a toy
pair, over every random choice. Where speculative_9 is written, a few tokens come from it as well.
"""

import importlib
import traceback
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from unittest.mock import patch

import numpy as np

import sampling
from experiments.data.values import AUTO, SettingError
from experiments.decoding.job import decode
from experiments.decoding.session import visible
from experiments.proving.distance import TOY_PROMPT, toy_distributions, toy_pair
from experiments.proving.enumeration import chain_rule, every_branch, total_variation
from experiments.proving.mistakes import MISTAKES, Setting

RULES = {"token": "verify_7", "block": "block_11"}
RESIDUAL, LOOP = "residual_3", "speculative_9"
# the toy on which each kind of rule shows what is wrong with it
TOYS = {"token": Setting(), "block": MISTAKES["block-residual-of-tokens"].setting}
N_LOOP = 20  # tokens from a loop without caches


class Unwritten(SettingError):
    """An exercise that raises NotImplementedError, or is not there."""


def unwritten(*arguments):
    raise NotImplementedError


class Own:
    """The functions of a module with answers to the exercises. Raises SettingError, one line, for
    whatever goes wrong in them.

    name: a module such as exercises.mine, or a .py file
    """

    def __init__(self, name):
        self.name, self.module = name, imported(name)

    def call(self, exercise, *arguments):
        """What a function of the module returns."""
        try:
            return getattr(self.module, exercise, unwritten)(*arguments)
        except NotImplementedError:
            problem = f"{self.name}: {exercise}, or what it calls, is still to be written: expected"
            raise Unwritten("rule", f"{problem} an answer to docs/exercises.md") from None
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame.lineno for frame in frames if frame.filename == self.module.__file__]
            where = f" in line {own[-1]}" if own else ""
            problem = f"{self.name}: {exercise} fails{where}: {described(error)}"
            raise SettingError("rule", f"{problem}; try python -m pytest exercises") from None

    def numbers(self, exercise, arguments, valid, expected):
        """The whole numbers that a function returns, if they are valid."""
        result = self.call(exercise, *arguments)
        try:
            numbers = tuple(map(int, result))
            if valid(*numbers):
                return numbers
        except (TypeError, ValueError):
            pass
        raise self.unexpected(exercise, result, expected)

    def unexpected(self, exercise, result, expected):
        problem = f"{self.name}: {exercise} returns {' '.join(repr(result).split())}"
        return SettingError("rule", f"{problem}: expected {expected}")

    def rule(self, verification):
        """The reader's rule in the form of sampling.verify."""

        def own_rule(draft, q, p, rng):
            return self.numbers(
                RULES[verification],
                (list(draft), q, p, *choices_of(rng)),
                lambda n, token: 0 <= n <= len(draft) and 0 <= token < p.shape[-1],
                "two numbers, how many drafts are accepted and the next token",
            )

        try:
            # no draft, and a target that is sure
            own_rule([], np.empty((0, 2)), np.eye(2)[:1], None)
            return own_rule
        except Unwritten:
            if verification == "token" and self.has_residual():
                return self.rule_with_residual
            raise

    def has_residual(self):
        try:
            self.residual(np.ones(1), np.ones(1))
            return True
        except Unwritten:
            return False

    def rule_with_residual(self, draft, q, p, rng):
        """sampling.verify with the reader's residual."""
        with patch.object(sampling, "residual", self.residual):
            return sampling.verify(draft, q, p, rng)

    def residual(self, p, q):
        found = np.asarray(self.call(RESIDUAL, p, q))
        if found.shape != p.shape or not abs(found.sum() - 1) < 1e-9:
            raise self.unexpected(RESIDUAL, found, f"{len(p)} probabilities that sum to 1")
        return found

    def rule_distance(self, verification):
        """The total variation distance of the rule's texts from the target's, on the toy."""
        rule = self.rule(verification)
        return total_variation(*toy_distributions(TOYS[verification], rule=rule))

    def loop(self, n_vocab, *arguments):
        """The text of the reader's loop, a tuple."""
        valid = lambda *text: all(0 <= token < n_vocab for token in text)
        return self.numbers(LOOP, arguments, valid, f"a list of tokens, each below {n_vocab}")

    def loop_distance(self):
        """The same for the reader's loop; None where it is not written."""
        setting = TOYS["token"]
        target, draft = toy_pair(setting.toy_room, setting.toy_draft)
        (n_tokens, K), filter = setting.toy, setting.filter
        models = as_function(target, filter), as_function(draft, filter)

        def run(branches):
            how = n_tokens, K, branches.sample, branches.toss, None
            return self.loop(target.config.n_vocab, *models, list(TOY_PROMPT), *how)

        try:
            found = every_branch(run)
        except Unwritten:
            return None
        return total_variation(found, chain_rule(target, TOY_PROMPT, n_tokens, filter))


def imported(name):
    """The module of that name, or of that .py file. Raises SettingError."""
    try:
        if not name.endswith(".py"):
            return importlib.import_module(name)
        spec = spec_from_file_location(Path(name).stem, name)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except Exception as error:
        problem = f"{name}: it cannot be loaded: {described(error)}"
        expected = "expected a module such as exercises.mine, or a .py file"
        raise SettingError("rule", f"{problem}; {expected}") from None


def described(error):
    """An error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def choices_of(rng):
    """(sample, toss) as the exercises take them."""
    return lambda p: sampling.sample(p, rng), lambda ratio: sampling.toss(ratio, rng)


def as_function(model, filter):
    """ids -> the distribution of the token after them. It reads the whole text each time."""
    return lambda ids: filter(model.read(list(ids), model.new_cache()))[0]


class OwnDecoder:
    """`decode` (experiments/decoding/job.py) with the rule of a reader's module, and what the JSON
    object says of it.

    The rule meets the toy first, so that one that fails has decoded nothing.
    """

    def __init__(self, name, verification):
        self.own = Own(name)
        self.rule_distance = self.own.rule_distance(verification)
        self.loop_distance = self.own.loop_distance()
        self.rule = self.own.rule(verification)

    def decode(self, target, draft, job, tap=None):
        return decode(target, draft, job, lambda parts: replace(parts, rule=self.rule))

    def summary(self, session, prompt):
        """The keys "rule_distance", and "own_loop", which is null where no loop is written."""
        return {"rule_distance": self.rule_distance, "own_loop": self.run_loop(session, prompt)}

    def run_loop(self, session, prompt):
        """A text of a few tokens by the reader's loop; None if there is no loop or no model for it,
        or no room.
        """
        settings, encoder = session.settings, session.encoder
        K = 4 if settings.K == AUTO else settings.K
        models = session.pair.target, session.pair.draft.alone
        if self.loop_distance is None or None in models:
            return None
        room = min(model.config.n_ctx for model in models) - len(prompt.ids) - K
        n_tokens = min(N_LOOP, settings.n_tokens_to_generate, room)
        if n_tokens < 1:
            return None
        functions = [as_function(model, settings.sampling) for model in models]
        choices = choices_of(np.random.default_rng(prompt.seed))
        how = n_tokens, K, *choices, encoder.end_of_text
        ids = list(self.own.loop(encoder.n_vocab, *functions, list(prompt.ids), *how))
        text = encoder.decode(visible(ids, encoder))
        return {"text": text, "token_ids": ids, "distance": self.loop_distance}
