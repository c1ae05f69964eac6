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

THREAD_PREFIX = "text"  # of the names of the threads


def require_cache_memory(models, n_texts, n_positions):
    """Raise InputError if memory does not suffice for the caches of n_texts texts of n_positions
    tokens in each of these models. models: [Model], whose weights are in memory already
    """
    configs = [
        replace(model.config, n_ctx=min(n_positions, model.config.n_ctx)) for model in models
    ]
    require_memory(configs, models[0].backend, n_texts, loaded=True)


@dataclass(frozen=True, eq=False)
class Request:
    """A call model.read(*arguments) that a text's loop waits for. The logits, or the error that the
    call raised, are put into `answer`.
    """

    text_index: int
    model: Any
    arguments: tuple
    answer: SimpleQueue


class BatchedModel:
    """Stands for a model in the loop of one text. Its `read` takes part in a pass over all texts.

    inbox: the queue that Requests are put into; answer: the queue that their results come from
    """

    def __init__(self, text_index, model, inbox, answer):
        self.text_index, self.model, self.inbox, self.answer = text_index, model, inbox, answer
        self.config, self.new_cache = model.config, model.new_cache

    def read(self, ids, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        """Return the logits after the last n_last ids, as gpt2.Model.read does. Waits until the
        pass over all texts is done, and raises the error of the pass.
        """
        arguments = ids, cache, n_last
        self.inbox.put(Request(self.text_index, self.model, arguments, self.answer))
        result = self.answer.get()
        if isinstance(result, Exception):
            raise result
        return result


@singledispatch
def read_together(model, texts, caches, n_lasts):  # -> for each text [n_last, n_vocab]
    """Do what model.read(ids, cache, n_last) does, for several texts in one pass. Returns a list of
    logits, [n_last, n_vocab] for each text. Raises ValueError if a text cannot be read.

    texts: [[id]]; caches, n_lasts: sequences with a KVCache and an int for each of the texts

    The new positions of all texts are stacked. Attention is the only part of a pass that has to
    know which rows belong to which text. (This is for gpt2.Model; medusa.py has it for its heads.)
    """
    new_ids = [  # of each text, those that its cache lacks
        model.roll_back(ids, cache, n_last) for ids, cache, n_last in zip(texts, caches, n_lasts)
    ]
    # which rows of the pass belong to each text
    ends = list(accumulate(len(ids) for ids in new_ids))
    slices = [slice(end - len(ids), end) for ids, end in zip(new_ids, ends)]
    concatenate = model.backend.xp.concatenate
    x = concatenate([model.embed(ids, cache) for ids, cache in zip(new_ids, caches)])
    x = model.blocks(x, list(zip(caches, slices)))  # [n_new of all texts, n_embd]
    for cache, text_rows in zip(caches, slices):
        cache.advance(x[text_rows])
    last_rows = [x[end - n_last : end] for end, n_last in zip(ends, n_lasts)]
    logits = model.logits(concatenate(last_rows))  # [n_last of all texts, n_vocab]
    return [logits[end - n_last : end] for end, n_last in zip(accumulate(n_lasts), n_lasts)]


def serve_one_model(waiting, target):
    """Answer all Requests to one model by one pass: those to a draft's model if there are any, else
    those to the target. Returns the list of Requests to other models, which still wait.

    waiting: a list with one Request for each text that is being decoded; target: a Model
    """
    drafts = [request.model for request in waiting if request.model is not target]
    model = drafts[0] if drafts else target
    requests = [request for request in waiting if request.model is model]
    # threads come in any order: in a fixed order, each run stacks the same rows
    requests.sort(key=lambda request: request.text_index)
    texts, caches, n_lasts = zip(*(request.arguments for request in requests))
    try:
        results = read_together(model, texts, caches, n_lasts)
    except Exception as error:  # the text that caused it is not known: each gets it
        results = [error] * len(requests)
    for request, result in zip(requests, results):
        request.answer.put(result)
    return [request for request in waiting if request.model is not model]


def decode_together(task, runs):
    """Call task(run) for each of [Run] at the same time, each call in a thread of its own. Returns
    [what task returned], in the order of the runs.

    task: a function, such as Run.finish. runs: one or more, with the same target. task is called
        with copies of them, whose models are replaced by BatchedModels, so that passes are shared

    If a call raises an error, it is raised here, and the other calls end. No thread outlives this
    function.
    """
    inbox = SimpleQueue()  # gets Requests, and the Future of each call that has ended
    answers = [SimpleQueue() for _ in runs]

    def call_task(index, run):
        batched = lambda model: BatchedModel(index, model, inbox, answers[index])
        return task(replace(run, pair=run.pair.map_models(batched)))

    pool = ThreadPoolExecutor(len(runs), THREAD_PREFIX)
    try:
        futures = [pool.submit(call_task, index, run) for index, run in enumerate(runs)]
        for future in futures:
            future.add_done_callback(inbox.put)
        waiting, n_running = [], len(futures)
        while n_running:
            if len(waiting) == n_running:  # nobody computes: the next pass, of drafts first
                waiting = serve_one_model(waiting, runs[0].pair.target)
            message = inbox.get()
            if isinstance(message, Request):
                waiting.append(message)
            else:
                message.result()  # raises what the call raised
                n_running -= 1
        return [future.result() for future in futures]
    finally:
        # End the calls that still run: those that compute end at their next read. Each is told,
        # whether it waits or not, because Ctrl-C may have come between get and append.
        for answer in answers:
            answer.put(CancelledError())
        pool.shutdown(cancel_futures=True)
