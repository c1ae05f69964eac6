"""CLONE=~/tpu-inference python main.py prove tpu_inference

Judges rejection_sample of https://github.com/vllm-project/tpu-inference (b8692ff) in JAX. Its key
and the bonus token are drawn here.
"""

from random import SystemRandom

import jax
import jax.numpy as jnp
import numpy as np
from clone import RULES, program

from proof.prove import prove

STUBS = [
    "tpu_inference",
    "tpu_inference.layers",
    "tpu_inference.layers.common",
    "tpu_inference.layers.common.binary_search",
    "tpu_inference.layers.common.sharding",
    "tpu_inference.layers.jax",
    "tpu_inference.layers.jax.sample",
    "tpu_inference.layers.jax.sample.sampling_metadata",
]


def referee() -> list[dict]:
    theirs = program("tpu_inference.layers.jax.sample.rejection_sampler", STUBS)
    sample = jax.jit(theirs.rejection_sample, static_argnames="do_sampling")
    seeds = SystemRandom()

    def rule(draft, p, q):
        K = len(draft)
        key = jax.random.PRNGKey(seeds.getrandbits(31))
        bonus = seeds.choices(range(p.shape[1]), p[K])
        tokens = sample(
            jnp.array(draft),
            jnp.array([K]),
            jnp.array(q),
            jnp.array(p[:K]),
            jnp.array(bonus),
            do_sampling=True,
            key=key,
        )
        return [token for token in tokens.tolist() if token >= 0]

    for case in RULES:  # compile it: that takes longer than a run may
        p = np.full((case.K + 1, case.n_vocab), 1 / case.n_vocab)
        rule([0] * case.K, p, p[1:])
    return [prove(rule, RULES, "rejection_sample of tpu-inference")]
