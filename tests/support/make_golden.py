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

from gpt2 import Config  # noqa: E402

GOLDEN = Path(__file__).with_name("golden.npz")
# a large epsilon shows wherever it is left out
CONFIG = Config(n_vocab=259, n_ctx=24, n_embd=24, n_head=3, n_layer=2, epsilon=0.01)


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
        vocab_size=config.n_vocab, n_positions=config.n_ctx, n_embd=config.n_embd,
        n_head=config.n_head, n_layer=config.n_layer, layer_norm_epsilon=config.epsilon,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(shape).eval()
    model.to(getattr(torch, np.dtype(dtype).name))
    weights = {name: torch.from_numpy(read(name).astype(dtype)) for name in config.shapes()}
    model.transformer.load_state_dict(weights)
    assert model.lm_head.weight is model.transformer.wte.weight
    return model


def reference_logits(model, ids):  # [batch, n_seq] -> [batch, n_seq, n_vocab]
    import torch

    with torch.no_grad():
        return model(torch.tensor(ids)).logits.numpy()


def main():
    ids = np.random.default_rng(0).integers(CONFIG.n_vocab, size=(2, CONFIG.n_ctx))
    logits = reference_logits(reference(CONFIG, recipe(CONFIG), np.float64), ids)
    np.savez_compressed(GOLDEN, ids=ids.astype(np.int32), logits=logits.astype(np.float32))


if __name__ == "__main__":
    main()
