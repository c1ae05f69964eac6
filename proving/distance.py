"""How wrong a mistake is: the distance of its distribution on a toy pair, and where a text by a
real pair leaves the right one.

The distance is computed, not sampled: every branch of the real loop on two GPT-2s with three
tokens, against the chain rule of the target alone.
"""

from contextlib import nullcontext

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


# ---------------------------------------------------------------- on a toy pair


def ends_in_error(outcome):
    """Whether a text of collect_tokens ends in the name of an error."""
    return any(isinstance(token, str) for token in outcome)


def collect_tokens(rounds):
    """Run a loop to its end. Returns its tokens, a tuple; if one of ERRORS ends the loop, the
    error's name is the last element.

    rounds: an iterator of Rounds
    """
    tokens = []
    try:
        for this_round in rounds:
            tokens += this_round.tokens
    except InputError:  # of a reader's own rule, which says what is wrong
        raise
    except ERRORS as error:
        tokens.append(type(error).__name__)
    return tuple(tokens)


def toy_pair(room=4, draft_seed=2, n_vocab=3):
    """[target, draft model]: two random GPT-2s of two layers.

    room: positions of the context after TOY_PROMPT
    """
    config = gpt2.Config(n_vocab, len(TOY_PROMPT) + room, n_embd=4, n_head=2, n_layer=2)
    arrays = get_backend(kernels="plain")
    return [random_model(config, arrays, float, seed, scale=0.8) for seed in (1, draft_seed)]


def ends_at_toy_end(generated):
    """is_done of the toy: whether the last of the generated tokens is TOY_END."""
    return generated[-1] == TOY_END


def toy_distributions(case, mistake=None, rule=None):
    """Enumerate the speculative loop on the toy pair. Returns its distribution and the target's
    own, both {text, a tuple of tokens: probability}. Texts are whole, so that a wrong length counts
    too.

    case: a MistakeCase. mistake: a Mistake, or None for the right code
    rule: in the form of sampling.verify; if it is None, the rule of the case
    """
    target, draft = toy_pair(case.toy_room, case.toy_draft)
    n_tokens, k = case.toy
    to_probs = case.to_probs
    is_done = ends_at_toy_end if case.stop else sampling.never
    rule = rule or sampling.RULES[case.verification]
    right = chain_rule(target, TOY_PROMPT, n_tokens, to_probs, is_done)

    def run(rng):
        drafter = adapt_drafter(sampling.NeuralDrafter(draft, to_probs, rng), rule)
        settings = n_tokens, k, to_probs, rng, is_done, rule
        return collect_tokens(sampling.speculative(target, drafter, TOY_PROMPT, *settings))

    with apply_mistake(mistake) if mistake else nullcontext():
        return enumerate_branches(run), right


def distance_and_errors(distribution, right):
    """(total variation distance of the texts that come out, probability of an error) for the two
    distributions of toy_distributions. The distance is None where every text ends in an error.
    """
    errors = sum(p for text, p in distribution.items() if ends_in_error(text))
    whole = {text: p for text, p in distribution.items() if not ends_in_error(text)}
    texts = {text: p / (1 - errors) for text, p in whole.items()}
    return total_variation(texts, right) if texts else None, errors
