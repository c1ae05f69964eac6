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
from functools import lru_cache
from typing import Any

import numpy as np


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

    def shapes(self):
        """{name: shape} of the parameters in a checkpoint, by Hugging Face's names."""
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


def layer_norm(x, weight, bias, epsilon):  # [..., n_embd] -> [..., n_embd]
    n = x.shape[-1]  # sums divided by n: x.mean() and x.var() are slower on a few rows
    x = x - x.sum(axis=-1, keepdims=True) / n  # a new array: the caller keeps its own
    variance = (x * x).sum(axis=-1, keepdims=True) / n
    x /= (variance + epsilon) ** 0.5
    x *= weight
    x += bias
    return x


def linear(x, weight, bias):  # [n_new, n_in], [n_in, n_out], [n_out] -> [n_new, n_out]
    y = x @ weight
    y += bias
    return y


def mlp(x, c_fc, c_proj, xp):  # [n_new, n_embd] -> [n_new, n_embd]
    return linear(gelu(linear(x, **c_fc), xp), **c_proj)


@lru_cache
def causal_mask(n, xp, dtype):  # -> [n, n]
    """Minus infinity above the diagonal: no position may look at a later one."""
    return xp.triu(xp.full((n, n), -math.inf, dtype=dtype), k=1)


def attend(q, k, v, xp):  # [n_head, n_new, d_head], [n_head, d_head, n_total],
    # [n_head, n_total, d_head] -> [n_head, n_new, d_head]; the new positions are the last
    n_new, d_head = q.shape[1:]
    scores = (q * (1 / math.sqrt(d_head))) @ k  # [n_head, n_new, n_total]
    if n_new > 1:  # a position attends to the past, and to the new ones up to itself
        scores[..., -n_new:] += causal_mask(n_new, xp, q.dtype)
    return softmax(scores, xp) @ v


def attention(x, c_attn, c_proj, n_head, layer, texts, backend):  # [n_new, n_embd] -> the same
    # texts: [(KVCache, slice)], the cache of each text, to be extended, and the text's rows of x
    n_new, n_embd = x.shape
    d_head = n_embd // n_head
    # [n_new, 3 * n_embd] -> [3, n_head, n_new, d_head]
    qkv = linear(x, **c_attn).reshape(n_new, 3, n_head, d_head).transpose(1, 2, 0, 3)
    q, k, v = qkv[0], qkv[1], qkv[2]
    n_scores = 0
    for cache, rows in texts:
        n_total = cache.append(layer, k[:, rows], v[:, rows])
        n_scores += n_head * (rows.stop - rows.start) * n_total
    heads = backend.xp.empty((n_new, n_head, d_head), dtype=x.dtype)

    def attend_heads(a, b):  # heads a to b: all heads of the first text, then those of the next
        for i, (cache, rows) in enumerate(texts):
            first, end = max(0, a - i * n_head), min(n_head, b - i * n_head)
            if first < end:
                out = heads[rows, first:end].swapaxes(0, 1)
                cache.attend(layer, slice(first, end), q[first:end, rows], out)

    # each thread takes some of the heads; one takes all of them if there are few scores
    backend.run_on_threads(attend_heads, len(texts) * n_head, n_scores)
    return linear(heads.reshape(n_new, n_embd), **c_proj)


# ---------------------------------------------------------------- the cache


class KVCache:
    """What a model has computed of one text: the keys and values of every position read so far.

    Allocated once, for the whole text. `length` is the only record of how far the model has read.
    To forget what comes after a position, set it back: that costs nothing.

    k: [n_layer, n_head, d_head, n_positions], so that scores are q @ k. With positions before
        d_head, BLAS would rearrange the keys of the whole text for every pass over a few rows.
    v: [n_layer, n_head, n_positions, d_head]
    hidden: [n_positions, n_embd], the output of the last block: EAGLE and Medusa drafts read it
    """

    def __init__(self, config, backend, dtype, n_positions):
        heads, d_head = (config.n_layer, config.n_head), config.n_embd // config.n_head
        # rows of an odd number of cache lines: with a power of two, a column of all rows would
        # compete for the same few places of the CPU's cache
        n_columns = 16 * (n_positions // 16 + 1 | 1)
        self.k = backend.xp.empty((*heads, d_head, n_columns), dtype=dtype)[..., :n_positions]
        self.v = backend.xp.empty((*heads, n_positions, d_head), dtype=dtype)
        self.hidden = backend.xp.empty((n_positions, config.n_embd), dtype=dtype)
        self.backend, self.length = backend, 0

    def append(self, layer, k, v):  # 2 x [n_head, n_new, d_head] -> n_total
        """Store the keys and values of a layer's new positions behind those read so far. Return how
        many positions there are then. `length` stays until `advance`, after the last layer.
        """
        n_total = self.length + k.shape[1]
        self.k[layer, :, :, self.length : n_total] = k.swapaxes(1, 2)  # stored with d_head first
        self.v[layer, :, self.length : n_total] = v
        return n_total

    def attend(self, layer, heads, q, out):  # 2 x [n_heads, n_new, d_head]
        """Write the attention output of the new positions to `out`, for some heads of a layer (a
        slice). Their keys and values have been appended before.
        """
        n_new, chunk = q.shape[1], self.backend.chunk
        # a chunk of new positions at a time, which does not score the keys after it
        for start in range(0, n_new, chunk):
            end = min(start + chunk, n_new)
            n_seen = self.length + end
            # [n_heads, d_head, n_seen], [n_heads, n_seen, d_head]
            k, v = self.k[layer, heads, :, :n_seen], self.v[layer, heads, :n_seen]
            out[:, start:end] = attend(q[:, start:end], k, v, self.backend.xp)

    def advance(self, hidden):  # [n_new, n_embd]
        """Add the new positions to `length`, and keep these outputs of the last block for them."""
        start, self.length = self.length, self.length + hidden.shape[0]
        self.hidden[start : self.length] = hidden


# ---------------------------------------------------------------- the model


@dataclass(frozen=True, eq=False)
class Model:
    """A GPT-2 ready to run: its shape, its parameters and the backend (utils.Backend).

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

        Reads only what the cache lacks. The last n_last ids are always read: what the cache holds
        from there on, such as rejected drafts, is forgotten first. Whatever it holds before them
        must have been read from these same ids; that is not checked. Raises ValueError if there are
        more than n_ctx ids or fewer than n_last, or if a new id is not that of a token. With
        n_last 0 it only fills the cache.
        """
        new = self.roll_back(ids, cache, n_last)
        x = self.embed(new, cache)
        x = self.blocks(x, [(cache, slice(0, len(new)))])  # one text: all rows of x are its
        cache.advance(x)
        # only the wanted rows: of a prompt of 512 tokens, all logits would take 103 MB
        return self.logits(x[len(new) - n_last :])

    def roll_back(self, ids, cache, n_last):
        """Set cache.length back, so that the last n_last ids are read again. Return the list of the
        ids that the cache lacks. Raises ValueError if there are more than n_ctx ids, or fewer than
        n_last.
        """
        n_ctx = self.config.n_ctx
        if not 0 <= n_last <= len(ids) <= n_ctx:
            job = f"{len(ids)} tokens for {n_last} rows of logits"
            raise ValueError(f"cannot read {job} with a context of {n_ctx}")
        cache.length = min(cache.length, len(ids) - n_last)
        return ids[cache.length :]

    def embed(self, new, cache):  # [n_new] -> [n_new, n_embd]
        """Embed the ids `new` and their positions. Raises ValueError for an id of no token."""
        n_vocab = self.config.n_vocab
        if len(new) and not 0 <= min(new) <= max(new) < n_vocab:  # NumPy takes -1 for the last
            raise ValueError(f"token ids {min(new)} to {max(new)}: expected 0 to {n_vocab - 1}")
        positions = slice(cache.length, cache.length + len(new))
        ids = self.backend.asarray(np.array(new, int))
        return self.params["wte"][ids] + self.params["wpe"][positions]

    def blocks(self, x, texts):  # [n_new, n_embd] -> [n_new, n_embd]
        """All blocks, over the rows of one text or several: texts is [(KVCache, slice of rows)]."""
        n_head, epsilon, backend = self.config.n_head, self.config.epsilon, self.backend
        for layer, block in enumerate(self.params["blocks"]):
            h = layer_norm(x, **block["ln_1"], epsilon=epsilon)
            x = x + attention(
                h, **block["attn"], n_head=n_head, layer=layer, texts=texts, backend=backend
            )
            h = layer_norm(x, **block["ln_2"], epsilon=epsilon)
            x = x + mlp(h, **block["mlp"], xp=backend.xp)
        return x

    def logits(self, x):  # [n_wanted, n_embd] -> [n_wanted, n_vocab]
        """The logits for these outputs of the last block, as a NumPy array."""
        x = layer_norm(x, **self.params["ln_f"], epsilon=self.config.epsilon)
        # the output head is the token embedding, transposed
        return self.backend.to_host(x @ self.params["head"])
