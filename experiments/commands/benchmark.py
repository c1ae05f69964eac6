"""python main.py benchmark: which draft, which K, at which temperature: measured under the rules of
experiments/measuring/referee.py.

Results are {"machine", "settings", "rows"}, as JSON, and beside that as CSV and as a Markdown
table. What has been measured is kept in FILE.json.partial, one line for each prompt, until the run
is complete; --resume goes on from there.

Two questions have rows of their own: --batch_size, what batches do to both decoders
(experiments/decoding/batching.py), and --programs, what other programs do with the same weights.
"""

import dataclasses
import itertools
import json
import sys
import zlib
from dataclasses import dataclass
from functools import partial

from tqdm import tqdm

import utils
from experiments.cluster.place import Wanted, place
from experiments.data.corpus import bits_per_byte, openings
from experiments.data.files import check_output
from experiments.data.lines import Failed, Lines, SomeFailed, spared
from experiments.data.machine import machine
from experiments.data.prompts import choose_prompts
from experiments.data.results import check_results_output, write_results
from experiments.data.values import (
    AUTO,
    SettingError,
    check_choice,
    check_length,
    check_numbers,
    longest_prompt,
    parse_Ks,
    parse_list,
    parse_probability,
)
from experiments.decoding.batching import check_batch_size, require_room
from experiments.decoding.job import Job
from experiments.decoding.settings import (
    Json,
    Kernels,
    Length,
    Models,
    PromptFile,
    Sampling,
    Verification,
    Weights,
    Workers,
    flag,
)
from experiments.drafting.load import RANDOM
from experiments.measuring import peers, tables
from experiments.measuring.referee import row_of
from experiments.measuring.runner import (
    N_PROMPT,
    PLAIN,
    Contender,
    Race,
    Run,
    batch_rows,
)
from utils import InputError


@dataclass(frozen=True)
class BenchmarkSettings(Kernels, Sampling, Verification, Weights, Models, PromptFile, Length):
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
    n_tokens_to_generate: int = flag(60, "how many tokens to write after each prompt")
    repeats: int = flag(3, "how often to measure each; medians are reported")
    seed: int = flag(123, "of the random draws and of the order of the runs")
    synthetic_acceptance: str = flag(
        "",
        "accept each drafted token with this probability, whatever the models compute; all passes "
        "are run, but the texts mean nothing",
    )
    corpus: str = flag(
        "",
        "continue the first 32 tokens of held-out stories, those of *_valid.txt in this folder, "
        "and say how many bits per byte the target needs for them all",
    )
    skip_bits: bool = flag(False, "with --corpus: do not compute bits per byte")
    batch_size: str = flag(
        "",
        "measure tokens per second of both decoders with so many texts at once, such as 1,2,4,8: "
        f"after prompts of {N_PROMPT} random tokens",
    )
    programs: str = flag(
        "",
        "compare with the same weights in these programs, such as transformers,llama_server: "
        f"{', '.join(peers.PROGRAMS)}; greedy, with one draft and one K",
    )

    def check(self):
        check_numbers(1, repeats=self.repeats)
        for n_texts in self.batch_sizes():
            check_batch_size(n_texts)
        for name in self.others():
            check_choice("programs", name, *peers.PROGRAMS)
        if self.corpus and self.prompts:
            raise SettingError("corpus", "with --prompts: expected one of the two")
        if self.corpus and self.weights == RANDOM:
            raise SettingError("corpus", "with --weights random: expected a trained target")
        if self.programs:
            self.check_programs()
        if self.programs and self.batch_size:
            raise SettingError("programs", "with --batch_size: expected one of the two")
        # refuse now what cannot be parsed
        self.acceptance()
        self.contenders()
        self.targets()

    def check_programs(self):
        """Other programs are started for one pair and one K, and all write greedily."""
        chosen = {
            "target_model_size": self.targets(),
            "draft_model_size": self.drafts(),
            "K": [K for K in self.Ks() if K != AUTO],
            "verification": self.rules(),
            "temperature": [*self.filters()],
        }
        for name, values in chosen.items():
            if len(values) != 1:
                problem = f"{getattr(self, name)!r} with --programs: expected one"
                raise SettingError(name, problem)
        if not self.sampling.greedy:
            problem = f"{self.temperature} with --programs: expected 0, as all write greedily"
            raise SettingError("temperature", problem)
        if self.synthetic_acceptance:
            problem = "with --programs: expected one of the two, as others know no coins"
            raise SettingError("synthetic_acceptance", problem)

    def acceptance(self):
        return parse_probability("synthetic_acceptance", self.synthetic_acceptance)

    def Ks(self):
        return parse_Ks(self.K, self.n_tokens_to_generate, "the tokens of a text", auto=True)

    def batch_sizes(self):
        return parse_list("batch_size", self.batch_size, int) if self.batch_size else []

    def others(self):
        """The names of the programs, but for this one, which always takes part."""
        names = parse_list("programs", self.programs) if self.programs else []
        return [name for name in names if name != peers.OURS]

    def contenders(self):
        """The autoregressive loop, then every draft with every K and rule."""
        every = itertools.product(self.drafts(), self.Ks(), self.rules())
        return [PLAIN, *(Contender(*one) for one in every)]

    def wanted(self, target):
        """The models that one target's figures are measured with."""
        drafts = tuple(self.drafts())
        return Wanted(target, drafts, self.models_dir, self.weights, self.backend, self.kernels)

    def job(self, filter, ids=(), **more):
        return Job([*ids], self.n_tokens_to_generate, filter=filter, **more)

    def race(self, pairs, job):
        """All contenders, with this job."""
        return Race(pairs.target, pairs.drafts, self.contenders(), job, self.acceptance())

    def labels(self):
        """What each row says of how real it is."""
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


def check_together(settings, output):
    """Raises InputError for an output that these settings have no figures for."""
    own = "batch_size" if settings.batch_size else "programs" if settings.programs else ""
    for name in ("cluster", "out", "plot"):
        if own and getattr(output, name):
            raise SettingError(name, f"with --{own}: expected one of the two")
    if output.plot and settings.Ks() == [AUTO]:
        raise InputError(
            "--plot with --K auto: expected some numbers, as the picture has one point for each"
        )


# ---------------------------------------------------------------- what was measured before


class Stored(dict):
    """The Runs measured so far, {(target, temperature, prompt's number): runs}; each is a line of
    the partial file, if there is one, with the prompt's ids and a checksum.

    Raises InputError for a line that is damaged or of another prompt.
    """

    def __init__(self, lines=None):
        self.lines, self.ids = lines, {}
        for line in lines.done if lines else ():
            try:
                *measured, checksum = line
                if checksum != checksum_of(measured):
                    raise ValueError("not what was written")
                *key, ids, runs = measured
                self[tuple(key)] = [Run(**run) for run in runs]
                self.ids[tuple(key)] = ids
            except (TypeError, ValueError):
                raise InputError(
                    f"{lines.partial}: is damaged; delete it, and try again without --resume"
                ) from None
        self.n_before = len(self)

    def has(self, key, ids):
        if self.ids.get(key, ids) != ids:
            raise InputError(
                f"{self.lines.partial}: is of other prompts; delete it, or give the same"
            )
        return key in self

    def add(self, key, ids, runs):
        self[key] = runs
        if self.lines:
            line = [*key, ids, [dataclasses.asdict(run) for run in runs]]
            self.lines.add([*line, checksum_of(line)])

    def say_what_is_kept(self):
        if len(self) > self.n_before:
            kept = f"kept {len(self)} measured prompts in {self.lines.partial}"
            print(f"{kept}; --resume goes on", file=sys.stderr)


def checksum_of(line):
    return zlib.crc32(json.dumps(line).encode())


def header_of(settings):
    """What must be the same for a run to go on, beside the prompts: the settings and the models."""
    prints = {target: settings.wanted(target).fingerprints() for target in settings.targets()}
    return settings.as_dict() | {"fingerprints": prints}


# ---------------------------------------------------------------- prompts, one at a time


def measured(settings, pairs, items):
    """The Runs of all contenders on each prompt; an item is a temperature, the number of a prompt
    and its ids.
    """
    filters = settings.filters()
    for n_before, (t, i, ids) in enumerate(items):
        race = settings.race(pairs, settings.job(filters[t], ids))
        if n_before == 0:
            race.warm_up()
        yield race.measure([settings.seed, i], settings.repeats)


def name_of(size, item):
    return f"{size} at temperature {item[0]:g}, prompt {item[1] + 1}"


def measure_target(settings, where, size, prompts, stored, failed):
    """Measure what is not stored yet of one target; {what: why} is put into `failed`."""
    keys = [(size, t, i) for t in settings.filters() for i in range(len(prompts))]
    todo = [key for key in keys if not stored.has(key, prompts[key[2]])]
    items = [(t, i, prompts[i]) for _, t, i in todo]
    results = where.run(partial(measured, settings), items, name=partial(name_of, size))
    bar = {"desc": size, "unit": " prompts", "leave": False, "disable": None}
    for runs, key in zip(tqdm(spared(results, failed), total=len(todo), **bar), todo):
        if not isinstance(runs, Failed):
            stored.add(key, prompts[key[2]], runs)


def rows_of(settings, size, n_prompts, n_skipped, stored):
    """The rows of one target, from all that was measured of it."""
    rows = []
    for t in settings.filters():
        keys = [(size, t, i) for i in range(n_prompts)]
        by_prompt = [stored[key] for key in keys if key in stored]
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


def prompts_of(settings, pairs):
    """(the prompts' ids, how many longer ones were skipped)."""
    longest = longest_prompt(pairs.target.config.n_ctx, settings.n_tokens_to_generate)
    encoder, n_prompts = pairs.encoder, settings.n_prompts
    if settings.corpus:
        return openings(settings.corpus, encoder, n_prompts, longest), 0
    return choose_prompts(settings.prompts, n_prompts, encoder, longest)


def run_all(settings, stored, cluster=""):
    """Measure what is not stored. Returns the results, which say what failed."""
    about = machine() | {"prompts_measured_before_resuming": stored.n_before}
    rows, failed, bits = [], {}, {}
    for size in settings.targets():
        with place(cluster, settings.wanted(size)) as where:
            about["kernels"] |= where.kernels
            if where.machines:
                about["workers"] = where.machines
            prompts, n_skipped = prompts_of(settings, where.pairs)
            measure_target(settings, where, size, prompts, stored, failed)
            if settings.corpus and not settings.skip_bits:
                bits[size] = bits_per_byte(where, settings.corpus, failed)
        rows += rows_of(settings, size, len(prompts), n_skipped, stored)
    result = {"machine": about, "settings": settings.as_dict(), "rows": rows}
    more = {"bits_per_byte": bits, "failed": failed}
    return result | {name: values for name, values in more.items() if values}


def run_and_store(settings, output):
    """The results, from and to the files that --out names."""
    with Lines(output.out, header=header_of(settings)) as lines:
        if lines.done and not output.resume:
            raise InputError(
                f"{lines.partial}: is left from a run that was interrupted; "
                "give --resume, or delete it"
            )
        stored = Stored(lines)
        try:
            result = run_all(settings, stored, output.cluster)
        except (KeyboardInterrupt, InputError):
            stored.say_what_is_kept()
            raise
        if "failed" in result:
            stored.say_what_is_kept()
            return result
        write_results(result, tables.markdown(result), output.out)
        lines.discard()
    return result


# ---------------------------------------------------------------- batches, and other programs


def run_batches(settings):
    """The results of --batch_size: a row for each contender and size."""
    about, rows = machine(), []
    n_tokens, sizes = settings.n_tokens_to_generate, settings.batch_sizes()
    for target in settings.targets():
        with place("", settings.wanted(target)) as where:
            about["kernels"] |= where.kernels
            n_ctx = where.pairs.target.config.n_ctx
            check_length("n_tokens_to_generate", n_tokens, n_ctx - N_PROMPT)
            for draft in where.pairs.drafts:
                models = where.pairs.pair(draft).models
                require_room(models, max(sizes), N_PROMPT + n_tokens)
            for t, filter in settings.filters().items():
                race = settings.race(where.pairs, settings.job(filter))
                same = {"target": target, "temperature": t, **settings.labels()}
                rows += [same | row for row in batch_rows(race, sizes, settings.repeats)]
    return {"machine": about, "settings": settings.as_dict(), "rows": rows}


def run_programs(settings):
    """The results of --programs: a row for each program and decoder."""
    (target,), (draft,) = settings.targets(), settings.drafts()
    wanted, folders = settings.wanted(target), None
    if settings.weights == RANDOM:
        wanted = dataclasses.replace(wanted, drafts=())  # a draft would agree with nothing
    pair = wanted.load().pair(draft)
    job = settings.job(settings.sampling, K=settings.Ks()[0], rule=settings.verification)
    peers.check_passes(pair.target.config.n_ctx, job.K)
    if settings.weights != RANDOM:
        folder = partial(utils.find_folder, models_dir=settings.models_dir)
        # what cannot write alone, other programs do not have
        folders = folder(target), folder(draft) if pair.draft.alone else None
    prompts, _ = prompts_of(settings, pair)
    programs, missing = peers.started(settings.others(), pair, folders, job)
    versions = {one.name: one.version for one in programs}
    return {
        "machine": machine() | {"versions": versions, "missing": missing},
        "settings": settings.as_dict(),
        "prompts": len(prompts),
        "rows": peers.compare(programs, prompts, job, settings.repeats),
    }


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
    check_together(settings, output)
    if output.plot:
        from experiments.measuring import plots

        plots.check()
    show = tables.markdown
    if settings.batch_size:
        result, show = run_batches(settings), tables.of_batches
    elif settings.programs:
        result, show = run_programs(settings), tables.of_programs
    elif output.out:
        result = run_and_store(settings, output)
    else:
        result = run_all(settings, Stored(), output.cluster)
    failed = result.get("failed")
    if output.plot and not failed:
        plots.draw(result, output.plot, tables.label(result["settings"]))
    if output.json:
        print(json.dumps(result))
    elif result["rows"]:
        print(show(result), end="")
    if failed:
        again = (
            "--resume tries these again" if output.out else "use --out to keep what was measured"
        )
        raise SomeFailed(failed, f"the figures are those of the others; {again}")
