"""CLONE=~/EAGLE python main.py prove eagle

Judges evaluate_posterior of https://github.com/SafeAILab/EAGLE on trees: the two likeliest tokens
of the draft model after each node.
"""

from itertools import product

import numpy as np
import torch
from clone import CASES, program

from proof.prove import prove


def referee() -> list[dict]:
    theirs = program("eagle.model.utils")
    processor = theirs.prepare_logits_processor(temperature=1.0)

    def loop(target, draft_model, ids, n_tokens, K):
        text = list(ids)
        while len(text) < len(ids) + n_tokens:
            paths = []
            for turns in product((-1, -2), repeat=K):  # -1: the likeliest token, -2: the second
                path = list(text)
                for turn in turns:
                    path.append(int(draft_model(path)[-1].argsort()[turn]))
                paths.append(path)
            n_passes = target.passes  # a tree takes one pass, not one for each path
            rows = np.array([target(path)[-K - 1 :] for path in paths])
            target.passes = n_passes + 1
            candidates = torch.tensor([path[-K - 1 :] for path in paths])
            best, n_accepted, p = theirs.evaluate_posterior(
                torch.tensor(rows).log(), candidates, processor
            )
            text += candidates[best, 1 : n_accepted + 1].tolist()
            text.append(int(torch.multinomial(p, 1)))
        return text[len(ids) :]

    return [prove(loop, CASES, "evaluate_posterior of SafeAILab/EAGLE")]
