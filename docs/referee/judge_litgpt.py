"""CLONE=~/litgpt python main.py prove litgpt

Judges speculative_decoding of https://github.com/Lightning-AI/litgpt at temperature 1 and at
temperature 0. It takes the models, so it is the loop here that calls it.
"""

import numpy as np
import torch
from clone import SPARSE, program

from proof.cases import filtered
from proof.prove import prove


def referee() -> list[dict]:
    """The results of `prove` for speculative_decoding, a loop, at temperatures 1 and 0."""
    module = "litgpt.generate.speculative_decoding"
    theirs = program(module, ["lightning", "litgpt"], ["litgpt.generate.base"])

    def judge(temperature):
        def loop(target, draft_model, ids, n_tokens, K):
            text = list(ids)  # until now, in place of a cache of keys and values

            def rows_of(model):
                def log_probabilities(idx, input_pos, input_pos_maxp1):
                    read = text[: int(input_pos[0])] + idx[0].tolist()
                    rows = model(read)[-idx.shape[1] :]
                    return torch.tensor(np.array(rows)).log()[None]

                return log_probabilities

            written: list[int] = []
            while len(written) < n_tokens:
                text[:] = [*ids, *written]  # rows_of reads it
                position = torch.tensor([len(text) - 1])
                written += theirs.speculative_decoding(
                    rows_of(draft_model),
                    rows_of(target),
                    torch.tensor(text[-1:]),
                    position,
                    len(text),
                    K,
                    temperature=temperature,
                ).tolist()
            return written

        name = f"speculative_decoding of litgpt, temperature {temperature:g}"
        return prove(loop, SPARSE, name, filtered(temperature))

    return [judge(1.0), judge(0.0)]
