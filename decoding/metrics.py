"""The JSON object of a prompt: the sums over the rounds of a text, the comparison of two decoders,
and the reason why two greedy texts differ.
"""

from collections import Counter
from functools import partial
from itertools import zip_longest

import numpy as np

from decoding.coupled import noisy_log_probs


class Tally:
    """Adds up the figures of a text's rounds, without keeping the Rounds.

    shared: whether draft and target share their noise. Then it also adds up how many drafts the
        token rule would accept: at each place, with probability sum of min(p, q).
    """

    def __init__(self, shared=False):
        self.ids, self.seconds, self.overlap = [], 0.0, 0.0 if shared else None
        self.n_rounds = self.examined = self.accepted = 0
        self.draft_lengths = Counter()  # {drafted tokens: rounds}

    def add(self, this_round, seconds):
        self.ids += this_round.tokens
        self.seconds += seconds.total
        self.n_rounds += 1
        self.draft_lengths[len(this_round.draft)] += 1
        self.examined += this_round.examined
        self.accepted += this_round.accepted
        if self.overlap is not None and this_round.examined:
            n = this_round.examined
            self.overlap += np.minimum(this_round.p[:n], this_round.q[:n]).sum()

    def speculative_figures(self):
        """The speculative decoder's figures, {name: value} for the JSON object.

        The acceptance rate is accepted / examined, and null where nothing was examined.
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
            figures["usual_acceptance_rate"] = rate(self.overlap)
        return figures


def summary(config, pair, prompt, results):
    """The JSON object of a Prompt: both decoders' results and their comparison. results: {decoder:
    what Run.finish returned}; a missing decoder becomes None. config: their GenerationConfig.

    "difference" is there only for two texts that should be equal and are not.
    """
    plain, fast = results.get("autoregressive"), results.get("speculative")
    found = {
        "prompt_token_ids": prompt.ids,
        "autoregressive": plain,
        "speculative": fast,
        "speedup": None,
        "identical": None,
    }
    if plain and fast:
        texts = plain["token_ids"], fast["token_ids"]
        found["speedup"] = fast["tokens_per_second"] / plain["tokens_per_second"]
        found["identical"] = texts[0] == texts[1]
        if (config.to_probs.greedy or config.coupled) and not found["identical"]:
            noisy = partial(shared_noise_scores, config.to_probs, prompt.seed)
            how = {"score": noisy} if config.coupled else {}
            found["difference"] = explain_difference(pair.target, prompt.ids, *texts, **how)
    return found


def shared_noise_scores(to_probs, seed, logits, position):  # [n_vocab] -> [n_vocab]
    """The scores of one position under shared noise: the token with the largest is chosen."""
    return noisy_log_probs(to_probs(logits[None])[0], seed, position)


def first_difference(first, second):
    """The index of the first token in which two texts differ; None for equal texts."""
    both = enumerate(zip_longest(first, second))
    return next((i for i, (token, token_2) in both if token != token_2), None)


def explain_difference(target, ids, first, second, score=lambda logits, position: logits):
    """Why two greedy texts differ: the position, the gap between the two best scores there, and a
    verdict. score(logits, position) gives the scores whose largest is chosen; by default the logits
    themselves.

    The logits at that position are computed twice, in one pass and one row at a time, which shows
    what rounding does to them. A gap of at most twice that is a tie, which rounding may break
    either way; a larger gap is a bug.
    """
    position = first_difference(first, second)
    text = ids + first[:position]
    whole = target.read(text, target.new_cache())[0]
    cache = target.new_cache()
    for end in range(1, len(text) + 1):
        single = target.read(text[:end], cache)[0]
    # a token removed by a filter has a logit of minus infinity
    whole, single = (np.maximum(score(row, len(text)), -1e4) for row in (whole, single))
    rounding = max(abs(whole - single).max(), np.finfo(whole.dtype).eps * abs(whole).max())
    second_best, best = np.sort(whole)[-2:]
    gap = best - second_best
    return {
        "position": position,
        "gap": float(gap),
        "float_error": float(rounding),
        "verdict": "tie" if gap <= 2 * rounding else "bug",
    }
