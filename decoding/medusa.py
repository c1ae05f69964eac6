"""Medusa: a head for each place of a draft (Cai et al. 2024, arXiv 2401.10774).

All heads read the same thing, the last hidden state that the target computed, behind its final
norm. The i-th guesses what that will be i places further on, by one residual block; the target's
own output head makes logits of it. A whole draft costs one small pass. But no head knows which
tokens the heads before it chose, nor the one that the target sampled last.

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
    """The target's sizes, and the number of heads, n_places."""

    n_vocab: int
    n_ctx: int
    n_embd: int
    n_places: int
    epsilon: float = 1e-5
    n_layer: ClassVar = 0  # it keeps no keys and values

    def shapes(self):
        """The parameters its file must hold: {name: shape}."""
        d = self.n_embd
        shapes = {}
        for i in range(self.n_places):
            for name in ("c_fc", "c_proj"):
                shapes |= {f"heads.{i}.{name}.weight": (d, d), f"heads.{i}.{name}.bias": (d,)}
        return shapes


class MedusaCache:
    """The target's last hidden state of a text, and the heads' logits once they are computed."""

    def __init__(self, nothing):
        self.length = 0  # it keeps nothing of a position
        self.nothing = nothing  # the hidden state before the first token
        self.hidden, self.n_text, self.logits = nothing, 0, None

    def update_from_target(self, hidden, n_text):
        """Take the last hidden state of a text of n_text tokens, of which the target has read all
        but the last. hidden: [n_positions, n_embd], from the target's cache.
        """
        self.hidden = hidden[n_text - 2] if n_text > 1 else self.nothing
        self.n_text, self.logits = n_text, None


@dataclass(frozen=True, eq=False)
class Medusa:
    """Medusa's heads, with their target's norm and output head. For a drafter it is a model."""

    config: MedusaConfig
    params: dict
    backend: Any

    def new_cache(self, n_positions=None):
        nothing = self.backend.xp.zeros(self.config.n_embd, self.params["wpe"].dtype)
        return MedusaCache(nothing)

    def read(self, ids, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        """Logits after the text that the cache has looked at and the drafts that follow it.

        n_last: 1, or 0 for a prefill
        """
        return read_together(self, [ids], [cache], [n_last])[0]

    def logits(self, hidden):  # n_texts x [n_embd] -> [n_texts, n_places, n_vocab]
        """All heads in one pass."""
        params, epsilon, xp = self.params, self.config.epsilon, self.backend.xp
        hidden = xp.concatenate([row[None] for row in hidden])
        hidden = layer_norm(hidden, **params["ln_f"], epsilon=epsilon)
        # one residual block for each place, then the target's own output head
        x = xp.concatenate([hidden + mlp(hidden, **head, xp=xp) for head in params["heads"]])
        logits = self.backend.to_host(x @ params["head"])
        return logits.reshape(self.config.n_places, len(hidden), -1).swapaxes(0, 1)


@read_together.register
def _(heads: Medusa, texts, caches, n_lasts):  # -> for each text [n_last, n_vocab]
    """All heads for all texts in one pass, at the first token of a draft; the other tokens of the
    draft have their logits in the cache.
    """
    new = [cache for cache, n_last in zip(caches, n_lasts) if n_last and cache.logits is None]
    if new:
        for cache, logits in zip(new, heads.logits([cache.hidden for cache in new])):
            cache.logits = logits
    empty = np.empty((0, heads.config.n_vocab))
    return [
        cache.logits[[len(ids) - cache.n_text]] if n_last else empty
        for ids, cache, n_last in zip(texts, caches, n_lasts)
    ]
