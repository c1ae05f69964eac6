"""What the page asks the models for: a race of the two decoders, a text with coins or settings
changed on the way, what drafting and verifying cost on this machine, and every rule.

Nothing in a request names a file: the models are those the server was started with. tell(**line) is
that of page.server: it sends progress and ends what nobody waits for. about(prompt, **settings)
gives the settings to show and the command line of the same run, for page.report.
"""

import json
import statistics
import time
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate

from checkpoints.errors import InputError
from checkpoints.limits import COUNT, PROBABILITY, Limits
from decoding.clock import measure_costs
from decoding.metrics import summary
from decoding.prompt import Prompt
from decoding.run import GenerationConfig, RecordingRng
from page.report import report_data
from page.rounds import Notes
from page.rules import ALL_RULES, rule_rows
from sampling import SamplingParams

SAY_EVERY = 0.1  # seconds: a browser that draws takes time from the models
MOST_K = 8  # of the rounds whose costs are measured
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
    """The input of the form for a number, as live.js takes it."""
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
PROMPT = {"label": "Prompt", "value": "The wolf knocked at the door", "most": 2000}
OTHERS = "A knight rode into the forest", "Far out in the ocean", "Long ago, in a small village,"
FORM = {"prompt": PROMPT, "prompts": OTHERS, "fields": FIELDS}
RANDOM = 0.8  # the temperature of the second run of a saved page


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

    def config(self):
        """The GenerationConfig of its settings."""
        values = self.settings
        to_probs = SamplingParams(values["temperature"], values["top_k"], values["top_p"])
        return GenerationConfig(values["n_tokens_to_generate"], values["K"], to_probs)

    def to_continue(self, pair):
        """Its Prompt. Raises InputError."""
        return Prompt.from_text(self.prompt, pair, self.settings["seed"])


def refuse(name, value, expected):
    """Raise FieldError for the value of a field, which is not what is expected."""
    raise FieldError(f"{name}: {json.dumps(value):.40}: expected {expected}")


def read_numbers(record, *names):
    """{name: number} of a JSON object: an int where its LIMITS are whole, else a float. Raises
    FieldError for a number that is missing or outside its LIMITS.
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
    """The list under "coins" or "changes" of a request (a dict); [] where the request has none.
    Raises FieldError for another value and for a list that is too long.
    """
    edits = request.get(name, [])
    if not isinstance(edits, list) or len(edits) > MAX_EDITS:
        refuse(name, edits, f"a list of at most {MAX_EDITS}")
    return edits


def parse(body):
    """The Request in bytes of JSON. Raises FieldError for what the page does not send."""
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
    """K and filter of each round: those of a run, changed from some rounds on."""

    def __init__(self, run, changes):
        self.K, self.current, self.changes = run.K, run.to_probs, changes
        self.n_rounds = 0

    def next_K(self, last):
        """K of the round that begins; the loop asks once a round, before anything else."""
        change = self.changes.get(self.n_rounds)
        if change:
            self.K = change["K"]
            self.current = replace(self.current, temperature=change["temperature"])
        self.n_rounds += 1
        return self.K

    def to_probs(self, logits):
        return self.current(logits)


def progress(tell, total):
    """A watcher of Run.finish that tells now and then how many of the total are written."""
    done, told = 0, time.monotonic()

    def watch(this_round, *moment):
        nonlocal done, told
        done += len(this_round.tokens) if this_round else 0
        now = time.monotonic()
        if now - told < SAY_EVERY:
            tell()
        else:
            told = now
            tell(done=done, total=total)

    return watch


def written(about, pair, request, tell, mode):
    """report_data of a request's text by these decoders, with its coins and changes."""
    config, prompt = request.config(), request.to_continue(pair)
    decoders = DECODERS[mode]
    bar = progress(tell, len(decoders) * config.n_tokens)
    results, notes = {}, {}
    for decoder in decoders:
        run = config.new_run(pair, prompt, decoder)
        run.warm_up()
        schedule = Schedule(run, request.changes)
        rng = partial(RecordingRng, prompt.seed, request.coins)
        run = replace(run, K=schedule.next_K, to_probs=schedule.to_probs, new_rng=rng)
        notes[decoder] = Notes(run)
        results[decoder] = run.finish(notes[decoder], bar)
    plain, fast = notes.get("autoregressive"), notes["speculative"]
    known = about(prompt, mode=mode, **request.settings)
    compared = summary(config, pair, prompt, results)
    return report_data(known, compared, fast.notes, pair, plain and plain.notes)


def costs(about, pair, request, tell):
    """{"c": cost of drafting a token, "v": [cost of the rest of a round of 0, 1, ... drafts]}, both
    in rounds of the target alone, and the seconds of such a round; "turns": c and v of each turn.

    A pass over more tokens never costs less: a v below that of a smaller K is noise.
    """
    target, draft = pair.target, pair.draft
    Ks = range(1, min(MOST_K, draft.max_draft_length(target)) + 1)
    turns = (tell() for _ in range(TURNS))
    plain, found = measure_costs(target, draft, GREEDY, Ks, ROUNDS, turns)

    def growing(v):
        return list(accumulate([1.0, *v], max))

    of_turns = [list(zip(*turn)) for turn in zip(*found.values())]  # (cs, vs) of every K
    return {
        "c": statistics.median(c for cs, _ in of_turns for c in cs),
        "v": growing(statistics.median(v for _, v in of_K) for of_K in found.values()),
        "turns": [{"c": statistics.median(cs), "v": growing(vs)} for cs, vs in of_turns],
        "target_seconds": statistics.median(plain),
    }


def rules(about, pair, request, tell):
    """Tells each row of page.rules."""
    rows = rule_rows(request.config(), pair, request.to_continue(pair), tell)
    for done, row in enumerate(rows, 1):
        tell(row=row, done=done, total=len(ALL_RULES))
    return {}


ANSWERS = {
    "race": partial(written, mode="both"),
    "what_if": partial(written, mode="speculative"),
    "costs": costs,
    "rules": rules,
}


def answers_of(about, pair):
    """{name: function(request, tell)}, for page.server."""
    return {name: partial(answer, about, pair) for name, answer in ANSWERS.items()}


def finished_run(about, pair, tell):
    """The data of a page with everything that the page could ask about a run: greedy, so that both
    texts are the same; and beside it a run with random tokens, whose temperature the rules have.
    """
    first = Request().settings
    greedy, sampled = (Request(settings=first | {"temperature": t}) for t in (0.0, RANDOM))
    data = ANSWERS["race"](about, pair, greedy, tell)
    data["other"] = ANSWERS["race"](about, pair, sampled, tell)
    data["costs"] = costs(about, pair, greedy, tell)
    data["rules"] = []
    for row in rule_rows(sampled.config(), pair, sampled.to_continue(pair), tell):
        data["rules"].append(row)
        tell(done=len(data["rules"]), total=len(ALL_RULES))
    return data
