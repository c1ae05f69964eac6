"""What the page asks the models for: a race of the two decoders, a text with coins or settings
changed on the way, what drafting and verifying cost on this machine, and every rule.

No request names a file: the models are those the server was started with. Two parameters are
functions:

describe(prompt, **settings): what page.report.describe_run returns of a run with these settings
tell(**line): sends the page a line of progress, if it gets one. It raises ConnectionAbortedError if
    the page no longer waits for the answer, so it is called often.
"""

import json
import statistics
import time
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate

from decoding.costs import measure_costs_in_turns
from decoding.metrics import summary
from decoding.prompt import Prompt
from decoding.run import GenerationConfig, RecordingRng

from checkpoints.errors import InputError
from checkpoints.limits import COUNT, PROBABILITY, Limits
from page.report import report_data
from page.rounds import Notes
from page.rule_comparison import ALL_RULES, compare_rules
from sampling import SamplingParams

TELL_SECONDS = 0.1  # between lines of progress: a browser that draws takes time from the models
MAX_K = 8  # of the rounds whose costs are measured
TURNS, ROUNDS = 8, 2  # in each turn, this many rounds of every K
GREEDY = SamplingParams(0.0)  # drafts without random numbers
DECODERS = {"both": ("autoregressive", "speculative"), "speculative": ("speculative",)}

# ---------------------------------------------------------------- a request


# the numbers of a request; those of the form have the names of cli.flags, and tighter limits
LIMITS = {
    "n_tokens_to_generate": Limits(1, 200, whole=True),
    "K": Limits(1, 12, whole=True),
    "temperature": Limits(0, 10),
    "top_k": Limits(0, 1_000_000, whole=True),
    "top_p": Limits(0.000001, 1),
    "seed": Limits(0, 2**53, whole=True),
    "index": COUNT,
    "u": PROBABILITY,
    "round": COUNT,
}


def form_field(name, label, value):
    """Describe one input of the page's form, as a dict for live.js: {"label", "value": the first
    value, "least", "most", "step"}. name: a key of LIMITS
    """
    limits = LIMITS[name]
    step = 1 if limits.whole else "any"
    return {"label": label, "value": value, "least": limits.low, "most": limits.high, "step": step}


FIELDS = {
    "n_tokens_to_generate": form_field("n_tokens_to_generate", "Tokens", 48),
    "K": form_field("K", "Guesses (K)", 4),
    "temperature": form_field("temperature", "Temperature", 0.0),
    "top_k": form_field("top_k", "Top-k", 0),
    "top_p": form_field("top_p", "Top-p", 1.0),
    "seed": form_field("seed", "Seed", 123),
}
MAX_EDITS = 1000  # coins or changes in a request
PROMPT = {"label": "Prompt", "value": "Two brothers set out together", "most": 2000}
OTHERS = "The wolf knocked at the door", "A knight rode into the forest", "Far out in the ocean"
FORM = {"prompt": PROMPT, "prompts": OTHERS, "fields": FIELDS}
RANDOM = 0.8  # the temperature of the second run of a saved page


class FieldError(InputError):
    """A request has a value that the page does not send."""


@dataclass(frozen=True)
class Request:
    """What the page asks about: a text to write. Its defaults are those of the form.

    settings: {name: value} of the FIELDS
    coins: {index: u}, random numbers to use in place of the seed's
    changes: {round: {"round", "K", "temperature"}}, from that round on, rounds counted from 0
    """

    prompt: str = PROMPT["value"]
    settings: dict = field(default_factory=lambda: {name: FIELDS[name]["value"] for name in FIELDS})
    coins: dict = field(default_factory=dict)
    changes: dict = field(default_factory=dict)

    def config(self):
        """The decoding.run.GenerationConfig of the settings."""
        values = self.settings
        to_probs = SamplingParams(values["temperature"], values["top_k"], values["top_p"])
        return GenerationConfig(values["n_tokens_to_generate"], values["K"], to_probs)

    def to_prompt(self, pair):
        """Encode the prompt for a Pair. Returns a Prompt. Raises InputError if the models cannot
        continue it.
        """
        return Prompt.from_text(self.prompt, pair, self.settings["seed"])


def refuse(name, value, expected):
    """Raise FieldError for the value of the field `name`. expected: what it should be, in words."""
    raise FieldError(f"{name}: {json.dumps(value):.40}: expected {expected}")


def read_numbers(record, *names):
    """Read the numbers of these names from a JSON object: {name: an int if its LIMITS are whole,
    else a float}. Raises FieldError for a number that is missing or outside its LIMITS.
    """
    if not isinstance(record, dict):
        raise FieldError(f"{json.dumps(record):.40}: expected an object with {', '.join(names)}")
    numbers = {}
    for name in names:
        value, limits = record.get(name), LIMITS[name]
        if not limits.allow(value):
            refuse(name, value, limits)
        numbers[name] = value if limits.whole else float(value)
    return numbers


def read_edits(request, name):
    """Return the list under the name "coins" or "changes" in a request, a dict; [] if the request
    has none. Raises FieldError if the value is no list, or has more than MAX_EDITS items.
    """
    edits = request.get(name, [])
    if not isinstance(edits, list) or len(edits) > MAX_EDITS:
        refuse(name, edits, f"a list of at most {MAX_EDITS}")
    return edits


def parse(body: bytes) -> Request:
    """Parse a Request from JSON. Raises FieldError for a value that the page would not send."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise FieldError("the body: expected JSON") from None
    settings = read_numbers(request, *FIELDS)
    prompt = request.get("prompt")
    if not isinstance(prompt, str) or len(prompt) > PROMPT["most"]:
        refuse("prompt", prompt, f"at most {PROMPT['most']} characters")
    coins = [read_numbers(coin, "index", "u") for coin in read_edits(request, "coins")]
    changes = [
        read_numbers(change, "round", "K", "temperature")
        for change in read_edits(request, "changes")
    ]
    return Request(
        prompt,
        settings,
        coins={coin["index"]: coin["u"] for coin in coins},
        changes={change["round"]: change for change in changes},
    )


# ---------------------------------------------------------------- the answers


class Schedule:
    """K and SamplingParams of each round: those of a Run, until a Request changes them.

    changes: {round from 0: {"K", "temperature"}}; a change holds for all later rounds, too
    """

    def __init__(self, run, changes):
        self.K, self.params, self.changes = run.K, run.to_probs, changes
        self.n_rounds = 0

    def next_K(self, last_round):
        """Begin the next round: make its change of K and temperature, if there is one, and return
        K. The loop calls this first in every round. last_round: the Round before, unused
        """
        change = self.changes.get(self.n_rounds)
        if change:
            self.K = change["K"]
            self.params = replace(self.params, temperature=change["temperature"])
        self.n_rounds += 1
        return self.K

    def to_probs(self, logits):
        return self.params(logits)


def progress_watcher(tell, n_tokens):
    """Return a watcher for Run.finish, which calls it with each Round, and with None at the end.

    Every TELL_SECONDS the watcher sends the number of tokens so far: tell(done=..., total=...). In
    between it calls tell() without a line, which raises an error if the page has gone.
    """
    n_done, told_at = 0, time.monotonic()

    def watch(this_round, *seconds_and_rng):
        """Count the tokens of a Round (None at the end), and tell the page how many there are."""
        nonlocal n_done, told_at
        if this_round:
            n_done += len(this_round.tokens)
        now = time.monotonic()
        if now - told_at < TELL_SECONDS:
            tell()
        else:
            told_at = now
            tell(done=n_done, total=n_tokens)

    return watch


def write_text(describe, pair, request, tell, mode):
    """Decode a Request with each decoder of a mode, a key of DECODERS, and send progress to the
    page. Returns all that the page shows of the run, the dict of page.report.report_data. A Request
    may prescribe coins, and settings that change from a token on.

    describe: a function (prompt, **settings) -> dict that says how a run was made
    tell: a function (**line) that sends the page a line; pair: the decoding.load.Pair to run
    """
    config, prompt = request.config(), request.to_prompt(pair)
    decoders = DECODERS[mode]
    progress = progress_watcher(tell, len(decoders) * config.n_tokens)
    results, notes = {}, {}
    for decoder in decoders:
        run = config.new_run(pair, prompt, decoder)
        run.warm_up()
        schedule = Schedule(run, request.changes)  # K and settings as of each token
        new_rng = partial(RecordingRng, prompt.seed, request.coins)  # records random numbers
        run = replace(run, K=schedule.next_K, to_probs=schedule.to_probs, new_rng=new_rng)
        watcher = Notes(run)
        results[decoder] = run.finish(watcher, progress)
        notes[decoder] = watcher.notes
    description = describe(prompt, mode=mode, **request.settings)
    compared = summary(config, pair, prompt, results)
    plain_notes = notes.get("autoregressive")
    # every mode has the speculative decoder
    return report_data(description, compared, notes["speculative"], pair, plain_notes)


def measure_pair(describe, pair, request, tell):
    """Time rounds of a Pair on this machine. Calls tell(), without arguments, before each turn.
    `describe` and `request`, which all ANSWERS take, are unused. Returns a dict:

    c: the seconds of drafting a token, divided by target_seconds
    v: a list, 1.0 for no draft, then for 1, 2, ... drafts: the seconds of the rest of a round,
        divided by target_seconds. It never decreases: a v below that of a smaller K is noise.
    turns: a list with the {"c", "v"} of each turn of the measurement
    target_seconds: the seconds of a round of the target alone
    """
    target, draft = pair.target, pair.draft
    Ks = range(1, min(MAX_K, draft.max_draft_length(target)) + 1)
    turns = (tell() for _ in range(TURNS))  # each item is asked for when its turn begins
    plain_seconds, costs_of_K = measure_costs_in_turns(target, draft, GREEDY, Ks, ROUNDS, turns)
    costs = list(costs_of_K.values())  # for each K, [(c, v)] of every turn
    # cost_data takes for each K a list of turns, here of one
    by_turn = [cost_data([[cost] for cost in costs_of_turn]) for costs_of_turn in zip(*costs)]
    target_seconds = statistics.median(plain_seconds)
    return cost_data(costs) | {"turns": by_turn, "target_seconds": target_seconds}


def cost_data(costs):
    """The medians {"c": drafting a token, "v": [the rest of a round of 0, 1, 2, ... drafts]}, in
    rounds of the target alone. A v below that of a smaller K is noise, and is raised to it.
    costs: for each K from 1 on, a list of measured (c, v)
    """
    median_v = [statistics.median(v for _, v in costs_of_K) for costs_of_K in costs]
    return {
        "c": statistics.median(c for costs_of_K in costs for c, _ in costs_of_K),
        "v": list(accumulate([1.0, *median_v], max)),  # the largest so far
    }


def tell_rules(describe, pair, request, tell):
    """Decode the text of a Request by a Pair under each of ALL_RULES. For each rule, tell(**line)
    sends the page {"row": a dict of compare_rules, "done": rules so far, "total": rules}. Returns
    {}: all has been sent. `describe`, which all ANSWERS take, is unused.
    """
    # compare_rules calls tell() after each round, which raises an error if the page is gone
    rows = compare_rules(request.config(), pair, request.to_prompt(pair), tell)
    for n_done, row in enumerate(rows, 1):
        tell(row=row, done=n_done, total=len(ALL_RULES))
    return {}


ANSWERS = {
    "race": partial(write_text, mode="both"),
    "what_if": partial(write_text, mode="speculative"),
    "costs": measure_pair,
    "rules": tell_rules,
}


def answers_of(describe, pair):
    """The `answers` of a page.server.LiveServer, computed by a Pair: {a name of ANSWERS: function
    (Request, tell) -> dict}. tell(**line) sends the page a line.

    describe: a function (prompt, **settings) -> dict that says how a run was made
    """
    return {name: partial(answer, describe, pair) for name, answer in ANSWERS.items()}


def compute_saved_page(describe, pair, tell):
    """Compute all that a saved page shows, because it has no server to ask: a greedy run, in which
    both texts are the same; a run with random tokens ("other"); the costs; and the comparison of
    all rules, at the temperature of the random run. Returns a dict for page.report.page_of.

    describe: a function (prompt, **settings) -> dict that says how a run was made
    tell: a function (**line), called with progress, and without arguments in between
    """
    settings = Request().settings
    greedy = Request(settings=settings | {"temperature": 0.0})
    sampled = Request(settings=settings | {"temperature": RANDOM})
    data = ANSWERS["race"](describe, pair, greedy, tell)  # what the page shows of a run
    data["other"] = ANSWERS["race"](describe, pair, sampled, tell)
    data["costs"] = measure_pair(describe, pair, greedy, tell)
    data["rules"] = []
    for row in compare_rules(sampled.config(), pair, sampled.to_prompt(pair), tell):
        data["rules"].append(row)
        tell(done=len(data["rules"]), total=len(ALL_RULES))
    return data
