"""What the page asks the models for: a race of the two decoders, a text with coins or settings
changed on the way, what drafting and verifying cost on this machine, and every rule.

Nothing in a request names a file: the models are those the server was started with. tell(**line) is
that of page.server: it sends progress and ends what nobody waits for.
"""

import json
import statistics
import time
from dataclasses import dataclass, field, replace
from functools import partial

from decoding.clock import measure_costs
from decoding.metrics import summary
from decoding.prompt import Prompt
from decoding.run import Coins, Run
from page.report import report_data
from page.rounds import Notes
from page.rules import ALL_RULES, rule_rows
from sampling import Filter
from utils import InputError

SAY_EVERY = 0.1  # seconds: a browser that draws takes time from the models
MOST_K = 8  # of the rounds whose costs are measured
MOST = 10**9  # of anything that is counted
TURNS, ROUNDS = 8, 2  # in each turn, this many rounds of every K
GREEDY = Filter(0.0)  # drafts without random numbers

# ---------------------------------------------------------------- a request


# the numbers of the form, by the names of cli.flags; each has the type of its first value
FIELDS = {
    "n_tokens_to_generate": {"label": "Tokens", "value": 60, "least": 1, "most": 200},
    "K": {"label": "K", "value": 4, "least": 1, "most": 12},
    "temperature": {"label": "Temperature", "value": 0.8, "least": 0, "most": 10, "step": "any"},
    "top_k": {"label": "Top-k", "value": 0, "least": 0, "most": 1_000_000},
    "top_p": {"label": "Top-p", "value": 1.0, "least": 0.000001, "most": 1, "step": "any"},
    "seed": {"label": "Seed", "value": 123, "least": 0, "most": 2**53},
}
PROMPT = {"label": "Prompt", "value": "Once upon a time", "most": 2000}
FORM = {"prompt": PROMPT, "fields": FIELDS}
EDITS = {  # of the microscope
    "coins": {"value": [], "most": 1000},
    "index": {"value": 0, "least": 0, "most": MOST},
    "u": {"value": 0.0, "least": 0, "most": 1},
    "changes": {"value": [], "most": 1000},
    "round": {"value": 0, "least": 0, "most": MOST},
}
LIMITS = {"prompt": PROMPT} | FIELDS | EDITS  # of everything in a request


class FieldError(InputError):
    """A value that the page does not send."""


@dataclass(frozen=True)
class Request:
    """A text to write.

    settings: {name: value} of the FIELDS
    coins: {index: u}, random numbers to use in place of the seed's
    changes: {round: {"round", "K", "temperature"}}, from that round on, rounds counted from 0
    """

    prompt: str = PROMPT["value"]
    settings: dict = field(
        default_factory=lambda: {name: one["value"] for name, one in FIELDS.items()}
    )
    coins: dict = field(default_factory=dict)
    changes: dict = field(default_factory=dict)


def checked(name, value):
    """The value, as the type that its limits have. Raises FieldError for one outside them."""
    limits = LIMITS[name]
    kind, least, most = type(limits["value"]), limits.get("least"), limits["most"]
    if kind in (str, list):
        right = isinstance(value, kind) and len(value) <= most
        expected = f"at most {most} characters" if kind is str else f"a list of at most {most}"
    else:
        right = type(value) in (int, float) and least <= value <= most and kind(value) == value
        expected = f"a {'whole ' * (kind is int)}number from {least} to {most}"
    if not right:
        raise FieldError(f"{name}: {json.dumps(value):.40}: expected {expected}")
    return kind(value)


def read(values, *names):
    """These values of an object of JSON, checked."""
    if not isinstance(values, dict):
        raise FieldError(f"{json.dumps(values):.40}: expected an object with {', '.join(names)}")
    return {name: checked(name, values.get(name)) for name in names}


def parse(body):
    """The Request of bytes of JSON."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        raise FieldError("the body: expected JSON") from None
    prompt, settings = read(values, "prompt"), read(values, *FIELDS)
    edits = read({"coins": [], "changes": []} | values, "coins", "changes")
    coins = [read(coin, "index", "u") for coin in edits["coins"]]
    changes = [read(change, "round", "K", "temperature") for change in edits["changes"]]
    return Request(
        prompt["prompt"],
        settings,
        coins={coin["index"]: coin["u"] for coin in coins},
        changes={change["round"]: change for change in changes},
    )


# ---------------------------------------------------------------- the answers


class Schedule:
    """K and filter of each round: those of the settings, changed from some rounds on."""

    def __init__(self, settings, changes):
        self.K, self.current, self.changes = settings.K, settings.filter, changes
        self.n_rounds = 0

    def next_K(self, last):
        """K of the round that begins; the loop asks once a round, before anything else."""
        change = self.changes.get(self.n_rounds)
        if change:
            self.K = change["K"]
            self.current = replace(self.current, temperature=change["temperature"])
        self.n_rounds += 1
        return self.K

    def filter(self, logits):
        return self.current(logits)


def progress(tell, total):
    """A watcher of Run.finish that tells now and then how many of the total are written."""
    done, told = 0, time.monotonic()

    def watch(round, *moment):
        nonlocal done, told
        done += len(round.tokens) if round else 0
        now = time.monotonic()
        if now - told < SAY_EVERY:
            tell()
        else:
            told = now
            tell(done=done, total=total)

    return watch


def written(settings, pair, request, tell, mode):
    """report_data of a request's text by these decoders, with its coins and changes."""
    settings = settings.replace(mode=mode, **request.settings)
    prompt = Prompt.of(request.prompt, settings, pair)
    bar = progress(tell, len(settings.decoders) * settings.n_tokens_to_generate)
    results, notes = {}, {}
    for decoder in settings.decoders:
        run = Run.of(settings, pair, prompt, decoder)
        run.warm_up()
        schedule = Schedule(settings, request.changes)
        chance = partial(Coins, prompt.seed, request.coins)
        run = replace(run, K=schedule.next_K, filter=schedule.filter, new_chance=chance)
        notes[decoder] = Notes(run, settings.rule_name == "block")
        results[decoder] = run.finish(notes[decoder], bar)
    plain, fast = notes.get("autoregressive"), notes["speculative"]
    results = summary(settings, pair, prompt, results)
    return report_data(settings, fast.notes, results, pair.encoder, plain and plain.notes)


def costs(settings, pair, request, tell):
    """{"c": cost of drafting a token, "v": [cost of the rest of a round of 0, 1, ... drafts]}, both
    in rounds of the target alone, and the seconds of such a round.
    """
    target, draft = pair.target, pair.draft
    Ks = range(1, min(MOST_K, draft.longest(target)) + 1)
    turns = (tell() for _ in range(TURNS))
    plain, found = measure_costs(target, draft, GREEDY, Ks, ROUNDS, turns)
    return {
        "c": statistics.median(c for of_K in found.values() for c, _ in of_K),
        "v": [1.0, *(statistics.median(v for _, v in of_K) for of_K in found.values())],
        "target_seconds": statistics.median(plain),
    }


def rules(settings, pair, request, tell):
    """Tells each row of page.rules."""
    for done, row in enumerate(rule_rows(settings, pair, request, tell), 1):
        tell(row=row, done=done, total=len(ALL_RULES))
    return {}


ANSWERS = {
    "race": partial(written, mode="both"),
    "what_if": partial(written, mode="speculative"),
    "costs": costs,
    "rules": rules,
}


def answers_of(settings, pair):
    """{name: function(request, tell)}, for page.server."""
    return {name: partial(answer, settings, pair) for name, answer in ANSWERS.items()}


def finished_run(settings, pair):
    """The data of a page with everything that the page could ask about a run."""
    request = Request()
    tell = lambda **line: None
    data = ANSWERS["race"](settings, pair, request, tell)
    data["costs"] = costs(settings, pair, request, tell)
    data["rules"] = list(rule_rows(settings, pair, request, tell))
    return data
