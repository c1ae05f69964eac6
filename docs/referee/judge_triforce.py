"""CLONE=~/TriForce python main.py prove triforce

Judges TriForce of https://github.com/Infini-AI-Lab/TriForce, whole, at temperature 1. The model
with the retrieved cache is the target itself, as if all of its cache were retrieved.
"""

from types import SimpleNamespace

import numpy as np
import torch
from clone import CASES, program

from proof.prove import prove

FILLER = 100  # in places of TriForce's buffers that hold no token yet


class Engine:
    """What TriForce calls: a text in the target's cache, and rows after more tokens. It is its own
    kv_cache, with seq_len and reset; the caches of the draft and of what is retrieved hold nothing.
    """

    def __init__(self, target, draft_model):
        """target, draft_model: those of `prove`. No text is in the cache."""
        self.target, self.draft_model = target, draft_model
        self.ids = []  # the text in the cache
        empty = SimpleNamespace(reset=lambda: None, start_size=0, recent_size=0)
        empty.evict_for_spec = lambda size: None
        model = SimpleNamespace(device="cpu", config=SimpleNamespace(_name_or_path=""))
        self.engine = SimpleNamespace(
            kv_cache=self, graph_cache=empty, draft_cache=empty, model=model
        )

    @property
    def seq_len(self):
        return len(self.ids)

    @seq_len.setter
    def seq_len(self, length):
        del self.ids[length:]

    def reset(self):
        self.ids = []

    def update_graph_cache(self):
        pass

    def graph_draft_prefill(self, input_ids):
        pass

    def rows(self, model, input_ids):
        new = input_ids[0].tolist()
        if not new or FILLER in new:
            return torch.zeros(len(new), model.n_vocab)
        return torch.tensor(np.array(model([*self.ids, *new])[-len(new) :]))

    def inference(self, input_ids):
        rows = self.rows(self.target, input_ids)
        self.ids += input_ids[0].tolist()
        return rows.log()[None]

    def graph_draft_inference(self, input_ids, gamma_offset):
        return self.rows(self.draft_model, input_ids)[-1]

    def graph_verify(self, input_ids, position_ids):
        n, passes = (input_ids[0] != FILLER).sum(), self.target.passes
        middle = self.rows(self.target, input_ids[:, :n])
        self.target.passes = passes
        return torch.cat([middle, torch.zeros(input_ids.shape[1] - n, middle.shape[1])])


def referee() -> list[dict]:
    """The results of `prove` for TriForce, a loop."""
    theirs = program("utils.decoding", ["utils.misc"])

    def loop(target, draft_model, ids, n_tokens, K):
        engine = Engine(target, draft_model)
        tokenizer = SimpleNamespace(eos_token_id=-1)  # no token ends the text
        settings = dict(top_k=-1, top_p=0.0, temperature=1.0)  # without top-k and top-p
        theirs.TriForce(tokenizer, engine, torch.tensor([ids]), K, n_tokens, **settings)
        return engine.ids[len(ids) :]  # it returns no text

    return [prove(loop, CASES, "TriForce")]
