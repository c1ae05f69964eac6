"""Make golden.npz: what transformers' GPT2LMHeadModel computes, for test_gpt2.py to compare with
where there is none.

    pip install torch transformers
    python tests/support/make_golden.py

The weights are drawn, not stored: `recipe` is how, for both sides. transformers runs in float64, so
that all of the test's tolerance is left to the rounding of the float32 code under test.
"""

import math
import re
import sys
import zlib
from pathlib import Path

import numpy as np

# the script is run by hand, from anywhere
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from checkpoints.registry import SIZES
from gpt2 import Config  # noqa: E402

GOLDEN = Path(__file__).with_name("golden.npz")
# d_head 8, 64; a large epsilon shows wherever it is left out
CONFIGS = {
    "tiny": Config(n_vocab=259, n_ctx=24, n_embd=24, n_head=3, n_layer=2, epsilon=0.01),
    "124M": SIZES["124M"],
}


def recipe(config, dtype=np.float32, seed=0):
    """`read(name)` for utils.build_model: random weights, each tensor drawn by itself, in float32.

    Uniform, wide enough for logits with a standard deviation of 2 (wider, and float32 rounding
    grows faster than what a mistake does to them); layer norm weights lie around 1.
    """
    shapes = config.shapes()

    def read(name):
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        noise = rng.random(shapes[name], dtype=np.float32)
        noise -= 0.5
        noise *= 7 / math.sqrt(config.n_embd)
        if re.search(r"ln_\w+\.weight", name):
            noise += 1
        return noise.astype(dtype, copy=False)

    return read


def reference(config, read, dtype):
    """transformers' model with the weights of `read`."""
    import torch
    import transformers

    shape = transformers.GPT2Config(
        vocab_size=config.n_vocab,
        n_positions=config.n_ctx,
        n_embd=config.n_embd,
        n_head=config.n_head,
        n_layer=config.n_layer,
        layer_norm_epsilon=config.epsilon,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = transformers.GPT2LMHeadModel(shape).eval()
    model.to(getattr(torch, np.dtype(dtype).name))
    weights = {
        f"transformer.{name}": torch.from_numpy(read(name).astype(dtype))
        for name in config.shapes()
    }
    unknown = model.load_state_dict(weights, strict=False)
    assert not unknown.unexpected_keys and unknown.missing_keys == ["lm_head.weight"], unknown
    assert model.lm_head.weight is model.transformer.wte.weight
    return model


def reference_logits(model, ids):  # [batch, n_seq] -> [batch, n_seq, n_vocab]
    import torch

    with torch.no_grad():
        return model(torch.tensor(ids)).logits.numpy()


def logsumexp(x):  # [..., n] -> [...]
    top = x.max(axis=-1)
    return top + np.log(np.exp(x - top[..., None]).sum(axis=-1))


def main():
    rng, golden = np.random.default_rng(0), {}
    for name, config in CONFIGS.items():
        ids = rng.integers(config.n_vocab, size=(2, config.n_ctx) if name == "tiny" else (1, 32))
        logits = reference_logits(reference(config, recipe(config), np.float64), ids)
        n_columns = min(config.n_vocab, 400)  # of 50257: all of 32 rows would be 6 MB
        columns = np.sort(rng.choice(config.n_vocab, n_columns, replace=False))
        best = np.sort(logits, axis=-1)
        lead = (best[..., -1] - best[..., -2]).min()
        assert lead > 5e-4, "a near-tie: rounding would decide the argmax; draw other ids"
        print(f"{name}: deviation of the logits {logits.std():.2f}, smallest lead {lead:.4f}")
        found = {
            "first_draws": recipe(config)("wte.weight")[0, :4],
            "ids": ids.astype(np.int32),
            "columns": columns.astype(np.int32),
            "logits": logits[..., columns].astype(np.float32),
            "argmax": logits.argmax(axis=-1).astype(np.int32),
            "logsumexp": logsumexp(logits),
        }
        golden |= {f"{name}_{key}": value for key, value in found.items()}
    np.savez_compressed(GOLDEN, **golden)
    print(f"{GOLDEN.name}: {GOLDEN.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
