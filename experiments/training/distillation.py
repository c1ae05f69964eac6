"""What models are trained for: a target for the next token of a text, a draft for the target's
whole distribution, also on text of its own.

A draft model is distilled (DistillSpec, Zhou et al. 2023, arXiv 2310.08461): first by the
Kullback-Leibler divergence, whose gradients are large where it knows nothing yet, then by total
variation, because acceptance at temperature 1 is exactly 1 - TV(p, q) (Leviathan et al. 2023,
corollary 3.6). The same two distances train the heads that grow on the target. Half of the training
text is the target's own, sampled and greedy, because that is the text on which drafts are judged.
"""

import numpy as np
import torch
import torch.nn.functional as F

from experiments.decoding.batching import read_together
from experiments.training.tokens import N_WRITTEN, batch_at

N_PROMPT = 32  # tokens of a book that the target continues


def cross_entropy(model, batch, offset):
    """Of the next token, in nats."""
    logits = model(batch[:, :-1], offset)
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def kullback_leibler(p, q):  # 2 x [..., n_vocab], logits
    """Of the target's distribution p from the draft's q, the mean over places."""
    p, q = p.log_softmax(-1), q.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean()


def total_variation(p, q):  # 2 x [..., n_vocab], logits
    """Half the sum of all differences, the mean over places."""
    return (p.softmax(-1) - q.softmax(-1)).abs().sum(-1).mean() / 2


def distance_from(teacher, distance):
    """The loss of a draft, a model or a head: its distance from the teacher's distributions, summed
    over the places that it drafts at once.
    """

    def loss(draft, batch, offset):
        ids = batch[:, :-1]
        with torch.no_grad():
            hidden = teacher.hidden(ids, offset)
            p = teacher.logits(hidden)
        # q of the first place begins a place later each time
        places = draft.places(ids, offset, hidden, teacher)
        return sum(distance(p[:, first:], q) for first, q in places)

    return loss


def distances_from(teacher):
    """The losses of the first half of a run, and of the second."""
    return distance_from(teacher, kullback_leibler), distance_from(teacher, total_variation)


def written_batch(model, ids, seed, batch, batch_size):
    """Continuations of passages from books, a function of its arguments alone: [batch_size,
    N_WRITTEN + 1] ids.

    model: a gpt2.Model. Every third batch is greedy, the rest is sampled at temperature 1.
    """
    rng = np.random.default_rng([seed, batch])
    text = batch_at(ids, batch, seed, batch_size, N_PROMPT - 1).numpy()
    caches = [model.new_cache() for _ in text]
    while text.shape[1] < N_WRITTEN + 1:
        logits = np.concatenate(read_together(model, text.tolist(), caches, [1] * batch_size))
        if batch % 3:  # the argmax of logits + Gumbel noise is a sample
            logits = logits + rng.gumbel(size=logits.shape)
        text = np.concatenate([text, logits.argmax(axis=1)[:, None]], axis=1)
    return text.astype(np.uint16)
