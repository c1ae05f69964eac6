"""Decoding with a reader's own rule, written as in exercises/mine.py: --rule exercises.mine.

The rule is verify_7, or block_11 with --verification block. How far its distribution is from the
target's is computed on a toy pair, over every random choice. Where speculative_9 is written, a few
tokens come from it as well.
"""

import importlib
import runpy
import traceback
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

import sampling
from experiments.data.values import AUTO, SettingError
from experiments.decoding.job import decode
from experiments.decoding.session import visible
from experiments.proving.distance import TOY_PROMPT, toy_distributions, toy_pair
from experiments.proving.enumeration import chain_rule, every_branch, total_variation
from experiments.proving.mistakes import MISTAKES, Setting

RULES = {"token": "verify_7", "block": "block_11"}
# the toy on which each kind of rule shows what is wrong with it
TOYS = {"token": Setting(), "block": MISTAKES["block-residual-of-tokens"].setting}
N_LOOP = 20  # tokens from a loop without caches


class Unwritten(SettingError):
    """An exercise that raises NotImplementedError, or is not there."""


def unwritten(*arguments):
    raise NotImplementedError


class Own:
    """The functions of a module with answers to the exercises.

    name: a module such as exercises.mine, or a .py file
    """

    def __init__(self, name):
        self.name, self.names = name, names_of(name)

    @contextmanager
    def answer(self, exercise):
        """The reader's function. Whatever goes wrong while it is used is a SettingError."""
        try:
            yield self.names.get(exercise, unwritten)
        except NotImplementedError:
            problem = f"{self.name}: {exercise}, or what it calls, is still to be written: expected"
            raise Unwritten("rule", f"{problem} an answer to docs/exercises.md") from None
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame.lineno for frame in frames if frame.filename == self.names["__file__"]]
            where = f" in line {own[-1]}" if own else ""
            problem = f"{self.name}: {exercise} fails{where}: {described(error)}"
            raise SettingError("rule", f"{problem}; try python -m pytest exercises") from None

    def rule(self, verification):
        """The reader's rule in the form of sampling.verify."""
        exercise = RULES[verification]

        def rule(draft, q, p, rng):
            with self.answer(exercise) as verify:
                result = verify(list(draft), q, p, *choices_of(rng))
                n_accepted, token = map(int, result)
                valid = 0 <= n_accepted <= len(draft) and 0 <= token < p.shape[-1]
                expected = "two numbers, how many drafts are accepted and the next token"
                require(valid, result, expected)
                return n_accepted, token

        return rule

    def loop(self, n_vocab, *arguments):
        """The text of the reader's loop."""
        with self.answer("speculative_9") as speculative:
            result = speculative(*arguments)
            text = tuple(map(int, result))
            valid = all(0 <= token < n_vocab for token in text)
            require(valid, result, f"a list of tokens, each below {n_vocab}")
            return text

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


def names_of(name):
    """{name: what it stands for} in the module of that name, or in that .py file."""
    try:
        if name.endswith(".py"):
            return runpy.run_path(name)
        return vars(importlib.import_module(name))
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
