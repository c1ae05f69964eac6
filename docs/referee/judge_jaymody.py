"""CLONE=~/speculative-sampling python main.py prove jaymody

Judges speculative_sampling of https://github.com/jaymody/speculative-sampling.
"""

from functools import partial

import numpy as np
from clone import CASES, program

from proof.prove import prove


def referee() -> list[dict]:
    """The results of `prove` for speculative_sampling, a loop."""
    theirs = program("main", stubs=["gpt2", "utils"])  # picoGPT
    theirs.tqdm = partial(theirs.tqdm, disable=True)  # a bar for each run

    def loop(target, draft_model, ids, n_tokens, K):
        text = theirs.speculative_sampling(np.array(ids), draft_model, target, n_tokens, K)
        return text[len(ids) :]

    return [prove(loop, CASES, "speculative_sampling of jaymody/speculative-sampling")]
