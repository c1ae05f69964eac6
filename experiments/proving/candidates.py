"""Several drafted tokens for one place: the rules that accept one of them, exactly, and how often
each does.

p is the target's distribution at the place, q the draft's. Of k candidates a rule accepts one, or
none: (its index or k, a token), and the token has the distribution p. This prints how often the
rules accept on the included models:

    python -m experiments.proving.candidates
"""

import numpy as np

import sampling
from experiments.data.prompts import choose_prompts
from experiments.drafting.load import load
from experiments.drafting.paths import distributions_of_best, mass_below, ranking
from sampling import Filter, autoregressive, residual, stop_condition
from utils import MODELS_DIR, get_backend


def without(q, token):  # [n_vocab] -> [n_vocab]
    """q given that the token is not drawn; zeros where nothing is left."""
    rest = np.where(np.arange(len(q)) == token, 0.0, q)
    return rest / (rest.sum() or 1)


def different(q, k, rng):  # [n_vocab] -> [up to k], [up to k, n_vocab]
    """Candidates that all differ, each with the distribution that it was drawn from."""
    candidates, rows = [], [q]
    while len(candidates) < k and rows[-1].any():
        candidates.append(sampling.sample(rows[-1], rng))
        rows.append(without(rows[-1], candidates[-1]))
    return candidates, np.array(rows[: len(candidates)])


def one_by_one(candidates, rows, p, rng):  # [k], [k, n_vocab], [n_vocab] -> index, token
    """Accept the first candidate that passes, else sample what is left. Row j is the distribution
    that candidate j was drawn from, given those before it.

    Independent candidates: SpecInfer (Miao et al. 2023, arXiv 2305.09781). Different ones: Sequoia
    (Chen et al. 2024, 2402.12374), RSD (Jeon et al. 2024, 2402.14160), EAGLE (Li et al. 2024,
    2401.15077). The k likeliest: one-hot rows. A tree of drafts is this rule at every node.
    """
    for j, token in enumerate(candidates):
        if sampling.toss(p[token] / rows[j, token], rng):
            return j, token
        p = residual(p, rows[j])
    return len(candidates), sampling.sample(p, rng)


def accepted_one_by_one(p, q, k, after=lambda q, token: q, rng=None):  # -> [k]
    """The probability that the j-th candidate is the accepted one. after(q, token) is the draft's
    distribution after a rejected token: `without` for candidates that differ. There the result is
    an unbiased estimate, exact along one sequence of rejections.
    """
    accepted, left = np.zeros(k), 1.0
    for j in range(k):
        accepted[j] = left * np.minimum(p, q).sum()
        left = max(0.0, left - accepted[j])
        rejects = np.maximum(q - p, 0)
        if not rejects.any():
            break
        p, q = residual(p, q), after(q, sampling.sample(rejects / rejects.sum(), rng))
    return accepted


# ---------------------------------------------------------------- independent candidates


def overlap(p, q, rho):  # [n_vocab], [n_vocab] -> a probability
    return np.minimum(q, p / rho).sum()


def best_rho(p, q, k):
    """The smallest rho from 1 to k with 1 - (1 - b)^k <= rho b, where b is the overlap of q and
    p / rho: no token may be accepted more often than p has it.
    """
    allowed = lambda rho: 1 - (1 - overlap(p, q, rho)) ** k <= rho * overlap(p, q, rho)
    low, high = 1.0, float(k)  # k is always allowed
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if allowed(middle) else (middle, high)
    return high


def left_over(p, q, k, rho):  # [n_vocab], [n_vocab] -> [n_vocab]
    """What the token is sampled from if no candidate passes K-SEQ."""
    b = overlap(p, q, rho)
    passed = np.minimum(q, p / rho) * ((1 - (1 - b) ** k) / b) if b else 0
    return residual(p, passed)


def k_seq(candidates, q, p, rng):  # [k], [n_vocab], [n_vocab] -> index, token
    """K-SEQ (SpecTr, Sun et al. 2023, arXiv 2310.15141, algorithm 2): each passes with the same
    reduced probability, so that something of p is left for those to come.
    """
    k = len(candidates)
    rho = best_rho(p, q, k)
    for j, token in enumerate(candidates):
        if sampling.toss(p[token] / (rho * q[token]), rng):
            return j, token
    return k, sampling.sample(left_over(p, q, k, rho), rng)


def optimum(p, q, k):
    """The most that any rule can accept of k independent candidates (arXiv 2502.18779).

    Take any set H of tokens. If all candidates are in H, so is an accepted one. So a rule accepts
    at most as often as "not all candidates are in H", 1 - q(H)^k, or "the token is in H", p(H). The
    smallest of these bounds can be reached, and its H are the tokens with p / q below a threshold.
    """
    order = ranking(p, q)
    gaps = np.cumsum(p[order]) - np.cumsum(q[order]) ** k
    return 1 + min(0.0, gaps.min())


# ---------------------------------------------------------------- on a pair of models


def accepted_at(p, q, k, rng):
    """{rule: [k] the probability that one of the first 1, 2, ... k candidates is accepted}."""
    best = np.minimum(p, distributions_of_best(q, mass_below(p, q), k)).sum(axis=1)
    seq = [1 - (1 - overlap(p, q, best_rho(p, q, n))) ** n for n in range(1, k + 1)]
    return {
        "with replacement": accepted_one_by_one(p, q, k, rng=rng).cumsum(),
        "without replacement": accepted_one_by_one(p, q, k, without, rng).cumsum(),
        "likeliest": p[np.argsort(-q, kind="stable")[:k]].cumsum(),
        "K-SEQ": np.array(seq),
        "best of all": best,
        "best of the first few": np.maximum.accumulate(best),  # what --paths does
        "optimum": np.array([optimum(p, q, n) for n in range(1, k + 1)]),
    }


def main(k=8, n_tokens=40, n_prompts=0):
    """At the places of texts that the target writes at temperature 1."""
    pair = load("17M", ["0.7M-17M"], MODELS_DIR, get_backend()).pair("0.7M-17M")
    filter, rng, ended = Filter(1.0), np.random.default_rng(123), stop_condition(pair.encoder)
    found = []
    for ids in choose_prompts("", n_prompts, pair.encoder, 400)[0]:
        text = list(ids)
        for one in autoregressive(pair.target, ids, n_tokens, filter, rng, ended):
            text += one.tokens
        n = len(text) - len(ids)
        p, q = (filter(one.read(text[:-1], one.new_cache(), n)) for one in pair.models)
        found += [accepted_at(*rows, k, rng) for rows in zip(p, q)]
    mean = {rule: np.mean([at[rule] for at in found], axis=0) for rule in found[0]}
    print(f"{'rule':<22}" + "".join(f"{n:>8}" for n in range(1, k + 1)))
    for rule, row in mean.items():
        print(f"{rule:<22}" + "".join(f"{value:>8.3f}" for value in row))


if __name__ == "__main__":
    main()
