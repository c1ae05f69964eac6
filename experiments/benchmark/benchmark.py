"""python main.py benchmark: which draft, which K, at which temperature: measured under the rules of
experiments/benchmark/speedups.py.

Results are {"machine", "settings", "rows", "best_K"}, as JSON, and also the rows as CSV and all as
Markdown tables. A row is a draft with a K; "best_K" compares the K that theory predicts for each
draft with the fastest. With --batch_size a row says what batches do to both decoders
(decoding/batching.py), with --programs what other programs do with the same weights.

What has been measured is kept in FILE.json.partial, one line for each prompt, until the run is
complete; --resume goes on from there. Batches and programs keep nothing.
"""

import dataclasses
import itertools
import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from types import SimpleNamespace
from typing import NamedTuple

import utils
from backends.machine import machine
from cli.files import check_output
from cli.flags import (
    Json,
    Machine,
    Models,
    PromptFile,
    Sampling,
    Weights,
    Workers,
    check_apart,
    flag,
)
from cli.lines import Lines
from cli.texts import MOST_TEXTS
from cli.values import (
    AUTO,
    SettingError,
    check_choice,
    check_length,
    check_number,
    parse_Ks,
    parse_list,
    parse_number,
)
from decoding.adaptive_k import costs_of_parts
from decoding.batching import require_room
from decoding.cluster.failed import Failed, require_all
from decoding.cluster.place import place
from decoding.load import ModelNames
from decoding.run import Run
from experiments.benchmark import peers
from experiments.benchmark.results import check_results_output, write_results
from experiments.benchmark.runner import (
    N_RANDOM,
    PLAIN,
    Contender,
    Measured,
    Race,
    batch_rows,
    progress,
    say,
)
from experiments.benchmark.speedups import best_K, row_of
from experiments.benchmark.tables import label, markdown
from experiments.corpus import N_OPENING, openings
from sampling import RULES
from utils import RANDOM, InputError


@dataclass(frozen=True)
class BenchmarkSettings(Machine, Sampling, Weights, Models, PromptFile):
    """What decides the figures of a benchmark. Raises InputError."""

    draft_model_size: str = flag(
        "0.7M-17M,ngram",
        "sizes in models_dir, folders, ngram, eagle or medusa, separated by commas",
    )
    target_model_size: str = flag("17M", "sizes in models_dir, or folders, separated by commas")
    K: str = flag(
        "1..6",
        "how many tokens to draft per round, such as 1..10 or 1,2,4; auto, alone or among them, "
        "chooses K for each round",
    )
    verification: str = flag(
        "token",
        "the accept/reject rule: token, or block, which accepts at least as many on average; "
        "token,block measures the two in turns",
    )
    temperature: str = flag("0,1", "one or several, separated by commas; 0 is greedy decoding")
    repeats: int = flag(3, "how often to measure each; medians are reported", least=1)
    seed: int = flag(123, "seed of the random draws and of the order of the runs")
    synthetic_acceptance: str = flag(
        "",
        "accept each drafted token with this probability, whatever the models compute; all passes "
        "are run, but the texts mean nothing",
    )
    corpus: str = flag(
        "",
        f"continue the first {N_OPENING} tokens of held-out stories, those of *_valid.txt in this "
        "folder",
    )
    batch_size: str = flag(
        "",
        "measure tokens per second of both decoders with this many texts at once, such as 1,2,4,8: "
        f"after prompts of {N_RANDOM} random tokens; not with --resume",
    )
    programs: str = flag(
        "",
        "compare with the same weights in these programs, such as transformers,llama_server: "
        f"{', '.join(peers.PROGRAMS)}; greedy, with one draft and one K; not with "
        "--resume",
    )

    def check(self):
        for n_texts in self.batch_sizes():
            check_number("batch_size", n_texts, 1, MOST_TEXTS)
        # not in APART: generate takes prompts with its --batch_size
        others = ("prompts", "n_prompts", "corpus") if self.batch_size else ()
        for name in filter(self.has, others):
            problem = "with --batch_size: expected one of the two, as its prompts are random"
            raise SettingError(name, problem)
        for rule in self.rules():
            check_choice("verification", rule, *RULES)
        for name in self.others():
            check_choice("programs", name, *peers.PROGRAMS)
        if self.programs and not self.is_one_pair():
            problem = f"{self.programs!r}: expected one target, draft, K and rule, no K auto, and "
            raise SettingError("programs", problem + "--temperature 0, as all write greedily")
        # refuse now what cannot be parsed
        self.acceptance()
        self.contenders()
        self.targets()

    def is_one_pair(self):
        """Whether there is one pair and one way to decode it, greedily."""
        greedy = [filter.greedy for filter in self.filters().values()]
        one_pair = len(self.targets()) == 1 and len(self.contenders()) == 2
        return one_pair and self.Ks() != [AUTO] and greedy == [True]

    def acceptance(self):
        """The probability of --synthetic_acceptance; None where the models decide."""
        given = self.synthetic_acceptance
        return parse_number("synthetic_acceptance", given, 0, 1) if given else None

    def rules(self):
        return parse_list("verification", self.verification)

    def Ks(self):
        return parse_Ks(self.K, self.n_tokens_to_generate, "the tokens of a text", auto=True)

    def batch_sizes(self):
        return parse_list("batch_size", self.batch_size, int) if self.batch_size else []

    def others(self):
        """The names of the other programs."""
        return parse_list("programs", self.programs) if self.programs else []

    def contenders(self):
        """The autoregressive loop, then every draft with every K and rule."""
        every = itertools.product(self.drafts(), self.Ks(), self.rules())
        return [PLAIN, *itertools.starmap(Contender, every)]

    def chosen(self, pairs):
        if not self.corpus:
            return super().chosen(pairs)
        return openings(self.corpus, pairs.encoder, self.n_prompts, self.longest(pairs)), 0

    def wanted(self, target):
        """The models that one target's figures are measured with."""
        drafts = self.drafts()
        if self.programs and self.weights == RANDOM:
            drafts = []  # a draft would agree with nothing
        return ModelNames.of(self, target, drafts)

    def plain_run(self, pairs, filter, ids=()):
        """The Run of the target alone, after this prompt."""
        return Run(pairs.pair(), [*ids], self.n_tokens_to_generate, filter=filter)

    def race(self, pairs, filter, ids=()):
        """All contenders after this prompt."""
        run = self.plain_run(pairs, filter, ids)
        return Race(run, pairs.drafts, self.contenders(), self.acceptance())

    def labels(self):
        """The columns that mark figures of random weights or synthetic acceptance."""
        return {"weights": self.weights, "synthetic_acceptance": self.acceptance()}


@dataclass(frozen=True)
class BenchmarkOutput(Json, Workers):
    """Who measures, and where results go. Raises InputError."""

    heading = "Output"

    out: str = flag(
        "", "write the results to this new .json file, and to .csv and .md files beside it"
    )
    plot: str = flag(
        "", "draw the results into this new .png, .svg or .pdf file (needs matplotlib)"
    )
    resume: bool = flag(False, "continue an interrupted run with the same --out")

    def check(self):
        if self.resume and not self.out:
            raise InputError("--resume: needs the --out file of the run to go on with")
        if self.out:
            check_results_output(self.out)
        if self.plot:
            check_output("plot", self.plot, (".png", ".svg", ".pdf"))


# ---------------------------------------------------------------- prompts, one at a time


class Item(NamedTuple):
    """A prompt on which all contenders are measured."""

    target: str
    temperature: float
    number: int  # from 0
    ids: tuple

    def __str__(self):
        return f"{self.target} at temperature {self.temperature:g}, prompt {self.number + 1}"


class Way(NamedTuple):
    """A way to decode whose rounds are timed one by one."""

    target: str
    temperature: float
    draft: str
    rule: str

    def __str__(self):
        return f"rounds of {self.draft} for {self.target} at temperature {self.temperature:g}"


def measurements(settings, pairs, items):
    """Of each Item the Runs of all contenders, as JSON; of each Way what its rounds cost."""
    filters = settings.filters()
    warm = False
    for item in items:
        filter = filters[item.temperature]
        if isinstance(item, Way):
            rule = RULES[item.rule]
            yield costs_of_parts(pairs.target, pairs.drafts[item.draft], filter, rule)
            continue
        race = settings.race(pairs, filter, item.ids)
        if not warm:
            race.warm_up()
            warm = True
        runs = race.measure([settings.seed, item.number], settings.repeats)
        yield [*map(dataclasses.asdict, runs)]


def measure(settings, where, target, items, lines, result):
    """{Item or Way: what was measured of it}. What is not among the `lines` yet is measured; the
    result is told how many were, and {what: why} of what could not be measured.
    """
    found = {Item(*key, tuple(ids)): runs for (*key, ids), runs in lines.done}
    todo = [item for item in items if item not in found]
    result["machine"]["prompts_measured_before_resuming"] += len(items) - len(todo)
    outcomes = where.run(partial(measurements, settings), todo, result["failed"])
    for outcome, item in zip(progress(outcomes, len(todo), target, "measurements"), todo):
        if isinstance(outcome, Failed):
            continue
        found[item] = outcome
        if isinstance(item, Item):
            lines.add([item, outcome])
    return found


def rows_of_prompts(settings, where, target, lines, result):
    """The rows of one target; the result gets the best K of each draft."""
    prompts, n_skipped = settings.chosen(where.pairs)
    temperatures = [*settings.filters()]
    items = [Item(target, t, i, (*ids,)) for t in temperatures for i, ids in enumerate(prompts)]
    every = itertools.product(temperatures, settings.drafts(), settings.rules())
    ways = [Way(target, *way) for way in every]
    found = measure(settings, where, target, items + ways, lines, result)
    rows = []
    for t in temperatures:
        of_prompts = [found[item] for item in items if item.temperature == t and item in found]
        if not of_prompts:  # all failed
            continue
        about = {"target": target, "temperature": t, "skipped_prompts": n_skipped}
        about |= settings.labels()
        # by prompt and then by contender -> by contender and then by prompt
        contenders = settings.contenders()
        runs = {
            contender: [Measured(**of_prompt[i]) for of_prompt in of_prompts]
            for i, contender in enumerate(contenders)
        }
        rows += [row_of(contender, runs, **about) for contender in contenders if contender != PLAIN]
    key = itemgetter("temperature", "draft", "verification")
    for way in ways:
        wanted = way.temperature, way.draft, way.rule
        if of_way := [row for row in rows if key(row) == wanted]:
            result["best_K"].append(best_K(of_way, found.get(way)))
    return rows


# ---------------------------------------------------------------- batches, and other programs


def rows_of_batches(settings, pairs, target):
    """A row for each contender and batch size."""
    n_tokens, sizes = settings.n_tokens_to_generate, settings.batch_sizes()
    check_length("n_tokens_to_generate", n_tokens, pairs.target.config.n_ctx - N_RANDOM)
    for draft in pairs.drafts:
        require_room(pairs.pair(draft).models, max(sizes), N_RANDOM + n_tokens)
    rows = []
    for t, filter in settings.filters().items():
        race = settings.race(pairs, filter)
        same = {"target": target, "temperature": t, **settings.labels()}
        name = f"{target} at temperature {t:g}"
        of_filter = batch_rows(race, sizes, settings.repeats, settings.seed, name)
        rows += [same | row for row in of_filter]
    return rows


def rows_of_programs(settings, pairs, target, result):
    """A row for each program and decoder."""
    (draft,) = settings.drafts()
    pair = pairs.pair(draft)
    folders = None
    run = dataclasses.replace(
        settings.plain_run(pairs, settings.filter),
        K=settings.Ks()[0],
        rule=RULES[settings.verification],
    )
    if settings.weights != RANDOM:
        folder = partial(utils.find_folder, models_dir=settings.models_dir)
        # what cannot write alone, other programs do not have
        folders = folder(target), folder(draft) if pair.draft.alone else None
    prompts, _ = settings.chosen(pairs)
    programs, missing = peers.started(settings.others(), pair, folders, run)
    versions = {program.name: program.version for program in programs}
    result["machine"] |= {"versions": versions, "missing": missing}
    result["prompts"] = len(prompts)
    return peers.compare(programs, prompts, run, settings.repeats, settings.seed)


# ---------------------------------------------------------------- the run


def measure_all(settings, lines, cluster=""):
    """Measure what is not among the `lines`. Returns the results, which say what failed."""
    about = machine(settings.backend) | {"kernels": {}, "prompts_measured_before_resuming": 0}
    result = {"machine": about, "settings": settings.as_dict(), "rows": []}
    result |= {"best_K": [], "failed": {}}
    rows = result["rows"]
    for target in settings.targets():
        say(f"{target}: loading it and its drafts")
        with place(cluster, settings.wanted(target)) as where:
            about["kernels"] |= where.kernels
            if where.machines:
                about["workers"] = where.machines
            if settings.batch_size:
                rows += rows_of_batches(settings, where.pairs, target)
            elif settings.programs:
                rows += rows_of_programs(settings, where.pairs, target, result)
            else:
                rows += rows_of_prompts(settings, where, target, lines, result)
    return {name: value for name, value in result.items() if value or name == "rows"}


@contextmanager
def kept_lines(settings, output):
    """The Lines of --out, which an interrupted run leaves for --resume; else a list of them."""
    if not output.out:
        done = []
        yield SimpleNamespace(done=done, add=done.append)
        return
    # what must be the same for a run to go on
    prints = {target: settings.wanted(target).fingerprints() for target in settings.targets()}
    with Lines(output.out, header=settings.as_dict() | {"fingerprints": prints}) as lines:
        n_before = len(lines.done)
        if n_before and not output.resume:
            raise InputError(
                f"{lines.partial}: is left from a run that was interrupted; "
                "give --resume, or delete it"
            )
        try:
            yield lines
        finally:
            if lines.partial.exists() and len(lines.done) > n_before:
                kept = f"kept {len(lines.done)} measured prompts in {lines.partial}"
                print(f"{kept}; --resume goes on", file=sys.stderr)


def benchmark(settings: BenchmarkSettings, output: BenchmarkOutput):
    """Measure the speedup of every draft with every target, at each K and temperature, and compare
    it with what theory predicts.

    Texts continue past <|endoftext|>, so that plain and speculative decoding write equally many
    tokens. docs/benchmarks.md explains the method and the columns.

    Examples:
        python main.py benchmark --K 1..8,auto --out results.json --plot results.png
        python main.py benchmark --draft_model_size 0.7M-17M --K 4 --batch_size 1,2,4,8,16
        python main.py benchmark --draft_model_size 0.7M-17M --K 4 --temperature 0 \\
            --programs transformers,openvino,llama_server
    """
    check_apart(settings, output)
    if settings.batch_size and output.cluster:
        raise SettingError("cluster", "with --batch_size: expected one of the two")
    if output.plot:  # before anything is measured, as matplotlib may be missing
        from experiments.benchmark.plots import draw
    with kept_lines(settings, output) as lines:
        result = measure_all(settings, lines, output.cluster)
        failed = result.get("failed", {})
        # print first: a file that cannot be written must not cost what was measured
        if output.json:
            print(json.dumps(result), flush=True)
        elif result["rows"]:
            print(markdown(result), end="", flush=True)
        if output.out and not failed:
            write_results(result, markdown(result), output.out)
            lines.discard()
        if output.plot and not failed:
            draw(result, output.plot, label(result["settings"]))
    again = "--resume tries these again" if output.out else "use --out to keep what was measured"
    require_all(failed, f"the figures are those of the others; {again}")
