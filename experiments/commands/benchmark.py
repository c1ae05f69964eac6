"""python main.py benchmark: which draft, which K, at which temperature: measured under the rules of
experiments/measuring/referee.py.

Results are {"machine", "settings", "rows"}, as JSON, and beside that as CSV and as a Markdown
table. What has been measured is kept in FILE.json.partial, one line for each prompt, until the run
is complete; --resume goes on from there.
"""

import csv
import json as json_format
import sys
from pathlib import Path

from tqdm import tqdm

from experiments.cli.validators import (
    check_choice,
    check_numbers,
    parse_filters,
    parse_K,
    parse_list,
    parse_probability,
)
from experiments.data.files import check_output, whole
from experiments.data.machine import machine
from experiments.data.prompts import choose_prompts
from experiments.measuring import runner as measuring
from experiments.measuring.referee import row_of
from gpt2 import Model
from utils import MODELS_DIR, InputError, get_backend, kernels_of

# ---------------------------------------------------------------- files


class Partial:
    """The runs measured so far, {(target, temperature, prompt's number): runs}, each stored as one
    line when it is done.

    Nothing is stored where `out` is "". Raises InputError for a file that is there without
    `resume`, or is another run's.
    """

    def __init__(self, out, settings, resume):
        self.path, self.settings, self.runs, self.file = (
            out and Path(f"{out}.partial"),
            settings,
            {},
            None,
        )
        if not out or not self.path.exists():
            return
        if not resume:
            raise InputError(
                f"{self.path}: is left from a run that was interrupted; give --resume, or delete it"
            )
        try:
            begun, *lines = map(
                json_format.loads, self.path.read_text(encoding="utf-8").split("\n")[:-1]
            )
            self.runs = {(target, temperature, i): runs for target, temperature, i, runs in lines}
        except (ValueError, TypeError):
            raise InputError(
                f"{self.path}: is damaged; delete it, and try again without --resume"
            ) from None
        if begun != settings:
            raise InputError(
                f"{self.path}: was begun with other settings; give the same ones, or delete it"
            )

    def add(self, key, runs):
        self.runs[key] = runs
        if self.path and not self.file:
            # whole lines only: the last one of an interrupted run may be cut
            with whole(self.path) as part:
                lines = [self.settings, *([*key, runs] for key, runs in self.runs.items())]
                part.write_text(
                    "".join(json_format.dumps(line) + "\n" for line in lines), encoding="utf-8"
                )
            self.file = self.path.open("a", encoding="utf-8")
        elif self.path:
            print(json_format.dumps([*key, runs]), file=self.file, flush=True)


COLUMNS = {
    "draft": "draft",
    "target": "target",
    "temperature": "T",
    "K": "K",
    "autoregressive_tokens_per_second": "plain tok/s",
    "tokens_per_second": "tok/s",
    "speedup_time": "speedup in time",
    "speedup_target_passes": "in target passes",
    "acceptance_rate": "acceptance",
    "draft_cost": "c",
    "verify_cost": "v",
    "predicted_speedup": "predicted",
    "measured_over_predicted": "measured / predicted",
}
DIGITS = {
    "autoregressive_tokens_per_second": 1,
    "tokens_per_second": 1,
    "acceptance_rate": 3,
    "draft_cost": 3,
}


def format_cell(name, value):
    if name == "temperature":
        return f"{value:g}"
    return f"{value:.{DIGITS.get(name, 2)}f}" if isinstance(value, float) else f"{value}"


def label(settings):
    """What every table and picture must say of figures that are not a real pair's; "" for a real
    one.
    """
    parts = ["random weights"] if settings["weights"] == "random" else []
    parts += (
        [f"synthetic acceptance {settings['synthetic_acceptance']}"]
        if settings["synthetic_acceptance"]
        else []
    )
    return ", ".join(parts)


def markdown(result):
    """The rows as a table; below it how they were measured, and the notes that its last column
    numbers.
    """
    rows, settings, where, notes = result["rows"], result["settings"], result["machine"], {}
    table = [[*COLUMNS.values(), "notes"]]
    for row in rows:
        cells = {
            name: "–" if row[name] is None else format_cell(name, row[name]) for name in COLUMNS
        }
        if row["speedup_time"] is not None:
            cells["speedup_time"] += " [{:.2f}, {:.2f}]".format(*row["intervals"]["speedup_time"])
        withheld = (
            (name, row["withheld"].get(name)) for name in ("speedup_time", "predicted_speedup")
        )
        remarks = [f"no {COLUMNS[name]}: {why}" for name, why in withheld if why] + row["flags"]
        numbers = sorted(notes.setdefault(remark, len(notes) + 1) for remark in remarks)
        table.append([*cells.values(), ", ".join(map(str, numbers))])
    widths = [max(map(len, column)) for column in zip(*table)]
    table.insert(1, ["-" * width for width in widths])
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths)) + " |"
        for row in table
    ]
    how = f"{rows[0]['prompts']} prompts ({rows[0]['skipped_prompts']} skipped: too long), "
    how += f"{settings['n_tokens_to_generate']} tokens each, median of {settings['repeats']}; speedup with its 95 % interval. "
    how += f"{where['cpu']}, {where['threads']} threads, {settings['backend']}, {where['date']}."
    title = [f"**{label(settings)}**", ""] if label(settings) else []
    return (
        "\n".join(
            [*title, *lines, "", how, "", *(f"{number}. {note}" for note, number in notes.items())]
        ).rstrip()
        + "\n"
    )


def write_results(result, out):
    """FILE.json, FILE.csv and FILE.md. Lists and objects are JSON inside the CSV."""
    path = Path(out)
    with whole(path) as part:
        part.write_text(json_format.dumps(result, indent=1) + "\n", encoding="utf-8")
    with (
        whole(path.with_suffix(".csv")) as part,
        part.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, result["rows"][0].keys())
        writer.writeheader()
        for row in result["rows"]:
            nested = {
                name: json_format.dumps(value)
                for name, value in row.items()
                if isinstance(value, (list, dict))
            }
            writer.writerow(row | nested)
    with whole(path.with_suffix(".md")) as part:
        part.write_text(markdown(result), encoding="utf-8")


# ---------------------------------------------------------------- the command


def run_all(settings, drafts, Ks, filters, acceptance, partial):
    """Measure what `partial` has not, and return the results."""
    targets, result = (
        parse_list("target_model_size", settings["target_model_size"]),
        {"machine": machine()},
    )
    arrays = get_backend(settings["backend"], settings["kernels"])
    n_tokens, repeats, seed = (
        settings[name] for name in ("n_tokens_to_generate", "repeats", "seed")
    )
    contenders = [(None, 0)] + [(draft, K) for draft in drafts for K in Ks]
    labels = {"weights": settings["weights"], "synthetic_acceptance": acceptance}
    result |= {"settings": settings, "rows": []}
    result["machine"]["prompts_measured_before_resuming"] = len(partial.runs)
    bar = None
    for n_target, size in enumerate(targets):
        target, models, encoder = measuring.load(
            size, drafts, settings["models_dir"], settings["weights"], arrays
        )
        for name, model in [(size, target), *models.items()]:
            if isinstance(model, Model):
                result["machine"]["kernels"][name] = kernels_of(model)
        longest = target.config.n_ctx - n_tokens
        prompts, n_skipped = choose_prompts(
            settings["prompts"], settings["n_prompts"], encoder, longest
        )
        per_prompt = len(contenders) * (repeats + 1)
        if bar is None:
            bar = tqdm(total=0, unit=" runs", leave=False, disable=None)
        keys = [(size, t, i) for t in filters for i in range(len(prompts))]
        todo = [key for key in keys if key not in partial.runs]
        bar.total += per_prompt * (len(todo) + (len(targets) - n_target - 1) * len(keys)) - (
            bar.total - bar.n
        )
        bar.refresh()
        if todo:
            measuring.warm_up(target, models, contenders, prompts[0], filters[todo[0][1]])
        for key in todo:
            _, t, i = key
            arguments = (
                target,
                models,
                contenders,
                prompts[i],
                n_tokens,
                filters[t],
                [seed, i],
                repeats,
                acceptance,
            )
            partial.add(key, measuring.measure(*arguments, tick=bar.update))
        for t in filters:
            by_contender = [*zip(*(partial.runs[size, t, i] for i in range(len(prompts))))]
            rows = (
                row_of(size, t, by_contender[0], fast, n_skipped, labels)
                for fast in by_contender[1:]
            )
            result["rows"] += rows
    bar.close()
    return result


def benchmark(
    draft_model_size="0.7M,ngram",
    target_model_size="7M",
    models_dir=MODELS_DIR,
    K="1..6",
    temperature="0,1",
    top_k=0,
    top_p=1.0,
    prompts="",
    n_prompts=12,
    n_tokens_to_generate=60,
    repeats=3,
    seed=123,
    backend="numpy",
    kernels="auto",
    weights="checkpoint",
    synthetic_acceptance="",
    out="",
    plot="",
    resume=False,
    json=False,
):
    """Measure every draft against every target at each K and temperature, and compare with what
    theory predicts.

    Texts run to their full length, past <|endoftext|>, so that both sides write equally many
    tokens.

    Args:
        draft_model_size: sizes in models_dir, folders, or ngram, separated by commas
        target_model_size: sizes in models_dir, or folders, separated by commas
        models_dir: where the folders of the sizes are
        K: how many tokens are drafted in a round: 1..10, or 1,2,4; auto, alone or among them,
            chooses anew each round
        temperature: separated by commas; 0 is greedy decoding
        top_k: sample from this many of the likeliest tokens; 0 is all
        top_p: sample from the fewest likeliest tokens that reach this probability
        prompts: a file of prompts (JSON Lines, a JSON array, HellaSwag's form, or one a line; also
            .gz, .bz2); or built-in ones
        n_prompts: how many of them; 0 is all
        n_tokens_to_generate: how many tokens after each prompt
        repeats: of each run; medians count
        seed: of the random draws and of the order of the runs
        backend: numpy or cupy
        kernels: how NumPy multiplies: auto measures, plain is NumPy's own, 64x2 is tiles of 64
            columns on 2 threads
        weights: checkpoint, or random (sizes 124M to 1558M need no files; the texts mean nothing)
        synthetic_acceptance: accept drafts by coin with this probability; passes are run, texts
            mean nothing
        out: write results to this .json file, and beside it as .csv and .md
        plot: draw results into this .png, .svg or .pdf file (needs matplotlib)
        resume: go on with a run to the same --out that was interrupted
        json: print one JSON object and nothing else
    """
    settings = {
        name: value
        for name, value in locals().items()
        if name not in ("out", "plot", "resume", "json")
    }
    check_numbers(0, n_prompts=n_prompts, seed=seed)
    check_numbers(1, n_tokens_to_generate=n_tokens_to_generate, repeats=repeats)
    check_choice("weights", weights, "checkpoint", "random")
    acceptance = parse_probability("synthetic_acceptance", synthetic_acceptance)
    filters, drafts = (
        parse_filters(temperature, top_k, top_p),
        parse_list("draft_model_size", draft_model_size),
    )
    Ks = parse_K(K, n_tokens_to_generate, auto=True)
    if resume and not out:
        raise InputError("--resume: needs the --out file of the run to go on with")
    if out:
        check_output("out", out, (".json",))
    if plot:
        from experiments.showing import plots

        check_output("plot", plot, (".png", ".svg", ".pdf"))
        if Ks == ["auto"]:
            raise InputError(
                "--plot with --K auto: expected some numbers, as the picture has one point for each"
            )
        plots.check()
    partial = Partial(out, settings, resume)
    try:
        result = run_all(settings, drafts, Ks, filters, acceptance, partial)
    except KeyboardInterrupt:
        if partial.runs and out:
            print(
                f"kept {len(partial.runs)} measured prompts in {partial.path}; --resume goes on",
                file=sys.stderr,
            )
        raise
    if out:
        write_results(result, out)
        partial.path.unlink(missing_ok=True)
    if plot:
        plots.draw(result, plot, label(settings))
    print(json_format.dumps(result) if json else markdown(result), end="\n" if json else "")
