"""Rules that give up exactness, to see what that costs (docs/family.md).

Each is called and returns as sampling.verify, and accepts more drafts than an exact rule can. None
is offered for decoding.
"""

import numpy as np

from sampling import verify, verify_block


# [k], [k + 1, n_vocab], [k, n_vocab] -> n_accepted, token
def typical_acceptance(draft, p, q, rng, epsilon=0.09, delta=0.3):
    """Medusa's rule (Cai et al. 2024, arXiv 2401.10774): accept a drafted token if its probability
    under the target is min(epsilon, delta * exp(-entropy of p)) or more. The token that follows is
    sampled from p, also after a rejection. q is not used.
    """
    for i, token in enumerate(draft):
        # np.maximum makes 0 log 0 = 0
        entropy = -(p[i] * np.log(np.maximum(p[i], 1e-300))).sum()
        if p[i, token] < min(epsilon, delta * np.exp(-entropy)):
            return i, rng.sample(p[i])
    return len(draft), rng.sample(p[len(draft)])


# [k], [k + 1, n_vocab], [k or k + 1, n_vocab] -> n_accepted, token
def cascade(draft, p, q, rng, alpha=0.35):
    """A speculative cascade (Narasimhan et al. 2024, arXiv 2405.19261): the exact rule for a mixed
    target. Where the draft model is sure (its likeliest token has 1 - alpha or more) the mixed
    target is q, elsewhere p.

    If q has k + 1 rows (see ExtraRowDrafter), the bonus token comes from the mixed target, too;
    otherwise from p. Returns (number accepted, token that follows), as sampling.verify.
    """
    n = len(q)
    # `initial`, because q has no row if nothing is drafted
    is_sure = q.max(axis=1, keepdims=True, initial=0) >= 1 - alpha  # [n, 1]
    mixed = np.where(is_sure, q, p[:n])
    return verify(draft, np.concatenate([mixed, p[n:]]), q, rng)


class ExtraRowDrafter:
    """A drafter around another one. Its q has a row more than its draft has tokens: the
    distribution of the token after the draft.
    """

    def __init__(self, drafter):
        self.drafter, self.n_vocab, self.prefill = drafter, drafter.n_vocab, drafter.prefill

    def propose(self, ids, k):  # [n_ids] -> [k], [k + 1, n_vocab]
        """Draft k tokens after ids. Returns them, and the distributions of k + 1 tokens. Both are
        fewer if the drafter inside stops early.
        """
        draft, q = self.drafter.propose(ids, k + 1)
        return draft[:k], q


def adapt_drafter(drafter, rule):
    """Return the drafter that a rule needs: for `cascade` an ExtraRowDrafter around `drafter`, for
    other rules `drafter` itself. rule: a function that is called as sampling.verify
    """
    return ExtraRowDrafter(drafter) if rule is cascade else drafter


COMPARED = {  # {name in the table of docs/family.md: rule}
    "token rule": verify,
    "block verification": verify_block,
    "typical acceptance": typical_acceptance,
    "speculative cascade": cascade,
}
