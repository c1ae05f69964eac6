"""Measure the table of K: every draft with every K and rule, on one prompt at a time."""

from dataclasses import asdict
from typing import NamedTuple

from experiments.benchmark.comparison import PLAIN, Measurement
from experiments.benchmark.speedups import result_row
from experiments.progress import progress


class PromptTask(NamedTuple):
    """A prompt on which all variants are measured."""

    target: str
    temperature: float
    number: int  # from 0
    ids: tuple


def measure_table(settings, models, target, lines):
    """Measure one target with every draft, K and rule.

    Returns (list of rows, how many prompts `lines` had measured already).
    """
    prompts, n_skipped = settings.read_chosen(models)
    temperatures = settings.temperatures()
    tasks = [
        PromptTask(target, t, i, (*ids,)) for t in temperatures for i, ids in enumerate(prompts)
    ]
    stored = {PromptTask(*key, tuple(ids)): runs for (*key, ids), runs in lines.done}
    missing = [task for task in tasks if task not in stored]
    measured = stored | measure_tasks(settings, models, missing, lines)
    variants, rows = settings.variants(), []
    for t in temperatures:
        of_prompts = [measured[task] for task in tasks if task.temperature == t]
        # [prompt][variant] -> {variant: [prompt]}
        runs = {
            variant: [Measurement(**one) for one in of_variant]
            for variant, of_variant in zip(variants, zip(*of_prompts))
        }
        about = {"target": target, "temperature": t, "skipped_prompts": n_skipped}
        about |= settings.label_columns()
        rows += [result_row(variant, runs, **about) for variant in variants if variant != PLAIN]
    return rows, len(tasks) - len(missing)


def measure_tasks(settings, models, tasks, lines):
    """Measure all variants on each PromptTask, and add a line for each.

    Returns {PromptTask: [the Measurement of each variant, as JSON]}.
    """
    params_by_temperature, measured = settings.sampling_params(), {}
    for task in progress(tasks, len(tasks), tasks[0].target if tasks else "", "prompts"):
        comparison = settings.comparison(models, params_by_temperature[task.temperature], task.ids)
        if not measured:
            comparison.warm_up()
        runs = comparison.measure(settings.seed, task.number, settings.repeats)
        measured[task] = [asdict(run) for run in runs]
        lines.append([task, measured[task]])
    return measured
