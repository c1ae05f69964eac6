"""What the rounds of a text add up to, what two decoders have in common, and why two greedy texts
differ.
"""

from functools import partial

import numpy as np

from decoding.coupled import scores


class Tally:
    """Adds up the rounds of a text, and keeps none.

    shared: whether draft and target share their noise. Then it also adds up how many drafts the
        token rule would accept: at each place, with probability sum of min(p, q).
    """

    def __init__(self, shared=False):
        self.ids, self.seconds, self.overlap = [], 0.0, 0.0 if shared else None
        self.n_rounds = self.drafted = self.examined = self.accepted = 0

    def add(self, round, seconds):
        self.ids += round.tokens
        self.seconds += seconds.total
        self.n_rounds += 1
        self.drafted += len(round.draft)
        self.examined += round.examined
        self.accepted += round.accepted
        if self.overlap is not None and round.examined:
            n = round.examined
            self.overlap += np.minimum(round.p[:n], round.q[:n]).sum()

    def speculation(self):
        """The speculative decoder's figures in the JSON object.

        The acceptance rate is accepted / examined, and null where nothing was examined.
        """
        rate = lambda accepted: float(accepted / self.examined) if self.examined else None
        figures = {
            "rounds": self.n_rounds,
            "drafted": self.drafted,
            "examined": self.examined,
            "accepted": self.accepted,
            "acceptance_rate": rate(self.accepted),
            "tokens_per_target_pass": len(self.ids) / self.n_rounds,
        }
        if self.overlap is not None:
            figures["usual_acceptance_rate"] = rate(self.overlap)
        return figures


def summary(settings, pair, prompt, results):
    """The JSON object of a Prompt, from {decoder: what Run.finish returns}; nulls where one of them
    is missing.

    "difference" is there only for two texts that should be equal and are not.
    """
    plain, fast = results.get("autoregressive"), results.get("speculative")
    found = {
        "settings": settings.as_json(prompt.text, prompt.seed, prompt.ids),
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
        if (settings.filter.greedy or settings.coupled) and not found["identical"]:
            noisy = partial(noisy_logits, settings.filter, prompt.seed)
            how = {"score": noisy} if settings.coupled else {}
            found["difference"] = explain_difference(pair.target, prompt.ids, *texts, **how)
    if settings.rule:
        from proving.own_rule import own_figures

        found |= own_figures(settings, pair, prompt)
    return found


def noisy_logits(filter, seed, logits, position):  # [n_vocab] -> [n_vocab]
    """What shared noise makes of logits: the largest wins."""
    return scores(filter(logits[None])[0], seed, position)


def explain_difference(target, ids, first, second, score=lambda logits, position: logits):
    """Why two greedy texts differ: the position, the gap between the two best scores there, and a
    verdict. score(logits, position) gives the scores whose largest is chosen; by default the logits
    themselves.

    The logits at that position are computed twice, in one pass and one row at a time, which shows
    what rounding does to them. A gap of at most twice that is a tie, which rounding may break
    either way; a larger gap is a bug.
    """
    pairs = list(zip(first, second))
    position = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
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
