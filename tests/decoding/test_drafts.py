"""Drafts: each makes drafters, and says of itself what others need to know."""

from types import SimpleNamespace

import pytest
from heads import EAGLE, MEDUSA, toy_head
from toys import TINY, tiny_model

from decoding.drafts import HeadDraft, HeadDrafter, ModelDraft
from decoding.ngrams import NGramDrafter, NGrams
from sampling import NeuralDrafter, Rng, SamplingParams

TARGET = tiny_model(0)
DRAFTS = {
    "model": (ModelDraft(tiny_model(1)), NeuralDrafter),
    "ngram": (NGrams(), NGramDrafter),
    EAGLE: (HeadDraft(toy_head(EAGLE, TARGET)), HeadDrafter),
    MEDUSA: (HeadDraft(toy_head(MEDUSA, TARGET)), HeadDrafter),
}
each = pytest.mark.parametrize("draft, kind", DRAFTS.values(), ids=DRAFTS)


def drafter_of(draft):
    """A drafter that has begun a text of three tokens."""
    drafter, cache = draft.new_drafter(TARGET, SamplingParams(), Rng(0)), TARGET.new_cache()
    TARGET.read([1, 2], cache, n_last=0)
    drafter.prefill([1, 2], cache)
    return drafter


@each
def test_a_draft_makes_a_drafter_for_each_text(draft, kind):
    first, second = drafter_of(draft), drafter_of(draft)
    assert type(first) is type(second) is kind and first is not second
    assert first.n_vocab == TINY.n_vocab
    tokens, q = first.propose([1, 2, 1], 2)
    assert len(tokens) == len(q) <= 2


@each
def test_another_model_may_stand_in(draft, kind):
    """That of a batch, say; all else stays."""
    stand_in = lambda model: SimpleNamespace(
        model=model, config=model.config, new_cache=model.new_cache, read=model.read
    )
    other = draft.map_models(stand_in)
    assert [found.model for found in other.models] == [*draft.models]
    assert type(drafter_of(other)) is kind and type(other) is type(draft)
    assert other.max_draft_length(TARGET) == draft.max_draft_length(TARGET)
