"""CLONE=~/dflash python main.py prove dflash

Judges dflash_generate of https://github.com/z-lab/dflash (with transformers). A table has no hidden
states: those that the draft model is given are the tokens.
"""

from types import SimpleNamespace

import numpy as np
import torch
from clone import CASES, program

from proof.prove import prove


class Read:
    """A cache: the tokens that were read."""

    def __init__(self):
        self.ids = []

    def get_seq_length(self):
        return len(self.ids)

    def crop(self, n):
        del self.ids[n:]


class Target:
    """A model of `prove` as the target: it embeds a token as itself, and the hidden states of a
    text are its tokens.
    """

    def __init__(self, model):
        self.table, self.device = model, torch.device("cpu")
        self.lm_head, self.model = (lambda rows: rows), SimpleNamespace(embed_tokens=lambda x: x)

    def __call__(self, ids, past_key_values, logits_to_keep=0, **_):
        past_key_values.ids += ids[0].tolist()
        rows = torch.tensor(self.table(past_key_values.ids)).log()[None, -ids.shape[1] :]
        return SimpleNamespace(logits=rows[:, -logits_to_keep:], hidden_states=[0, ids[..., None]])


class Draft:
    """A model of `prove` as the draft model, whose cache is the tokens that the target has read."""

    target_layer_ids = [0]

    def __init__(self, model):
        self.table = model

    def __call__(self, target_hidden, noise_embedding, past_key_values, **_):
        """A row for each mask, [1, K, n_vocab].

        target_hidden: the tokens that the target has read since the last call
        noise_embedding: [1, K + 1], the token after them, and K masks
        """
        past_key_values.ids += target_hidden.flatten().tolist()
        text, rows = [*past_key_values.ids, int(noise_embedding[0, 0])], []
        for _ in noise_embedding[0, 1:]:
            rows.append(self.table(text)[-1])
            text.append(int(rows[-1].argmax()))  # as it will be drafted
        return torch.tensor(np.array(rows))[None]


def referee() -> list[dict]:
    """The results of `prove` for dflash_generate, a loop, with models that stand for theirs."""
    theirs = program("dflash.model", stubs=["dflash"])
    theirs.DynamicCache = Read  # of both models

    def loop(target, draft_model, ids, n_tokens, K):
        text = theirs.dflash_generate(
            Draft(draft_model),
            Target(target),
            torch.tensor([ids]),
            n_tokens,
            stop_token_ids=None,
            temperature=1.0,
            block_size=K + 1,  # the last token, and K that are drafted
            mask_token_id=0,  # which one does not matter: Draft only counts them
        )
        return text[0, len(ids) :].tolist()

    return [prove(loop, CASES, "dflash_generate of z-lab/dflash")]
