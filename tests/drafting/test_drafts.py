"""Drafts: each makes drafters, and says of itself what others need to know."""

import math

import pytest
from heads import EAGLE, MEDUSA, toy_head
from toys import TINY, tiny_model

from experiments.drafting.drafts import (
    Draft,
    HeadDraft,
    HeadDrafter,
    ModelDraft,
    NGrams,
    SeenTarget,
)
from sampling import Filter, NeuralDrafter, NGramDrafter, one_hot

TARGET, DRAFT = tiny_model(0), tiny_model(1)
HEADS = {kind: toy_head(kind, TARGET) for kind in (EAGLE, MEDUSA)}
DRAFTS = {
    "model": (ModelDraft(DRAFT), NeuralDrafter),
    "ngram": (NGrams(), NGramDrafter),
    EAGLE: (HeadDraft(HEADS[EAGLE]), HeadDrafter),
    MEDUSA: (HeadDraft(HEADS[MEDUSA]), HeadDrafter),
}
each = pytest.mark.parametrize("draft, kind", DRAFTS.values(), ids=DRAFTS)


def drafter_of(draft):
    target = SeenTarget(TARGET)
    target.read([1, 2], target.new_cache(), n_last=0)
    return draft.drafter(target, Filter(), None)


@each
def test_a_draft_makes_a_drafter_for_each_text(draft, kind):
    first, second = drafter_of(draft), drafter_of(draft)
    assert type(first) is type(second) is kind and first is not second
    assert first.n_vocab == TINY.n_vocab
    tokens, q = first.propose([1, 2, 1], 2)
    assert len(tokens) == len(q) <= 2


@each
def test_a_wrapped_draft_is_the_same_but_for_its_drafters(draft, kind):
    wrapped = draft.wrapped(lambda drafter: ("wrapped", drafter))
    for name in ("models", "n_ctx", "most", "alone", "looks_up"):
        assert getattr(wrapped, name) == getattr(draft, name)
    assert drafter_of(wrapped)[0] == "wrapped" and type(drafter_of(wrapped)[1]) is kind
    twice = wrapped.wrapped(lambda drafter: ("twice", drafter))
    assert [drafter_of(twice)[0], drafter_of(twice)[1][0]] == ["twice", "wrapped"]


@each
def test_another_model_may_stand_in_for_the_drafts(draft, kind):
    """In a batch or under a clock; around it stays what it was wrapped in."""

    class StandIn:
        def __init__(self, model):
            self.model, self.config, self.new_cache = model, model.config, model.new_cache

    over = draft.over(StandIn)
    assert [one.model for one in over.models] == [*draft.models]
    assert type(over) is type(draft) and type(drafter_of(over)) is kind
    wrapped = draft.wrapped(lambda drafter: ("wrapped", drafter)).over(StandIn)
    assert [one.model for one in wrapped.models] == [*draft.models]
    assert drafter_of(wrapped)[0] == "wrapped"


def test_what_drafts_say_of_themselves():
    model, ngrams, head = ModelDraft(DRAFT), NGrams(), HeadDraft(HEADS[MEDUSA])
    assert (model.models, model.alone, model.n_ctx) == ((DRAFT,), DRAFT, TINY.n_ctx)
    assert (model.most, model.looks_up) == (math.inf, False)
    assert (ngrams.models, ngrams.alone, ngrams.looks_up) == ((), None, True)
    assert (head.models, head.alone, head.looks_up) == ((HEADS[MEDUSA],), None, False)
    assert head.most == HEADS[MEDUSA].config.n_places


def test_a_readers_own_draft_needs_one_method():
    """As docs/library.md has it."""
    from experiments.decoding.job import Job, decode
    from experiments.proving.enumeration import tokens_of

    class Repeat(Draft):
        def drafter(self, target, filter, rng, confidence=0.0):
            return Repeater()

    class Repeater:
        n_vocab = TINY.n_vocab

        def prefill(self, ids):
            pass

        def propose(self, ids, k):
            return ids[-1:] * k, one_hot(ids[-1:] * k, self.n_vocab)

    job = Job([1, 2], 12)
    assert tokens_of(decode(TARGET, Repeat(), job)) == tokens_of(decode(TARGET, None, job))
    with pytest.raises(NotImplementedError):
        Draft().drafter(TARGET, Filter(), None)
