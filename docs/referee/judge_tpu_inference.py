"""CLONE=~/tpu-inference python main.py prove tpu_inference

Judges rejection_sample of https://github.com/vllm-project/tpu-inference in JAX. Its key is drawn
here.
"""

from random import SystemRandom

import jax
import jax.numpy as jnp
import numpy as np
from clone import RULES, program, with_bonus

from proof.prove import prove


def referee() -> list[dict]:
    """The results of `prove` for rejection_sample, a rule, compiled by JAX."""
    theirs = program("tpu_inference.layers.jax.sample.rejection_sampler", ["tpu_inference"])
    rejection_sample = jax.jit(theirs.rejection_sample, static_argnames="do_sampling")
    seeds = SystemRandom()

    def sample(draft, p, q, bonus):
        draft, p, q, bonus = (jnp.array(x.numpy()) for x in (draft, p, q, bonus))
        key = jax.random.PRNGKey(seeds.getrandbits(31))
        n_drafted = jnp.array([len(draft)])
        return rejection_sample(draft, n_drafted, q, p, bonus, do_sampling=True, key=key)

    rule = with_bonus(sample)
    for case in RULES:
        p = np.full((case.K + 1, case.n_vocab), 1 / case.n_vocab)
        rule([0] * case.K, p, p[1:])  # compiles it for this shape: longer than a run may take
    return [prove(rule, RULES, "rejection_sample of vllm-project/tpu-inference")]
