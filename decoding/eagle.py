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

from dataclasses import dataclass

from gpt2 import Config, KVCache, Model, layer_norm, linear


@dataclass(frozen=True, kw_only=True)
class EagleConfig(Config):
    """The shape of the block, which is a GPT-2's of width n_embd."""

    n_hidden: int  # the width of the target

    @property
    def n_places(self):
        """The largest number of tokens in a draft: as many as the context holds."""
        return self.n_ctx

    def shapes(self):
        """{name: shape} of the parameters in an EAGLE file."""
        block = {name: shape for name, shape in super().shapes().items() if name.startswith("h.")}
        return {
            "fc.weight": (2 * self.n_hidden, self.n_embd),
            "fc.bias": (self.n_embd,),
            **block,
            "proj.weight": (self.n_embd, self.n_hidden),
            "proj.bias": (self.n_hidden,),
        }


class EagleCache(KVCache):
    """Keys and values of the block, and the hidden state before each position: the target's as far
    as the target has read the text, EAGLE's own guess after that. The first row is 0.

    hidden: [n_positions + 1, n_hidden], row i is the hidden state before position i
    """

    def __init__(self, config, backend, dtype, n_positions):
        super().__init__(config, backend, dtype, n_positions)
        self.hidden = backend.xp.zeros((n_positions + 1, config.n_hidden), dtype)
        self.n_text = 1  # the first n_text rows of `hidden` are not guesses

    def advance(self, hidden):  # [n_new, n_hidden]
        """Mark the new positions as read, with these guesses at the hidden states after them."""
        start, self.length = self.length, self.length + hidden.shape[0]
        self.hidden[start + 1 : self.length + 1] = hidden  # row i is the state before position i

    def update_from_target(self, hidden, n_text):
        """Copy the target's hidden states over EAGLE's guesses. Sets `length` back, so that what
        was computed from a guess is computed again.

        hidden: [n_positions, n_hidden], row i is the target's hidden state at position i
        n_text: the number of tokens of the text; the target has read all of them except the last
        """
        without_guesses = self.n_text  # no guess went into the positions before this one
        read_by_target = n_text - 1  # a rejected draft may have gone further
        self.length = start = min(self.length, without_guesses, read_by_target)
        first = max(start, 1)  # row 0 stays 0: no state comes before position 0
        # here row i is the state before position i: the target's state at position i - 1
        self.hidden[first:n_text] = hidden[first - 1 : n_text - 1]
        self.n_text = n_text


@dataclass(frozen=True, eq=False)
class Eagle(Model):
    """EAGLE's weights, with its target's embeddings, final norm and output head beside them."""

    def new_cache(self, n_positions=None):
        """An empty EagleCache for one text of up to n_positions, or up to n_ctx."""
        dtype, n_positions = self.params["wpe"].dtype, n_positions or self.config.n_ctx
        return EagleCache(self.config, self.backend, dtype, n_positions)

    def embed(self, new, cache):  # [n_new] -> [n_new, n_embd]
        """Join the state before each token (cache.hidden) with its embedding; project to n_embd."""
        # [n_new, n_hidden]; row i of cache.hidden is the state before position i
        hidden = cache.hidden[cache.length : cache.length + len(new)]
        hidden = layer_norm(hidden, **self.params["ln_f"], epsilon=self.config.epsilon)
        tokens = super().embed(new, cache)  # the target's embeddings, [n_new, n_hidden]
        x = self.backend.xp.concatenate([hidden, tokens], axis=1)
        return linear(x, **self.params["fc"])  # [n_new, 2 * n_hidden] -> [n_new, n_embd]

    def blocks(self, x, texts):  # [n_new, n_embd] -> [n_new, n_hidden]
        """Run the one block, and project its output to guesses at the target's next hidden states.

        texts: [(EagleCache, slice)], the texts that x has rows of, and which rows
        """
        return linear(super().blocks(x, texts), **self.params["proj"])
