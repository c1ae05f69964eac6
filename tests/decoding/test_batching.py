"""Several texts at once: each is what it is alone, whatever its neighbours do."""

import gc
import itertools
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Callable

import numpy as np
import pytest
from command_line import timeless
from decoding.drafts import ModelDraft
from decoding.load import Pair
from decoding.run import RecordingRng, Run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toys import TINY, tiny_model, tiny_vocabulary

from backends import memory
from checkpoints.errors import InputError
from decoding import batching
from decoding.batching import decode_together, read_together, require_cache_memory
from decoding.coupled import SharedNoise, verify_shared_noise
from decoding.ngrams import NGrams
from encoder import Encoder
from sampling import SamplingParams, verify_block

TARGET, DRAFT = tiny_model(0), ModelDraft(tiny_model(1))
PAIR = Pair(TARGET, DRAFT, None)


def text_of(pair, ids, n_tokens, kind, to_probs, seed, end):
    """The Rounds of one text, as a list; `kind` says what drafts it."""
    draft = {"speculative": pair.draft, "ngram": NGrams(), "autoregressive": None}[kind]
    is_done = lambda generated: generated[-1] % 7 == end
    rng, K = partial(RecordingRng, seed), seed % 5 + 1
    pair = replace(pair, draft=draft)
    return list(Run(pair, ids, n_tokens, K, to_probs, rng, is_done).rounds())


@dataclass
class Task:
    """Stands for a Run: what it does is function(pair)."""

    pair: Pair
    function: Callable


def call_together(functions, pair=PAIR):
    tasks = [Task(pair, function) for function in functions]
    return decode_together(lambda task: task.function(task.pair), tasks)


some_text = st.tuples(
    st.lists(st.integers(0, TINY.n_vocab - 1), min_size=1, max_size=12),
    st.integers(1, 20),
    st.sampled_from(["autoregressive", "speculative", "ngram"]),
    st.sampled_from([SamplingParams(), SamplingParams(1.0), SamplingParams(0.7, 20, 0.9)]),
    st.integers(0, 9),
    st.integers(0, 9),
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(some_text, min_size=1, max_size=6))
def test_every_text_is_what_it_is_alone(texts):
    """Any mix of decoders, filters, lengths and ends: the same rounds, in order."""
    tasks = [lambda pair, text=text: text_of(pair, *text) for text in texts]
    assert call_together(tasks) == [text_of(PAIR, *text) for text in texts]


def test_runs_are_finished_together_as_alone():
    """Whatever their filters, rules and noise, and however long they are."""
    pair = Pair(TARGET, DRAFT, Encoder(*tiny_vocabulary()))
    as_many_as_before = lambda last: len(last.tokens)
    runs = [
        Run(pair, [1, 2, 3], 9),
        Run(pair, [4], 15, 2, SamplingParams(1.0), partial(RecordingRng, 5), rule=verify_block),
        Run(
            pair,
            [5, 6],
            3,
            3,
            SamplingParams(0.8),
            partial(SharedNoise, 6, 2),
            rule=verify_shared_noise,
        ),
        Run(pair, [7] * 5, 12, as_many_as_before, SamplingParams(1.0, 9), partial(RecordingRng, 7)),
    ]
    without_draft = [replace(run, pair=replace(pair, draft=None)) for run in runs]
    for together in (runs, without_draft, runs[:1]):
        for run, result in zip(together, decode_together(Run.finish, together), strict=True):
            assert timeless(result) == timeless(run.finish())


class Counted:
    """A model that notes how many texts and rows share each of its passes."""

    def __init__(self, model):
        self.model, self.config, self.new_cache = model, model.config, model.new_cache
        self.passes = []


@read_together.register
def _(counted: Counted, texts, caches, n_lasts):
    counted.passes.append(len(texts))
    return read_together(counted.model, texts, caches, n_lasts)


def greedy(n_tokens, kind="speculative"):
    rest = n_tokens, kind, SamplingParams(), 3, 9
    return lambda pair: text_of(pair, [1, 2, 3], *rest)


def test_passes_are_shared():
    """Four equal texts take the passes of one."""
    n_passes = []
    for n in (1, 4):
        target, draft = Counted(TARGET), Counted(DRAFT.model)
        call_together([greedy(12)] * n, Pair(target, ModelDraft(draft), None))
        assert {*target.passes, *draft.passes} == {n}
        n_passes.append((len(target.passes), len(draft.passes)))
    assert n_passes[0] == n_passes[1]


def test_a_text_that_ends_leaves_the_others_alone():
    target = Counted(TARGET)
    together = call_together([greedy(2), greedy(15)], Pair(target, DRAFT, None))
    assert [sum(len(this_round.tokens) for this_round in rounds) for rounds in together] == [2, 15]
    shared, alone = (target.passes.count(n) for n in (2, 1))
    assert shared == len(together[0]) and shared + alone == len(together[1])


def test_an_error_in_a_shared_pass_reaches_the_caller():
    def too_long(pair):
        return pair.target.read([1] * 99, pair.target.new_cache())

    with pytest.raises(ValueError, match="cannot read 99 tokens"):
        call_together([greedy(10), too_long])


# ---------------------------------------------------------------- a batch that is ended early


def assert_leaves_nothing(run, caches):
    """run() ends, and afterwards there is no thread of a text and no cache."""
    pool = ThreadPoolExecutor(1)
    try:
        pool.submit(run).result(30)
    finally:
        pool.shutdown(wait=False)
    # those that share products stay
    assert not any(
        thread.name.startswith(batching.THREAD_PREFIX) for thread in threading.enumerate()
    )
    gc.collect()
    assert [cache() for cache in caches] == [None] * len(caches)


def endless(caches, n_reads=0, release=None):
    """A task that reads until it is stopped, after n_reads not before it is released."""

    def run(pair):
        cache = pair.target.new_cache()
        caches.append(weakref.ref(cache))
        for n in itertools.count():
            if release and n == n_reads and not release.wait(20):
                pytest.fail("not released")
            pair.target.read([1] * (n % TINY.n_ctx + 1), cache)

    return run


@pytest.mark.parametrize("error", [KeyError, SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("n_reads", [0, 1, 2])
def test_whatever_a_task_raises_reaches_the_caller_and_leaves_nothing(error, n_reads):
    caches, release = [], threading.Event()

    def broken(pair):
        cache = pair.target.new_cache()
        for n in range(n_reads):
            pair.target.read([1] * (n + 1), cache)
        release.set()
        raise error("broken")

    def run():
        tasks = [endless(caches), broken, endless(caches, n_reads, release)]
        with pytest.raises(error, match="broken"):
            call_together(tasks)

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
            call_together([endless(caches), endless(caches)])

    assert_leaves_nothing(run, caches)


def test_a_batch_needs_memory_for_all_its_caches(monkeypatch):
    n_ctx = 1024  # long: the padding of the keys matters little
    model = tiny_model(0, replace(TINY, n_ctx=n_ctx))
    one = memory.cache_bytes(model.config, np.float32)
    monkeypatch.setattr(memory, "available_bytes", lambda: 5.5 * one)
    require_cache_memory([model], 5, n_ctx)
    require_cache_memory([model, model], 5, n_ctx // 2)
    with pytest.raises(InputError, match="6 texts together.*smaller --batch_size"):
        require_cache_memory([model], 6, 10**9)
    with pytest.raises(InputError, match="3 texts together"):
        require_cache_memory([model, model], 3, n_ctx)
