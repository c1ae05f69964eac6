"""Decodes many texts at once: each loop of sampling.py runs in a thread, and passes are shared.

A decoding loop knows one text, and stays as it is. Instead of reading with the model, it sends a
Request and waits. When every text that is being decoded waits, the requests to one model are served
in one pass; each text attends to its own cache only. So each text advances by its own accepted
length, has its own random numbers and its own end.

Drafts are served before the target, so that the target's pass finds every text with its draft
ready.
"""

from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import accumulate
from queue import SimpleQueue
from typing import Any

from utils import require_memory

THREAD_PREFIX = "text"  # the prefix of the threads' names


def require_cache_memory(models, n_texts, n_positions):
    """Raises InputError if the caches of n_texts texts of n_positions tokens do not fit in memory.
    models: [Model], loaded already.
    """
    configs = [
        replace(model.config, n_ctx=min(n_positions, model.config.n_ctx)) for model in models
    ]
    require_memory(configs, models[0].backend, n_texts, loaded=True)


@dataclass(frozen=True, eq=False)
class Request:
    """A call model.read(*arguments) that a text's loop waits for; its logits go into `answer`."""

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


@singledispatch
def read_together(model, texts, caches, n_lasts):  # -> for each text [n_last, n_vocab]
    """Call model.read(ids, cache, n_last) for several texts in one pass.

    texts: a sequence with the ids of each text; caches and n_lasts: with one item for each text
    Returns a list of logits, [n_last, n_vocab] for each text. Raises ValueError where `read` does.

    The new positions of all texts are stacked. Attention is the only part of a pass that has to
    know which rows belong to which text. (This is for gpt2.Model; medusa.py has it for its heads.)
    """
    # for each text: the ids that its cache lacks, where its rows end in the pass, and these rows
    new = [model.roll_back(*one) for one in zip(texts, caches, n_lasts)]
    ends = [*accumulate(map(len, new))]
    rows = [slice(end - len(more), end) for end, more in zip(ends, new)]
    concatenate = model.backend.xp.concatenate
    x = concatenate([model.embed(*one) for one in zip(new, caches)])
    x = model.blocks(x, [*zip(caches, rows)])
    for cache, one in zip(caches, rows):
        cache.advance(x[one])
    wanted = [x[end - n_last : end] for end, n_last in zip(ends, n_lasts)]
    logits = model.logits(concatenate(wanted))
    return [logits[end - n : end] for n, end in zip(n_lasts, accumulate(n_lasts))]


def serve(waiting, target):
    """Serve the [Request] to one model in one pass, drafts before the target. Returns the other
    requests, which still wait.
    """
    model = max((request.model for request in waiting), key=lambda model: model is not target)
    requests = [request for request in waiting if request.model is model]
    requests.sort(key=lambda request: request.text)
    try:
        results = read_together(model, *zip(*(request.arguments for request in requests)))
    except Exception as error:  # whose fault it is cannot be told: each loop gets it
        results = [error] * len(requests)
    for request, result in zip(requests, results):
        request.answer.put(result)
    return [request for request in waiting if request.model is not model]


def decode_together(tasks, pair):
    """Run tasks at the same time, each in a thread of its own: [what each task returns].

    tasks: one or more functions task(pair); each is called with this pair, whose models are
        replaced by BatchedModels, so that passes are shared

    If a task raises an error, it is raised here, and the other tasks end. No thread outlives this
    call.
    """
    inbox, answers = SimpleQueue(), [SimpleQueue() for _ in tasks]

    def run(number, task):
        return task(
            pair.map_models(lambda model: BatchedModel(number, model, inbox, answers[number]))
        )

    pool = ThreadPoolExecutor(len(tasks), THREAD_PREFIX)
    try:
        texts = [pool.submit(run, number, task) for number, task in enumerate(tasks)]
        for text in texts:
            text.add_done_callback(inbox.put)
        waiting, n_left = [], len(texts)
        while n_left:
            if len(waiting) == n_left:  # nobody computes: the next pass
                waiting = serve(waiting, pair.target)
            message = inbox.get()
            if isinstance(message, Request):
                waiting.append(message)
            else:
                message.result()  # raises what the task raised
                n_left -= 1
        return [text.result() for text in texts]
    finally:
        # end the texts that are still being decoded: those that compute, when they read or end.
        # Each is told, whether it waits or not: Ctrl-C may have come between get and append
        for answer in answers:
            answer.put(CancelledError())
        pool.shutdown(cancel_futures=True)
