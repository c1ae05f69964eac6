"""GPT-2 in PyTorch, to be trained; the parameters have the names they have on disk."""

import json
import math

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save
from torch import nn

from experiments.data.files import replacing
from utils import open_weights, read_config

# without instructions for it, bfloat16 is several times slower than float32
HAS_BFLOAT16 = torch.cpu._is_avx512_bf16_supported()


def mixed_precision():
    """bfloat16 for matrix products, where that is faster."""
    return torch.autocast("cpu", torch.bfloat16, enabled=HAS_BFLOAT16)


class Attention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)

    def qkv(self, x):  # [batch, n_seq, n_embd] -> 3 x [batch, n_head, n_seq, d_head]
        b, n, d = x.shape
        parts = self.c_attn(x).split(d, -1)
        return [part.view(b, n, self.n_head, d // self.n_head).transpose(1, 2) for part in parts]

    def join(self, heads):  # [batch, n_head, n_seq, d_head] -> [batch, n_seq, n_embd]
        return self.c_proj(heads.transpose(1, 2).flatten(2))

    def forward(self, x, mask):
        # written out: at these shapes torch's fused attention is half as fast on a CPU
        q, k, v = self.qkv(x)
        scores = q / math.sqrt(q.shape[-1]) @ k.transpose(-1, -2)
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        return self.join(weights.to(v.dtype) @ v)


class MLP(nn.Module):
    def __init__(self, n_embd, n_inner):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(n_embd, n_inner), nn.Linear(n_inner, n_embd)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, n_embd, n_head, dropout=0.0):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn, self.mlp = Attention(n_embd, n_head), MLP(n_embd, 4 * n_embd)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):  # [batch, n_seq, n_embd] -> [batch, n_seq, n_embd]
        x = x + self.dropout(self.attn(self.ln_1(x), mask))
        return x + self.dropout(self.mlp(self.ln_2(x)))


def initialise(model, n_layer):
    """The weights a run starts from: small, and smaller where a block adds to what goes through."""
    for name, p in model.named_parameters():
        if p.ndim == 2:
            nn.init.normal_(p, std=0.02 / math.sqrt(2 * n_layer) if "c_proj" in name else 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(p)


class GPT2(nn.Module):
    """config: a gpt2.Config; dropout: the share of numbers set to zero where one is trained"""

    def __init__(self, config, dropout=0.0):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.n_vocab, config.n_embd)
        self.wpe = nn.Embedding(config.n_ctx, config.n_embd)
        self.dropout = nn.Dropout(dropout)
        blocks = (Block(config.n_embd, config.n_head, dropout) for _ in range(config.n_layer))
        self.h = nn.ModuleList(blocks)
        self.ln_f = nn.LayerNorm(config.n_embd)
        later = torch.ones(config.n_ctx, config.n_ctx, dtype=torch.bool).triu(1)
        self.register_buffer("later", later, persistent=False)
        initialise(self, config.n_layer)

    def embed(self, ids, offset):  # [batch, n_seq] -> [batch, n_seq, n_embd]
        return self.wte(ids) + self.wpe(torch.arange(ids.shape[1]) + offset)

    def hidden(self, ids, offset=0):  # [batch, n_seq] -> [batch, n_seq, n_embd]
        """The output of the last block."""
        n = ids.shape[1]
        with mixed_precision():
            x = self.dropout(self.embed(ids, offset))
            for block in self.h:
                x = block(x, self.later[:n, :n])
        return x

    def head(self, normed):  # [..., n_embd] -> [..., n_vocab]
        with mixed_precision():
            return F.linear(normed, self.wte.weight).float()

    def logits(self, hidden):  # [..., n_embd] -> [..., n_vocab]
        return self.head(self.ln_f(hidden))

    def forward(self, ids, offset=0):  # [batch, n_seq] -> [batch, n_seq, n_vocab]
        return self.logits(self.hidden(ids, offset))


def transposed(name, tensor):
    """Whether a parameter lies on disk as [n_in, n_out], where torch has [n_out, n_in]."""
    return tensor.ndim == 2 and not name.startswith(("wte", "wpe"))


def stored(model):
    """{name: tensor} as it is stored."""
    return {
        name: (p.T if transposed(name, p) else p).contiguous()
        for name, p in model.state_dict().items()
    }


def set_stored(model, tensors):
    """Give a model its parameters from {name: array} as stored; returns the model."""
    own = {name: torch.from_numpy(array) for name, array in tensors.items()}
    own = {name: tensor.T if transposed(name, tensor) else tensor for name, tensor in own.items()}
    model.load_state_dict(own)
    return model


def read_tensors(folder):
    """{name: float32 array} of a model folder, as stored. Raises InputError."""
    config = read_config(folder)
    return {name: tensor.read(np.float32) for name, tensor in open_weights(folder, config).items()}


def read_model(folder, dropout=0.0):
    """The GPT2 of a model folder. Raises InputError."""
    return set_stored(GPT2(read_config(folder), dropout), read_tensors(folder))


def write_tensors(tensors, path, **notes):
    """Store {name: tensor} in float16, whole or not at all."""
    halves = {name: tensor.to(torch.float16) for name, tensor in tensors.items()}
    with replacing(path) as part:
        part.write_bytes(save(halves, metadata={"format": "pt"} | notes))


def write_model(model, folder):
    """Store as Hugging Face stores GPT-2; the output head is the embedding and is left out."""
    config, end = model.config, model.config.n_vocab - 1
    entries = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": "gelu_new",
        "n_layer": config.n_layer,
        "n_embd": config.n_embd,
        "n_head": config.n_head,
        "n_ctx": config.n_ctx,
        "vocab_size": config.n_vocab,
        "n_positions": config.n_ctx,
        "layer_norm_epsilon": config.epsilon,
        "tie_word_embeddings": True,
        "bos_token_id": end,
        "eos_token_id": end,
        "torch_dtype": "float16",
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(stored(model), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(entries, indent=2) + "\n")
