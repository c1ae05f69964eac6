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
TOY_END = 2  # the token that ends a text

# ---------------------------------------------------------------- the toy pair


def toy_pair(n_free=4, draft_seed=2, n_vocab=3):
    """Make [target, draft model]: two gpt2.Models of two layers, with random weights.

    n_free: how many positions of the context are left after TOY_PROMPT
    draft_seed: the seed of the draft model's weights
    """
    config = gpt2.Config(n_vocab, len(TOY_PROMPT) + n_free, n_embd=4, n_head=2, n_layer=2)
    backend = get_backend(kernels="plain")
    # weights of the usual scale, 0.02, would make all distributions nearly uniform
    return [random_model(config, backend, float, seed, scale=0.8) for seed in (1, draft_seed)]


def row_function(model, to_probs):
    """A gpt2.Model as the exercises call models: a function from token ids, a sequence, to an array
    [len(ids), n_vocab]. Row i is the distribution of the token after ids[: i + 1]. Each call reads
    the whole text.

    to_probs: the SamplingParams that turn the logits into probabilities
    """
    return lambda ids: to_probs(model.read(list(ids), model.new_cache(), n_last=len(ids)))


def toy_functions(case, n_free, n_vocab=3):
    """Make the toy pair of a MistakeCase. Returns [target, draft model], two functions from a text
    to the distribution of its next token, [n_vocab]. A text is a tuple of the tokens after
    TOY_PROMPT.

    n_free: how many positions of the context are left after TOY_PROMPT, so the longest text
    """

    def next_token_function(model):
        """The function text -> [n_vocab] for a gpt2.Model. It keeps its results."""
        rows = row_function(model, case.to_probs)
        return cache(lambda text: rows([*TOY_PROMPT, *text])[-1])

    pair = toy_pair(n_free, case.toy_draft_seed, n_vocab)
    return [next_token_function(model) for model in pair]


# ---------------------------------------------------------------- distributions of its texts


def collect_tokens(rounds):
    """Run a decoding loop to its end. Returns its tokens, a tuple of ints. If one of
    proving.mistakes.ERRORS ends the loop, the last element is the error's name, a str.

    rounds: an iterator of sampling.Rounds
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
    """Whether the last of the generated tokens is TOY_END: the `is_done` of a decoding loop."""
    return generated[-1] == TOY_END


def toy_distributions(case, mistake=None, rule=None):
    """Run the speculative loop on the toy pair through every random choice. Returns (the
    distribution of its texts, the target's own), both {text, a tuple of tokens: probability}. If an
    error ends a text, the last element of the text is the error's name. Raises InputError if a
    reader's own rule fails.

    case: a MistakeCase. mistake: a Mistake to make, None for the right code
    rule: a function with the arguments and result of sampling.verify; None for the case's rule
    """
    target, draft_model = toy_pair(case.toy_n_free, case.toy_draft_seed)
    n_tokens, K, to_probs = case.toy_n_tokens, case.toy_K, case.to_probs
    is_done = ends_at_toy_end if case.stop else sampling.never
    if rule is None:
        rule = sampling.RULES[case.verification]
    # before the mistake is made, because it may change a function that chain_rule calls
    target_texts = chain_rule(target, TOY_PROMPT, n_tokens, to_probs, is_done)

    def run(rng):
        """Decode one branch of the choices, which `rng` makes. Returns its text, a tuple, uncut, so
        that a wrong length counts too.
        """
        # `cascade` needs a row of q more than there are drafted tokens
        drafter = adapt_drafter(sampling.NeuralDrafter(draft_model, to_probs, rng), rule)
        rounds = sampling.speculative(
            target, drafter, TOY_PROMPT, n_tokens, K, to_probs, rng, is_done=is_done, rule=rule
        )
        return collect_tokens(rounds)

    with apply_mistake(mistake) if mistake else nullcontext():
        return enumerate_branches(run), target_texts


def distance_and_errors(texts, target_texts):
    """Compare two distributions of texts. Returns (the total variation distance of the texts
    without an error, rescaled to sum to 1, and the probability of an error). If every text ends in
    an error, the distance is None.

    texts, target_texts: {text, a tuple of tokens: probability}, as from toy_distributions: a text
        that an error ended holds the error's name, a str
    """
    complete = {}
    p_error = 0
    for text, probability in texts.items():
        if any(isinstance(token, str) for token in text):  # the name of an error
            p_error += probability
        else:
            complete[text] = probability
    if not complete:
        return None, p_error
    rescaled = {text: probability / (1 - p_error) for text, probability in complete.items()}
    return total_variation(rescaled, target_texts), p_error
