"""GPT-2's forward pass (Radford et al. 2019), with a key/value cache that can be rolled back.

The arrays may be NumPy's, CuPy's, or a test's. Parameters are a nested dict that is unpacked into
arguments, so each signature is the schema of its part of the checkpoint. A weight `w` supports
`x @ w`; the backend decides how it lies in memory and how it is multiplied.

Several texts can be read in one pass. Their new positions are stacked, n_rows in all. Attention is
the only part that has to know which rows belong to which text.

Axes: n_rows, n_new (rows of one text), n_past (its positions already in the cache), n_total =
n_past + n_new, n_head, d_head, n_embd = n_head * d_head, n_vocab. A comment behind each signature
gives the shapes that go in and come out.
"""

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

CHUNK = 128  # a prompt attends in chunks of this many positions: none scores the keys after it


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
        """{name: shape} of the parameters in a checkpoint, by OpenAI's and Hugging Face's names."""
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


def nested(parameters):
    """{"h.0.ln_1.weight": w} becomes {"h": {"0": {"ln_1": {"weight": w}}}}, to be unpacked into the
    arguments of the functions below.
    """
    tree = {}
    for name, value in parameters.items():
        *path, leaf = name.split(".")
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
        branch[leaf] = value
    return tree


class KVCache:
    """What a model has computed of one text: the keys and values of every position read so far.

    Allocated once, for the whole text. `length` is the only record of how far the model has read.
    To forget what comes after a position, set it back: that costs nothing.

    k, v: [n_layer, n_head, n_positions, d_head]
    hidden: [n_positions, n_embd], the output of the last block: EAGLE and Medusa drafts read it
    """

    def __init__(self, config, xp, dtype, n_positions):
        shape = (config.n_layer, config.n_head, n_positions, config.n_embd // config.n_head)
        self.k = xp.empty(shape, dtype=dtype)
        self.v = xp.empty(shape, dtype=dtype)
        self.hidden = xp.empty((n_positions, config.n_embd), dtype=dtype)
        self.length = 0

    def write(self, layer, start, k, v):  # [n_head, n_new, d_head] -> 2 x [n_head, n_total, d_head]
        """Store the keys and values of positions start, start + 1, ...; return all up to there."""
        end = start + k.shape[1]
        self.k[layer][:, start:end] = k
        self.v[layer][:, start:end] = v
        return self.k[layer][:, :end], self.v[layer][:, :end]

    def advance(self, start, hidden):  # [n_new, n_embd]
        """Mark the positions from start on as read, with these outputs of the last block."""
        self.length = start + hidden.shape[0]
        self.hidden[start : self.length] = hidden


@dataclass(frozen=True, eq=False)
class Span:
    """The new positions of one text: n_new of them from `start` on, and the cache of the text."""

    cache: KVCache
    start: int
    n_new: int

    def split(self, most):
        """The same positions as several spans, each of at most `most` positions."""
        firsts = range(0, self.n_new, most)
        return [Span(self.cache, self.start + i, min(most, self.n_new - i)) for i in firsts]


def rows_of(spans):
    """Each span with its slice of the stacked rows: they lie one after the other."""
    end = 0
    for span in spans:
        begin, end = end, end + span.n_new
        yield span, slice(begin, end)


def gelu(x, xp):  # [..., n] -> [..., n]
    # the tanh approximation, as in training; (x * x) * x, because x**3 is much slower
    c = math.sqrt(2 / math.pi)  # a Python float: a NumPy one would make float32 arrays float64
    return x * (0.5 + 0.5 * xp.tanh(x * (c + (c * 0.044715) * (x * x))))


def softmax(x, xp):  # [..., n] -> [..., n]
    # subtract the largest, so that exp cannot overflow
    x = xp.exp(x - x.max(axis=-1, keepdims=True))
    x /= x.sum(axis=-1, keepdims=True)
    return x


def layer_norm(x, weight, bias, epsilon):  # [..., n_embd] -> [..., n_embd]
    n = x.shape[-1]  # sums divided by n: x.mean() and x.var() are slower on a few rows
    x = x - x.sum(axis=-1, keepdims=True) / n
    variance = (x * x).sum(axis=-1, keepdims=True) / n
    x /= (variance + epsilon) ** 0.5
    x *= weight
    x += bias
    return x


def linear(x, weight, bias):  # [n_rows, n_in], [n_in, n_out], [n_out] -> [n_rows, n_out]
    y = x @ weight
    y += bias
    return y


def mlp(x, c_fc, c_proj, xp):  # [n_rows, n_embd] -> [n_rows, n_embd]
    return linear(gelu(linear(x, **c_fc), xp), **c_proj)


def attend(q, k, v, mask, xp):
    # [n_head, n_new, d_head], 2 x [n_head, n_total, d_head] -> [n_head, n_new, d_head]
    n_new, d_head = q.shape[1:]
    scores = (q * (1 / math.sqrt(d_head))) @ k.swapaxes(-1, -2)  # [n_head, n_new, n_total]
    if n_new > 1:  # a position attends to the past, and to the new ones up to itself
        scores[..., -n_new:] += mask[:n_new, :n_new]
    return softmax(scores, xp) @ v


def attention(x, c_attn, c_proj, n_head, layer, spans, mask, backend):
    # [n_rows, n_embd] -> [n_rows, n_embd]
    n_rows, n_embd = x.shape
    d_head, xp = n_embd // n_head, backend.xp
    # [n_rows, 3 * n_embd] -> [3, n_head, n_rows, d_head]
    qkv = linear(x, **c_attn).reshape(n_rows, 3, n_head, d_head).transpose(1, 2, 0, 3)
    heads = xp.empty((n_rows, n_head, d_head), dtype=x.dtype)
    for span, rows in rows_of(spans):
        q, k, v = qkv[0, :, rows], qkv[1, :, rows], qkv[2, :, rows]
        k, v = span.cache.write(layer, span.start, k, v)  # [n_head, n_total, d_head]

        def attend_heads(a, b):  # heads a to b; all are done when backend.share returns
            heads[rows, a:b] = attend(q[a:b], k[a:b], v[a:b], mask, xp).swapaxes(0, 1)

        backend.share(attend_heads, n_head, span.n_new)
    return linear(heads.reshape(n_rows, n_embd), **c_proj)


def run_blocks(x, spans, blocks, config, backend):  # [n_rows, n_embd] -> [n_rows, n_embd]
    """Apply all blocks; the keys and values of the new positions go to their caches."""
    # minus infinity above the diagonal: no position may look at a later one
    longest = max(span.n_new for span in spans)
    mask = None
    if longest > 1:
        above = backend.xp.full((longest, longest), -math.inf, dtype=x.dtype)
        mask = backend.xp.triu(above, k=1)
    for layer, block in enumerate(blocks):
        h = layer_norm(x, **block["ln_1"], epsilon=config.epsilon)
        x = x + attention(
            h,
            **block["attn"],
            n_head=config.n_head,
            layer=layer,
            spans=spans,
            mask=mask,
            backend=backend,
        )
        h = layer_norm(x, **block["ln_2"], epsilon=config.epsilon)
        x = x + mlp(h, **block["mlp"], xp=backend.xp)
    return x


def read_out(x, spans, wanted, params, config, xp):  # [n_rows, n_embd] -> [n_wanted, n_vocab]
    """Mark the new positions as read, and compute the logits of the wanted slices of rows."""
    for span, rows in rows_of(spans):
        span.cache.advance(span.start, x[rows])
    x = xp.concatenate([x[rows] for rows in wanted])
    x = layer_norm(x, **params["ln_f"], epsilon=config.epsilon)
    return x @ params["head"]  # the token embedding, transposed


def forward(ids, positions, spans, wanted, params, config, backend):
    # [n_rows], [n_rows] -> [n_wanted, n_vocab]
    """One pass over new positions, one row each. `spans` say which text the rows belong to, in
    order. Writes keys and values to the caches; returns the logits of the rows in `wanted`, slices.

    The logits of a position score the token that follows it. Only the wanted rows are computed: of
    a prompt of 512 tokens, all rows would take 103 MB.
    """
    x = params["wte"][ids] + params["wpe"][positions]
    x = run_blocks(x, spans, params["blocks"], config, backend)
    return read_out(x, spans, wanted, params, config, backend.xp)


@dataclass(frozen=True, eq=False)
class Model:
    """A GPT-2 ready to run: its shape, its parameters and the backend (utils.Backend)."""

    config: Config
    params: dict
    backend: Any

    def new_cache(self, n_positions=None):
        """An empty cache for one text of up to n_positions, or up to n_ctx."""
        dtype, n_positions = self.params["wpe"].dtype, n_positions or self.config.n_ctx
        return KVCache(self.config, self.backend.xp, dtype, n_positions)

    def read(self, ids, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        """The logits after each of the last n_last ids of a text, as a NumPy array.

        Reads only what the cache lacks. The last n_last ids are always read: what the cache holds
        from there on, such as rejected drafts, is forgotten first. Whatever it holds before them
        must have been read from these same ids; that is not checked. Raises ValueError if there are
        more than n_ctx ids or fewer than n_last, or if a new id is not that of a token.
        """
        return self.read_batch([ids], [cache], [n_last])[0]

    def read_batch(self, texts, caches, n_lasts):  # -> for each text [n_last, n_vocab]
        """`read` for several texts in one pass, each with its own cache and n_last."""
        n_ctx, n_vocab = self.config.n_ctx, self.config.n_vocab
        for ids, n_last in zip(texts, n_lasts):
            if not 0 <= n_last <= len(ids) <= n_ctx:
                job = f"{len(ids)} tokens for {n_last} rows of logits"
                raise ValueError(f"cannot read {job} with a context of {n_ctx}")
        new, positions, spans, wanted = [], [], [], []
        for ids, cache, n_last in zip(texts, caches, n_lasts):
            # the rollback: from `start` on, what the cache holds is forgotten, and overwritten
            cache.length = start = min(cache.length, len(ids) - n_last)
            more = ids[start:]
            new.extend(more)
            positions += range(start, start + len(more))
            wanted.append(slice(len(new) - n_last, len(new)))
            spans.append(Span(cache, start, len(more)))
        most = 1 if self.backend.exact else CHUNK  # positions that attend together
        spans = [part for span in spans for part in span.split(most)]
        if not spans:  # no text has a new position
            return [np.empty((0, n_vocab), self.params["wpe"].dtype) for _ in texts]
        if not 0 <= min(new) <= max(new) < n_vocab:  # NumPy would take -1 for the last token
            raise ValueError(f"token ids {min(new)} to {max(new)}: expected 0 to {n_vocab - 1}")
        ids, positions = self.backend.asarray(new), self.backend.asarray(positions)
        logits = self.backend.to_host(self.forward(ids, positions, spans, wanted))
        ends = accumulate(n_lasts)
        return [logits[end - n : end] for n, end in zip(n_lasts, ends)]

    def forward(self, ids, positions, spans, wanted):  # a method, so that EAGLE can replace it
        return forward(ids, positions, spans, wanted, self.params, self.config, self.backend)
