"""How wrong a mistake is: the distance of its distribution on a toy pair, and where a text by a
real pair leaves the right one.

The distance is computed, not sampled: every branch of the real loop on two GPT-2s with three
tokens, against the chain rule of the target alone.
"""

from contextlib import nullcontext

import numpy as np

import gpt2
import sampling
from experiments.decoding.job import RULES, Job, decode
from experiments.decoding.metrics import speculation
from experiments.proving.enumeration import chain_rule, distribution_of, total_variation
from experiments.proving.mistakes import ERRORS
from experiments.proving.patching import made
from sampling import Filter
from utils import get_backend, random_model

# the texts of a real pair: as main.py generates them
N_TOKENS, K, SEED = 60, 4, 123
GREEDY = Filter(0.0)

TOY_PROMPT = [1, 0]
TOY_END = 2


def failed(outcome):
    """Whether an error ended it; see text_of."""
    return any(isinstance(token, str) for token in outcome)


def text_of(rounds):
    """The tokens of rounds; if an error ends them, its name comes last: a crash is an outcome as
    well.
    """
    tokens = []
    try:
        for one in rounds:
            tokens += [int(token) for token in one.tokens]
    except ERRORS as error:
        tokens.append(type(error).__name__)
    return tuple(tokens)


def toy_ended(generated):
    """The end of a text on the toy, where a setting has one."""
    return generated[-1] == TOY_END


def toy_pair(room=4, draft_seed=2):
    """(target, draft): two GPT-2s of two layers and three tokens, with room for `room` new ones."""
    config = gpt2.Config(3, len(TOY_PROMPT) + room, n_embd=4, n_head=2, n_layer=2)
    arrays = get_backend(kernels="plain")
    target = random_model(config, arrays, np.float64, seed=1, scale=0.8)
    return target, random_model(config, arrays, np.float64, draft_seed, scale=0.8)


def toy_distributions(setting, mistake=None, rule=None, prepared=lambda drafter: drafter):
    """The distribution of the speculative loop and the target's own, on the toy: two times
    {text: probability}.

    rule: the setting's, unless one is given. prepared: makes the drafter what that rule needs. A
    distribution is that of whole texts, so that a wrong length counts too. A text that an error
    ends has its name, as in text_of.
    """
    target, draft = toy_pair(setting.toy_room, setting.toy_draft)
    n_tokens, k = setting.toy
    filter, ended = setting.filter, toy_ended if setting.stop else sampling.never
    rule = rule or RULES[setting.verification]
    right = chain_rule(target, TOY_PROMPT, n_tokens, filter, ended)

    def run():
        drafter = prepared(sampling.NeuralDrafter(draft, filter, None))
        how = (n_tokens, k, filter, None, ended, rule)
        return text_of(sampling.speculative(target, drafter, TOY_PROMPT, *how))

    with made(mistake) if mistake else nullcontext():
        return distribution_of(run), right


def compare(distribution, right):
    """(total variation distance of the texts that come out, probability of an error) for the two
    distributions of toy_distributions. The distance is None where every text ends in an error.
    """
    errors = sum(p for text, p in distribution.items() if failed(text))
    texts = {text: p / (1 - errors) for text, p in distribution.items() if not failed(text)}
    return total_variation(texts, right) if texts else None, errors


def distance(setting, mistake=None):
    """The distance of `compare` on the toy, alone."""
    far, _ = compare(*toy_distributions(setting, mistake))
    return far


class Pair:
    """A real target and draft, whose right texts are kept to compare with."""

    def __init__(self, target, draft, encoder):
        self.target, self.draft, self.encoder = target, draft, encoder
        self.right_texts = {}

    def prompt_ids(self, setting):
        ids = self.encoder.encode(setting.prompt)
        if setting.full:
            # repeat the prompt until the context has room for two tokens
            n = self.target.config.n_ctx - 2
            ids = (ids * n)[-n:]
        return ids

    def rounds(self, setting, filter):
        """The rounds of a speculative text in this setting, but with another filter."""
        ids, ended = self.prompt_ids(setting), sampling.stop_condition(self.encoder, setting.stop)
        job = Job(ids, N_TOKENS, K, filter, SEED, ended, rule=setting.verification)
        return decode(self.target, self.draft, job)

    def right_text(self, setting, filter):
        key = filter, setting.prompt, setting.stop, setting.full, setting.verification
        if key not in self.right_texts:
            self.right_texts[key] = text_of(self.rounds(setting, filter))
        return self.right_texts[key]

    def first_difference(self, mistake):
        """The first token in which a text with the mistake leaves the text of the right code, seed
        and all else equal; None if it does not within 60 tokens.

        At temperature 0 if it shows there, otherwise in the mistake's own setting. A mistake whose
        distribution is right is asked at temperature 0 only: elsewhere its text may differ and not
        be wrong.
        """
        setting = mistake.setting
        filters = [GREEDY] if mistake.cost else [GREEDY, setting.filter]
        for filter in filters:
            right = self.right_text(setting, filter)
            with made(mistake):
                wrong = text_of(self.rounds(setting, filter))
            if wrong != right:
                differ = [i for i, (a, b) in enumerate(zip(right, wrong)) if a != b]
                return differ[0] if differ else min(len(right), len(wrong))
        return None

    def tokens_per_pass(self, mistake):
        """Tokens per target pass at temperature 0, right and with the mistake."""
        right = self.greedy_tokens_per_pass(mistake.setting)
        with made(mistake):
            wrong = self.greedy_tokens_per_pass(mistake.setting)
        return right, wrong

    def greedy_tokens_per_pass(self, setting):
        _, *rounds = self.rounds(setting, GREEDY)  # without the prefill
        return speculation(rounds)["tokens_per_target_pass"]
