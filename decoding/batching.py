"""Decodes many texts at once: each loop of sampling.py runs in a thread, and passes are shared.

A decoding loop knows one text, and stays as it is. Instead of reading with the model, it sends a
Request and waits. When every text that is being decoded waits, the requests to one model are served
in one pass; each text attends to its own cache only. So each text advances by its own accepted
length, has its own random numbers and its own end.

Drafts are served before the target, so that the target's pass finds every text with its draft
ready.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

from backends.backend import Backend
from decoding.medusa import Medusa
from gpt2 import CHUNK, KVCache, Model

THREAD_PREFIX = "text"  # of the names of the threads


@dataclass(frozen=True, eq=False)
class Request:
    """A call model.read(ids, cache, n_last) that the loop of a text waits for. The logits, or the
    error that the call raised, are put into `answer`.
    """

    text_index: int
    model: Any
    ids: list[int]
    cache: Any
    n_last: int
    answer: SimpleQueue


class BatchedModel:
    """Stands for a model in the loop of one text. Its `read` takes part in a pass over all texts.

    inbox: the queue that Requests are put into; answer: the queue that their results come from
    """

    def __init__(self, text_index: int, model: Any, inbox: SimpleQueue, answer: SimpleQueue):
        self.text_index, self.model, self.inbox, self.answer = text_index, model, inbox, answer
        self.config, self.new_cache = model.config, model.new_cache

    def read(self, ids: list[int], cache: Any, n_last: int = 1):  # [n_ids] -> [n_last, n_vocab]
        """Let the model read a text, the ids, of which `cache` has read a part. Returns the logits
        after each of its last n_last ids. Waits until the pass over all texts is done, and raises
        the error of the pass.
        """
        self.inbox.put(Request(self.text_index, self.model, ids, cache, n_last, self.answer))
        result = self.answer.get()
        if isinstance(result, Exception):
            raise result
        return result


def read_together(
    model: Model,
    texts: Sequence[list[int]],
    caches: Sequence[KVCache],
    n_lasts: Sequence[int],
) -> list[Any]:  # for each text [n_last, n_vocab]
    """Read several texts in one pass, each as model.read(ids, cache, n_last) does. Returns a list,
    for each text the logits after each of its last n_last ids. Raises ValueError if a text cannot
    be read, as if it has more ids than its cache has room for.

    texts: the ids of each; n_lasts: of each
    caches: the KVCache of each, which has read all its ids when this returns

    The new positions of all texts are stacked. Attention is the only part of a pass that has to
    know which rows belong to which text.
    """
    new_ids = []
    for ids, cache, n_last in zip(texts, caches, n_lasts):
        new_ids.append(left_to_read(model, ids, cache, n_last))
    slices = consecutive(len(new) for new in new_ids)  # the rows of the pass that are each text's
    # a new position attends to all of its text
    n_pairs = sum(len(new) * len(ids) for new, ids in zip(new_ids, texts))
    attend = attention_of_texts(model.backend, caches, slices, n_pairs)

    xp = model.backend.xp
    x = xp.concatenate([model.embed(new, cache) for new, cache in zip(new_ids, caches)])
    x = model.blocks(x, attend)  # [n_new of all texts, n_embd]
    last_rows = []
    for cache, new, rows, n_last in zip(caches, new_ids, slices, n_lasts):
        cache.advance(new, x[rows])  # with the hidden states, which EAGLE and Medusa read
        last_rows.append(x[rows.stop - n_last : rows.stop])
    logits = model.logits(xp.concatenate(last_rows))  # [n_last of all texts, n_vocab]
    return [logits[rows] for rows in consecutive(n_lasts)]


def attention_of_texts(
    backend: Backend, caches: Sequence[KVCache], slices: Sequence[slice], n_pairs: int
) -> Callable:
    """A function attend(layer, q, k, v) for Model.blocks, where the new positions of several texts
    are stacked: the rows slices[i] are those of the text with the cache caches[i], and attend to
    this text alone. It shares the texts among threads if there is enough to compute.

    n_pairs: how many scores a head computes, one for each pair of a new position and a position of
        its text, in all texts together
    """

    def attend(layer: int, q, k, v):  # 3 x [n_head, n_new of all texts, d_head] -> the same
        out = backend.xp.empty(q.shape, dtype=q.dtype)

        def attend_texts(a: int, b: int) -> None:  # texts a to b
            for cache, rows in zip(caches[a:b], slices[a:b]):
                out[:, rows] = cache.attend(layer, q[:, rows], k[:, rows], v[:, rows])

        n_scores = q.shape[0] * n_pairs  # of all heads
        backend.run_on_threads(attend_texts, len(caches), n_scores)
        return out

    return attend


def consecutive(lengths: Iterable[int]) -> list[slice]:
    """Slices of these lengths, each of which begins where the one before it ends.

    >>> consecutive([2, 1])
    [slice(0, 2, None), slice(2, 3, None)]
    """
    slices = []
    start = 0
    for length in lengths:
        slices.append(slice(start, start + length))
        start += length
    return slices


def left_to_read(model: Model, ids: list[int], cache: KVCache, n_last: int) -> list[int]:
    """Prepare the cache of one text for a pass over several texts, and return the ids that this
    pass is to read: those that the cache lacks, and always the last n_last. What the cache holds of
    other ids is forgotten. If it lacks more than 128 ids (CHUNK), all but the last n_last are read
    into it here, in passes of their own: so many rows gain nothing beside those of other texts.
    """
    lacking = model.roll_back(ids, cache, n_last)
    if len(lacking) <= CHUNK:
        return lacking
    n_before = len(ids) - n_last
    model.read(ids[:n_before], cache, n_last=0)
    return ids[n_before:]


def read_requests(model: Any, requests: list[Request]) -> list[Any]:  # each [n_last, n_vocab]
    """The logits that each of the Requests to one model asks for, by one pass of the model over all
    of them. Raises what the model raises.
    """
    texts = [request.ids for request in requests]
    caches = [request.cache for request in requests]
    n_lasts = [request.n_last for request in requests]
    if isinstance(model, Medusa):  # heads without attention
        return model.read_together(texts, caches, n_lasts)
    return read_together(model, texts, caches, n_lasts)


def serve_one_model(waiting: list[Request], target: Model) -> list[Request]:
    """Answer all Requests to one model by one pass: those to a draft's model if there are any, else
    those to the target. If the pass raises, the error is the answer, and raised in the loop of each
    text. Returns the Requests to other models, which still wait.

    waiting: one Request for each text that is being decoded
    """
    draft_models = [request.model for request in waiting if request.model is not target]
    model = draft_models[0] if draft_models else target
    requests = [request for request in waiting if request.model is model]
    # threads come in any order: in a fixed order, each run stacks the same rows
    requests.sort(key=lambda request: request.text_index)
    answers: list[Any]
    try:
        answers = read_requests(model, requests)
    except Exception as error:  # which text caused it is not known
        answers = [error] * len(requests)
    for request, answer in zip(requests, answers):
        request.answer.put(answer)
    return [request for request in waiting if request.model is not model]


def serve(inbox: SimpleQueue, n_running: int, target: Model) -> None:
    """Answer the Requests of n_running calls, each of which decodes a text, until all have ended.
    If a call raised an error, raises it as soon as its Future comes.

    inbox: each call puts its next Request there, and waits for the answer; at its end its Future
    target: the model of the Requests that are served last, when no draft's are waiting
    """
    waiting: list[Request] = []
    while n_running:
        if len(waiting) == n_running:  # all wait: the next pass, of a draft's model first
            waiting = serve_one_model(waiting, target)
        message = inbox.get()
        if isinstance(message, Request):
            waiting.append(message)
        else:
            message.result()  # raises what the call raised
            n_running -= 1


def batched_model(
    text_index: int, inbox: SimpleQueue, answer: SimpleQueue, model: Any
) -> BatchedModel | None:
    """The BatchedModel that stands for a model in the loop of a text; None for None. Its Requests
    go into the inbox, and are answered in `answer`, the text's own queue.
    """
    if model is None:
        return None
    return BatchedModel(text_index, model, inbox, answer)


def submit(pool: ThreadPoolExecutor, task: Callable, batched: Callable, n_texts: int) -> Future:
    """Let a thread of the pool call task(batched). Returns at once, with the Future of its result.
    Raises ValueError if no thread can be started. n_texts: of all tasks, for the error
    """
    try:
        return pool.submit(task, batched)
    except RuntimeError as error:  # the limit of threads
        raise ValueError(f"{n_texts} texts together: {error}; use fewer") from None


def decode_together(tasks: Sequence[Callable[[Callable], Any]], target: Model) -> list[Any]:
    """Call task(batched) for each of the tasks at the same time, each in a thread. Returns what
    they returned, in their order.

    batched(model): a BatchedModel, which the task uses in place of the model, so that one pass of
        the model serves all texts; None for None. All tasks have the same target.

    If a call raises an error, it is raised here, and the other calls end. No thread outlives this
    function. Raises ValueError if so many threads cannot be started.
    """
    inbox: SimpleQueue = SimpleQueue()  # gets Requests, and the Future of each call that has ended
    answers: list[SimpleQueue] = [SimpleQueue() for _ in tasks]
    pool = ThreadPoolExecutor(max(1, len(tasks)), THREAD_PREFIX)  # which refuses 0 threads
    futures: list[Future] = []
    try:
        for index, task in enumerate(tasks):
            batched = partial(batched_model, index, inbox, answers[index])
            future = submit(pool, task, batched, len(tasks))
            future.add_done_callback(inbox.put)
            futures.append(future)
        serve(inbox, len(futures), target)
        return [future.result() for future in futures]
    finally:
        # Calls that still run end: those that wait at once, those that compute at their next read.
        # All are told: after Ctrl-C nobody knows which of them wait.
        for answer in answers:
            answer.put(CancelledError())
        pool.shutdown(cancel_futures=True)
