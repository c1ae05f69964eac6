"""Decoding with a reader's own rule, written as in exercises/mine.py: --rule exercises.mine.

The rule is verify_7, or block_11 with --verification block; while verify_7 is not written, it is
sampling.verify with residual_3. How far its distribution is from the target's is computed on a toy
pair, over every random choice. Where speculative_9 is written, a few tokens come from it as well.
"""

import importlib
import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
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
    """The functions of a module with answers to the exercises. Whatever goes wrong in them is a
    SettingError.

    name: a module such as exercises.mine, or a .py file
    """

    def __init__(self, name):
        self.name, self.module = name, imported(name)

    def call(self, exercise, *arguments, checked):
        """What a function of the module returns, as checked(it) makes it."""
        try:
            return checked(getattr(self.module, exercise, unwritten)(*arguments))
        except NotImplementedError:
            problem = f"{self.name}: {exercise}, or what it calls, is still to be written: expected"
            raise Unwritten("rule", f"{problem} an answer to docs/exercises.md") from None
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame.lineno for frame in frames if frame.filename == self.module.__file__]
            where = f" in line {own[-1]}" if own else ""
            problem = f"{self.name}: {exercise} fails{where}: {described(error)}"
            raise SettingError("rule", f"{problem}; try python -m pytest exercises") from None

    def rule(self, verification):
        """The reader's rule in the form of sampling.verify."""
        rule, sure = partial(self.own_rule, RULES[verification]), np.ones(1)
        try:
            # it may toss where nothing is drafted, too
            rule([], np.empty((0, 1)), sure[None], np.random.default_rng(0))
        except Unwritten:
            if verification != "token":
                raise
            with suppress(Unwritten):
                self.residual(sure, sure)
                return self.rule_with_residual
        return rule

    def own_rule(self, exercise, draft, q, p, rng):
        def checked(result):
            n_accepted, token = map(int, result)
            valid = 0 <= n_accepted <= len(draft) and 0 <= token < p.shape[-1]
            require(valid, result, "two numbers, how many drafts are accepted and the next token")
            return n_accepted, token

        return self.call(exercise, list(draft), q, p, *choices_of(rng), checked=checked)

    def rule_with_residual(self, draft, q, p, rng):
        with patch.object(sampling, "residual", self.residual):
            return sampling.verify(draft, q, p, rng)

    def residual(self, p, q):
        def checked(result):
            found = np.asarray(result)
            valid = found.shape == p.shape and abs(found.sum() - 1) < 1e-9
            require(valid, result, f"{len(p)} probabilities that sum to 1")
            return found

        return self.call(RESIDUAL, p, q, checked=checked)

    def loop(self, n_vocab, *arguments):
        """The text of the reader's loop."""

        def checked(result):
            text = tuple(map(int, result))
            valid = all(0 <= token < n_vocab for token in text)
            require(valid, result, f"a list of tokens, each below {n_vocab}")
            return text

        return self.call(LOOP, *arguments, checked=checked)

    def rule_distance(self, verification):
        """The total variation distance of the rule's texts from the target's, on the toy."""
        rule = self.rule(verification)
        return total_variation(*toy_distributions(TOYS[verification], rule=rule))

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

    def text_of_loop(self, session, prompt):
        """Some tokens by the reader's loop; None if there is no model or no room for it."""
        settings, encoder = session.settings, session.encoder
        models = session.pair.target, session.pair.draft.alone
        if None in models:
            return None
        K = 4 if settings.K == AUTO else settings.K
        room = min(model.config.n_ctx for model in models) - len(prompt.ids) - K
        n_tokens = min(N_LOOP, settings.n_tokens_to_generate, room)
        if n_tokens < 1:
            return None
        functions = [as_function(model, settings.sampling) for model in models]
        choices = choices_of(np.random.default_rng(prompt.seed))
        how = n_tokens, K, *choices, encoder.end_of_text
        ids = list(self.loop(encoder.n_vocab, *functions, list(prompt.ids), *how))
        return {"text": encoder.decode(visible(ids, encoder)), "token_ids": ids}


def require(valid, result, expected):
    if not valid:
        raise ValueError(f"it returns {result!r}, expected {expected}")


def imported(name):
    """The module of that name, or of that .py file."""
    try:
        if not name.endswith(".py"):
            return importlib.import_module(name)
        spec = spec_from_file_location(name, name)
        # dataclasses and pickle look their module up there
        sys.modules[name] = module = module_from_spec(spec)
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


def deciding(name, verification):
    """(`decode` of experiments/decoding/job.py with the rule of a reader's module, what the JSON
    object says of it: a function of a Session and a Prompt).

    The rule meets the toy first, so that one that fails has decoded nothing.
    """
    own = Own(name)
    rule, rule_distance = own.rule(verification), own.rule_distance(verification)
    loop_distance = own.loop_distance()

    def decode_by_rule(target, draft, job, tap=None):
        return decode(target, draft, job, lambda parts: replace(parts, rule=rule))

    def summary(session, prompt):
        text = None if loop_distance is None else own.text_of_loop(session, prompt)
        loop = text and text | {"distance": loop_distance}
        return {"rule_distance": rule_distance, "own_loop": loop}

    return decode_by_rule, summary
