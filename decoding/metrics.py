"""The JSON object of a prompt: the sums over the rounds of a text, and two decoders compared."""

from collections import Counter
from functools import partial

import numpy as np


class Tally:
    """Adds up the figures of a text's rounds, without keeping the Rounds.

    shared_noise: whether draft and target share their noise. Then it also adds up how many drafts
        the token rule would be expected to accept: at each place the sum of min(p, q).
    """

    def __init__(self, shared_noise=False):
        self.ids, self.seconds = [], 0.0
        self.overlap = 0.0 if shared_noise else None
        self.n_rounds = self.examined = self.accepted = 0
        self.draft_lengths = Counter()  # {drafted tokens: rounds}

    def add(self, this_round, seconds):
        """Add the figures of a Round. seconds: its clock.Seconds, whose total is added."""
        self.ids += this_round.tokens
        self.seconds += seconds.total
        self.n_rounds += 1
        self.draft_lengths[len(this_round.draft)] += 1
        self.examined += this_round.examined
        self.accepted += this_round.accepted
        n = this_round.examined
        if self.overlap is not None and n:
            self.overlap += np.minimum(this_round.p[:n], this_round.q[:n]).sum()

    def speculative_figures(self):
        """{name: value} for the JSON object, of the speculative decoder. The acceptance rate is
        accepted / examined, or None if nothing was examined.
        """
        rate = lambda accepted: float(accepted / self.examined) if self.examined else None
        figures = {
            "rounds": self.n_rounds,
            "drafted": sum(K * n for K, n in self.draft_lengths.items()),
            "draft_lengths": dict(sorted(self.draft_lengths.items())),
            "examined": self.examined,
            "accepted": self.accepted,
            "acceptance_rate": rate(self.accepted),
            "tokens_per_target_pass": len(self.ids) / self.n_rounds,
        }
        if self.overlap is not None:
            # of the token rule: the sum of min(p, q) is how many drafts it is expected to accept
            figures["usual_acceptance_rate"] = rate(self.overlap)
        return figures


def summary(config, pair, prompt, results):
    """The JSON object (a dict) of a Prompt: the results of both decoders and their comparison.

    config: their GenerationConfig; pair: their Pair
    results: {decoder: what Run.finish returned}; a decoder that is missing becomes None

    "difference" is there only if two texts should be equal and are not (explain_difference).
    """
    plain, speculative = results.get("autoregressive"), results.get("speculative")
    compared = {
        "prompt_token_ids": prompt.ids,
        "autoregressive": plain,
        "speculative": speculative,
        "speedup": None,
        "identical": None,
    }
    if plain and speculative:
        texts = plain["token_ids"], speculative["token_ids"]
        compared["speedup"] = speculative["tokens_per_second"] / plain["tokens_per_second"]
        compared["identical"] = texts[0] == texts[1]
        if (config.to_probs.greedy or config.coupled) and not compared["identical"]:
            from decoding.text_difference import explain_difference, shared_noise_scores  # rare

            noisy = partial(shared_noise_scores, config.to_probs, prompt.seed)
            score = noisy if config.coupled else None  # None: greedy, by the logits
            compared["difference"] = explain_difference(pair.target, prompt.ids, *texts, score)
    return compared
