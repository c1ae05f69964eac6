"""What the server of the page answers, by name."""

import time

from experiments.page.request import Request
from experiments.page.rules import RULES, rule_rows
from experiments.page.runs import costs, race, what_if

SAY_EVERY = 0.1  # seconds: a browser that draws takes time from the models


def counter(turn, send, total):
    """A function advance(n) that tells the page now and then how many of the total are done, and
    stops a run that was cancelled.
    """
    done, said = 0, time.monotonic()

    def advance(n):
        nonlocal done, said
        done += n
        turn.check()
        if time.monotonic() - said > SAY_EVERY:
            said = time.monotonic()
            send({"done": done, "total": total})

    return advance


def answers_of(session):
    """{name: function(request, turn, send) -> result}, for experiments.page.server."""

    def answer_race(request, turn, send):
        total = 2 * request.settings["n_tokens_to_generate"]
        return race(session, request, counter(turn, send, total))

    def answer_what_if(request, turn, send):
        total = request.settings["n_tokens_to_generate"]
        return what_if(session, request, counter(turn, send, total))

    def answer_costs(request, turn, send):
        return costs(session, turn.check)

    def answer_rules(request, turn, send):
        for done, row in enumerate(rule_rows(session, request, turn.check), 1):
            send({"row": row, "done": done, "total": len(RULES)})
        return {}

    return {
        "race": answer_race,
        "what_if": answer_what_if,
        "costs": answer_costs,
        "rules": answer_rules,
    }


def finished_run(session, request=Request()):
    """The data of a page with everything that the page could ask about a run."""

    def nothing(n=None):
        pass

    data = race(session, request, nothing)
    data["costs"] = costs(session, nothing)
    data["rules"] = list(rule_rows(session, request, nothing))
    return data
