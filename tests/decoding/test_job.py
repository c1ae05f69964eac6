"""A job, the parts of its loop, and what a tap may replace."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from table_models import FILTERS, TableModel
from toys import tiny_model

from experiments.decoding.coupled import Noisy
from experiments.decoding.job import Job, decode
from experiments.drafting.drafts import ModelDraft, NGrams
from experiments.proving.enumeration import tokens_of

TARGET, DRAFT = tiny_model(0), ModelDraft(tiny_model(1))
JOB = Job([1, 2], 12, K=3)


def test_the_loop_runs_with_the_parts_that_a_tap_returns():
    asked = []

    def wrap(drafter):
        propose = lambda ids, k: asked.append(k) or drafter.propose(ids, k)
        return SimpleNamespace(n_vocab=drafter.n_vocab, prefill=drafter.prefill, propose=propose)

    tap = lambda parts: replace(parts, draft=parts.draft.wrapped(wrap), target=DRAFT.model)
    rounds = list(decode(TARGET, DRAFT, JOB, tap))
    assert len(asked) == len(rounds) - 1
    # the draft is the target now
    assert all(one.accepted == one.drafted for one in rounds)
    assert tokens_of(rounds) == tokens_of(decode(DRAFT.model, None, JOB))


@pytest.mark.parametrize("draft", [None, ModelDraft(TableModel(2)), NGrams()])
def test_shared_noise_lies_under_what_a_tap_returns(draft):
    """The filters of the tap make the distributions, the noise is put on them; the text is that of
    the target under noise.
    """
    target, heard = TableModel(1), []

    def tap(parts):
        listen = lambda logits: heard.append(logits) or FILTERS["T=2"](logits)
        return replace(parts, p_filter=listen)

    job = Job([0, 1], 20, K=3, filter=FILTERS["T=0.7"], seed=4, coupled=True)
    expected = Noisy(target, FILTERS["T=2"], 4)
    assert tokens_of(decode(target, draft, job, tap)) == tokens_of(
        decode(expected, None, Job([0, 1], 20))
    )
    assert heard
