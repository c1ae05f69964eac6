"""The forward pass against transformers, itself however a text is cut up, and strict arrays.

The properties run in float64, where rounding is 1e-14 and a mistake far more than 1e-10.
"""

import dataclasses
import functools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import strict
from hypothesis import given, settings
from hypothesis import strategies as st
from make_golden import CONFIG, GOLDEN, recipe
from toys import NUMPY, TINY

import gpt2
import utils
from backends.backend import get_backend
from checkpoints.registry import SIZES
from decoding import random_models
from decoding.batching import read_together
from gpt2 import Config

# every axis of another length, or the least of them: a swapped pair of axes cannot go unnoticed
SHAPES = [
    TINY,
    Config(n_vocab=31, n_ctx=24, n_embd=30, n_head=5, n_layer=3),
    Config(7, 24, 4, 1, 1),
    Config(7, 24, 8, 8, 1),
]
AS_LOADED = get_backend()  # with its own products and threads


@functools.cache
def tiny_model(shape=0, seed=0, backend=NUMPY, dtype=np.float64, scale=0.3):
    return random_models.random_model(SHAPES[shape], backend, dtype=dtype, seed=seed, scale=scale)


@pytest.fixture(scope="module", autouse=True)
def short_parts():
    """`Model.read` reads even these short texts in several parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpt2, "CHUNK", 5)
        yield


any_model = st.builds(tiny_model, st.integers(0, len(SHAPES) - 1), st.integers(0, 9))
fast = settings(max_examples=40)


def texts(model, n_min=1, n_max=24):
    return st.lists(st.integers(0, model.config.n_vocab - 1), min_size=n_min, max_size=n_max)


def without_cache(model, ids, n_last=None):  # [n_ids] -> [n_last, n_vocab]
    """The definition: one pass over all ids, whose positions attend to each other."""
    xp = model.backend.xp
    attend = lambda layer, q, k, v: gpt2.dot_product_attention(q, k.swapaxes(1, 2), v, xp)
    x = model.blocks(model.embed(ids, SimpleNamespace(ids=[])), attend)
    return model.logits(x[len(ids) - (len(ids) if n_last is None else n_last) :])


def nothing(model):
    return np.empty((0, model.config.n_vocab))


def assert_same(found, expected, atol=1e-10):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


# ---------------------------------------------------------------- transformers' numbers


@pytest.mark.parametrize("backend", [NUMPY, AS_LOADED])
def test_logits_are_those_of_transformers(backend):
    model = utils.build_model(CONFIG, recipe(CONFIG), backend)
    with np.load(GOLDEN) as golden:
        for ids, logits in zip(golden["ids"].tolist(), golden["logits"], strict=True):
            assert_same(model.read(ids, model.new_cache(), len(ids)), logits, 1e-4)


def test_gelu_is_the_published_formula():
    """To the last digit of its constants: 0.0447 for 0.044715 would pass the comparisons above."""
    x = np.linspace(-6, 6, 101)
    expected = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    assert_same(gpt2.gelu(x, np), expected, 1e-14)


def test_number_of_parameters():
    count = lambda config: sum(map(math.prod, config.shapes().values()))
    assert {size: count(config) for size, config in SIZES.items()} == {
        "82M": 81912576,
        "124M": 124439808,
        "355M": 354823168,
        "774M": 774030080,
        "1558M": 1557611200,
    }


# ---------------------------------------------------------------- the cache: any way of reading


@fast
@given(st.data())
def test_a_cache_gives_the_logits_of_the_ids_whatever_it_read_before(data):
    """Any texts in any order: the cache forgets what is not theirs, so it can never be stale."""
    model, cache = data.draw(any_model), None
    cache = model.new_cache()
    ids = []
    for _ in range(5):
        # most often with a common beginning, as after a rejected draft
        ids = ids[: data.draw(st.integers(0, len(ids)))]
        ids = ids + data.draw(texts(model, 0, 24 - len(ids)))
        n_last = data.draw(st.integers(0, len(ids)))
        given_ids = data.draw(st.sampled_from([list, tuple, np.array]))(ids)
        expected = without_cache(model, ids, n_last) if ids else nothing(model)
        assert_same(model.read(given_ids, cache, n_last), expected)
        assert cache.ids == ids
        if ids:  # the last hidden state of every position is kept, and the logits follow from it
            assert_same(model.logits(cache.hidden[1 : 1 + len(ids)]), without_cache(model, ids))
        assert not cache.hidden[0].any()


@fast
@given(st.data())
def test_texts_read_together_are_read_alone(data):
    """Each with its own past, which it may have to forget, new ids and rows asked for."""
    model = data.draw(any_model)
    batch = [data.draw(texts(model, 0)) for _ in range(data.draw(st.integers(1, 4)))]
    caches, n_lasts = [model.new_cache() for _ in batch], []
    for ids, cache in zip(batch, caches):
        n_lasts.append(data.draw(st.integers(0, len(ids))))
        known = ids[: data.draw(st.integers(0, len(ids)))]
        model.read(known + data.draw(texts(model, 0, 24 - len(known))), cache, n_last=0)
    together = read_together(model, batch, caches, n_lasts)
    for logits, ids, cache, n_last in zip(together, batch, caches, n_lasts):
        assert_same(logits, without_cache(model, ids, n_last) if ids else nothing(model))
        assert cache.ids == ids


@fast
@given(st.data())
def test_work_shared_among_threads_is_the_work_of_one(data):
    """The heads of one text, or the texts of a batch, in ranges of any lengths and order."""
    shape, cuts = data.draw(st.integers(0, len(SHAPES) - 1)), data.draw(st.sets(st.integers(1, 14)))

    def run_on_threads(function, n, size):
        ends = [0, *sorted(cut for cut in cuts if cut < n), n]
        for a, b in data.draw(st.permutations(list(zip(ends, ends[1:])))):
            function(a, b)

    alone = tiny_model(shape)
    backend = dataclasses.replace(NUMPY, run_on_threads=run_on_threads)
    shared = dataclasses.replace(alone, backend=backend)
    batch = data.draw(st.lists(texts(alone), min_size=1, max_size=3))
    caches = [shared.new_cache() for _ in batch]
    for ids, logits in zip(batch, read_together(shared, batch, caches, list(map(len, batch)))):
        assert_same(logits, without_cache(alone, ids))


def test_read_reads_only_what_is_missing(monkeypatch):
    model, passes = tiny_model(), []
    embed = gpt2.Model.embed
    watched = lambda model, new, cache: passes.append(new) or embed(model, new, cache)
    monkeypatch.setattr(gpt2.Model, "embed", watched)
    cache, text = model.new_cache(), list(range(10))
    model.read(text[:3], cache, n_last=0)
    model.read(text[:5], cache)  # the bonus token's case: two tokens are new, one row is asked for
    model.read(text[:5], cache, n_last=3)  # a row is not kept: the last tokens are read again
    model.read([*text[:4], 9, 9], cache, n_last=2)  # a rejected draft's case
    model.read(text, cache, n_last=0)  # in parts of CHUNK
    assert passes == [text[:3], text[3:5], text[2:5], [9, 9], text[4:9], text[9:]]


# ---------------------------------------------------------------- causality, limits


@fast
@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=9), st.floats(-1e4, 1e4, width=32)
)
def test_softmax_of_any_size_of_scores(scores, shift):
    """exp(100) is more than a float32 holds; the trained models' scores get there."""
    x = np.array([scores, [0.0] * len(scores)], np.float32)
    p = gpt2.softmax(x.copy(), np)
    assert p.dtype == np.float32 and (p >= 0).all()
    assert_same(p.sum(axis=-1), np.ones(2), atol=1e-6)
    assert_same(p[1], np.full(len(scores), 1 / len(scores)), atol=1e-6)
    assert (np.diff(p[0][np.argsort(scores)]) >= 0).all()
    x = x.astype(np.float64)
    assert_same(gpt2.softmax(x + shift, np), gpt2.softmax(x, np))


@fast
@given(st.data())
def test_no_position_sees_a_later_one(data):
    """Exactly, in float32: a masked score weighs 0. At scale 30 scores reach 10^6."""
    scale = data.draw(st.sampled_from([0.3, 30.0]))
    model = tiny_model(0, data.draw(st.integers(0, 9)), dtype=np.float32, scale=scale)
    ids, n_vocab = data.draw(texts(model, 2)), model.config.n_vocab
    changed = data.draw(st.integers(1, len(ids) - 1))
    other = list(ids)
    other[changed] = (ids[changed] + data.draw(st.integers(1, n_vocab - 1))) % n_vocab
    before, after = (model.read(one, model.new_cache(), len(ids)) for one in (ids, other))
    assert np.array_equal(before[:changed], after[:changed])
    assert not np.array_equal(before[changed], after[changed])


@pytest.mark.parametrize("n_ids, n_last", [(25, 1), (2, 3), (2, -1)])
def test_what_cannot_be_read_is_refused(n_ids, n_last):
    model = tiny_model()
    cache = model.new_cache()
    model.read([5, 6], cache)
    with pytest.raises(ValueError, match=rf"{n_ids} tokens for {n_last} rows .* room for 24"):
        model.read([3] * n_ids, cache, n_last)
    assert cache.ids == [5, 6]  # and nothing was touched


@pytest.mark.parametrize("wrong", [-1, -TINY.n_vocab, TINY.n_vocab, 10**6])
def test_an_id_that_is_no_token_is_refused(wrong):
    """NumPy would take -1 for the last token."""
    model = tiny_model()
    cache = model.new_cache()
    model.read([1, 2, 3], cache)
    for ids in ([1, wrong], [1, 2, 3, wrong]):
        with pytest.raises(ValueError, match=str(wrong)):
            model.read(ids, cache)
    assert_same(model.read([1, 2, 3], cache), without_cache(model, [1, 2, 3], 1))


def test_an_id_for_which_the_cache_has_no_room_is_refused():
    """One id too many would else be broadcast into nothing, and give no row of logits."""
    model = tiny_model()
    cache = model.new_cache(5)
    row = model.read([1, 2, 3, 4, 5], cache)
    for ids in ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]):
        with pytest.raises(ValueError, match="room for 5 tokens"):
            model.read(ids, cache)
    assert_same(model.read([1, 2, 3, 4, 5], cache), row)


# ---------------------------------------------------------------- strict arrays, one dtype


def reads(model):
    """Logits as a loop asks for them: prefill, a row, a draft's, after a rejection, the end."""
    text = [(7 * i) % model.config.n_vocab for i in range(model.config.n_ctx)]
    other, cache = text[:7] + [0] + text[8:], model.new_cache()
    steps = [(text[:5], 0), (text[:6], 1), (text[:10], 4), (other[:8], 1), (other, 3)]
    return [model.read(ids, cache, n_last) for ids, n_last in steps]


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_strict_arrays_give_the_same_bits(dtype, shape):
    """Every intermediate has the dtype of the weights, and is of no array module but xp."""
    backend = strict.backend(dtype)
    model = random_models.random_model(SHAPES[shape], backend, dtype=dtype, scale=0.3)
    found, name = reads(model), np.dtype(dtype).name
    assert backend.xp.seen.keys() == {name, np.dtype(int).name} and backend.xp.seen[name] > 100
    for logits, expected in zip(found, reads(tiny_model(shape, dtype=dtype))):
        assert type(logits) is np.ndarray and logits.dtype == dtype
        # bit for bit; NaN, from memory never written, is equal to nothing
        assert np.array_equal(logits, expected)


host = np.ones((2, 3), np.float32)
x, foreign = (strict.backend(np.float32).asarray(host) for _ in range(2))


@pytest.mark.parametrize("attempt", [
    lambda: np.exp(x),
    lambda: np.asarray(x),
    lambda: x + host,
    lambda: np.float32(2) * x,
    lambda: x[np.array([0])],
    lambda: float(x),
    lambda: list(x),
    lambda: x.module.asarray(np.ones(2)),  # of another dtype
    lambda: x + foreign,
])  # fmt: skip
def test_strict_arrays_refuse(attempt):
    with pytest.raises(TypeError):
        attempt()
