"""EAGLE: a draft of one block that reads the target's mind (Li et al. 2024, arXiv 2401.15077).

A draft model sees the tokens of a text only. By the time it is asked, the target has read that text
and knows far more: its last hidden state at a position holds what it expects to follow. EAGLE reads
that hidden state beside the token that was chosen, and guesses the target's next hidden state:

    hidden state before the token ─┐
                                   ├─ fc ─ one block of GPT-2 ─ proj ─ the next hidden state
    embedding of the token ────────┘                                   └ norm, head ─ logits

Embeddings, final norm and output head are the target's own. For the second token of a draft the
target has not been asked yet, so EAGLE goes on from its own guess; when the target has read the
draft, its hidden states replace the guesses.

The logits are those of a model like any other, one token at a time, so q is what the draft was
sampled from and `verify` applies as it stands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpt2 import Config, KVCache, Model, linear


@dataclass(frozen=True, kw_only=True)
class EagleConfig(Config):
    """The shape of EAGLE: one block of a GPT-2, of width n_embd, between two linear layers that
    lead from and to the target's width, n_hidden. n_vocab and n_ctx are the target's.
    """

    n_hidden: int  # the width of the target

    @property
    def n_places(self) -> int:
        """The largest number of tokens in a draft: as many as the context holds."""
        return self.n_ctx

    def shapes(self) -> dict[str, tuple]:
        """{name: shape} of the parameters in an EAGLE file: "fc.weight" and "fc.bias", the linear
        layer before the block; those of the block, "h.0. ...", as a GPT-2 names them; and
        "proj.weight" and "proj.bias", the layer after it.
        """
        of_gpt2 = super().shapes()
        block = {name: shape for name, shape in of_gpt2.items() if name.startswith("h.")}
        return {
            "fc.weight": (2 * self.n_hidden, self.n_embd),  # a hidden state, and an embedding
            "fc.bias": (self.n_embd,),
            **block,
            "proj.weight": (self.n_embd, self.n_hidden),
            "proj.bias": (self.n_hidden,),
        }


class EagleCache(KVCache):
    """Keys and values of the block, and hidden states of the target's width.

    hidden: [1 + n_positions, n_hidden], row i is EAGLE's guess after i tokens, or what it was shown
    known: [n_known, n_hidden], the first rows of the target's `hidden`; the drafter sets it
    """

    known: Any

    def __init__(self, config: EagleConfig, backend: Any, dtype: Any, n_positions: int):
        super().__init__(config, backend, dtype, n_positions)
        self.hidden = backend.xp.empty((1 + n_positions, config.n_hidden), dtype=dtype)


@dataclass(frozen=True, eq=False)
class Eagle(Model):
    """EAGLE's weights, with its target's embeddings, final norm and output head beside them."""

    config: EagleConfig

    def new_cache(self, n_positions: int | None = None) -> EagleCache:
        """An empty EagleCache for one text of up to n_positions, or up to n_ctx."""
        dtype, n_positions = self.params["wpe"].dtype, n_positions or self.config.n_ctx
        return EagleCache(self.config, self.backend, dtype, n_positions)

    def embed(self, new: list[int], cache: EagleCache):  # [n_new] -> [n_new, n_embd]
        """The block's input for the ids `new`, which follow cache.ids. For each: the hidden state
        before it, normalized as the target's output head expects it, and the target's embedding of
        it, side by side, projected to n_embd. Where the target has computed the hidden state, in
        cache.known, that first replaces the guess in cache.hidden. Raises ValueError for an id of
        no token.
        """
        start, end = len(cache.ids), len(cache.ids) + len(new)
        known = cache.known[start:end]  # may end earlier: where the target has not read yet
        cache.hidden[start : start + len(known)] = known
        hidden = cache.hidden[start:end]  # [n_new, n_hidden]
        epsilon, xp = self.config.epsilon, self.backend.xp
        normed = self.backend.layer_norm(hidden, **self.params["ln_f"], epsilon=epsilon, xp=xp)
        tokens = super().embed(new, cache)  # the target's embeddings, [n_new, n_hidden]
        x = xp.concatenate([normed, tokens], axis=1)
        return linear(x, **self.params["fc"])  # [n_new, 2 * n_hidden] -> [n_new, n_embd]

    def blocks(self, x, attend: Callable):  # [n_new, n_embd] -> [n_new, n_hidden]
        """The one block, and the projection to guesses at the target's next hidden states."""
        return linear(super().blocks(x, attend), **self.params["proj"])
