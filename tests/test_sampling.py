"""The filter against definitions, the primitives, and how the loops count and end."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.random import default_rng
from toys import TINY, tiny_model, tiny_vocabulary

from cli.trace import sources_of
from decoding.ngrams import NGramDrafter
from encoder import Encoder
from sampling import (
    RULES,
    NeuralDrafter,
    Rng,
    SamplingParams,
    autoregressive,
    one_hot,
    residual,
    speculative,
    stop_condition,
    verify,
)

LOGITS = np.log(np.array([[0.1, 0.2, 0.3, 0.4]]))
TARGET, DRAFT = tiny_model(1), tiny_model(2)


def run(
    n_tokens,
    K=4,
    to_probs=SamplingParams(),
    ids=(1, 2, 3),
    drafter=None,
    seed=0,
    target=TARGET,
    **more,
):
    """The rounds of a speculative run after its prefill."""
    rng = Rng(seed)
    drafter = drafter or NeuralDrafter(DRAFT, to_probs, rng)
    return list(speculative(target, drafter, list(ids), n_tokens, K, to_probs, rng, **more))[1:]


def run_alone(n_tokens, to_probs=SamplingParams(), ids=(1, 2, 3), seed=0, target=TARGET, **more):
    return list(autoregressive(target, list(ids), n_tokens, to_probs, Rng(seed), **more))[1:]


def tokens(rounds):
    return [token for this_round in rounds for token in this_round.tokens]


def scores_of(model, ids, n_last=1):
    return model.read(ids, model.new_cache(), n_last)


# ---------------------------------------------------------------- the filter


@pytest.mark.parametrize("to_probs, expected", [
    (SamplingParams(1.0), [0.1, 0.2, 0.3, 0.4]),
    (SamplingParams(0.5), [1 / 30, 4 / 30, 9 / 30, 16 / 30]),  # squares, rescaled
    (SamplingParams(0.0), [0, 0, 0, 1]),
    (SamplingParams(1e-6), [0, 0, 0, 1]),
    (SamplingParams(1.0, top_k=2), [0, 0, 3 / 7, 4 / 7]),
    (SamplingParams(1.0, top_k=9), [0.1, 0.2, 0.3, 0.4]),
    (SamplingParams(1.0, top_k=0), [0.1, 0.2, 0.3, 0.4]),
    (SamplingParams(1.0, top_p=0.35), [0, 0, 0, 1]),
    (SamplingParams(1.0, top_p=0.65), [0, 0, 3 / 7, 4 / 7]),
    (SamplingParams(1.0, top_p=0.75), [0, 2 / 9, 3 / 9, 4 / 9]),
    # 7/9 of what top_k left is enough
    (SamplingParams(1.0, top_k=3, top_p=0.75), [0, 0, 3 / 7, 4 / 7]),
])  # fmt: skip
def test_filter_on_four_tokens_by_hand(to_probs, expected):
    assert np.allclose(to_probs(LOGITS)[0], expected, atol=1e-12)


def test_a_nucleus_that_reaches_top_p_exactly_needs_no_more():
    assert SamplingParams(1.0, top_p=0.5)(np.log([[0.25, 0.5, 0.25]]))[0].tolist() == [0, 1, 0]


@pytest.mark.parametrize("n", (2, 3, 1000))
def test_a_nucleus_of_equal_tokens_has_one_however_small(n):
    assert SamplingParams(1.0, top_p=1e-20)(np.zeros((1, n)))[0].tolist() == [1] + (n - 1) * [0]


logit_rows = st.lists(st.integers(-6, 6), min_size=2, max_size=12).map(
    lambda row: np.array([row], dtype=np.float32)
)


@given(logit_rows, st.floats(0.1, 3), st.integers(0, 13), st.floats(0.01, 1))
def test_filter_keeps_what_the_definitions_say(logits, temperature, top_k, top_p):
    p = SamplingParams(temperature, top_k, top_p)(logits)[0]
    full = SamplingParams(temperature)(logits)[0]
    order = np.argsort(-full, kind="stable")[: top_k or None]
    mass = full[order].cumsum() / full[order].sum()
    # where rounding decides, either answer is right
    assume(top_p == 1 or abs(mass - top_p).min() > 1e-9)
    size = len(order) if top_p == 1 else 1 + np.count_nonzero(mass < top_p)
    expected = np.zeros(len(full))
    expected[order[:size]] = full[order[:size]] / full[order[:size]].sum()
    assert np.allclose(p, expected, atol=1e-12) and abs(p.sum() - 1) < 1e-12


@pytest.mark.parametrize("scale, top_p", [(3, 0.9), (0.1, 0.9), (0.1, 0.3), (8, 0.999), (8, 0.1)])
def test_filter_of_a_real_vocabulary_matches_a_full_sort(scale, top_p):
    """The nucleus is found among the few tokens that can be in it, not among all 50,257."""
    logits = default_rng(0).normal(0, scale, (3, 50257)).astype(np.float32)
    for row, full in zip(SamplingParams(1.0, top_p=top_p)(logits), SamplingParams(1.0)(logits)):
        order = np.argsort(-full, kind="stable")
        nucleus = order[: 1 + np.searchsorted(full[order].cumsum(), top_p)]
        assert set(np.flatnonzero(row)) == set(nucleus)


def test_the_top_k_of_a_real_vocabulary_are_those_of_a_full_sort():
    """Of ties, the lowest ids."""
    for digits in (0, 1, 7):
        logits = default_rng(0).normal(0, 3, 50257).astype(np.float32).round(digits)
        order = np.argsort(-logits, kind="stable")
        for k in (1, 2, 50, 256, 257, 50256, 50257, 60000):
            p = SamplingParams(1.0, top_k=k)(logits[None])[0]
            assert set(np.flatnonzero(p)) == set(order[:k])


HUGE = (11, 1e5, 1e9, 1e30, 1e39, 1e300)


@pytest.mark.parametrize("temperature", (0.1, 1, 10, *HUGE))
def test_filters_keep_the_largest_logits_at_any_temperature(temperature):
    """Float32 rounds different logits to the same probability: they must decide, not it."""
    logits = default_rng(0).normal(0, 3, (4, 1000)).astype(np.float32)
    logits[:, 5] = -np.inf
    filters = [SamplingParams(temperature, top_k=1), SamplingParams(temperature, top_k=7)]
    if temperature < 1e10:  # above it, all are equal in float64 too
        filters.append(SamplingParams(temperature, top_p=0.5))
    for to_probs, least, most in zip(filters, (1, 7, 1), (1, 7, 510)):
        for row, p in zip(logits, to_probs(logits)):
            kept = np.flatnonzero(p)
            assert set(kept) == set(np.argsort(-row)[: len(kept)]) and least <= len(kept) <= most
    close = np.array([[0, 1e-9, 3e-9, 2e-9]], dtype=np.float32)
    assert SamplingParams(temperature, top_k=1)(close)[0].tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("temperature", (0, 1e-5, 1, *HUGE))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("error")
def test_logits_of_any_size_give_finite_probabilities(temperature, dtype):
    logits = np.array([[3e38, -3e38, 0, 1], [-np.inf, 2, 1, -np.inf]], dtype)
    p = SamplingParams(temperature)(logits)
    assert p.dtype == np.float64 and np.allclose(p.sum(axis=1), 1) and (p >= 0).all()
    assert p[1, 0] == p[1, 3] == 0
    if temperature in HUGE:
        assert np.allclose(p[1], [0, 0.5, 0.5, 0], atol=0.05)


@pytest.mark.parametrize("bad", [[np.nan, 1, 2], [1, np.inf, 2], [-np.inf] * 3, [np.nan] * 3])
@pytest.mark.parametrize(
    "to_probs",
    [SamplingParams(), SamplingParams(1.0), SamplingParams(1e9), SamplingParams(0.7, 2, 0.5)],
)
@pytest.mark.filterwarnings("error")
def test_logits_without_a_distribution_raise(to_probs, bad):
    logits = np.array([[3, 2, 1], bad], dtype=np.float32)
    with pytest.raises(FloatingPointError):
        to_probs(logits)


@pytest.mark.parametrize("name, bad", [
    ("temperature", -1), ("temperature", np.nan), ("temperature", np.inf),
    ("top_k", -1), ("top_p", 0), ("top_p", 1.1),
])  # fmt: skip
def test_filter_refuses_settings_without_a_meaning(name, bad):
    with pytest.raises(ValueError, match=f"{name} .*expected"):
        SamplingParams(**{name: bad})


# ---------------------------------------------------------------- the primitives


class Fixed(Rng):
    """Every random number is u."""

    def __init__(self, u):
        self.random = lambda: u


LARGEST = 1 - 2.0**-53  # the largest number a generator returns


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any))
def test_sample_inverts_the_cumulative_distribution(weights):
    """The u that give token i fill an interval of length p(i): tested at both of its ends."""
    p = np.array(weights) / sum(weights)
    edges = np.concatenate([[0], p.cumsum()])
    for i in np.flatnonzero(p):
        low, high = edges[i], edges[i + 1]
        first, last = Fixed(low + 1e-9 * p[i]), Fixed(high - 1e-9 * p[i])
        assert first.sample(p) == i == last.sample(p)
    assert p[Fixed(0.0).sample(p)] > 0 and p[Fixed(LARGEST).sample(p)] > 0


@given(st.integers(0, 2**32))
def test_sample_never_leaves_the_vocabulary_whatever_the_rounding(seed):
    p = default_rng(seed).random(1000) ** 8
    p /= p.sum() * (1 + 1e-9)  # a sum that is not quite 1
    p[-3:] = 0
    assert p[Fixed(LARGEST).sample(p)] > 0


def test_a_sample_does_not_depend_on_the_scale_of_p():
    """A block's residual may be what is left of P p, with P below 1."""
    p = np.array([0.1, 0.2, 0.3, 0.4])
    whole, part = ([Rng(i).sample(scale * p) for i in range(99)] for scale in (1, 0.25))
    assert whole == part and {*whole} == {0, 1, 2, 3}


def test_toss_is_certain_at_the_ends():
    assert not Fixed(0.0).accept(0.0) and Fixed(LARGEST).accept(1.0) and Fixed(LARGEST).accept(7.0)
    assert Fixed(0.4999).accept(0.5) and not Fixed(0.5).accept(0.5)


def test_residual_by_hand_and_when_rounding_leaves_none():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.6, 0.2])
    assert np.allclose(residual(p, q), [1, 0, 0])
    assert np.array_equal(residual(p, p), p)  # p = q: nothing can be rejected, but rounding may try
    assert np.array_equal(residual(p, p + 1e-17), p)


def test_verify_draws_every_coin_anew():
    """Over many rounds the first and the second acceptance are independent."""
    p, q = np.full((3, 4), 0.25), np.tile([0.5, 0.5, 0, 0], (2, 1))
    rng, counts = Rng(0), np.zeros(3)
    for _ in range(4000):
        counts[verify([0, 1], p, q, rng)[0]] += 1
    # 1/2, 1/4, 1/4 expected; 5 standard deviations: odds below one in a million
    assert (abs(counts - [2000, 1000, 1000]) < [158, 137, 137]).all()


# ---------------------------------------------------------------- the loops: length and end


@pytest.mark.parametrize("K", [1, 2, 7, 50])
@pytest.mark.parametrize("n_tokens", [1, 2, 5, 20])
@pytest.mark.parametrize("to_probs", [SamplingParams(), SamplingParams(1.0)], ids=["greedy", "T=1"])
def test_exactly_the_tokens_asked_for(K, n_tokens, to_probs):
    for drafter in (None, NGramDrafter(TINY.n_vocab)):
        rounds = run(n_tokens, K, to_probs, drafter=drafter)
        assert len(tokens(rounds)) == n_tokens
        for this_round in rounds:
            assert len(this_round.draft) <= K and len(this_round.tokens) == this_round.accepted + 1
            assert this_round.accepted <= this_round.examined <= len(this_round.draft)


@pytest.mark.parametrize("K", [1, 3, 8])
@pytest.mark.parametrize(
    "to_probs", [SamplingParams(), SamplingParams(1.0), SamplingParams(0.8, 20, 0.9)]
)
def test_a_perfect_draft_is_always_accepted(K, to_probs):
    rounds = run(18, K, to_probs, drafter=NeuralDrafter(TARGET, to_probs, Rng(0)))
    assert all(this_round.accepted == len(this_round.draft) for this_round in rounds)
    assert len(rounds) == -(-18 // (K + 1))
    assert sources_of(rounds[0]) == ["draft"] * K + ["bonus"]


@pytest.mark.parametrize("decode", [run, run_alone])
def test_the_context_ends_the_text(decode):
    assert len(tokens(decode(50, ids=range(1, 21)))) == TINY.n_ctx - 20
    assert tokens(decode(50, ids=range(TINY.n_ctx))) == []
    assert len(tokens(decode(6, ids=[7]))) == 6
    for n in (0, 25):
        with pytest.raises(ValueError, match=f"prompt of {n} tokens"):
            decode(5, ids=[1] * n)


@pytest.mark.parametrize("place", range(8))
def test_the_end_may_lie_anywhere_in_an_accepted_run(place):
    """Nothing after it is kept or counted; the draft accepts all, so it lies in a run."""
    is_done = lambda generated: len(generated) == place + 1
    rounds = run(8, 3, drafter=NeuralDrafter(TARGET, SamplingParams(), Rng(0)), is_done=is_done)
    greedy = tokens(run_alone(8))
    assert tokens(rounds) == greedy[: place + 1]
    last = rounds[-1]
    assert last.accepted <= last.examined <= len(last.draft)
    assert len(sources_of(last)) == len(last.tokens)
    assert tokens(run_alone(8, is_done=is_done)) == greedy[: place + 1]


def test_token_zero_is_a_token_like_any_other():
    certain = tiny_model(1)
    # the output head too: all logits are equal, and the first of equals wins
    certain.params["wte"][:] = 0
    rounds = run(6, 3, target=certain)
    assert tokens(rounds) == [0] * 6 == tokens(run_alone(6, target=certain))


@pytest.mark.parametrize("n_more, rows_more", [(1, 1), (2, 2), (0, -1), (0, 1), (-1, 0)])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_drafter_that_breaks_its_word_is_refused_in_one_line(n_more, rows_more, rule):
    """More tokens than the k that it was asked for, or another number of rows of q."""

    class Wrong(NGramDrafter):
        def propose(self, ids, k):
            return [0] * (k + n_more), one_hot([0] * (k + rows_more), self.n_vocab)

    given = f"{3 + n_more} tokens with {3 + rows_more} rows of q; expected up to 3"
    with pytest.raises(ValueError, match=f"^the drafter: {given}"):
        run(12, 3, drafter=Wrong(TINY.n_vocab), rule=rule)


def test_a_drafter_may_return_an_array():
    class Ones(NGramDrafter):
        def propose(self, ids, k):
            draft = np.ones(k, int)
            return draft, one_hot(draft, self.n_vocab)

    assert tokens(run(12, 3, drafter=Ones(TINY.n_vocab))) == tokens(run_alone(12))


@pytest.mark.parametrize("drafter", [None, NGramDrafter(TINY.n_vocab)], ids=["model", "ngram"])
def test_a_round_holds_what_the_rule_was_given_and_said(drafter):
    asked = []

    def noted(draft, p, q, rng):
        asked.append((draft, p, q, verify(draft, p, q, rng)))
        return asked[-1][-1]

    rounds, text = run(12, 3, SamplingParams(1.0), drafter=drafter, rule=noted), [1, 2, 3]
    for this_round, (draft, p, q, (n_accepted, token)) in zip(rounds, asked, strict=True):
        assert this_round.draft is draft and this_round.q is q and this_round.p is p
        assert this_round.accepted == n_accepted
        assert this_round.tokens == [*draft[:n_accepted], token]
        rows = SamplingParams(1.0)(scores_of(TARGET, text + draft, len(draft) + 1))
        assert np.allclose(p, rows, atol=1e-12)
        text += this_round.tokens


ENCODER = Encoder(*tiny_vocabulary())


def end_of(text, stop):
    """How many tokens there are until the stop condition holds; None if it never does."""
    ids, is_done = ENCODER.encode(text), stop_condition(ENCODER, stop)
    return next((n for n in range(1, len(ids) + 1) if is_done(ids[:n])), None)


def test_a_text_ends_with_end_of_text_or_the_token_that_completes_stop():
    assert end_of("once the éx", "the é") == len(ENCODER.encode("once the é"))
    assert stop_condition(ENCODER)([5, ENCODER.end_of_text]) and end_of("once the", "") is None
    assert end_of("the", "h") == 1  # a token that holds more
    assert end_of("ones", "on") == 2  # tokens of one byte
    assert end_of("a\nb", "\n") == 2
    assert end_of("日本", "本") == 6 and end_of("日本語", "語x") is None


@pytest.mark.parametrize("text, n", [("日é🎉a", None), ("a\ufffdb", 4), ("🎉\ufffd", 7)])
def test_a_stop_of_the_replacement_character_is_not_an_unfinished_character(text, n):
    assert end_of(text, "\ufffd") == n


def test_what_cannot_speculate():
    with pytest.raises(ValueError, match="258 and 259"):
        run(5, 1, drafter=NGramDrafter(258))
