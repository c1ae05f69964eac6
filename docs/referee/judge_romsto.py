"""CLONE=~/Speculative-Decoding python main.py prove romsto

Judges https://github.com/romsto/Speculative-Decoding: speculative_generate with a sampler and with
its default, which is greedy.
"""

import numpy as np
from clone import CASES, CausalLM, program

from proof.prove import prove


def referee() -> list[dict]:
    stubs = ["termcolor"]
    theirs = program("sampling.speculative_decoding", stubs)
    processors = program("utils.logits_processor", stubs)
    sampling = dict(logits_processor=processors.MultinomialProcessor(1))

    def loop(target, draft_model, ids, n_tokens, K, end=None, given=sampling):
        ends = -1 if end is None else end
        text, _ = theirs.speculative_generate(
            ids,
            CausalLM(draft_model),
            CausalLM(target),
            gamma=K,
            max_gen_len=n_tokens,
            eos_tokens_id=ends,
            **given,
        )
        return text

    def default(target, draft_model, ids, n_tokens, K, end=None):
        return loop(target, draft_model, ids, n_tokens, K, end, given={})

    name = "speculative_generate of romsto/Speculative-Decoding"
    return [
        prove(loop, CASES, f"{name}, MultinomialProcessor"),
        prove(default, CASES, f"{name}, GreedyProcessor", lambda p: np.eye(len(p))[p.argmax()]),
    ]
