"""Drafts: each makes drafters, and says of itself what others need to know."""

import pytest
from heads import EAGLE, MEDUSA, toy_head
from toys import TINY, tiny_model

from decoding.drafts import HeadDraft, HeadDrafter, ModelDraft, SeenTarget
from decoding.ngrams import NGramDrafter, NGrams
from sampling import Chance, Filter, NeuralDrafter

TARGET = tiny_model(0)
DRAFTS = {
    "model": (ModelDraft(tiny_model(1)), NeuralDrafter),
    "ngram": (NGrams(), NGramDrafter),
    EAGLE: (HeadDraft(toy_head(EAGLE, TARGET)), HeadDrafter),
    MEDUSA: (HeadDraft(toy_head(MEDUSA, TARGET)), HeadDrafter),
}
each = pytest.mark.parametrize("draft, kind", DRAFTS.values(), ids=DRAFTS)


def drafter_of(draft):
    target = SeenTarget(TARGET)
    target.read([1, 2], target.new_cache(), n_last=0)
    return draft.drafter(target, Filter(), Chance(0))


@each
def test_a_draft_makes_a_drafter_for_each_text(draft, kind):
    first, second = drafter_of(draft), drafter_of(draft)
    assert type(first) is type(second) is kind and first is not second
    assert first.n_vocab == TINY.n_vocab
    tokens, q = first.propose([1, 2, 1], 2)
    assert len(tokens) == len(q) <= 2


@each
def test_drafters_may_be_wrapped_and_another_model_stand_in(draft, kind):
    """A clock or an observer around the one, a batch in place of the other; all else stays."""
    wrapped = draft.wrapped(lambda drafter: ("wrapped", drafter))
    for name in ("models", "n_ctx", "most", "alone", "looks_up"):
        assert getattr(wrapped, name) == getattr(draft, name)
    assert wrapped.longest(TARGET) == draft.longest(TARGET)
    outer, (inner, drafter) = drafter_of(wrapped.wrapped(lambda drafter: ("twice", drafter)))
    assert (outer, inner, type(drafter)) == ("twice", "wrapped", kind)
    for other in (draft.over(SeenTarget), wrapped.over(SeenTarget)):
        assert [stand_in.model for stand_in in other.models] == [*draft.models]
    assert type(drafter_of(draft.over(SeenTarget))) is kind
    assert drafter_of(wrapped.over(SeenTarget))[0] == "wrapped"
