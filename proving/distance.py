"""How wrong a mistake is: the distance of its distribution on a toy pair, and where a text by a
real pair leaves the right one.

The distance is computed, not sampled: every branch of the real loop on two GPT-2s with three
tokens, against the chain rule of the target alone.
"""

from contextlib import nullcontext
from itertools import zip_longest

import gpt2
import sampling
from proving.enumeration import chain_rule, every_branch, total_variation
from proving.inexact import prepared
from proving.mistakes import ERRORS
from proving.patching import made
from utils import InputError, get_backend, random_model

TOY_PROMPT = [1, 0]
TOY_END = 2


# ---------------------------------------------------------------- on a toy pair


def ends_in_error(outcome):
    """See text_of."""
    return any(isinstance(token, str) for token in outcome)


def text_of(rounds):
    """The tokens of rounds. If an error ends them, its name comes last: that is an outcome, too."""
    tokens = []
    try:
        for one in rounds:
            tokens += one.tokens
    except InputError:  # of a reader's own rule, which says what is wrong
        raise
    except ERRORS as error:
        tokens.append(type(error).__name__)
    return tuple(tokens)


def toy_pair(room=4, draft_seed=2):
    """(target, draft): two GPT-2s of two layers and three tokens, with room for `room` new ones."""
    config = gpt2.Config(3, len(TOY_PROMPT) + room, n_embd=4, n_head=2, n_layer=2)
    arrays = get_backend(kernels="plain")
    return [random_model(config, arrays, float, seed, scale=0.8) for seed in (1, draft_seed)]


def at_end(generated):
    return generated[-1] == TOY_END


def toy_distributions(scene, mistake=None, rule=None):
    """The distribution of the speculative loop and the target's own, on the toy: a pair of
    {text: probability}. Texts are whole, so that a wrong length counts too.

    rule: the scene's, unless one is given
    """
    target, draft = toy_pair(scene.toy_room, scene.toy_draft)
    n_tokens, k = scene.toy
    filter = scene.filter
    ended = at_end if scene.stop else sampling.never
    rule = rule or sampling.RULES[scene.verification]
    right = chain_rule(target, TOY_PROMPT, n_tokens, filter, ended)

    def run(chance):
        drafter = prepared(sampling.NeuralDrafter(draft, filter, chance), rule)
        settings = n_tokens, k, filter, chance, ended, rule
        return text_of(sampling.speculative(target, drafter, TOY_PROMPT, *settings))

    with made(mistake) if mistake else nullcontext():
        return every_branch(run), right


def compare(distribution, right):
    """(total variation distance of the texts that come out, probability of an error) for the two
    distributions of toy_distributions. The distance is None where every text ends in an error.
    """
    errors = sum(p for text, p in distribution.items() if ends_in_error(text))
    whole = {text: p for text, p in distribution.items() if not ends_in_error(text)}
    texts = {text: p / (1 - errors) for text, p in whole.items()}
    return total_variation(texts, right) if texts else None, errors


def first_difference(first, second):
    """The place of the first token in which two texts differ; None for equal texts."""
    both = enumerate(zip_longest(first, second))
    return next((place for place, (one, other) in both if one != other), None)
