"""CLONE=~/Speculative-Decoding python main.py prove romsto

Judges https://github.com/romsto/Speculative-Decoding: speculative_generate with a sampler and with
its default, which is greedy; and the n-gram drafter with a sampler.
"""

from dataclasses import replace

import numpy as np
from clone import CASES, CausalLM, program

from proof.prove import prove


def referee() -> list[dict]:
    """The results of `prove` for its three loops: sampling, greedy, and with n-grams."""
    stubs = ["termcolor"]
    theirs = program("sampling.speculative_decoding", stubs)
    ngram = program("ngram_assisted", stubs)
    no_end = -1
    processors = program("utils.logits_processor", stubs)
    cases = [case for case in CASES if case.n_tokens == 3]  # of two tokens none is drafted
    sampling = dict(logits_processor=processors.MultinomialProcessor(1))

    def loop(target, draft_model, ids, n_tokens, K, end=None, options=sampling):
        text, _ = theirs.speculative_generate(
            ids,
            CausalLM(draft_model),
            CausalLM(target),
            gamma=K,
            max_gen_len=n_tokens,
            eos_tokens_id=no_end if end is None else end,
            **options,
        )
        return text

    def greedy(target, draft_model, ids, n_tokens, K, end=None):
        return loop(target, draft_model, ids, n_tokens, K, end, options={})  # theirs by default

    def ngrams(target, draft_model, ids, n_tokens, K):
        text, _ = ngram.ngram_assisted_speculative_generate(
            ids,
            ngram.OneLevelNGramStorage(2, target.n_vocab),
            CausalLM(target),
            gamma=K,
            max_gen_len=n_tokens,
            eos_tokens_id=no_end,
            **sampling,
        )
        return text

    # after this prompt the n-gram drafter has seen a successor of each token, so it always drafts
    every_successor_known = [replace(case, prompt=(0, 1, 2, 0)) for case in cases]
    name = "speculative_generate of romsto/Speculative-Decoding"
    return [
        prove(loop, cases, f"{name}, MultinomialProcessor"),
        prove(greedy, cases, f"{name}, GreedyProcessor", lambda p: np.eye(len(p))[p.argmax()]),
        prove(ngrams, every_successor_known, f"ngram_assisted_{name}, MultinomialProcessor"),
    ]
