"""Speculative decoding in one file: python docs/one_file.py "Once upon a time" 0.8

A language model writes one token per pass, and each pass reads all its weights from memory, which
takes far longer than the arithmetic. So a pass over five tokens, which gives the distribution after
each of them, can cost little more than one. Most tokens are easy to guess: a small draft model
guesses K, the large target reads them in one pass, and a rule accepts the first few and adds one
more. The text has exactly the target's distribution. There is no cache here: count passes.
"""

import argparse
import json
import os
from pathlib import Path

if __name__ == "__main__":  # before NumPy: for products this small, more threads are far slower
    os.environ |= dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"], "1")

import numpy as np
import regex

MODELS = Path(__file__).resolve().parent.parent / "models"
# A word includes the space before it, and no token spans two words.
WORD = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


def autoregressive(target, ids, n_tokens, sample):  # -> ids and new tokens, passes of the target
    # target(ids) has a row for each of the ids: the distribution of the token that follows it.
    for _ in range(n_tokens):
        ids = ids + [sample(target(ids)[-1])]
    return ids, n_tokens


def speculative(target, draft_model, ids, n_tokens, K, sample, accept):  # -> like autoregressive
    length, n_passes = len(ids) + n_tokens, 0
    while len(ids) < length:
        # 1. The draft model guesses, one small pass per token; q is what each was sampled from.
        draft, q = [], []
        for _ in range(min(K, length - len(ids) - 1)):  # leave a place for the target's own token
            q.append(draft_model(ids + draft)[-1])
            draft.append(sample(q[-1]))
        # 2. The target reads all of them in one pass; its last row is for what follows the draft.
        p = target(ids + draft)[-len(draft) - 1 :]
        n_passes += 1
        # 3. The rule keeps the first few, and the text grows by these and one more token.
        n_accepted, token = verify(draft, p, q, sample, accept)
        ids = ids + draft[:n_accepted] + [token]
    return ids, n_passes


def verify(draft, p, q, sample, accept):  # [k], k + 1 rows, k rows -> number accepted, next token
    """Keep the draft up to the first rejection, then sample one token of the target's own. draft[i]
    was sampled from q[i], and p[i] is the target's distribution at the same place. So x is drafted
    and accepted with probability q(x) min(1, p(x) / q(x)) = min(p(x), q(x)); the residual, max(0,
    p - q) scaled to sum to 1, replaces what is rejected, and gives x the rest of p(x).
    """
    for i, x in enumerate(draft):
        if not accept(p[i][x] / q[i][x]):  # rejected
            residual = np.maximum(p[i] - q[i], 0)
            # If p = q up to rounding, a rejection is rounding, too, and the residual may be 0.
            return i, sample(residual / residual.sum() if residual.any() else p[i])
    # All are accepted, and the target's last row gives one more token for free.
    return len(draft), sample(p[len(draft)])


def softmax(x):  # [n, m] -> the same shape, each row sums to 1; x may have more axes
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def layer_norm(x, w, name):  # [n, n_embd] -> [n, n_embd]
    x = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    return x * w[name + ".weight"] + w[name + ".bias"]


def linear(x, w, name):  # [n, n_in] -> [n, n_out]; w holds NAME.weight and NAME.bias
    return x @ w[name + ".weight"] + w[name + ".bias"]


def attention(x, w, name, n_head):  # [n, n_embd] -> [n, n_embd]
    qkv = linear(x, w, name + ".c_attn").reshape(len(x), 3, n_head, -1)
    query, key, value = qkv.transpose(1, 2, 0, 3)  # each [n_head, n, d_head]
    scores = query @ key.swapaxes(1, 2) / query.shape[-1] ** 0.5
    scores[:, ~np.tri(len(x), dtype=bool)] = -np.inf  # no token looks at a later one
    heads = softmax(scores) @ value
    return linear(heads.swapaxes(0, 1).reshape(x.shape), w, name + ".c_proj")


def gpt2(ids, w, config):  # [n] -> [n, n_vocab]: row i scores the token that follows ids[i]
    x = w["wte.weight"][ids] + w["wpe.weight"][: len(ids)]
    for i in range(config["n_layer"]):
        x = x + attention(layer_norm(x, w, f"h.{i}.ln_1"), w, f"h.{i}.attn", config["n_head"])
        h = linear(layer_norm(x, w, f"h.{i}.ln_2"), w, f"h.{i}.mlp.c_fc")
        gelu = 0.5 * h * (1 + np.tanh((2 / np.pi) ** 0.5 * (h + 0.044715 * h * h * h)))
        x = x + linear(gelu, w, f"h.{i}.mlp.c_proj")
    return layer_norm(x, w, "ln_f") @ w["wte.weight"].T


def load_model(folder, temperature):  # -> a function from n tokens to n distributions
    config = json.loads((folder / "config.json").read_text())
    # A .safetensors file: the length of a header, the header in JSON, the arrays, here in float16.
    data = (folder / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header, weights = json.loads(data[8:start]), {}
    for name in header.keys() - {"__metadata__"}:  # the arrays
        begin, end = header[name]["data_offsets"]
        values = np.frombuffer(data[start + begin : start + end], np.float16).astype(np.float32)
        weights[name] = values.reshape(header[name]["shape"])
    temperature = max(temperature, 1e-6)  # towards 0 only the likeliest token is left: greedy
    return lambda ids: softmax(gpt2(ids, weights, config).astype(float) / temperature)


def load_tokenizer(folder):  # -> encode, from a text to token ids, and decode, back
    vocab = json.loads((folder / "vocab.json").read_text("utf-8"))
    merges = [line.split() for line in (folder / "merges.txt").read_text("utf-8").splitlines()[1:]]
    # The files spell a byte as one character: itself if it is printable, or one from 256 on.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    unprintable = [byte for byte in range(256) if byte not in printable]
    spelling = dict(zip(printable + unprintable, map(chr, [*printable, *range(256, 324)])))
    byte_of = {character: byte for byte, character in spelling.items()}
    bytes_of = {i: bytes(byte_of[c] for c in token) for token, i in vocab.items()}

    def encode(text):  # -> token ids
        ids = []
        for word in WORD.findall(text):
            # Byte-pair encoding. Each part has a space on both sides; each learned merge joins two.
            parts = "".join(f" {spelling[byte]} " for byte in word.encode(errors="replace"))
            for left, right in merges:
                parts = parts.replace(f" {left}  {right} ", f" {left}{right} ")
            ids += [vocab[part] for part in parts.split()]
        return ids

    return encode, lambda ids: b"".join(bytes_of[i] for i in ids).decode(errors="replace")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Continue a prompt with both decoders.")
    parser.add_argument("prompt", nargs="?", default="Once upon a time there lived a king")
    parser.add_argument("temperature", nargs="?", type=float, default=0.0)
    arguments = parser.parse_args()
    encode, decode = load_tokenizer(MODELS / "17M")
    target = load_model(MODELS / "17M", arguments.temperature)
    draft_model = load_model(MODELS / "0.7M-17M", arguments.temperature)
    ids, n, rng = encode(arguments.prompt), 60, np.random.default_rng(0)
    if not (0 < len(ids) <= 512 - n and arguments.temperature >= 0):  # they read 512 tokens at most
        parser.error(f"expected a prompt of 1 to {512 - n} tokens, and a temperature of 0 or more")
    sample, accept = lambda p: int(rng.choice(len(p), p=p)), lambda ratio: rng.random() < ratio
    texts = {"Autoregressive": autoregressive(target, ids, n, sample)}
    texts["Speculative"] = speculative(target, draft_model, ids, n, 4, sample, accept)
    for name, (text, passes) in texts.items():
        print(f"{name}: {passes} target passes, {n / passes:.2f} tokens per pass\n{decode(text)}\n")
