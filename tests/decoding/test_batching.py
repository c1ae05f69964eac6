"""Several texts at once: each is what it is alone, whatever its neighbours do."""

import gc
import itertools
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from command_line import timeless
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toys import TINY, tiny_model, tiny_vocabulary

import utils
from backends import memory
from decoding import batching
from decoding.batching import decode_together, read_together, require_room
from decoding.coupled import Shared, agree
from decoding.drafts import ModelDraft
from decoding.load import Pair
from decoding.ngrams import NGrams
from decoding.run import Coins, Run
from decoding.together import finish_together
from encoder import Encoder
from sampling import Filter, verify_block
from utils import InputError

TARGET, DRAFT = tiny_model(0), ModelDraft(tiny_model(1))


def text_of(target, draft, ids, n_tokens, kind, filter, seed, end):
    """The Rounds of one text, as a list; `kind` says what drafts it."""
    draft = {"speculative": draft, "ngram": NGrams(), "autoregressive": None}[kind]
    ended = lambda generated: generated[-1] % 7 == end
    chance, K = partial(Coins, seed), seed % 5 + 1
    return list(Run(Pair(target, draft, None), ids, n_tokens, K, filter, chance, ended).rounds())


some_text = st.tuples(
    st.lists(st.integers(0, TINY.n_vocab - 1), min_size=1, max_size=12),
    st.integers(1, 20),
    st.sampled_from(["autoregressive", "speculative", "ngram"]),
    st.sampled_from([Filter(), Filter(1.0), Filter(0.7, 20, 0.9)]),
    st.integers(0, 9),
    st.integers(0, 9),
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(some_text, max_size=6), st.integers(1, 4))
def test_every_text_is_what_it_is_alone(texts, batch_size):
    """Any mix of decoders, filters, lengths and ends: the same rounds, in order."""
    tasks = [lambda target, draft, text=text: text_of(target, draft, *text) for text in texts]
    together = list(decode_together(tasks, TARGET, DRAFT, batch_size))
    assert together == [text_of(TARGET, DRAFT, *text) for text in texts]


@pytest.mark.parametrize("n_head", [1, 5, 60])
def test_exact_logits_do_not_depend_on_the_neighbours(n_head):
    """Whatever the width of a head, down to one number: memory is to lie in the same order."""
    exact = utils.get_backend("numpy", kernels="plain", exact=True)
    config = replace(TINY, n_embd=60, n_head=n_head)
    model = utils.random_model(config, exact, seed=1, scale=0.3)
    for texts in ([[1], [5, 6, 7], [9] * 8], [[1], [2]], [[i] for i in range(9)]):
        caches = [model.new_cache() for _ in texts]
        together = read_together(model, texts, caches, [1] * len(texts))
        for text, logits in zip(texts, together):
            assert np.array_equal(logits, model.read(text, model.new_cache()))


def test_runs_are_finished_together_as_alone():
    """Whatever their filters, rules and noise, and however long they are."""
    pair = Pair(TARGET, DRAFT, Encoder(*tiny_vocabulary()))
    runs = [
        Run(pair, [1, 2, 3], 9),
        Run(pair, [4], 15, 2, Filter(1.0), partial(Coins, 5), rule=verify_block),
        Run(pair, [5, 6], 3, 3, Filter(0.8), partial(Shared, 6, 2), rule=agree),
        Run(pair, [7] * 5, 12, lambda last: len(last.tokens), Filter(1.0, 9), partial(Coins, 7)),
    ]
    without_draft = [replace(run, pair=replace(pair, draft=None)) for run in runs]
    for together in (runs, without_draft, runs[:1]):
        for run, result in zip(together, finish_together(together), strict=True):
            assert timeless(result) == timeless(run.finish())


class Counted:
    """A model that notes how many texts and rows share each of its passes."""

    def __init__(self, model):
        self.model, self.config, self.new_cache = model, model.config, model.new_cache
        self.passes = []

    def read_together(self, texts, caches, n_lasts):
        self.passes.append(len(texts))
        return read_together(self.model, texts, caches, n_lasts)


def greedy(n_tokens, kind="speculative"):
    rest = n_tokens, kind, Filter(), 3, 9
    return lambda target, draft: text_of(target, draft, [1, 2, 3], *rest)


def test_passes_are_shared():
    """Four equal texts take the passes of one."""
    n_passes = []
    for n in (1, 4):
        target, draft = Counted(TARGET), Counted(DRAFT.model)
        list(decode_together([greedy(12)] * n, target, ModelDraft(draft), n))
        assert {*target.passes, *draft.passes} == {n}
        n_passes.append((len(target.passes), len(draft.passes)))
    assert n_passes[0] == n_passes[1]


def test_a_text_that_ends_leaves_its_room_to_the_next():
    target, lengths = Counted(TARGET), [2, 15, 2, 2, 2, 2]
    results = list(decode_together([greedy(n) for n in lengths], target, DRAFT, 2))
    assert [sum(len(round.tokens) for round in rounds) for rounds in results] == lengths
    assert max(target.passes) == 2
    # the short ones ran beside the long one, not after it
    assert len(target.passes) <= len(greedy(15)(TARGET, DRAFT)) + 6


def test_results_come_as_soon_as_their_turn_allows():
    """The first text is yielded while the others are still being decoded."""
    target, plain = Counted(TARGET), "autoregressive"
    results = decode_together([greedy(2, plain), greedy(20, plain)], target, None, 2)
    assert len(next(results)) == 3 and len(target.passes) < 8
    assert len(next(results)) == 21


def test_an_error_in_a_shared_pass_reaches_the_caller():
    def too_long(target, draft):
        return target.read([1] * 99, target.new_cache())

    with pytest.raises(ValueError, match="cannot read 99 tokens"):
        list(decode_together([greedy(10), too_long], TARGET, DRAFT, 2))


# ---------------------------------------------------------------- a batch that is ended early


def assert_leaves_nothing(run, caches):
    """run() ends, and afterwards there is no thread of a text and no cache."""
    pool = ThreadPoolExecutor(1)
    try:
        pool.submit(run).result(30)
    finally:
        pool.shutdown(wait=False)
    # those that share products stay
    assert not any(thread.name.startswith(batching.THREAD) for thread in threading.enumerate())
    gc.collect()
    assert [cache() for cache in caches] == [None] * len(caches)


def endless(caches, n_reads=0, release=None):
    """A task that reads until it is stopped, after n_reads not before it is released."""

    def run(target, draft):
        cache = target.new_cache()
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

    def broken(target, draft):
        cache = target.new_cache()
        for n in range(n_reads):
            target.read([1] * (n + 1), cache)
        release.set()
        raise error("broken")

    def run():
        tasks = [endless(caches), broken, endless(caches, n_reads, release)]
        with pytest.raises(error, match="broken"):
            list(decode_together(tasks, TARGET, DRAFT, 3))

    assert_leaves_nothing(run, caches)


@pytest.mark.parametrize("n_taken", [1, 2])
def test_a_batch_that_is_closed_leaves_nothing(n_taken):
    caches = []

    def run():
        tasks = [greedy(2), greedy(2), endless(caches), endless(caches), greedy(2)]
        results = decode_together(tasks, TARGET, DRAFT, 4)
        for _ in range(n_taken):
            next(results)
        results.close()

    assert_leaves_nothing(run, caches)
    assert caches


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
            list(decode_together([endless(caches), endless(caches)], TARGET, DRAFT, 2))

    assert_leaves_nothing(run, caches)


def test_a_batch_needs_memory_for_all_its_caches(monkeypatch):
    one = memory.cache_bytes(TINY, np.float32)
    monkeypatch.setattr(memory, "available", lambda: 5.5 * one)
    both, n_ctx = [TARGET, DRAFT.model], TINY.n_ctx
    require_room([TARGET], 5, n_ctx)
    require_room(both, 5, n_ctx // 2)
    with pytest.raises(InputError, match="6 texts together.*smaller --batch_size"):
        require_room([TARGET], 6, 10**9)
    with pytest.raises(InputError, match="3 texts together"):
        require_room(both, 3, n_ctx)
