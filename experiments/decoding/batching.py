"""Many texts at once: the loops of sampling.py, one thread each, whose passes are put together.

A decoding loop knows one text, and stays as it is. Where it would read with the model, it hands its
request in here and waits. When every text that is being decoded waits, those that want the same
model are served in one pass, each row of it with its own past. So each text advances
by its own accepted length, has its own random numbers and ends where it ends; then the next text
takes its place.

Drafts are served before the target, so that the target's pass finds every text with its draft
ready.
"""

import dataclasses
import threading
from dataclasses import dataclass
from itertools import accumulate
from queue import SimpleQueue
from typing import Any

from experiments.data.values import check_numbers
from utils import InputError, require_memory

THREAD = "text"  # how the names of threads begin
MOST_TEXTS = 1000  # at a time: each has a thread


def check_batch_size(n_texts):
    """Refuses a number of texts that cannot be decoded together."""
    check_numbers(1, MOST_TEXTS, batch_size=n_texts)


def require_room(models, n_texts, n_positions):
    """Raises InputError if there is no memory for n_texts texts of n_positions at a time."""
    configs = [
        dataclasses.replace(model.config, n_ctx=min(n_positions, model.config.n_ctx))
        for model in models
    ]
    require_memory(configs, models[0].backend, n_texts, loaded=True)


class Stopped(Exception):
    """Ends the loop of a text that is no longer wanted."""


@dataclass(frozen=True, eq=False)
class Request:
    """A read that a text's loop waits for: with which model, of what, and where the logits go."""

    text: int
    model: Any
    arguments: tuple
    answer: SimpleQueue


@dataclass(frozen=True, eq=False)
class Finished:
    """The end of a text's task: what it returned, or what it raised."""

    text: int
    result: Any = None
    error: BaseException | None = None


class BatchedModel:
    """Stands in for a model in the decoding loop of one text: its `read` takes part in a pass over
    all texts.
    """

    def __init__(self, text, model, inbox):
        self.text, self.model, self.inbox = text, model, inbox
        self.config, self.new_cache = model.config, model.new_cache

    def read(self, ids, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        request = Request(self.text, self.model, (ids, cache, n_last), SimpleQueue())
        self.inbox.put(request)
        result = request.answer.get()
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
    pasts = [model.past(cache) for cache in caches]
    xp = model.backend.xp

    def look_back(layer, q, k, v):
        return xp.concatenate(
            [past(layer, q[:, one], k[:, one], v[:, one]) for past, one in zip(pasts, rows)], axis=1
        )

    x = xp.concatenate([model.embed(*one) for one in zip(new, caches)])
    x = model.blocks(x, look_back)
    for cache, one in zip(caches, rows):
        cache.advance(x[one])
    wanted = [x[end - n_last : end] for end, n_last in zip(ends, n_lasts)]
    logits = model.logits(xp.concatenate(wanted))
    return [logits[end - n : end] for n, end in zip(n_lasts, accumulate(n_lasts))]


def serve(requests):
    """One pass for all of these, which want the same model."""
    try:
        texts = zip(*(request.arguments for request in requests))
        results = read_together(requests[0].model, *texts)
    except Exception as error:  # whose fault it is cannot be told: each loop gets it
        results = [error] * len(requests)
    for request, result in zip(requests, results):
        request.answer.put(result)


class Batch:
    """The threads of the texts that are being decoded, and the requests that wait."""

    def __init__(self, tasks, target, draft):
        self.tasks, self.target, self.draft = tasks, target, draft
        self.inbox, self.waiting, self.threads = SimpleQueue(), [], {}

    def start(self, text):
        """Begin a text. Raises InputError where the system has no thread left."""
        name = f"{THREAD} {text}"
        thread = threading.Thread(target=self.run, args=(text,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            raise InputError(
                f"{len(self.threads) + 1} texts at a time: the system starts no more threads; "
                "use a smaller --batch_size"
            ) from None
        self.threads[text] = thread

    def run(self, text):
        """What the thread of a text does."""
        try:
            stand_in = lambda model: BatchedModel(text, model, self.inbox)
            draft = self.draft and self.draft.over(stand_in)
            result = self.tasks[text](stand_in(self.target), draft)
            self.inbox.put(Finished(text, result))
        except BaseException as error:  # SystemExit too: whoever waits must hear of the end
            self.inbox.put(Finished(text, error=error))

    def next_finished(self):
        """Serve requests until a text ends: its Finished."""
        while True:
            if len(self.waiting) == len(self.threads):  # nobody computes: the next pass
                self.serve_one_model()
            message = self.inbox.get()
            if isinstance(message, Finished):
                self.threads.pop(message.text).join()
                return message
            self.waiting.append(message)

    def serve_one_model(self):
        wanted = [request.model for request in self.waiting]
        model = max(wanted, key=lambda one: one is not self.target)  # drafts first
        requests = [request for request in self.waiting if request.model is model]
        serve(sorted(requests, key=lambda request: request.text))
        self.waiting = [request for request in self.waiting if request.model is not model]

    def stop(self):
        """End the texts that are still being decoded, and wait for their threads: those that
        compute now, until they read or end.
        """
        while True:
            for request in self.waiting:
                request.answer.put(Stopped())
            self.waiting = []
            if not self.threads:
                return
            message = self.inbox.get()
            if isinstance(message, Finished):
                self.threads.pop(message.text).join()
            else:
                self.waiting.append(message)


def decode_together(tasks, target, draft, batch_size):
    """Yield what the tasks return, in their order; batch_size of them run at a time.

    tasks: functions of the target and the draft, which are given to them with BatchedModels in
    place of the models. Where texts wait for both, the draft is served first. What a task raises is
    raised here and ends the others; no thread outlives this call. Memory: at most batch_size times
    the caches that a task makes (see require_room).
    """
    tasks = list(tasks)
    batch = Batch(tasks, target, draft)
    finished, n_started, n_yielded = {}, 0, 0
    try:
        while n_yielded < len(tasks):
            while len(batch.threads) < batch_size and n_started < len(tasks):
                batch.start(n_started)
                n_started += 1
            end = batch.next_finished()
            if end.error is not None:
                raise end.error
            finished[end.text] = end.result
            while n_yielded in finished:
                yield finished.pop(n_yielded)
                n_yielded += 1
    finally:
        batch.stop()
