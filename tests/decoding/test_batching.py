"""Several texts at once: each is what it is alone, whatever its neighbours do."""

import gc
import itertools
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from heads import toy_head
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import TINY, tiny_model

from decoding import batching
from decoding.batching import decode_together
from decoding.coupled import SharedNoise, verify_shared_noise
from decoding.decode import make_drafter
from sampling import Rng, SamplingParams, autoregressive, speculative, verify, verify_block

TARGET, DRAFT = tiny_model(0), tiny_model(1)
DRAFTS = {"model": DRAFT, "ngram": None, **{k: toy_head(k, TARGET) for k in ("eagle", "medusa")}}
alone = lambda model: model


def text_of(batched, kind, ids, n_tokens, to_probs, seed, end, rule):
    """The Rounds of one text, as a list; `kind` says what drafts it."""
    is_done = lambda generated: generated[-1] % 7 == end
    rng = SharedNoise(seed, len(ids)) if rule is verify_shared_noise else Rng(seed)
    target, settings = batched(TARGET), (ids, n_tokens)
    if kind == "autoregressive":
        return list(autoregressive(target, *settings, to_probs, rng, is_done))
    draft = DRAFTS[kind]
    if draft is not None and batched is not alone:
        draft = batched(draft)
    drafter = make_drafter(draft, TARGET, to_probs, rng)
    K = seed % 5 + 1
    return list(speculative(target, drafter, *settings, K, to_probs, rng, is_done, rule))


def greedy(n_tokens, kind="model"):
    return lambda batched: text_of(
        batched, kind, [1, 2, 3], n_tokens, SamplingParams(), 3, 9, verify
    )


some_text = st.tuples(
    st.sampled_from(["autoregressive", *DRAFTS]),
    st.lists(st.integers(0, TINY.n_vocab - 1), min_size=1, max_size=12),
    st.integers(1, 20),
    st.sampled_from([SamplingParams(), SamplingParams(1.0), SamplingParams(0.7, 20, 0.9)]),
    st.integers(0, 9),
    st.integers(0, 9),
    st.sampled_from([verify, verify_block, verify_shared_noise]),
)


@settings(max_examples=20)
@given(st.lists(some_text, min_size=0, max_size=6))
def test_every_text_is_what_it_is_alone(texts):
    """Any mix of drafts, heads among them, of filters, rules, lengths and ends: the same rounds."""
    tasks = [lambda batched, text=text: text_of(batched, *text) for text in texts]
    assert decode_together(tasks, TARGET) == [text_of(alone, *text) for text in texts]


@pytest.fixture
def passes(monkeypatch):
    """A list of (model, how many texts), one for each pass over several texts."""
    passes, read_together = [], batching.read_together

    def noted(model, texts, *more):
        passes.append((model, len(texts)))
        return read_together(model, texts, *more)

    monkeypatch.setattr(batching, "read_together", noted)
    return passes


@pytest.mark.parametrize("kind", ["model", "eagle"])
def test_passes_are_shared(passes, kind):
    """Four equal texts take the passes of one, those of drafts too."""
    found = []
    for n in (1, 4):
        decode_together([greedy(12, kind)] * n, TARGET)
        assert {n_texts for _, n_texts in passes} == {n}
        found.append([model for model, _ in passes])
        passes.clear()
    assert found[0] == found[1] and {*found[0]} == {TARGET, DRAFTS[kind]}


def test_an_error_in_a_shared_pass_reaches_the_caller():
    def too_long(batched):
        return batched(TARGET).read([1] * 99, TARGET.new_cache())

    with pytest.raises(ValueError, match="cannot read 99 tokens"):
        decode_together([greedy(10), too_long], TARGET)


# ---------------------------------------------------------------- a batch that is ended early


def assert_leaves_nothing(run, caches):
    """run() ends, and afterwards there is no thread of a text and no cache."""
    pool = ThreadPoolExecutor(1)
    try:
        pool.submit(run).result(30)
    finally:
        pool.shutdown(wait=False)
    # those that share products stay
    assert not any(one.name.startswith(batching.THREAD_PREFIX) for one in threading.enumerate())
    gc.collect()
    assert [cache() for cache in caches] == [None] * len(caches)


def endless(caches, n_reads=0, release=None):
    """A task that reads until it is stopped, after n_reads not before it is released."""

    def run(batched):
        target, cache = batched(TARGET), TARGET.new_cache()
        caches.append(weakref.ref(cache))
        for n in itertools.count():
            if release and n == n_reads and not release.wait(20):
                pytest.fail("not released")
            target.read([1] * (n % TINY.n_ctx + 1), cache)

    return run


@pytest.mark.parametrize("error", [KeyError, SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("n_reads", [0, 1, 2])
def test_whatever_a_task_raises_reaches_the_caller_and_leaves_nothing(error, n_reads):
    caches, release = [], threading.Event()

    def broken(batched):
        target, cache = batched(TARGET), TARGET.new_cache()
        for n in range(n_reads):
            target.read([1] * (n + 1), cache)
        release.set()
        raise error("broken")

    def run():
        tasks = [endless(caches), broken, endless(caches, n_reads, release)]
        with pytest.raises(error, match="broken"):
            decode_together(tasks, TARGET)

    assert_leaves_nothing(run, caches)


def test_an_interruption_that_loses_a_request_leaves_nothing(monkeypatch):
    caches, given = [], iter(range(9))

    class Inbox(batching.SimpleQueue):
        def get(self):
            message = super().get()
            if next(given) == 3:  # Ctrl-C, before anybody has the message
                raise KeyboardInterrupt
            return message

    def run():
        queues = iter([Inbox()])  # the first is the inbox
        plain = batching.SimpleQueue
        monkeypatch.setattr(batching, "SimpleQueue", lambda: next(queues, None) or plain())
        with pytest.raises(KeyboardInterrupt):
            decode_together([endless(caches), endless(caches)], TARGET)

    assert_leaves_nothing(run, caches)


def test_threads_that_cannot_be_started_are_one_line(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(ValueError, match="^2 texts together: can't start new thread; use fewer$"):
        decode_together([greedy(3)] * 2, TARGET)
