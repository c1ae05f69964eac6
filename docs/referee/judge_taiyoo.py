"""CLONE=~/speculative-decoding/src python main.py prove taiyoo

Judges speculative_decode_sample of https://github.com/taiyoo/speculative-decoding at temperature 1
and, with its own top-p, at that of its config.py. Its float() gives a random number back as it is.
"""

import torch
from clone import CASES, CausalLM, program

from proof.prove import prove


class OnCpu(CausalLM):
    """A CausalLM that has a parameter, on the CPU."""

    def parameters(self):
        yield torch.zeros(1)


class Ids:
    """A tokenizer whose prompts and texts are lists of tokens. end: the token that ends a text, or
    None
    """

    def __init__(self, end):
        self.eos_token_id = end

    def __call__(self, ids, **_):
        return {"input_ids": torch.tensor([ids])}

    def decode(self, ids, **_):
        return ids.tolist()


def referee() -> list[dict]:
    """The results of `prove` for speculative_decode_sample, a loop, at two temperatures."""
    theirs = program("speculative", stubs=["transformers"])
    theirs.float = lambda number: number  # a random number of `prove` cannot become a float

    def judge(temperature, top_p):
        def loop(target, draft_model, ids, n_tokens, K, end=None):
            models = OnCpu(target), OnCpu(draft_model)
            settings = n_tokens, K, temperature, top_p
            result = theirs.speculative_decode_sample(*models, Ids(end), ids, *settings)
            text = result["output_text"]
            ended = len(text) < n_tokens
            return [*text, end] if ended else text  # theirs leaves the end out

        def to_probs(p):
            settings = dict(do_sample=True, temperature=temperature, top_p=top_p)
            (row,) = theirs.probs_from_logits(torch.tensor(p).log()[None], settings)
            return row.double().numpy()

        name = f"speculative_decode_sample of taiyoo, temperature {temperature}, top_p {top_p}"
        return prove(loop, CASES, name, to_probs)

    return [judge(1.0, 1.0), judge(0.7, 0.9)]
