"""GPT-2's forward pass (Radford et al. 2019), with a key/value cache that can be rolled back.

Array code that does not care whose arrays they are: NumPy's, CuPy's, or a test's. Parameters are a nested dict splatted
into arguments, so each signature is the schema of its part of the checkpoint. A weight `w` supports `x @ w`; how it lies
in memory and who multiplies is the backend's business.

Axes: batch, n_seq (new positions in this call), n_past (positions already in the cache), n_total = n_past + n_seq,
n_head, d_head, n_embd = n_head * d_head, n_vocab. Every function ends its signature with its shapes.
"""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Config:
    """The shape of a GPT-2, named as in OpenAI's hparams.json. 124M is Config(50257, 1024, 768, 12, 12)."""

    n_vocab: int
    n_ctx: int
    n_embd: int
    n_head: int
    n_layer: int
    epsilon: float = 1e-5  # inside the square root of layer norm

    def shapes(self):
        """The parameters a checkpoint must hold: {name: shape}, in OpenAI's and Hugging Face's common names."""
        d = self.n_embd
        norm = {"weight": (d,), "bias": (d,)}
        linears = {"attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d), "mlp.c_fc": (d, 4 * d), "mlp.c_proj": (4 * d, d)}
        shapes = {"wte.weight": (self.n_vocab, d), "wpe.weight": (self.n_ctx, d)}
        for i in range(self.n_layer):
            shapes |= {f"h.{i}.{ln}.{name}": shape for ln in ("ln_1", "ln_2") for name, shape in norm.items()}
            for name, (n_in, n_out) in linears.items():
                shapes |= {f"h.{i}.{name}.weight": (n_in, n_out), f"h.{i}.{name}.bias": (n_out,)}
        return shapes | {f"ln_f.{name}": shape for name, shape in norm.items()}


class KVCache:
    """Keys and values of every position read so far; the part of a model that changes while it runs.

    Allocated once for n_ctx positions. `length` is the only record of how far the model has read: setting it back
    forgets what came after, and costs nothing. k, v: [n_layer, batch, n_head, n_ctx, d_head]
    """

    def __init__(self, config, xp, dtype, batch=1):
        shape = (config.n_layer, batch, config.n_head, config.n_ctx, config.n_embd // config.n_head)
        self.k, self.v, self.length = xp.empty(shape, dtype=dtype), xp.empty(shape, dtype=dtype), 0

    def append(self, layer, k, v):  # [batch, n_head, n_seq, d_head] -> 2 x [batch, n_head, n_total, d_head]
        end = self.length + k.shape[2]
        self.k[layer][:, :, self.length : end] = k
        self.v[layer][:, :, self.length : end] = v
        return self.k[layer][:, :, :end], self.v[layer][:, :, :end]


def gelu(x, xp):  # [..., n] -> [..., n]
    # the tanh form GPT-2 was trained with; x * x, as x**3 is hundreds of times slower
    c = math.sqrt(2 / math.pi)  # a Python float: NumPy's float64 scalar would turn float32 arrays into float64
    return x * (0.5 + 0.5 * xp.tanh(x * (c + (c * 0.044715) * (x * x))))


def softmax(x, xp):  # [..., n] -> [..., n]
    x = xp.exp(x - x.max(axis=-1, keepdims=True))  # the maximum taken off, so that exp cannot overflow
    return x / x.sum(axis=-1, keepdims=True)


def layer_norm(x, weight, bias, epsilon):  # [..., n_embd] -> [..., n_embd]
    n = x.shape[-1]
    x = x - x.sum(axis=-1, keepdims=True) / n
    variance = (x * x).sum(axis=-1, keepdims=True) / n
    return x / (variance + epsilon) ** 0.5 * weight + bias


def linear(x, weight, bias):  # [batch, n_seq, n_in], [n_in, n_out], [n_out] -> [batch, n_seq, n_out]
    return x @ weight + bias


def mlp(x, c_fc, c_proj, xp):  # [n_rows, n_embd] -> [n_rows, n_embd]
    return linear(gelu(linear(x, **c_fc), xp), **c_proj)


def attention(x, c_attn, c_proj, n_head, layer, cache, mask, xp):  # [n_rows, n_embd] -> [n_rows, n_embd]
    batch, n_embd = cache.k.shape[1], x.shape[1]
    d_head = n_embd // n_head
    qkv = linear(x, **c_attn).reshape(batch, -1, 3, n_head, d_head).transpose(2, 0, 3, 1, 4)
    k, v = cache.append(layer, qkv[1], qkv[2])  # [batch, n_head, n_total, d_head]
    scores = qkv[0] * (1 / math.sqrt(d_head)) @ k.swapaxes(-1, -2)  # [batch, n_head, n_seq, n_total]
    if mask is not None:
        scores[..., cache.length :] += mask  # every position sees the past, and of the new ones those up to itself
    heads = softmax(scores, xp) @ v  # [batch, n_head, n_seq, d_head]
    return linear(heads.swapaxes(1, 2).reshape(x.shape), **c_proj)


def forward(ids, params, config, cache, n_last, xp):  # [batch, n_seq] -> [batch, n_last, n_vocab]
    """One pass over n_seq new positions: appends them to the cache, returns the logits of the last n_last.

    The logits of a position score the token that follows it. Only the rows asked for are multiplied by the output
    head: for 512 rows of a prompt all of them would be 103 MB that nobody reads.
    """
    batch, n_seq = ids.shape
    positions = slice(cache.length, cache.length + n_seq)
    x = (params["wte"][ids] + params["wpe"][positions]).reshape(batch * n_seq, config.n_embd)
    mask = xp.triu(xp.full((n_seq, n_seq), -math.inf, dtype=x.dtype), k=1) if n_seq > 1 else None
    for layer, block in enumerate(params["blocks"]):
        h = layer_norm(x, **block["ln_1"], epsilon=config.epsilon)
        x = x + attention(h, **block["attn"], n_head=config.n_head, layer=layer, cache=cache, mask=mask, xp=xp)
        x = x + mlp(layer_norm(x, **block["ln_2"], epsilon=config.epsilon), **block["mlp"], xp=xp)
    cache.length += n_seq
    x = x.reshape(batch, n_seq, config.n_embd)[:, n_seq - n_last :].reshape(batch * n_last, config.n_embd)
    logits = layer_norm(x, **params["ln_f"], epsilon=config.epsilon) @ params["head"]  # the embedding, transposed
    return logits.reshape(batch, n_last, config.n_vocab)


@dataclass(frozen=True)
class Model:
    """A GPT-2 ready to run: its shape, its parameters where the backend wants them, and the backend (utils.Backend)."""

    config: Config
    params: dict
    backend: Any

    def new_cache(self, batch=1):
        """An empty cache for `batch` texts."""
        return KVCache(self.config, self.backend.xp, self.params["wpe"].dtype, batch)

    def read(self, ids, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        """Logits after each of the last n_last ids of a text, as a NumPy array; reads only what the cache has not.

        This is the catch-up rule. The positions asked for are read again in any case, so everything the cache holds from
        there on (a rejected draft, say) is forgotten first; what it lacks before them is read with them. The caller
        promises that the cache was fed nothing but this text before its last n_last ids.
        Raises ValueError when the text is longer than n_ctx or has fewer than n_last ids.
        """
        n_ctx = self.config.n_ctx
        if not n_last <= len(ids) <= n_ctx:
            raise ValueError(f"cannot read {len(ids)} tokens for {n_last} rows of logits with a context of {n_ctx}")
        cache.length = min(cache.length, len(ids) - n_last)
        xp, new = self.backend.xp, ids[cache.length :]
        if len(new) == 0:  # a prefill that has been done
            return self.backend.to_host(xp.empty((0, self.config.n_vocab), dtype=cache.k.dtype))
        new = self.backend.asarray(new)[None]
        return self.backend.to_host(forward(new, self.params, self.config, cache, n_last, xp)[0])
