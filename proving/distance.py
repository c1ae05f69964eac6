"""How far the texts of the speculative loop are from the target's distribution, on a toy pair: two
GPT-2s with three tokens.

The distance is computed, not sampled. Every branch of the real loop is run, with a mistake or a
rule of a reader's own, and compared with the chain rule of the target alone.
"""

from contextlib import nullcontext
from functools import cache

import gpt2
import sampling
from checkpoints.errors import InputError
from proving.enumeration import chain_rule, enumerate_branches, total_variation
from proving.inexact_rules import adapt_drafter
from proving.mistakes import ERRORS
from proving.patching import apply_mistake
from utils import get_backend, random_model

TOY_PROMPT = [1, 0]
TOY_END = 2

# ---------------------------------------------------------------- the toy pair


def toy_pair(room=4, draft_seed=2, n_vocab=3):
    """[target, draft model]: two gpt2.Models of two layers, with random weights.

    room: how many positions of the context are left after TOY_PROMPT
    draft_seed: the seed of the draft model's weights
    """
    config = gpt2.Config(n_vocab, len(TOY_PROMPT) + room, n_embd=4, n_head=2, n_layer=2)
    arrays = get_backend(kernels="plain")
    return [random_model(config, arrays, float, seed, scale=0.8) for seed in (1, draft_seed)]


def row_function(model, to_probs):
    """The model in the form of the exercises: a function ids -> [len(ids), n_vocab]. Row i is the
    distribution of the token after ids[: i + 1]. Each call reads the whole text.
    """
    return lambda ids: to_probs(model.read(list(ids), model.new_cache(), n_last=len(ids)))


def toy_functions(case, room, n_vocab=3):
    """[target, draft model] of a MistakeCase, as functions from a text to the distribution of its
    next token, [n_vocab]. A text is a tuple of the tokens after TOY_PROMPT.

    room: as for toy_pair
    """

    def next_token_function(model):
        rows = row_function(model, case.to_probs)
        return cache(lambda text: rows([*TOY_PROMPT, *text])[-1])

    return [next_token_function(model) for model in toy_pair(room, case.toy_draft, n_vocab)]


# ---------------------------------------------------------------- distributions of its texts


def collect_tokens(rounds):
    """Run a decoding loop to its end. Returns its tokens, a tuple; if one of ERRORS ends the loop,
    the last element is the error's name.

    rounds: an iterator of Rounds
    Raises InputError if a reader's own rule fails.
    """
    tokens = []
    try:
        for this_round in rounds:
            tokens += this_round.tokens
    except InputError:  # a ValueError, too, but it says what is wrong with the rule
        raise
    except ERRORS as error:
        tokens.append(type(error).__name__)
    return tuple(tokens)


def ends_at_toy_end(generated):
    """The function is_done of the loops: true if the last of the tokens is TOY_END."""
    return generated[-1] == TOY_END


def toy_distributions(case, mistake=None, rule=None):
    """Enumerate the speculative loop on the toy pair. Returns the distribution of its texts and the
    target's own, both {text, a tuple of tokens: probability}. Texts are whole, so that a wrong
    length counts too. An error ends a text with its name, as in collect_tokens.

    case: a MistakeCase. mistake: a Mistake to make, None for the right code
    rule: in the form of sampling.verify, None for the rule of the case
    """
    target, draft_model = toy_pair(case.toy_room, case.toy_draft)
    n_tokens, K = case.toy
    to_probs = case.to_probs
    is_done = ends_at_toy_end if case.stop else sampling.never
    rule = rule or sampling.RULES[case.verification]
    right = chain_rule(target, TOY_PROMPT, n_tokens, to_probs, is_done)

    def run(rng):
        drafter = adapt_drafter(sampling.NeuralDrafter(draft_model, to_probs, rng), rule)
        settings = n_tokens, K, to_probs, rng, is_done, rule
        return collect_tokens(sampling.speculative(target, drafter, TOY_PROMPT, *settings))

    with apply_mistake(mistake) if mistake else nullcontext():
        return enumerate_branches(run), right


def distance_and_errors(distribution, right):
    """(total variation distance of the texts without an error, probability of an error) for the two
    distributions of toy_distributions. The distance is None if every text ends in an error.
    """
    texts = {}
    p_error = 0
    for text, probability in distribution.items():
        if any(isinstance(token, str) for token in text):  # the name of an error
            p_error += probability
        else:
            texts[text] = probability
    if not texts:
        return None, p_error
    texts = {text: probability / (1 - p_error) for text, probability in texts.items()}
    return total_variation(texts, right), p_error
