"""Bits per byte of held-out text."""

import numpy as np
import pytest

from experiments.drafting.load import Pairs
from experiments.measuring import held_out
from gpt2 import Config


class Uniform:
    """Every token is as likely as any other: log2(n_vocab) bits each."""

    config = Config(n_vocab=259, n_ctx=12, n_embd=1, n_head=1, n_layer=1)

    def new_cache(self):
        return None

    def read(self, ids, cache, n_last=1):
        assert n_last <= len(ids) <= 12
        return np.zeros((n_last, 259))


class Bytes:
    end_of_text = 258

    def encode(self, text):
        return list(text.encode())


@pytest.mark.parametrize("length", [1, 5, 6, 7, 11, 12, 13, 40])
def test_every_token_is_scored_once(length):
    bits = [*held_out.bits_in(Pairs(Uniform(), {}, Bytes()), ["x" * length, "y"])]
    assert bits == pytest.approx([length * np.log2(259), np.log2(259)])
