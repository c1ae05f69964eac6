"""The heads that grow on a target (experiments/drafting), in PyTorch, to be trained."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from experiments.training.torch_gpt2 import MLP, Block, initialise, mixed_precision


def later(x, n):  # [..., n_seq, d] -> [..., n_seq, d]
    """Every row n places further on; the first n rows become 0."""
    return F.pad(x, (0, 0, n, 0))[..., : x.shape[-2], :]


class Eagle(nn.Module):
    """One block that guesses the target's next hidden state from the one before and a token.

    In use it goes on from its own guesses, so it is trained on them as well: on a whole text at
    once, as if a draft began at every position. What the i-th token of a draft attends to is the
    text as the target knows it, up to where the draft began, and then the draft's own tokens.
    """

    def __init__(self, n_hidden, n_embd, n_head, n_places=4):
        super().__init__()
        self.n_places = n_places  # of a draft in training; in use there may be more
        self.fc, self.proj = nn.Linear(2 * n_hidden, n_embd), nn.Linear(n_embd, n_hidden)
        self.h = nn.ModuleList([Block(n_embd, n_head)])
        initialise(self, n_layer=1)

    def places(self, ids, offset, hidden, teacher):
        """(first position, logits from there on) for each place of a draft.

        hidden: [batch, n_seq, n_hidden], of the target
        """
        embedded = teacher.embed(ids, offset)
        before, keys, values = later(hidden, 1), [], []
        for place in range(self.n_places):
            guess = self.step(teacher.ln_f(before), embedded, keys, values)
            yield place, teacher.logits(guess[:, place:])
            before = later(guess, 1)

    def step(self, before, embedded, keys, values):
        """Guesses of all positions, whose drafts are one token longer than at the last call."""
        with mixed_precision():
            (block,) = self.h
            x = self.fc(torch.cat([before, embedded], -1))
            q, k, v = block.attn.qkv(block.ln_1(x))
            keys.append(k)
            values.append(v)
            x = x + block.attn.join(self.attend(q, keys, values))
            x = x + block.mlp(block.ln_2(x))
            return self.proj(x)

    def attend(self, q, keys, values):
        """Attention to the text before the draft, and to the draft."""
        n, place = q.shape[-2], len(keys) - 1
        q = q / math.sqrt(q.shape[-1])
        hidden = torch.ones(n, n, dtype=torch.bool).triu(1 - place)
        scores = [(q @ keys[0].transpose(-1, -2)).masked_fill(hidden, float("-inf"))]
        for i in range(1, place + 1):
            # the i-th token of the draft lies so many positions before the newest
            ago = place - i
            score = (q * later(keys[i], ago)).sum(-1, keepdim=True)
            score[..., :ago, :] = float("-inf")
            scores.append(score)
        weights = torch.cat(scores, -1).softmax(-1).to(q.dtype)
        heads = weights[..., :n] @ values[0]
        for i in range(1, place + 1):
            heads = heads + weights[..., n + i - 1, None] * later(values[i], place - i)
        return heads


class Medusa(nn.Module):
    """A residual block for each place of a draft, on the target's last hidden state."""

    def __init__(self, n_hidden, n_places):
        super().__init__()
        self.heads = nn.ModuleList(MLP(n_hidden, n_hidden) for _ in range(n_places))
        initialise(self, n_layer=1)
        for head in self.heads:  # at first every head says what the target says one place before
            nn.init.zeros_(head.c_proj.weight)

    def places(self, ids, offset, hidden, teacher):
        """(first position, logits from there on) for each place of a draft.

        The hidden state before the newest token is all that the heads see, so the first of them
        guesses the next one, which the target has after that token.
        """
        normed = teacher.ln_f(hidden)
        for i, head in enumerate(self.heads, 1):
            before = normed[:, :-i]
            with mixed_precision():
                guess = before + head(before)
            yield i, teacher.head(guess)
