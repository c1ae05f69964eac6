"""Measure every draft with every K and rule on all prompts, one prompt at a time."""

from dataclasses import asdict
from typing import NamedTuple

from experiments.benchmark.comparison import PLAIN, Measurement
from experiments.benchmark.speedups import result_row
from experiments.progress import progress


class PromptTask(NamedTuple):
    """A prompt on which all variants are measured."""

    target: str
    temperature: float
    number: int  # of the prompt, from 0
    ids: tuple  # the prompt's token ids


def measure_all_prompts(settings, models, target, lines):
    """Measure every variant with one target on all prompts, at every temperature.

    settings: BenchmarkSettings. models: the LoadedModels. target: the target's name
    lines: a ResumableLines; prompts that it holds are not measured again, others are added to it
    Returns (list of rows, how many prompts `lines` held before). Notes progress on stderr.
    """
    prompts, n_skipped = settings.read_chosen(models)
    tasks = []
    for temperature in settings.temperatures():
        for number, ids in enumerate(prompts):
            tasks.append(PromptTask(target, temperature, number, tuple(ids)))
    measured = {}
    for (name, temperature, number, ids), measurements in lines.done:
        measured[PromptTask(name, temperature, number, tuple(ids))] = measurements
    missing = [task for task in tasks if task not in measured]
    measured |= measure_tasks(settings, models, missing, lines)
    rows = []
    for temperature in settings.temperatures():
        about = {"target": target, "temperature": temperature, "skipped_prompts": n_skipped}
        about |= settings.label_columns()
        n_same = settings.repeats if settings.repeats_are_equal(temperature) else 1
        of_prompts = [measured[task] for task in tasks if task.temperature == temperature]
        rows += variant_rows(settings.variants(), of_prompts, n_same, about)
    return rows, len(tasks) - len(missing)


def measure_tasks(settings, models, tasks, lines):
    """Measure all variants on each PromptTask, and add a line for each. Notes progress on stderr.

    Returns {PromptTask: [the Measurement of each variant as a dict]}.
    """
    params_by_temperature, measured = settings.sampling_params(), {}
    for task in progress(tasks, len(tasks), tasks[0].target if tasks else "", "prompts"):
        comparison = settings.comparison(models, params_by_temperature[task.temperature], task.ids)
        if not measured:
            comparison.warm_up()
        measurements = comparison.measure(settings.seed, task.number, settings.repeats)
        measured[task] = [asdict(measurement) for measurement in measurements]
        lines.append([task, measured[task]])
    return measured


def variant_rows(variants, of_prompts, n_same, about):
    """Return a list of rows (dicts), one for each Variant except PLAIN.

    of_prompts: for each prompt the list of the Measurements of all variants, as dicts
    n_same: see result_row; about: {column: value} to put into every row
    """
    measurements = {}  # {variant: [Measurement of each prompt]}
    for i, variant in enumerate(variants):
        measurements[variant] = [Measurement(**of_prompt[i]) for of_prompt in of_prompts]
    others = [variant for variant in variants if variant != PLAIN]
    return [result_row(variant, measurements, n_same, **about) for variant in others]
