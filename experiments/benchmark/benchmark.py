"""python main.py benchmark: which draft, which K, at which temperature: measured under the rules of
experiments/benchmark/speedups.py.

Results are printed as Markdown tables. As JSON they are {"machine", "settings", "rows", "best_K"}.
A row is a draft with a K. "best_K" compares the K that theory predicts for each draft with the
fastest. With --batch_size a row says what batches do to both decoders
(experiments/benchmark/batches.py), with --programs what other programs do with the same weights.

What has been measured is kept in FILE.json.partial, one line for each prompt, until the run is
complete; --resume goes on from there. Batches and programs keep nothing.
"""

import itertools
import json
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace

from cli.flags import SEEDS, Json, Machine, Models, Sampling, Weights, check_conflicts, flag
from cli.from_flags import spec_from
from cli.resumable_output import ResumableLines
from cli.texts import BATCH_SIZES
from cli.values import AUTO, check_choice, check_number, parse_list
from decoding.run import Run

from backends.machine import describe_machine
from checkpoints.errors import InputError, SettingError
from checkpoints.limits import POSITIVE, PROBABILITY
from checkpoints.output import check_output, write_atomically
from cli.prompts import PromptFile
from experiments.benchmark.all_prompts import measure_all_prompts
from experiments.benchmark.batches import N_RANDOM, measure_batches
from experiments.benchmark.best_k import measure_best_Ks
from experiments.benchmark.comparison import PLAIN, Comparison, Variant
from experiments.benchmark.flag_values import parse_Ks, parse_number
from experiments.benchmark.programs import PROGRAMS, measure_programs
from experiments.benchmark.tables import label, to_markdown
from experiments.progress import say
from sampling import RULES


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
    repeats: int = flag(3, "how often to measure each; medians are reported", limits=POSITIVE)
    seed: int = flag(123, "seed of the random draws and of the order of the runs", limits=SEEDS)
    synthetic_acceptance: str = flag(
        "",
        "accept each drafted token with this probability, whatever the models compute; all passes "
        "are run, but the texts mean nothing",
    )
    batch_size: str = flag(
        "",
        "measure tokens per second of both decoders with this many texts at once, such as 1,2,4,8: "
        f"after prompts of {N_RANDOM} random tokens; not with --resume",
    )
    programs: str = flag(
        "",
        "compare with the same weights in these programs, such as transformers,llama_server: "
        f"{', '.join(PROGRAMS)}; greedy, with one draft and one K; not with "
        "--resume",
        conflicts="batch_size synthetic_acceptance dtype weights",
    )

    def check(self):
        """Raise SettingError for values, or combinations of flags, that cannot be measured."""
        for n_texts in self.batch_sizes():
            check_number("batch_size", n_texts, BATCH_SIZES)
        if self.batch_size and AUTO in self.Ks():
            problem = (
                "auto with --batch_size: expected numbers, as K auto decodes one text at a time"
            )
            raise SettingError("K", problem)
        # not by a flag's `conflicts`, whose message could not say why
        prompt_flags = ("prompts", "n_prompts") if self.batch_size else ()
        for name in filter(self.is_set, prompt_flags):
            problem = "with --batch_size: expected one of the two, as its prompts are random"
            raise SettingError(name, problem)
        for rule in self.rules():
            check_choice("verification", rule, *RULES)
        for name in self.other_programs():
            check_choice("programs", name, *PROGRAMS)
        if self.programs and not self.is_one_pair():
            problem = (
                f"{self.programs!r}: expected one target, draft, K and rule, no K auto, and "
                "--temperature 0, as all write greedily"
            )
            raise SettingError("programs", problem)
        # called only to refuse now what they cannot parse
        self.acceptance_probability()
        self.variants()
        self.targets()

    def is_one_pair(self):
        """Return whether the flags name one target, draft, rule and K, which is a number, and one
        temperature, which is 0.
        """
        params = list(self.sampling_params().values())
        only_greedy = len(params) == 1 and params[0].greedy
        # two variants: plain decoding, and one draft with one K and one rule
        one_pair = len(self.targets()) == 1 and len(self.variants()) == 2
        return one_pair and self.Ks() != [AUTO] and only_greedy

    def acceptance_probability(self):
        """Return the probability of --synthetic_acceptance, a float; None without this flag. Raises
        SettingError if it is no probability.
        """
        if not self.synthetic_acceptance:
            return None
        return parse_number("synthetic_acceptance", self.synthetic_acceptance, PROBABILITY)

    def repeats_are_equal(self, temperature):
        """Return whether all repeats of a prompt at a temperature (a float) make the same
        decisions: at 0 they do, unless synthetic acceptance makes the decisions random.
        """
        return temperature == 0 and self.acceptance_probability() is None

    def rules(self):
        """Return the values of --verification, a list of "token" and "block", or one of them."""
        return parse_list("verification", self.verification)

    def Ks(self):
        """Return the values of --K, a list of ints and perhaps "auto". Raises SettingError."""
        return parse_Ks(self.K, self.n_tokens_to_generate, "the tokens of a text", allow_auto=True)

    def batch_sizes(self):
        """Return the batch sizes, a list of ints; empty without --batch_size."""
        return parse_list("batch_size", self.batch_size, int) if self.batch_size else []

    def other_programs(self):
        """Return the names of the other programs, a list; empty without --programs."""
        return parse_list("programs", self.programs) if self.programs else []

    def variants(self):
        """Return a list of Variants: PLAIN, then every draft with every K and rule."""
        combinations = itertools.product(self.drafts(), self.Ks(), self.rules())
        return [PLAIN, *itertools.starmap(Variant, combinations)]

    def model_spec(self, target):
        """Return the ModelSpec that loads a target, given by its name, with all drafts."""
        return spec_from(self, target, self.drafts())

    def plain_run(self, models, to_probs, ids=()):
        """Return the Run of the target alone after a prompt.

        models: LoadedModels; to_probs: SamplingParams; ids: the token ids of the prompt, a list
        """
        return Run(models.pair(), [*ids], self.n_tokens_to_generate, to_probs=to_probs)

    def comparison(self, models, to_probs, ids=()):
        """Make, but do not run, the Comparison of all variants after a prompt.

        models: LoadedModels; to_probs: SamplingParams; ids: the token ids of the prompt, a list
        """
        run = self.plain_run(models, to_probs, ids)
        return Comparison(run, models.drafts, self.variants(), self.acceptance_probability())

    def label_columns(self):
        """Return the columns that tell figures of random weights or synthetic acceptance from real
        ones: {"weights": "checkpoint" or "random", "synthetic_acceptance": a float or None}.
        """
        return {"weights": self.weights, "synthetic_acceptance": self.acceptance_probability()}


@dataclass(frozen=True)
class BenchmarkOutput(Json):
    """Where results go. Raises InputError."""

    heading = "Output"

    out: str = flag("", "write the results to this new .json file")
    plot: str = flag(
        "",
        "draw the results into this new .png, .svg or .pdf file (needs matplotlib)",
        conflicts="batch_size programs K=auto",  # the picture has one point for each K
    )
    resume: bool = flag(
        False,
        "continue an interrupted run with the same --out",
        conflicts="batch_size programs",  # which keep nothing when they are interrupted
    )

    def check(self):
        """Raise InputError for --resume without --out, and for files that cannot be written."""
        if self.resume and not self.out:
            raise InputError("--resume: needs the --out file of the run to go on with")
        if self.out:
            check_output("out", self.out, (".json",))
        if self.plot:
            check_output("plot", self.plot, (".png", ".svg", ".pdf"))


# ---------------------------------------------------------------- the run


def measure_all(settings, lines):
    """Measure what BenchmarkSettings ask for. Prints progress on stderr. Returns the JSON object of
    the results, a dict with "machine", "settings" and "rows"; with other programs also "prompts",
    their number; without them and without batches also "best_K". Raises InputError if a model or
    prompt cannot be used.

    lines: a ResumableLines, or what lines_in_memory returns. A prompt that has a line is not
        measured again; each other prompt adds a line. Batches and programs use no lines.
    """
    machine = describe_machine(settings.backend) | {
        "kernels": {},
        "prompts_measured_before_resuming": 0,
    }
    result = {"machine": machine, "settings": settings.portable_dict(), "rows": [], "best_K": []}
    for target in settings.targets():
        say(f"{target}: loading it and its drafts")
        spec = settings.model_spec(target)
        models = spec.load()
        machine["kernels"] |= spec.kernels_in(models)
        if settings.batch_size:
            result["rows"] += measure_batches(settings, models, target)
        elif settings.programs:
            result["rows"] += measure_programs(settings, models, target, result)
        else:
            rows, n_stored = measure_all_prompts(settings, models, target, lines)
            result["rows"] += rows
            result["best_K"] += measure_best_Ks(settings, models, target, rows)
            machine["prompts_measured_before_resuming"] += n_stored
    # batches and other programs leave "best_K" empty
    return {name: value for name, value in result.items() if value or name == "rows"}


def lines_in_memory():
    """Return an object to use as a ResumableLines if there is no --out file: its `append(line)`
    adds a line to its list `lines_in_order`. No file is written.
    """
    lines = []
    return SimpleNamespace(lines_in_order=lines, append=lines.append)


@contextmanager
def open_lines(settings, output):
    """Open the partial file beside the --out file for a `with` block. The block gets its
    ResumableLines: the prompts that are already measured, a line each.

    settings: BenchmarkSettings; output: BenchmarkOutput
    If the block is interrupted after it added lines, prints on stderr how many are kept. Raises
    InputError if the partial file cannot be used, or has lines although --resume is not given.
    """
    # settings and model files must be the same for a run to go on
    fingerprints = {}
    for target in settings.targets():
        fingerprints[target] = settings.model_spec(target).fingerprints()
    header = settings.portable_dict() | {"fingerprints": fingerprints}
    with ResumableLines(output.out, header) as lines:
        n_before = len(lines.lines_in_order)
        if n_before and not output.resume:
            raise InputError(
                f"{lines.partial}: is left from a run that was interrupted; "
                "give --resume, or delete it"
            )
        try:
            yield lines
        finally:
            # a block that was not interrupted has deleted the file
            if lines.partial.exists() and len(lines.lines_in_order) > n_before:
                kept = f"kept {len(lines.lines_in_order)} measured prompts in {lines.partial}"
                print(f"{kept}; --resume goes on", file=sys.stderr)


def benchmark(settings: BenchmarkSettings, output: BenchmarkOutput):
    """Measure the speedup of every draft with every target, at each K and temperature, and compare
    it with what theory predicts.

    Texts continue past <|endoftext|>, so that plain and speculative decoding write equally many
    tokens. docs/benchmarks.md explains the method and the columns.

    Examples:
        python main.py benchmark --K 1..8,auto --out results.json --plot results.png
        python main.py benchmark --draft_model_size 0.7M-17M --K 4 --batch_size 1,8
        python main.py benchmark --draft_model_size 0.7M-17M --K 4 --temperature 0 \\
            --programs transformers,openvino,llama_server
    """
    check_conflicts(settings, output)
    if output.plot:  # before anything is measured, as matplotlib may be missing
        from experiments.benchmark.plots import draw
    with open_lines(settings, output) if output.out else nullcontext(lines_in_memory()) as lines:
        result = measure_all(settings, lines)
        # print first: a file that cannot be written must not cost what was measured
        if output.json:
            print(json.dumps(result), flush=True)
        else:
            print(to_markdown(result), end="", flush=True)
        if output.out:
            write_atomically(output.out, json.dumps(result, indent=1) + "\n")
            lines.discard()
        if output.plot:
            draw(result, output.plot, label(result["settings"]))
