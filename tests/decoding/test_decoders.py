"""Which loop runs, and what drafts for it."""

import pytest
from toys import tiny_model

from experiments.decoding.decoders import NGRAM, decode, with_drafter
from sampling import Filter, NeuralDrafter, NGramDrafter

TARGET, DRAFT = tiny_model(0), tiny_model(1)
GREEDY = {"K": 3, "filter": Filter(), "seed": 0}


def test_a_draft_is_a_model_or_ngram():
    assert isinstance(with_drafter(TARGET, DRAFT, Filter(), None)[1], NeuralDrafter)
    assert isinstance(with_drafter(TARGET, NGRAM, Filter(), None)[1], NGramDrafter)
    with pytest.raises(ValueError, match="needs a draft"):
        with_drafter(TARGET, None, Filter(), None)


def tokens_of(rounds):
    return [token for one in rounds for token in one.tokens]


@pytest.mark.parametrize("draft", [DRAFT, NGRAM], ids=["model", "ngram"])
def test_every_decoder_writes_the_greedy_text(draft):
    plain = tokens_of(decode("autoregressive", TARGET, None, [1, 2], 12, **GREEDY))
    assert tokens_of(decode("speculative", TARGET, draft, [1, 2], 12, **GREEDY)) == plain
    assert len(plain) == 12


def test_wrap_stands_between_the_drafter_and_the_loop():
    proposed = []

    class Listening:
        def __init__(self, drafter):
            self.drafter, self.n_vocab, self.prefill = drafter, drafter.n_vocab, drafter.prefill

        def propose(self, ids, k):
            proposed.append(k)
            return self.drafter.propose(ids, k)

    wrap = lambda drafter, filter: (Listening(drafter), filter)
    rounds = list(decode("speculative", TARGET, DRAFT, [1, 2], 12, wrap=wrap, **GREEDY))
    assert len(proposed) == len(rounds) - 1
