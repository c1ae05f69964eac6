"""Medusa: a head for each place of a draft (Cai et al. 2024, arXiv 2401.10774).

All heads read the same input: the last hidden state that the target computed, after its final
norm. Head i guesses this hidden state i places further on, by one residual block; the target's own
output head turns the guess into logits. A whole draft costs one small pass. But no head knows the
tokens of the heads before it, nor the token that the target sampled last.

The residual block adds to what the output head reads. In front of the final norm the same block
learns next to nothing: hidden states there are many times larger, so the norm shrinks whatever a
block adds along with them.

So the places of a draft are independent: its distribution is the product of the heads' rows. Each
token was sampled from its own row, which is its q, and `verify` applies as it stands. ("Typical
acceptance", by which Medusa's authors also accept drafts, gives up the target's distribution.)
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from decoding.batching import read_together
from gpt2 import layer_norm, mlp


@dataclass(frozen=True)
class MedusaConfig:
    """The target's sizes, and the number of heads."""

    n_vocab: int
    n_ctx: int
    n_embd: int
    n_places: int  # of a draft; each has a head
    epsilon: float = 1e-5
    n_layer: ClassVar = 0  # it keeps no keys and values

    def shapes(self):
        """{name: shape} of the parameters in a Medusa file."""
        d = self.n_embd
        shapes = {}
        for i in range(self.n_places):
            for name in ("c_fc", "c_proj"):
                shapes |= {f"heads.{i}.{name}.weight": (d, d), f"heads.{i}.{name}.bias": (d,)}
        return shapes


class MedusaCache:
    """What the heads know of a text of n_text tokens.

    hidden: [n_embd], the target's last hidden state
    logits: [n_places, n_vocab], the heads' for this hidden state; None until they are computed
    initial_hidden: [n_embd], stands for the hidden state before the first token
    """

    def __init__(self, initial_hidden):
        self.length = 0  # always: it keeps nothing of a position
        self.initial_hidden = self.hidden = initial_hidden
        self.n_text, self.logits = 0, None

    def update_from_target(self, hidden, n_text):
        """Keep the target's last hidden state of a text, and forget the logits.

        hidden: [n_positions, n_embd], row i is the target's hidden state at position i
        n_text: the number of tokens of the text; the target has read all of them except the last
        """
        # the target has not read the last token, at position n_text - 1
        self.hidden = hidden[n_text - 2] if n_text > 1 else self.initial_hidden
        self.n_text, self.logits = n_text, None


@dataclass(frozen=True, eq=False)
class Medusa:
    """Medusa's heads, with their target's norm and output head. A drafter uses it as a Model."""

    config: MedusaConfig
    params: dict
    backend: Any

    def new_cache(self, n_positions=None):
        """An empty MedusaCache, for a text of any length; n_positions is not used."""
        return MedusaCache(self.backend.xp.zeros(self.config.n_embd, self.params["wpe"].dtype))

    def read(self, ids, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        """The logits after ids: the text that the MedusaCache was updated for, then the tokens
        drafted so far. n_last: 1, or 0 for a prefill, which reads nothing
        """
        return read_together(self, [ids], [cache], [n_last])[0]

    def logits(self, hidden):  # n_texts x [n_embd] -> [n_texts, n_places, n_vocab]
        """The logits of all heads, in one pass. hidden: [each text's last hidden state]."""
        params, epsilon, xp = self.params, self.config.epsilon, self.backend.xp
        hidden = xp.concatenate([row[None] for row in hidden])  # [n_texts, n_embd]
        hidden = layer_norm(hidden, **params["ln_f"], epsilon=epsilon)
        # one residual block for each place: [n_places * n_texts, n_embd]
        x = xp.concatenate([hidden + mlp(hidden, **head, xp=xp) for head in params["heads"]])
        logits = self.backend.to_host(x @ params["head"])
        return logits.reshape(self.config.n_places, len(hidden), -1).swapaxes(0, 1)


@read_together.register
def read_heads_together(
    medusa: Medusa, texts, caches, n_lasts
):  # -> for each text [n_last, n_vocab]
    """Return the logits of Medusa's heads after several texts; `read_together` calls this function.

    texts: [[id]]; caches, n_lasts: sequences with a MedusaCache and 1 or 0 for each of the texts

    The first token of a draft computes the logits of all places, in one pass for all texts; the
    other tokens of the draft find theirs in the cache (a MedusaCache).
    """
    not_computed = [
        cache for cache, n_last in zip(caches, n_lasts) if n_last and cache.logits is None
    ]
    if not_computed:
        logits_of = medusa.logits([cache.hidden for cache in not_computed])
        for cache, logits in zip(not_computed, logits_of):
            cache.logits = logits  # [n_places, n_vocab]
    rows = []
    for ids, cache, n_last in zip(texts, caches, n_lasts):
        if n_last == 0:
            rows.append(np.empty((0, medusa.config.n_vocab)))
        else:
            place = len(ids) - cache.n_text
            rows.append(cache.logits[[place]])  # [1, n_vocab]
    return rows
