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

from gpt2 import mlp


@dataclass(frozen=True)
class MedusaConfig:
    """The target's sizes, and the number of heads."""

    n_vocab: int
    n_ctx: int
    n_embd: int
    n_places: int  # of a draft; each has a head
    epsilon: float = 1e-5
    n_layer: ClassVar = 0  # it keeps no keys and values

    def shapes(self) -> dict[str, tuple]:
        """{name: shape} of the parameters in a Medusa file: of head i, the weights and biases of
        its two linear layers, "heads.i.c_fc. ..." and "heads.i.c_proj. ...", of the target's width.
        """
        d = self.n_embd
        shapes: dict[str, tuple] = {}
        for i in range(self.n_places):
            for name in ("c_fc", "c_proj"):
                shapes |= {f"heads.{i}.{name}.weight": (d, d), f"heads.{i}.{name}.bias": (d,)}
        return shapes


class MedusaCache:
    """What the heads know of a text.

    known: [n_known, n_embd], the first rows of the target's `hidden`; the drafter sets it. A draft
        begins after n_known tokens, the last of which the target has not read
    logits: [n_places, n_vocab], the heads' for the last of these rows; at first [0, n_vocab]
    """

    known: Any

    def __init__(self, n_vocab: int):
        self.ids: list[int] = []  # always: it keeps nothing of a position
        self.logits = np.empty((0, n_vocab))


@dataclass(frozen=True, eq=False)
class Medusa:
    """Medusa's heads, with their target's norm and output head. A drafter uses it as a Model."""

    config: MedusaConfig
    params: dict
    backend: Any

    def new_cache(self, n_positions: int | None = None) -> MedusaCache:
        """An empty MedusaCache, for a text of any length; n_positions is not used."""
        return MedusaCache(self.config.n_vocab)

    def read(
        self, ids: list[int], cache: MedusaCache, n_last: int = 1
    ):  # [n_ids] -> [n_last, n_vocab]
        """The logits after ids: those of the head for the next place. ids: a text, len(cache.known)
        tokens, and behind it the tokens drafted so far. n_last: 1, or 0 for a prefill, which reads
        nothing and returns no row
        """
        return self.read_together([ids], [cache], [n_last])[0]

    def read_together(self, texts, caches, n_lasts):  # -> for each text [n_last, n_vocab]
        """A list with the logits of the token that follows each of several texts: of a text whose
        n_last is 1 one row, by the head of that place of its draft; with n_last 0, as for a
        prefill, no row.

        texts: the ids of each, of which the first len(cache.known) stood before its draft began,
            and the others are the tokens drafted so far
        caches, n_lasts: the MedusaCache of each, and its n_last

        If no token is drafted yet, the logits of all places are computed, and written into the
        cache (begin_drafts). For the tokens that follow, they are taken from there.
        """
        places = [len(ids) - len(cache.known) for ids, cache in zip(texts, caches)]
        beginning = []  # the caches of texts that ask for the first token of a draft
        for cache, place, n_last in zip(caches, places, n_lasts):
            if place == 0 and n_last == 1:
                beginning.append(cache)
        if beginning:
            self.begin_drafts(beginning)
        rows = []
        for cache, place, n_last in zip(caches, places, n_lasts):
            rows.append(cache.logits[place : place + n_last])  # row `place`, or none
        return rows

    def begin_drafts(self, caches: list[MedusaCache]) -> None:
        """Compute the logits of all places of a new draft for each of several texts, in one pass,
        and write them into its cache. Each draft follows the last row of cache.known.
        """
        last_states = self.backend.xp.concatenate([cache.known[-1:] for cache in caches])
        for cache, logits in zip(caches, self.logits(last_states)):
            cache.logits = logits  # [n_places, n_vocab]

    def logits(self, hidden):  # [n_texts, n_embd] -> [n_texts, n_places, n_vocab]
        """The logits of each place after several texts, in one pass: of each place by its own
        residual block. hidden: the target's last hidden state of each text
        """
        params, epsilon, xp = self.params, self.config.epsilon, self.backend.xp
        hidden = self.backend.layer_norm(hidden, **params["ln_f"], epsilon=epsilon, xp=xp)
        # one residual block for each place: [n_places * n_texts, n_embd]
        x = xp.concatenate([hidden + mlp(hidden, **head, xp=xp) for head in params["heads"]])
        # the target's own output head: [n_places * n_texts, n_vocab]
        logits = self.backend.to_host(x @ params["head"])
        by_place = logits.reshape(self.config.n_places, len(hidden), -1)
        return by_place.swapaxes(0, 1)
