"""Many texts at once: the loops of sampling.py, one thread each, whose passes are put together.

A decoding loop knows one text, and stays as it is. Where it would read with the model, it hands its
request in here and waits. When every text that is being decoded waits, those that want the same
model are served in one pass, each row of it with its own past (gpt2.forward). So each text advances
by its own accepted length, has its own random numbers and ends where it ends; then the next text
takes its place.

Drafts are served before the target, so that the target's pass finds every text with its draft
ready.
"""

import threading
from queue import SimpleQueue

from experiments.decoding.decoders import NGRAM


class Request:
    """A read that a text's loop waits for: which text, which of the models, what to read, and where
    the logits go.
    """

    def __init__(self, text, model, arguments):
        self.text, self.model, self.arguments, self.answer = text, model, arguments, SimpleQueue()


class BatchedModel:
    """Stands in for a model in the decoding loop of one text: its `read` takes part in a pass over
    all texts.
    """

    def __init__(self, text, model, inbox):
        self.text, self.model, self.inbox = text, model, inbox
        self.config, self.new_cache = model.config, model.new_cache

    def read(self, ids, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        request = Request(self.text, self.model, (ids, cache, n_last))
        self.inbox.put(request)
        result = request.answer.get()
        if isinstance(result, Exception):
            raise result
        return result


class Stopped(Exception):
    """Ends a loop whose text nobody waits for any more."""


def serve(requests):
    """One pass for all of these, which want the same model."""
    try:
        results = requests[0].model.read_batch(*zip(*(request.arguments for request in requests)))
    except Exception as error:  # whose fault it is cannot be told: each loop gets it
        results = [error] * len(requests)
    for request, result in zip(requests, results):
        request.answer.put(result)


def decode_together(tasks, models, batch_size):
    """Yield what the tasks return, in their order; batch_size of them run at a time.

    tasks: functions of the models, which are given to them as BatchedModels (a draft that is no
    model, NGRAM or None, stays what it is). Of models that texts wait for, the last is served
    first. What a task raises is raised here and ends
    the others. Memory: at most batch_size times the caches that a task makes.
    """
    inbox, waiting, finished, n_started, n_yielded = SimpleQueue(), [], {}, 0, 0

    def stand_in(i, model):
        return model if model in (None, NGRAM) else BatchedModel(i, model, inbox)

    def run(i):
        try:
            inbox.put((i, tasks[i](*(stand_in(i, model) for model in models))))
        except Exception as error:
            inbox.put((i, error))

    try:
        live = set()
        while n_yielded < len(tasks):
            while len(live) < batch_size and n_started < len(tasks):
                live.add(n_started)
                threading.Thread(target=run, args=(n_started,), daemon=True).start()
                n_started += 1
            if len(waiting) == len(live) > 0:  # nobody computes: the next pass
                model = max((request.model for request in waiting), key=models.index)
                serve(
                    [
                        request
                        for request in sorted(waiting, key=lambda one: one.text)
                        if request.model is model
                    ]
                )
                waiting = [request for request in waiting if request.model is not model]
            message = inbox.get()
            if isinstance(message, Request):
                waiting.append(message)
                continue
            i, finished[i] = message
            live.remove(i)
            if isinstance(finished[i], Exception):
                raise finished[i]
            while n_yielded in finished:
                yield finished.pop(n_yielded)
                n_yielded += 1
    finally:
        for request in waiting:
            request.answer.put(Stopped())
