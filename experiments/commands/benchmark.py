"""python main.py benchmark: which draft, which K, at which temperature: measured under the rules of
experiments/measuring/referee.py.

Results are {"machine", "settings", "rows"}, as JSON, and beside that as CSV and as a Markdown
table. What has been measured is kept in FILE.json.partial, one line for each prompt, until the run
is complete; --resume goes on from there.
"""

import dataclasses
import itertools
import json as json_format
import sys
from functools import partial

from tqdm import tqdm

from experiments.cli.validators import (
    check_choice,
    check_numbers,
    check_seed,
    longest_prompt,
    parse_filters,
    parse_K,
    parse_list,
    parse_probability,
)
from experiments.cluster.models import Wanted
from experiments.cluster.place import place
from experiments.data.files import check_output
from experiments.data.lines import Failed, Lines, SomeFailed, spared
from experiments.data.machine import machine
from experiments.data.prompts import choose_prompts
from experiments.data.results import check_results_output, write_results
from experiments.decoding.settings import AUTO, VERIFICATIONS
from experiments.drafting.pairs import CHECKPOINT, RANDOM
from experiments.measuring import runner
from experiments.measuring.referee import row_of
from experiments.measuring.runner import PLAIN, Contender, Task
from experiments.showing.tables import label, markdown
from utils import MODELS_DIR, InputError


@dataclasses.dataclass(frozen=True)
class BenchmarkSettings:
    """What decides the figures of a benchmark. Raises InputError.

    What to measure:
        draft_model_size: sizes in models_dir, folders, ngram, eagle or medusa, separated by commas
        target_model_size: sizes in models_dir, or folders, separated by commas
        models_dir: the folder that holds a folder for each size
        K: how many tokens to draft per round, such as 1..10 or 1,2,4; auto, alone or among them,
            chooses K for each round
        verification: the accept/reject rule: token, or block, which accepts at least as many on
            average; token,block measures the two in turns
        temperature: one or several, separated by commas; 0 is greedy decoding
        top_k: sample from this many most likely tokens; 0 keeps all
        top_p: sample from the smallest set of most likely tokens with this total probability
        prompts: a file of prompts (JSON Lines, a JSON array, HellaSwag's form, or one a line; also
            .gz and .bz2); by default built-in stories
        n_prompts: how many prompts to use; 0 is all
        n_tokens_to_generate: how many tokens to write after each prompt
        repeats: how often to measure each; medians are reported
        seed: of the random draws and of the order of the runs
        backend: what computes: numpy, or cupy on a GPU
        kernels: how NumPy multiplies: auto measures, plain is NumPy's own product, 64x2 is tiles of
            64 columns on 2 threads
        weights: checkpoint, or random (sizes 124M to 1558M need no files; the texts mean nothing)
        synthetic_acceptance: accept each drafted token with this probability, whatever the models
            compute; all passes are run, but the texts mean nothing
    """

    draft_model_size: str = "0.7M-17M,ngram"
    target_model_size: str = "17M"
    models_dir: str = MODELS_DIR
    K: str = "1..6"
    verification: str = "token"
    temperature: str = "0,1"
    top_k: int = 0
    top_p: float = 1.0
    prompts: str = ""
    n_prompts: int = 12
    n_tokens_to_generate: int = 60
    repeats: int = 3
    seed: int = 123
    backend: str = "numpy"
    kernels: str = "auto"
    weights: str = "checkpoint"
    synthetic_acceptance: str = ""

    def __post_init__(self):
        check_seed(self.seed)
        check_numbers(0, n_prompts=self.n_prompts)
        check_numbers(1, n_tokens_to_generate=self.n_tokens_to_generate, repeats=self.repeats)
        check_choice("weights", self.weights, CHECKPOINT, RANDOM)
        for rule in self.rules():
            check_choice("verification", rule, *VERIFICATIONS)
        # refuse now what cannot be parsed
        self.acceptance()
        self.filters()
        self.contenders()
        self.targets()

    def acceptance(self):
        return parse_probability("synthetic_acceptance", self.synthetic_acceptance)

    def filters(self):
        """{temperature: Filter}"""
        return parse_filters(self.temperature, self.top_k, self.top_p)

    def targets(self):
        return parse_list("target_model_size", self.target_model_size)

    def drafts(self):
        return parse_list("draft_model_size", self.draft_model_size)

    def Ks(self):
        return parse_K(self.K, self.n_tokens_to_generate, "the tokens of a text", auto=True)

    def rules(self):
        return parse_list("verification", self.verification)

    def contenders(self):
        """The autoregressive loop, then every draft with every K and rule."""
        every = itertools.product(self.drafts(), self.Ks(), self.rules())
        return [PLAIN, *(Contender(*one) for one in every)]

    def wanted(self, target):
        """The models that one target's figures are measured with."""
        return Wanted(
            target,
            tuple(self.drafts()),
            self.models_dir,
            self.weights,
            self.backend,
            self.kernels,
        )

    def labels(self):
        """What each row says of how real it is."""
        return {"weights": self.weights, "synthetic_acceptance": self.acceptance()}


class Stored:
    """The Runs measured so far, {(target, temperature, prompt's number): runs}; each is a line of
    the partial file, if there is one, with the prompt's ids.

    Raises InputError for lines that are not of these settings and prompts.
    """

    def __init__(self, settings, lines=None):
        self.lines, self.settings, self.runs, self.ids = lines, settings, {}, {}
        for line in lines.done if lines else ():
            try:
                target, temperature, i, ids, values = line
                key = target, temperature, i
                self.runs[key] = runner.runs_from_json(
                    values, settings.contenders(), settings.repeats
                )
                self.ids[key] = ids
            except (TypeError, ValueError):
                raise InputError(
                    f"{lines.partial}: is damaged; delete it, and try again without --resume"
                ) from None
        self.n_before = len(self.runs)

    def has(self, key, ids):
        """Whether this prompt was measured. Raises InputError if another one was in its place."""
        if key in self.runs and self.ids[key] != ids:
            raise InputError(
                f"{self.lines.partial}: is of other prompts; delete it, or give the same"
            )
        return key in self.runs

    def add(self, key, ids, runs):
        self.runs[key] = runs
        if self.lines:
            self.lines.add([*key, ids, [dataclasses.asdict(run) for run in runs]])

    def say_what_is_kept(self):
        if len(self.runs) > self.n_before:
            kept = f"kept {len(self.runs)} measured prompts in {self.lines.partial}"
            print(f"{kept}; --resume goes on", file=sys.stderr)


def measured(settings, pairs, items, tick=None):
    """The Runs of all contenders on each prompt; an item is a temperature, the number of a prompt
    and its ids.
    """
    contenders, filters = settings.contenders(), settings.filters()
    for n_before, (t, i, ids) in enumerate(items):
        task = Task(
            ids,
            settings.n_tokens_to_generate,
            filters[t],
            settings.acceptance(),
        )
        if n_before == 0:
            runner.warm_up(pairs.target, pairs.drafts, contenders, ids, task.filter)
        seed = [settings.seed, i]
        yield runner.measure(
            pairs.target, pairs.drafts, contenders, task, seed, settings.repeats, tick
        )


def name_of(size, item):
    return f"{size} at temperature {item[0]:g}, prompt {item[1] + 1}"


def measure_target(settings, where, size, prompts, stored, failed, bar):
    """Measure what is not stored yet of one target; {what: why} is put into `failed`."""
    keys = [(size, t, i) for t in settings.filters() for i in range(len(prompts))]
    todo = [key for key in keys if not stored.has(key, prompts[key[2]])]
    runs_of_a_prompt = len(settings.contenders()) * (settings.repeats + 1)
    bar.total += len(todo) * runs_of_a_prompt
    bar.refresh()
    n_done = bar.n
    items = [(t, i, prompts[i]) for _, t, i in todo]
    function, name = partial(measured, settings), partial(name_of, size)
    results = where.run(function, items, name=name, tick=bar.update)
    for runs, key in zip(spared(results, failed), todo):
        n_done += runs_of_a_prompt
        bar.update(n_done - bar.n)  # what a worker has done, it has not told the bar
        if not isinstance(runs, Failed):
            stored.add(key, prompts[key[2]], runs)


def rows_of(settings, size, n_prompts, n_skipped, stored):
    """The rows of one target, from all that was measured of it."""
    rows = []
    for t in settings.filters():
        keys = [(size, t, i) for i in range(n_prompts)]
        by_prompt = [stored.runs[key] for key in keys if key in stored.runs]
        if not by_prompt:
            continue  # all failed
        runs = dict(zip(settings.contenders(), zip(*by_prompt)))
        for one in settings.contenders()[1:]:
            # what another rule gains over the token rule
            token = dataclasses.replace(one, verification="token")
            beside = runs.get(token) if token != one else None
            figures = runs[PLAIN], runs[one], n_skipped, settings.labels(), beside
            rows.append(row_of(size, t, *figures))
    return rows


def run_all(settings, stored, cluster=""):
    """Measure what is not stored. Returns the results, which say what failed."""
    about = machine() | {"prompts_measured_before_resuming": stored.n_before}
    rows, failed = [], {}
    with tqdm(total=0, unit=" runs", leave=False, disable=None) as bar:
        for size in settings.targets():
            with place(cluster, settings.wanted(size)) as where:
                about["kernels"] |= where.kernels
                if where.machines:
                    about["workers"] = where.machines
                pairs = where.pairs
                n_tokens = settings.n_tokens_to_generate
                longest = longest_prompt(pairs.target.config.n_ctx, n_tokens)
                prompts, n_skipped = choose_prompts(
                    settings.prompts, settings.n_prompts, pairs.encoder, longest
                )
                measure_target(settings, where, size, prompts, stored, failed, bar)
            rows += rows_of(settings, size, len(prompts), n_skipped, stored)
    result = {"machine": about, "settings": dataclasses.asdict(settings), "rows": rows}
    return result | ({"failed": failed} if failed else {})


def header_of(settings):
    """What must be the same for a run to go on: the settings, and the models of each target."""
    prints = {target: settings.wanted(target).fingerprints() for target in settings.targets()}
    return dataclasses.asdict(settings) | {"fingerprints": prints}


def run_and_store(settings, out, resume, cluster):
    """The results, from and to the files that `out` names."""
    with Lines(out, header=header_of(settings)) as lines:
        if lines.done and not resume:
            raise InputError(
                f"{lines.partial}: is left from a run that was interrupted; "
                "give --resume, or delete it"
            )
        stored = Stored(settings, lines)
        try:
            result = run_all(settings, stored, cluster)
        except (KeyboardInterrupt, InputError):
            stored.say_what_is_kept()
            raise
        if "failed" in result:
            stored.say_what_is_kept()
            return result
        write_results(result, markdown(result), out)
        lines.discard()
    return result


def benchmark(settings: BenchmarkSettings, cluster="", out="", plot="", resume=False, json=False):
    """Measure the speedup of every draft with every target, at each K and temperature, and compare
    it with what theory predicts.

    Texts continue past <|endoftext|>, so that plain and speculative decoding write equally many
    tokens. docs/benchmarks.md explains the method and the columns.

    Run:
        cluster: let the workers of a Dask cluster measure, one prompt at a time: local:4 starts
            four here, tcp://HOST:8786 is a running scheduler
        out: write the results to this new .json file, and to .csv and .md files beside it
        plot: draw the results into this new .png, .svg or .pdf file (needs matplotlib)
        resume: continue an interrupted run with the same --out
        json: print one JSON object and nothing else
    """
    if resume and not out:
        raise InputError("--resume: needs the --out file of the run to go on with")
    if out:
        check_results_output(out)
    if plot:
        from experiments.showing import plots

        check_output("plot", plot, (".png", ".svg", ".pdf"))
        if settings.Ks() == [AUTO]:
            raise InputError(
                "--plot with --K auto: expected some numbers, as the picture has one point for each"
            )
        plots.check()
    if out:
        result = run_and_store(settings, out, resume, cluster)
    else:
        result = run_all(settings, Stored(settings), cluster)
    failed = result.get("failed")
    if plot and not failed:
        plots.draw(result, plot, label(result["settings"]))
    if json:
        print(json_format.dumps(result))
    elif result["rows"]:
        print(markdown(result), end="")
    if failed:
        again = "--resume tries these again" if out else "use --out to keep what was measured"
        raise SomeFailed(failed, f"the figures are those of the others; {again}")
