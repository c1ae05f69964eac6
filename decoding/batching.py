"""Many texts at once: the loops of sampling.py, one thread each, whose passes are put together.

A decoding loop knows one text, and stays as it is. Where it would read with the model, it hands its
request in here and waits. When every text that is being decoded waits, those that want the same
model are served in one pass, each row of it with its own past. So each text advances by its own
accepted length, has its own random numbers and ends where it ends; then the next text takes its
place.

Drafts are served before the target, so that the target's pass finds every text with its draft
ready.
"""

from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from queue import SimpleQueue
from typing import Any

from utils import require_memory

THREAD = "text"  # how the names of threads begin


def require_room(models, n_texts, n_positions):
    """Raises InputError if there is no memory for n_texts texts of n_positions at a time."""
    configs = [
        replace(model.config, n_ctx=min(n_positions, model.config.n_ctx)) for model in models
    ]
    require_memory(configs, models[0].backend, n_texts, loaded=True)


@dataclass(frozen=True, eq=False)
class Request:
    """A read that a text's loop waits for: with which model, of what, and where the logits go."""

    text: int
    model: Any
    arguments: tuple
    answer: SimpleQueue


class BatchedModel:
    """A model for the loop of one text: its `read` takes part in a pass over all texts."""

    def __init__(self, text, model, inbox, answer):
        self.text, self.model, self.inbox, self.answer = text, model, inbox, answer
        self.config, self.new_cache = model.config, model.new_cache

    def read(self, ids, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        self.inbox.put(Request(self.text, self.model, (ids, cache, n_last), self.answer))
        result = self.answer.get()
        if isinstance(result, Exception):
            raise result
        return result


def read_together(model, texts, caches, n_lasts):  # -> for each text [n_last, n_vocab]
    """`model.read` for several texts in one pass, each with its own cache and n_last.

    The new positions of all texts are stacked. Attention is the only part of a pass that has to
    know which rows belong to which text.
    """
    if hasattr(model, "read_together"):  # Medusa's heads know a shorter way
        return model.read_together(texts, caches, n_lasts)
    new = [model.roll_back(*one) for one in zip(texts, caches, n_lasts)]
    ends = [*accumulate(map(len, new))]
    rows = [slice(end - len(more), end) for end, more in zip(ends, new)]
    concatenate = model.backend.xp.concatenate

    def look_back(layer, q, k, v):
        heads = model.backend.empty_heads(q)
        for cache, one in zip(caches, rows):
            heads[:, one] = cache.look_back(layer, q[:, one], k[:, one], v[:, one])
        return heads

    x = concatenate([model.embed(*one) for one in zip(new, caches)])
    x = model.blocks(x, look_back)
    for cache, one in zip(caches, rows):
        cache.advance(x[one])
    wanted = [x[end - n_last : end] for end, n_last in zip(ends, n_lasts)]
    logits = model.logits(concatenate(wanted))
    return [logits[end - n : end] for n, end in zip(n_lasts, accumulate(n_lasts))]


def serve(waiting, target):
    """One pass for the requests to one model, a draft first. Returns those that still wait."""
    model = max((request.model for request in waiting), key=lambda one: one is not target)
    requests = [request for request in waiting if request.model is model]
    requests.sort(key=lambda request: request.text)
    try:
        results = read_together(model, *zip(*(request.arguments for request in requests)))
    except Exception as error:  # whose fault it is cannot be told: each loop gets it
        results = [error] * len(requests)
    for request, result in zip(requests, results):
        request.answer.put(result)
    return [request for request in waiting if request.model is not model]


def decode_together(tasks, target, draft, batch_size):
    """Yield what the tasks return, in their order; batch_size of them run at a time.

    tasks: functions of the target and the draft, which are given to them with BatchedModels in
    place of the models. What a task raises is raised here and ends the others; no thread outlives
    this call. Memory: at most batch_size times the caches that a task makes (see require_room).
    """
    inbox, waiting, texts, answers = SimpleQueue(), [], [], []

    def run(number, task):
        stand_in = lambda model: BatchedModel(number, model, inbox, answers[number])
        return task(stand_in(target), draft and draft.over(stand_in))

    pool = ThreadPoolExecutor(batch_size, THREAD)
    try:
        for number, task in enumerate(tasks):
            answers.append(SimpleQueue())
            texts.append(pool.submit(run, number, task))
            texts[-1].add_done_callback(inbox.put)
        n_left = len(texts)
        while texts:
            if len(waiting) == min(batch_size, n_left):  # nobody computes: the next pass
                waiting = serve(waiting, target)
            message = inbox.get()
            if isinstance(message, Request):
                waiting.append(message)
                continue
            n_left -= 1
            message.result()  # raises what the task raised
            while texts and texts[0].done():
                yield texts.pop(0).result()
    finally:
        # end the texts that are still being decoded: those that compute, when they read or end.
        # Each is told, whether it waits or not: Ctrl-C may have come between get and append
        pool.shutdown(wait=False, cancel_futures=True)
        for answer in answers:
            answer.put(CancelledError())
        pool.shutdown()
