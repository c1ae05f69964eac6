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
MOST = 10**9  # of anything that is counted
TURNS, ROUNDS = 8, 2  # in each turn, this many rounds of every K
GREEDY = SamplingParams(0.0)  # drafts without random numbers
DECODERS = {"both": ("autoregressive", "speculative"), "speculative": ("speculative",)}

# ---------------------------------------------------------------- a request


# the numbers of the form, by the names of cli.flags; each has the type of its first value
FIELDS = {
    "n_tokens_to_generate": {"label": "Tokens", "value": 48, "least": 1, "most": 200},
    "K": {"label": "Guesses (K)", "value": 4, "least": 1, "most": 12},
    "temperature": {"label": "Temperature", "value": 0.0, "least": 0, "most": 10, "step": "any"},
    "top_k": {"label": "Top-k", "value": 0, "least": 0, "most": 1_000_000},
    "top_p": {"label": "Top-p", "value": 1.0, "least": 0.000001, "most": 1, "step": "any"},
    "seed": {"label": "Seed", "value": 123, "least": 0, "most": 2**53},
}
PROMPT = {"label": "Prompt", "value": "The wolf knocked at the door", "most": 2000}
OTHERS = "A knight rode into the forest", "Far out in the ocean", "Long ago, in a small village,"
FORM = {"prompt": PROMPT, "prompts": OTHERS, "fields": FIELDS}
RANDOM = 0.8  # the temperature of the second run of a saved page
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

    def config(self):
        """The GenerationConfig of its settings."""
        values = self.settings
        to_probs = SamplingParams(values["temperature"], values["top_k"], values["top_p"])
        return GenerationConfig(values["n_tokens_to_generate"], values["K"], to_probs)

    def to_continue(self, pair):
        """Its Prompt. Raises InputError."""
        return Prompt.from_text(self.prompt, pair, self.settings["seed"])


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
