"""What is trained: a GPT-2, EAGLE's head and Medusa's.

They are made of transformers' parts, so their parameters have the names and shapes of the files.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP, GPT2Block
from transformers.pytorch_utils import Conv1D

from gpt2 import Config

Logits = Iterator[tuple[int, Tensor]]  # (i, logits of token i of drafts)


def transformers_config(config: Config) -> GPT2Config:
    """The config of transformers for a GPT-2 of this shape: without dropout, in float16 on disk;
    the last id begins and ends a text. On a machine with a GPU attention is fused.
    """
    return GPT2Config(
        vocab_size=config.n_vocab,
        n_positions=config.n_ctx,
        n_embd=config.n_embd,
        n_head=config.n_head,
        n_layer=config.n_layer,
        layer_norm_epsilon=config.epsilon,
        activation_function="gelu" if config.exact_gelu else "gelu_new",
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=config.n_vocab - 1,
        eos_token_id=config.n_vocab - 1,
        architectures=["GPT2LMHeadModel"],
        dtype="float16",  # on disk
        # at these shapes a fused attention is slower on a CPU
        attn_implementation="sdpa" if torch.cuda.is_available() else "eager",
    )


class GPT2(GPT2LMHeadModel):
    """A target or a draft model, of the shape `config`. tensors: its weights, {name in
    config.shapes(): array}; without them, they are random.
    """

    share = 1  # of the rows of a batch, one in how many it reads

    def __init__(self, config: Config, tensors: dict[str, np.ndarray] | None = None):
        super().__init__(transformers_config(config))
        if tensors:
            state = {name: torch.from_numpy(array) for name, array in tensors.items()}
            self.transformer.load_state_dict(state)

    def embed(self, ids: Tensor) -> Tensor:  # [batch, n_seq] -> [batch, n_seq, n_embd]
        """The sums of token and position embeddings."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        return self.transformer.wte(ids) + self.transformer.wpe(positions)

    def hidden(self, ids: Tensor) -> Tensor:  # [batch, n_seq] -> [batch, n_seq, n_embd]
        """The output of the last block after the final norm."""
        return self.transformer(ids, use_cache=False).last_hidden_state

    def draft_logits(self, ids: Tensor, hidden: Tensor, teacher: "GPT2") -> Logits:
        """Yield a single pair (0, logits [batch, n_seq, n_vocab]): of token 0 of drafts that begin
        at every position, which is the next token there. ids: [batch, n_seq]. hidden and teacher
        are not used: they are for heads, which are called in the same way.
        """
        yield 0, self.lm_head(self.hidden(ids))


class Eagle(nn.Module):
    """One block that guesses the target's next hidden state from the hidden state before and a
    token.

    When it drafts, it reads its own guesses, so it is trained on these as well: on a whole text at
    once, as if a draft began at every position. The i-th token of a draft attends to the text
    before the draft, with the target's hidden states, and then to the draft's own tokens.
    """

    share = 2  # a text costs as much as several do a draft model

    def __init__(
        self, target: Config, n_embd: int = 256, n_head: int = 4, n_draft_tokens: int = 4
    ) -> None:
        """A head with random weights: `fc` makes the input of the block `h` from a hidden state of
        the target and an embedding, side by side; `proj` makes a hidden state from its output.

        target: the shape of the target; n_embd, n_head: width and heads of the block
        n_draft_tokens: tokens of a draft in training; in use there may be more
        """
        super().__init__()
        self.n_head, self.n_draft_tokens = n_head, n_draft_tokens
        self.notes = {"n_head": str(n_head)}  # for the file: no shape of a tensor tells it
        block = replace(target, n_embd=n_embd, n_head=n_head, n_layer=1)
        self.fc = Conv1D(n_embd, 2 * target.n_embd)  # transformers' order: width out, width in
        self.proj = Conv1D(target.n_embd, n_embd)
        self.h = nn.ModuleList([GPT2Block(transformers_config(block))])

    def draft_logits(self, ids: Tensor, hidden: Tensor, teacher: GPT2) -> Logits:
        """Yield (i, logits [batch, n_seq - i, n_vocab]) for i = 0, 1, ... n_draft_tokens - 1: what
        the head predicts for token i of drafts that begin at every position. Row j is to be like
        the target's logits at position i + j.

        ids, hidden: [batch, n_seq], [batch, n_seq, n_hidden], a text and the target's hidden states
        teacher: the target, whose embeddings, final norm and output head are used
        """
        norm = teacher.transformer.ln_f
        embedded = teacher.embed(ids)
        # before the first token, a state of zeros, then normed: as in the cache that decoding uses
        nothing = norm(torch.zeros_like(hidden[:, :1]))
        keys: list[Tensor] = []  # through_block appends those of each token of the drafts
        values: list[Tensor] = []
        states = hidden  # those of the target, later those that the head guessed last
        for i in range(self.n_draft_tokens):
            states_before = torch.cat([nothing, states[:, :-1]], 1)  # at each position, that before
            x = self.fc(torch.cat([states_before, embedded], -1))
            states = norm(self.proj(self.through_block(x, keys, values)))
            # what is guessed at the first i places belongs to drafts that began before the text
            yield i, teacher.lm_head(states[:, i:])

    def through_block(
        self, x: Tensor, keys: list[Tensor], values: list[Tensor]
    ) -> Tensor:  # [batch, n_seq, n_embd] -> the same
        """The output of the block for x, its input for the newest token of n_seq drafts: a draft
        begins at each position of the text.

        keys, values: those of the tokens before, [batch, n_head, n_seq, d_head] each, the first of
            the text itself, the others of one drafted token each; those of x are appended here
        """
        block = self.h[0]
        qkv = block.attn.c_attn(block.ln_1(x)).chunk(3, -1)
        # [batch, n_seq, n_embd] -> [batch, n_head, n_seq, d_head]
        q, k, v = [part.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for part in qkv]
        keys.append(k)
        values.append(v)
        heads = self.attend(q, keys, values)
        x = x + block.attn.c_proj(heads.transpose(1, 2).flatten(2))
        return x + block.mlp(block.ln_2(x))

    def attend(
        self, q: Tensor, keys: list[Tensor], values: list[Tensor]
    ) -> Tensor:  # [batch, n_head, n_seq, d_head] -> the same
        """Let every position attend to the text before its draft, and to the draft's tokens so far.

        q: queries of the newest token of the drafts, one draft for each position of the text
        keys, values: like q, the first for the text itself, the others for a token of the drafts
            each, in order; the newest is the last. Here is who sees what, with two drafted tokens,
            the newest at positions 0 to 3 (rows), whose draft began 2 before it:

            text       first      newest
            . . . .    . . . .    x . . .
            . . . .    x . . .    . x . .
            x . . .    . x . .    . . x .
            x x . .    . . x .    . . . x
        """
        n_seq = q.shape[-2]
        n_before = len(keys) - 1  # tokens of the draft before this one
        ones = torch.ones(n_seq, n_seq, dtype=torch.bool, device=q.device)
        # row i of a mask is for the token at position i, column j for the key at position j
        masks = [ones.tril(-n_before)]  # keys[0], of the text: up to where the draft of i began
        for n_back in reversed(range(n_before)):  # keys[1], ...: a drafted token, at i - n_back
            masks.append(ones.tril(-n_back).triu(-n_back))  # one diagonal
        mask = torch.cat(masks, -1)  # [n_seq, (n_before + 1) n_seq]
        return F.scaled_dot_product_attention(q, torch.cat(keys, 2), torch.cat(values, 2), mask)


class Medusa(nn.Module):
    """A head for each token of a draft, a residual block on the target's hidden state. target: the
    shape of the target; n_heads: how many tokens a draft has
    """

    share = 2
    notes: dict[str, str] = {}

    def __init__(self, target: Config, n_heads: int = 3) -> None:
        super().__init__()
        heads = [GPT2MLP(target.n_embd, transformers_config(target)) for _ in range(n_heads)]
        for head in heads:  # at first every head gives the target's own logits
            nn.init.zeros_(head.c_proj.weight)
        self.heads = nn.ModuleList(heads)

    def draft_logits(self, ids: Tensor, hidden: Tensor, teacher: GPT2) -> Logits:
        """Yield (i, logits [batch, n_seq - i, n_vocab]) for i = 1, 2, ...: what head i predicts
        from the hidden state at every position j, to be like the target's logits at i + j.

        hidden: [batch, n_seq, n_hidden], the target's hidden states in a text; ids are not used
        teacher: the target, whose output head is used
        """
        for i, head in enumerate(self.heads, 1):
            hidden_before = hidden[:, :-i].contiguous()  # Conv1D views it as a matrix
            yield i, teacher.lm_head(hidden_before + head(hidden_before))
