"""What the page asks the server, by name."""

import time

from experiments.playing.costs import costs
from experiments.playing.rules import RULES, Laws, rule_rows
from experiments.playing.runs import race, what_if

SAY_EVERY = 0.1  # seconds: a browser that draws takes time from the models


class Counter:
    """Counts to a total, tells the page now and then, and stops a run that was cancelled."""

    def __init__(self, job, send, total):
        self.job = job
        self.send = send
        self.total = total
        self.done = 0
        self.said = time.monotonic()

    def advance(self, n):
        self.done += n
        self.job.check()
        if time.monotonic() - self.said > SAY_EVERY:
            self.said = time.monotonic()
            self.send({"done": self.done, "total": self.total})


def questions_of(session):
    """{name: function(request, job, send) -> result}, for experiments.playing.server."""
    laws = Laws()

    def ask_race(request, job, send):
        counter = Counter(job, send, 2 * request.settings["n_tokens_to_generate"])
        return race(session, request, counter.advance)

    def ask_what_if(request, job, send):
        counter = Counter(job, send, request.settings["n_tokens_to_generate"])
        return what_if(session, request, counter.advance)

    def ask_costs(request, job, send):
        return costs(session, request, job.check)

    def ask_rules(request, job, send):
        for done, row in enumerate(rule_rows(session, request, laws, job.check), 1):
            send({"row": row, "done": done, "total": len(RULES)})
        return {}

    return {"race": ask_race, "what_if": ask_what_if, "costs": ask_costs, "rules": ask_rules}
