"""GPT-2 and the heads that grow on it (decoding/eagle.py, medusa.py) in PyTorch, to be trained.

They are made of transformers' parts, whose parameters have the names and shapes they have on disk.
"""

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP, GPT2Block
from transformers.pytorch_utils import Conv1D

from checkpoints.folder import open_weights, read_config
from checkpoints.output import replace_atomically
from checkpoints.vocabulary import load_encoder
from decoding.streams import Purpose, stream
from experiments.training.grow import grow


def transformers_config(config, dropout=0.0):
    """Return the transformers.GPT2Config of a gpt2.Config."""
    return GPT2Config(
        vocab_size=config.n_vocab,
        n_positions=config.n_ctx,
        n_embd=config.n_embd,
        n_head=config.n_head,
        n_layer=config.n_layer,
        layer_norm_epsilon=config.epsilon,
        embd_pdrop=dropout,
        resid_pdrop=dropout,
        attn_pdrop=0.0,
        bos_token_id=config.n_vocab - 1,
        eos_token_id=config.n_vocab - 1,
        architectures=["GPT2LMHeadModel"],
        dtype="float16",  # on disk
        attn_implementation="eager",  # at these shapes a fused attention is slower on a CPU
    )


# ---------------------------------------------------------------- models


class GPT2(GPT2LMHeadModel):
    """config: a gpt2.Config; dropout: the share of numbers set to zero where one is trained
    tensors: {name: array} as stored; without them, its weights are random
    """

    def __init__(self, config, dropout=0.0, tensors=None):
        super().__init__(transformers_config(config, dropout))
        if tensors:
            named = {name: torch.from_numpy(array) for name, array in tensors.items()}
            self.transformer.load_state_dict(named)

    def embed(self, ids, offset):  # [batch, n_seq] -> [batch, n_seq, n_embd]
        positions = torch.arange(offset, offset + ids.shape[1])
        return self.transformer.wte(ids) + self.transformer.wpe(positions)

    def hidden(self, ids, offset=0):  # [batch, n_seq] -> [batch, n_seq, n_embd]
        """The output of the last block, behind the final norm."""
        positions = torch.arange(offset, offset + ids.shape[1])[None]
        read = self.transformer(ids, position_ids=positions, use_cache=False)
        return read.last_hidden_state

    def logits(self, hidden):  # [..., n_embd] -> [..., n_vocab]
        return self.lm_head(hidden).float()

    def places(self, ids, offset, hidden, teacher):
        """(first position, logits from there on) for each place of a draft: of a model, the one."""
        yield 0, self.logits(self.hidden(ids, offset))


def seed_torch(purpose, seed, *numbers):
    """Seed torch's global generator with the stream of a Purpose, a seed and numbers."""
    torch.manual_seed(int(stream(purpose, seed, *numbers).generate_state(1)[0]))


def random_model(config, folder, seed, dropout=0.0):
    """Return a GPT2 of that shape with random weights, for the vocabulary of a folder."""
    seed_torch(Purpose.WEIGHTS, seed)
    return GPT2(replace(config, n_vocab=load_encoder(folder).n_vocab), dropout)


def read_tensors(folder):
    """Read the parameters of a model folder: {name as stored: float32 array}."""
    tensors = open_weights(folder, read_config(folder))
    return {name: tensor.read(np.float32) for name, tensor in tensors.items()}


def read_model(folder, dropout=0.0):
    """Read a model folder into a GPT2."""
    return GPT2(read_config(folder), dropout, read_tensors(folder))


def grown_model(folder, layers, seed, dropout=0.0):
    """Return a GPT2 twice as wide as the model of a folder. layers: indices of layers to keep"""
    config = read_config(folder)
    wide = replace(config, n_embd=2 * config.n_embd, n_head=2 * config.n_head, n_layer=len(layers))
    rng = np.random.default_rng(stream(Purpose.WEIGHTS, seed))
    tensors = grow(read_tensors(folder), layers, rng, noise=0.02)
    return GPT2(wide, dropout, tensors)


def write_tensors(module, path, **notes):
    """Write the parameters of a module to a safetensors file in float16, atomically.

    notes: texts for the file's metadata
    """
    halves = {name: tensor.half() for name, tensor in module.state_dict().items()}
    with replace_atomically(path) as part:
        part.write_bytes(save(halves, metadata={"format": "pt"} | notes))


def write_model(model, folder):
    """Write model.safetensors and config.json into a folder, as Hugging Face stores GPT-2.

    The output head is the embedding, so it is left out.
    """
    write_tensors(model.transformer, folder / "model.safetensors")
    model.config.save_pretrained(folder)


# ---------------------------------------------------------------- heads


class Eagle(nn.Module):
    """One block that guesses the target's next hidden state from the one before and a token.

    In use it goes on from its own guesses, so it is trained on them as well: on a whole text at
    once, as if a draft began at every position. What the i-th token of a draft attends to is the
    text as the target knows it, up to where the draft began, and then the draft's own tokens.

    target: its gpt2.Config
    """

    def __init__(self, target, n_embd, n_head, n_places=4):
        super().__init__()
        self.n_places = n_places  # of a draft in training; in use there may be more
        self.n_head = n_head
        block = GPT2Block(
            transformers_config(replace(target, n_embd=n_embd, n_head=n_head, n_layer=1))
        )
        self.fc, self.proj = Conv1D(n_embd, 2 * target.n_embd), Conv1D(target.n_embd, n_embd)
        self.h = nn.ModuleList([block])

    def places(self, ids, offset, hidden, teacher):
        """(first position, logits from there on) for each place of a draft.

        hidden: [batch, n_seq, n_hidden], of the target
        """
        norm, embedded = teacher.transformer.ln_f, teacher.embed(ids, offset)
        nothing = norm(torch.zeros_like(hidden[:, :1]))  # before the first token
        keys, values = [], []
        for place in range(self.n_places):
            before = torch.cat([nothing, hidden[:, :-1]], 1)
            hidden = norm(self.step(before, embedded, keys, values))
            yield place, teacher.logits(hidden[:, place:])

    def step(self, before, embedded, keys, values):
        """Guesses of all positions, whose drafts are one token longer than at the last call."""
        (block,) = self.h
        x = self.fc(torch.cat([before, embedded], -1))
        parts = block.attn.c_attn(block.ln_1(x)).chunk(3, -1)
        # [batch, n_seq, n_embd] -> [batch, n_head, n_seq, d_head]
        q, k, v = (part.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for part in parts)
        keys.append(k)
        values.append(v)
        heads = self.attend(q, keys, values)
        x = x + block.attn.c_proj(heads.transpose(1, 2).flatten(2))
        x = x + block.mlp(block.ln_2(x))
        return self.proj(x)

    def attend(self, q, keys, values):
        """Attention to the text before the draft, and to the draft."""
        n, place = q.shape[-2], len(keys) - 1
        every = torch.ones(n, n, dtype=torch.bool)
        visible = [every.tril(-place)]
        # each earlier token of the draft, `ago` positions before the newest
        visible += [every.tril(-ago).triu(-ago) for ago in reversed(range(place))]
        mask = torch.cat(visible, -1)
        return F.scaled_dot_product_attention(q, torch.cat(keys, 2), torch.cat(values, 2), mask)


class Medusa(nn.Module):
    """A residual block for each place of a draft, on the target's last hidden state.

    target: its gpt2.Config
    """

    def __init__(self, target, n_places):
        super().__init__()
        heads = (GPT2MLP(target.n_embd, transformers_config(target)) for _ in range(n_places))
        self.heads = nn.ModuleList(heads)
        for head in self.heads:  # at first every head says what the target says one place before
            nn.init.zeros_(head.c_proj.weight)

    def places(self, ids, offset, hidden, teacher):
        """(first position, logits from there on) for each place of a draft.

        The hidden state before the newest token is all that the heads see, so the first of them
        guesses the next one, which the target has after that token.
        """
        for i, head in enumerate(self.heads, 1):
            before = hidden[:, :-i].contiguous()
            yield i, teacher.logits(before + head(before))
