"""Best of several paths: of independent whole drafts keep the one that the target likes best, and
verify it as an ordinary draft from the distribution it then has.

The paths part where their tokens differ. At every place, those that agree with all that was chosen
before are alive; the best token among theirs, the one with the largest p / q, is chosen, and only
the paths that have it stay alive. How many those are is random, so the distribution of the next
choice is a mixture: the best of one, of two, ... each with the probability that so many are alive,
given the tokens chosen. The loop in sampling.py and its rules need nothing but this distribution.

The best of too many is accepted less often: the more there are, the more of its distribution lies
on the few tokens with the largest p / q. (Of a draft with q = p = (1/2, 1/2), one token is always
accepted, the best of two with probability 3/4.) So the choice is made among the first few that are
alive, as many as give the highest acceptance, which depends on p and q alone; the others stay alive
if they have its token, too.

The choice needs p before the rule does. So the drafter has all paths scored in one pass, and the
loop, when it asks for the scores of the chosen one, gets those.
"""

from dataclasses import replace
from math import comb

import numpy as np

import sampling

# ---------------------------------------------------------------- the best of several tokens


def ranking(p, q):  # [n_vocab], [n_vocab] -> [n_vocab]
    """All tokens from the smallest p / q to the largest; of equal ones the lower id first."""
    # a token the draft never proposes comes last
    ratio = np.divide(p, q, out=np.full(len(p), np.inf), where=q > 0)
    return np.argsort(ratio, kind="stable")


def best(tokens, p, q):  # [k], [n_vocab], [n_vocab] -> token
    """The one that comes last in the ranking."""
    return max(tokens, key=lambda token: (p[token] / q[token], token))


def mass_below(p, q):  # [n_vocab], [n_vocab] -> [n_vocab]
    """For each token, the mass of q that ranks below it."""
    order = ranking(p, q)
    below = np.empty(len(q))
    below[order] = np.concatenate([[0.0], np.cumsum(q[order])[:-1]])
    return below


def distributions_of_best(q, below, k):  # [n_vocab], [n_vocab] -> [k, n_vocab]
    """The distributions of the best of 1, 2, ... k tokens: that of the best of n is
    (F + q)^n - F^n, where F is the mass of q that ranks below.

    Written as q times the sum of (F + q)^i F^(n - 1 - i): a difference of two nearly equal powers
    would lose the rare tokens. For n + 1 that sum is (F + q) times the one for n, plus F^n.
    """
    distributions, total, power = [], np.ones(len(q)), np.ones(len(q))
    for _ in range(k):
        distributions.append(q * total)
        power = power * below
        total = (below + q) * total + power
    return np.array(distributions)


# ---------------------------------------------------------------- the best of several paths


def choose(paths, q, p):  # n_paths x [k], 2 x n_paths x [k, n_vocab] -> index, [k, n_vocab]
    """The path to verify, and at each place the distribution that its token was sampled from.

    paths[i][t] was sampled from q[i][t], and p[i][t] is the target's distribution there.
    """
    alive = list(range(len(paths)))
    n_alive = {len(paths): 1.0}  # {number: probability}, given the tokens chosen so far
    distribution = []
    for t in range(len(paths[0])):
        # up to here the paths alive are the same text, so any of them has the p and q of all
        here_p, here_q = p[alive[0]][t], q[alive[0]][t]
        below = mass_below(here_p, here_q)
        most, here = best_mixture(n_alive, here_p, here_q, below)
        distribution.append(here)
        token = best([paths[i][t] for i in alive[:most]], here_p, here_q)
        alive = [i for i in alive if paths[i][t] == token]
        n_alive = still_alive(n_alive, most, here_q[token], below[token])
    return alive[0], np.array(distribution)


def best_mixture(n_alive, p, q, below):  # -> number, [n_vocab]
    """Among how many to choose for the highest acceptance; the distribution of the choice."""
    distributions = distributions_of_best(q, below, max(n_alive))
    mixtures = {
        most: sum(mass * distributions[min(n, most) - 1] for n, mass in n_alive.items())
        for most in range(1, len(distributions) + 1)
    }
    return max(mixtures.items(), key=lambda one: np.minimum(p, one[1]).sum())


def still_alive(n_alive, most, q, below):  # {number: probability} -> {number: probability}
    """How many paths stay alive: those with the chosen token, of probability q. Of the first `most`
    all others have one that ranks below it, of probability `below`; the rest may have any.
    """
    joint = dict.fromkeys(range(1, max(n_alive) + 1), 0.0)
    for n, mass in n_alive.items():
        first, rest = min(n, most), max(n - most, 0)
        for i in range(1, first + 1):  # one has the token, as it was chosen
            chosen = comb(first, i) * q**i * below ** (first - i)
            for j in range(rest + 1):
                joint[i + j] += mass * chosen * comb(rest, j) * q**j * (1 - q) ** (rest - j)
    total = sum(joint.values())
    return {m: mass / total for m, mass in joint.items()}


# ---------------------------------------------------------------- a cache for each path


def catch_up(cache, other, length):
    """Copy what a cache lacks of the first `length` positions from another one of the same text."""
    new = slice(cache.length, length)
    cache.k[:, :, new] = other.k[:, :, new]
    cache.v[:, :, new] = other.v[:, :, new]
    cache.hidden[new] = other.hidden[new]
    cache.length = length


def part(caches, length):
    """Before paths part: the first cache has read `length` positions, now all have."""
    for cache in caches[1:]:
        catch_up(cache, caches[0], length)


def keep(caches, chosen, length):
    """The paths parted after `length` positions: the first cache goes on with the chosen path, the
    others forget theirs.
    """
    end = caches[chosen].length
    caches[0].length = length
    catch_up(caches[0], caches[chosen], end)
    for cache in caches[1:]:
        cache.length = length


# ---------------------------------------------------------------- for the loop


class PathTarget:
    """Stands in for the target of one text. Where paths were scored, the loop's next read gets the
    logits of the chosen one.

    read_together: reads several texts in one pass (experiments/decoding/batching.py)
    """

    def __init__(self, model, n_paths, read_together):
        self.model, self.config, self.n_paths = model, model.config, n_paths
        self.read_together = read_together
        self.logits = None  # of the chosen path

    def new_cache(self, n_positions=None):
        self.caches = [self.model.new_cache(n_positions) for _ in range(self.n_paths)]
        return self.caches[0]

    def choose(self, ids, paths, q, filter):  # -> index, [k, n_vocab]
        """`choose` among paths scored in one pass; the next read is of the chosen one."""
        part(self.caches, len(ids) - 1)
        texts, n_lasts = [ids + path for path in paths], [len(path) + 1 for path in paths]
        logits = self.read_together(self.model, texts, self.caches, n_lasts)
        chosen, distribution = choose(paths, q, [filter(rows[:-1]) for rows in logits])
        keep(self.caches, chosen, len(ids) - 1)
        self.logits = logits[chosen]
        return chosen, distribution

    def read(self, ids, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        if self.logits is None:  # a prompt, or a text without a draft
            return self.model.read(ids, cache, n_last)
        logits, self.logits = self.logits, None
        return logits


class PathDrafter:
    """Samples several paths from the model of a NeuralDrafter, and drafts the best of them."""

    def __init__(self, drafter, target, filter):
        self.model, self.rng, self.q_filter = drafter.model, drafter.rng, drafter.filter
        self.n_vocab, self.prefill = drafter.n_vocab, drafter.prefill
        self.target, self.p_filter, self.caches = target, filter, [drafter.cache]
        self.caches += [self.model.new_cache() for _ in range(1, target.n_paths)]

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        """The best path; fewer than k tokens where the context of the draft ends."""
        k = min(k, self.model.config.n_ctx + 1 - len(ids))
        if k < 1:
            return [], np.empty((0, self.n_vocab))
        paths, q = self.sample_paths(ids, k)
        chosen, distribution = self.target.choose(ids, paths, q, self.p_filter)
        keep(self.caches, chosen, len(ids))
        return paths[chosen], distribution

    def sample_paths(self, ids, k):  # [n_ids] -> n_paths x [k], [n_paths, k, n_vocab]
        """Independent drafts of k tokens, and the distributions they were sampled from."""
        # all begin after the same text: read it once
        self.caches[0].length = min(self.caches[0].length, len(ids) - 1)
        logits = [self.model.read(ids, self.caches[0])] * len(self.caches)
        part(self.caches, len(ids))
        paths, rows = [[] for _ in self.caches], []
        for place in range(k):
            if place > 0:
                texts = [ids + path for path in paths]
                logits = self.target.read_together(self.model, texts, self.caches, [1] * len(paths))
            rows.append(self.q_filter(np.concatenate(logits)))
            for path, row in zip(paths, rows[-1]):
                path.append(sampling.sample(row, self.rng))
        return paths, np.stack(rows, axis=1)


def along_paths(n_paths, read_together):
    """A tap (decoding/job.py): the best of n_paths drafts in place of one. Needs a draft model."""

    def tap(parts):
        if parts.draft is None:
            return parts
        target = PathTarget(parts.target, n_paths, read_together)
        best_path = lambda drafter: PathDrafter(drafter, target, parts.p_filter)
        return replace(parts, target=target, draft=parts.draft.wrapped(best_path))

    return tap
