"""GPT-2's forward pass (Radford et al. 2019), with a key/value cache that can be rolled back.

Start with `Model.read`, a pass over the tokens of a text that the cache lacks. Its steps stand
below it, the parts of a block above. Parameters are a nested dict that is unpacked into arguments,
so each signature is the schema of its part of the checkpoint.

The arrays may be NumPy's, CuPy's, or a test's; `xp` is their module. A weight `w` supports `x @ w`;
the backend decides how it lies in memory and how it is multiplied.

Axes: n_new (tokens of this pass), n_total (these and all before them), n_head, d_head, n_embd =
n_head * d_head, n_vocab. A comment behind each signature gives the shapes that go in and come out.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

CHUNK = 128  # tokens of a prompt that are read at a time


@dataclass(frozen=True)
class Config:
    """The shape of a GPT-2, named as in OpenAI's hparams.json.

    GPT-2 124M is Config(50257, 1024, 768, 12, 12).
    """

    n_vocab: int
    n_ctx: int
    n_embd: int
    n_head: int
    n_layer: int
    epsilon: float = 1e-5  # inside the square root of layer norm
    exact_gelu: bool = False  # by erf, not by tanh, as a few models have it (utils.py)

    def shapes(self):
        """{name: shape} of all parameters, by Hugging Face's names, such as "h.0.ln_1.bias"."""
        d = self.n_embd
        norm = {"weight": (d,), "bias": (d,)}
        linears = {
            "attn.c_attn": (d, 3 * d),
            "attn.c_proj": (d, d),
            "mlp.c_fc": (d, 4 * d),
            "mlp.c_proj": (4 * d, d),
        }
        shapes = {"wte.weight": (self.n_vocab, d), "wpe.weight": (self.n_ctx, d)}
        for i in range(self.n_layer):
            for ln in ("ln_1", "ln_2"):
                shapes |= {f"h.{i}.{ln}.{name}": shape for name, shape in norm.items()}
            for name, (n_in, n_out) in linears.items():
                shapes |= {f"h.{i}.{name}.weight": (n_in, n_out), f"h.{i}.{name}.bias": (n_out,)}
        return shapes | {f"ln_f.{name}": shape for name, shape in norm.items()}

    @property
    def n_parameters(self):
        return sum(math.prod(shape) for shape in self.shapes().values())


def nested(parameters):
    """{"h.0.ln_1.weight": w} becomes {"h": {"0": {"ln_1": {"weight": w}}}}, to be unpacked into the
    arguments of the functions below (utils.build_model).
    """
    tree = {}
    for name, value in parameters.items():
        *path, leaf = name.split(".")
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
        branch[leaf] = value
    return tree


# ---------------------------------------------------------------- the parts of a block


def gelu(x, xp):  # [..., n] -> [..., n]
    # the tanh approximation, as in training; x * x instead of x**3, which is much slower
    c = math.sqrt(2 / math.pi)  # a Python float: a NumPy one would make float32 arrays float64
    return x * (0.5 + 0.5 * xp.tanh(x * (c + (c * 0.044715) * (x * x))))


def softmax(x, xp):  # [..., n] -> [..., n], in place: a new array would cost more than exp does
    x -= x.max(axis=-1, keepdims=True)  # so that exp cannot overflow
    xp.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x


@lru_cache
def averages(n, xp, dtype):  # -> [n, 1]
    """x @ averages(n, xp, dtype) is the mean of each row of x. On a few rows that is faster than
    x.sum() / n, and far faster than x.mean().
    """
    return xp.full((n, 1), 1 / n, dtype=dtype)


def layer_norm(x, weight, bias, epsilon, xp):  # [n, n_embd], 2 x [1, n_embd] -> [n, n_embd]
    """(x - mean) / sqrt(variance + epsilon) * weight + bias, row by row, a new array of xp's."""
    averaging = averages(x.shape[-1], xp, x.dtype)  # [n_embd, 1]
    x = x - x @ averaging  # a new array: the caller keeps its own
    x /= ((x * x) @ averaging + epsilon) ** 0.5
    x *= weight
    x += bias
    return x


def linear(x, weight, bias):  # [n_new, n_in], [n_in, n_out], [1, n_out] -> [n_new, n_out]
    y = x @ weight
    y += bias
    return y


def mlp(x, c_fc, c_proj, xp, activation=gelu):  # [n_new, n_embd] -> [n_new, n_embd]
    return linear(activation(linear(x, **c_fc), xp), **c_proj)


@lru_cache
def causal_mask(n, xp, dtype):  # -> [n, n]
    """Minus infinity above the diagonal: no position may look at a later one."""
    return xp.triu(xp.full((n, n), -math.inf, dtype=dtype), k=1)


def dot_product_attention(q, k, v, xp):  # [n_head, n_new, d_head], [n_head, d_head, n_total],
    # [n_head, n_total, d_head] -> [n_head, n_new, d_head]
    """softmax(q @ k / sqrt(d_head)) @ v: each of the new positions, which are the last, attends to
    those up to itself. xp: the module of the arrays, numpy or cupy.
    """
    n_new, d_head = q.shape[1:]
    scores = (q * (1 / math.sqrt(d_head))) @ k  # [n_head, n_new, n_total]
    if n_new > 1:  # a position attends to the past, and to the new ones up to itself
        scores[..., -n_new:] += causal_mask(n_new, xp, q.dtype)
    return softmax(scores, xp) @ v


def attention(x, c_attn, c_proj, n_head, attend):  # [n_new, n_embd] -> [n_new, n_embd]
    """Attention of n_head heads: the linear layer c_attn makes q, k and v of x, attend(q, k, v)
    returns what each head reads (these four are [n_head, n_new, d_head]), c_proj joins the heads.
    """
    n_new, n_embd = x.shape
    # [n_new, 3 * n_embd] -> [3, n_head, n_new, d_head]
    qkv = linear(x, **c_attn).reshape(n_new, 3, n_head, n_embd // n_head).transpose(1, 2, 0, 3)
    heads = attend(qkv[0], qkv[1], qkv[2])  # [n_head, n_new, d_head]
    return linear(heads.swapaxes(0, 1).reshape(n_new, n_embd), **c_proj)


# ---------------------------------------------------------------- the cache


class KVCache:
    """What a model has computed of one text: the keys and values of every position read so far.

    Allocated once, for the whole text. `ids`, the tokens read so far, is the only record of how far
    the model has read. To forget what comes after a position, delete its ids: that costs nothing.

    k: [n_layer, n_head, d_head, n_positions], so that scores are q @ k. With positions before
        d_head, BLAS would rearrange the keys of the whole text for every pass over a few rows.
    v: [n_layer, n_head, n_positions, d_head]
    hidden: [1 + n_positions, n_embd], for drafts by EAGLE and Medusa. Row i is the output of the
        last block after i tokens, and 0 before the first
    """

    def __init__(self, config, backend, dtype, n_positions):
        """Empty, with room for n_positions of a model of this config, in arrays of the backend."""
        heads = config.n_layer, config.n_head
        d_head = config.n_embd // config.n_head
        # rows of an odd number of cache lines: with a power of two, a column of all rows would
        # compete for the same few places of the CPU's cache
        n_lines = (n_positions // 16 + 1) | 1  # of 16 numbers: enough for all, and | 1: odd
        n_columns = 16 * n_lines
        self.k = backend.xp.empty((*heads, d_head, n_columns), dtype=dtype)[..., :n_positions]
        self.v = backend.xp.empty((*heads, n_positions, d_head), dtype=dtype)
        self.hidden = backend.xp.empty((1 + n_positions, config.n_embd), dtype=dtype)
        self.hidden[0] = 0  # before the first token
        self.backend, self.ids = backend, []

    def attend(self, layer, q, k, v):  # 3 x [n_head, n_new, d_head] -> [n_head, n_new, d_head]
        """Store the keys and values of a layer's new positions behind those read so far, and let
        each of them attend to all up to itself. `ids` grows in `advance`, after the last layer.
        """
        n_head, n_new, _ = q.shape
        n_read, n_total = len(self.ids), len(self.ids) + n_new
        keys = self.k[layer, ..., :n_total]  # [n_head, d_head, n_total]
        values = self.v[layer, :, :n_total]  # [n_head, n_total, d_head]
        keys[..., n_read:] = k.swapaxes(1, 2)
        values[:, n_read:] = v
        xp = self.backend.xp
        out = xp.empty(q.shape, dtype=q.dtype)

        def attend_heads(a, b):  # heads a to b
            out[a:b] = self.backend.dot_product_attention(q[a:b], keys[a:b], values[a:b], xp)

        # each thread takes some of the heads; one takes all of them if there are few scores
        if n_new:  # softmax fails without any scores: they have no maximum
            self.backend.run_on_threads(attend_heads, n_head, n_head * n_new * n_total)
        return out

    def advance(self, new, hidden):  # [n_new], [n_new, n_embd]
        """Add the ids `new`, and the outputs of the last block after each."""
        n_read = len(self.ids)
        self.ids += new
        self.hidden[1 + n_read : 1 + len(self.ids)] = hidden


# ---------------------------------------------------------------- the model


@dataclass(frozen=True, eq=False)
class Model:
    """A GPT-2 ready to run: its shape, its parameters and the backend (backends/backend.py).

    params: {"wte", "wpe": embeddings, "blocks": [one block's], "ln_f", "head": wte transposed}
    """

    config: Config
    params: dict
    backend: Any

    def new_cache(self, n_positions=None):
        """An empty cache for one text of up to n_positions tokens, or up to n_ctx without it."""
        dtype, n_positions = self.params["wpe"].dtype, n_positions or self.config.n_ctx
        return KVCache(self.config, self.backend, dtype, n_positions)

    def read(self, ids, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        """Read a text. Returns the logits after each of its last n_last ids, as a NumPy array: row
        i scores the token that follows the i-th of them.

        Reads only what the cache lacks, and always the last n_last ids: what the cache holds of
        other ids, such as rejected drafts, is forgotten first. With n_last 0 it only fills the
        cache. Raises ValueError if there are more ids than the cache or the context has room for,
        or fewer than n_last, or if a new id is not that of a token.
        """
        new = self.roll_back(ids, cache, n_last)
        # a long prompt in parts: a part needs no scores for the keys after it
        for part in [new[i : i + CHUNK] for i in range(0, len(new), CHUNK)]:
            x = self.embed(part, cache)
            x = self.blocks(x, cache.attend)
            cache.advance(part, x)
        # row i of hidden is after i tokens. Only the wanted rows: for 512, logits take 103 MB
        return self.logits(cache.hidden[1 + len(ids) - n_last : 1 + len(ids)])

    def roll_back(self, ids, cache, n_last):
        """Forget what the cache holds of ids that are not these, and of the last n_last ids: they
        are read again, for their logits. Return the list of the ids that the cache then lacks.
        Raises ValueError if there are more ids than there is room for, or fewer than n_last.
        """
        ids, room = list(ids), min(self.config.n_ctx, cache.k.shape[-1])  # n_positions
        if not 0 <= n_last <= len(ids) <= room:
            job = f"{len(ids)} tokens for {n_last} rows of logits"
            raise ValueError(f"cannot read {job} with room for {room} tokens")
        n_kept = min(len(cache.ids), len(ids) - n_last)
        while cache.ids[:n_kept] != ids[:n_kept]:  # mostly equal at once: they differ at the end
            n_kept -= 1
        del cache.ids[n_kept:]
        return ids[n_kept:]

    def embed(self, new, cache):  # [n_new] -> [n_new, n_embd]
        """Embed the ids `new` and their positions. Raises ValueError for an id of no token."""
        n_vocab = self.config.n_vocab
        if new and not 0 <= min(new) <= max(new) < n_vocab:  # NumPy takes -1 for the last
            raise ValueError(f"token ids {min(new)} to {max(new)}: expected 0 to {n_vocab - 1}")
        positions = slice(len(cache.ids), len(cache.ids) + len(new))
        ids = self.backend.asarray(np.array(new, int))
        return self.params["wte"][ids] + self.params["wpe"][positions]

    def blocks(self, x, attend):  # [n_new, n_embd] -> [n_new, n_embd]
        """All blocks, one after the other. attend(layer, q, k, v): attention, as KVCache.attend."""
        n_head, epsilon, xp = self.config.n_head, self.config.epsilon, self.backend.xp
        for layer, block in enumerate(self.params["blocks"]):
            h = self.backend.layer_norm(x, **block["ln_1"], epsilon=epsilon, xp=xp)
            x = x + attention(h, **block["attn"], n_head=n_head, attend=partial(attend, layer))
            h = self.backend.layer_norm(x, **block["ln_2"], epsilon=epsilon, xp=xp)
            x = x + mlp(h, **block["mlp"], xp=xp)
        return x

    def logits(self, x):  # [n_wanted, n_embd] -> [n_wanted, n_vocab]
        """The logits for these outputs of the last block, as a NumPy array."""
        epsilon, xp = self.config.epsilon, self.backend.xp
        x = self.backend.layer_norm(x, **self.params["ln_f"], epsilon=epsilon, xp=xp)
        return self.backend.to_host(x @ self.params["head"])
