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
    """Measure every Variant (a draft, K and rule) with one target on all prompts, at every
    temperature. Prints progress on stderr.

    settings: BenchmarkSettings; models: LoadedModels; target: the target's name
    lines: a ResumableLines, one line for each temperature and prompt. What has a line is not
        measured again; a line is added for all else.
    Returns (the rows, a list of dicts, one for each temperature and Variant with a draft; how many
    of the measurements `lines` held before).
    """
    prompts, n_skipped = settings.read_chosen(models)
    tasks = []
    for temperature in settings.temperatures():
        for number, ids in enumerate(prompts):
            tasks.append(PromptTask(target, temperature, number, tuple(ids)))
    measured = {}  # {PromptTask: [the Measurement of each variant as a dict]}
    # a line holds a task as a JSON list; `lines` may hold tasks of other targets, too
    for (name, temperature, number, ids), measurements in lines.lines_in_order:
        measured[PromptTask(name, temperature, number, tuple(ids))] = measurements
    missing = [task for task in tasks if task not in measured]
    measured |= measure_tasks(settings, models, missing, lines)
    rows = []
    for temperature in settings.temperatures():
        about = {"target": target, "temperature": temperature, "skipped_prompts": n_skipped}
        about |= settings.label_columns()
        # repeats that write the same text: they count as one
        n_same = settings.repeats if settings.repeats_are_equal(temperature) else 1
        of_prompts = [measured[task] for task in tasks if task.temperature == temperature]
        rows += variant_rows(settings.variants(), of_prompts, n_same, about)
    return rows, len(tasks) - len(missing)


def measure_tasks(settings, models, tasks, lines):
    """Measure all variants on prompts, after a warm-up. Appends a line for each prompt to `lines`.
    Prints progress on stderr.

    settings: BenchmarkSettings; models: LoadedModels; lines: a ResumableLines
    tasks: the PromptTasks still to do, a list; all have the same target
    Returns {PromptTask: [the Measurement of each variant as a dict]}.
    """
    params_by_temperature = settings.sampling_params()
    measured = {}
    target = tasks[0].target if tasks else ""
    for task in progress(tasks, len(tasks), target, "prompts"):
        comparison = settings.comparison(models, params_by_temperature[task.temperature], task.ids)
        if not measured:
            comparison.warm_up()
        measurements = comparison.measure(settings.seed, task.number, settings.repeats)
        measured[task] = [asdict(measurement) for measurement in measurements]
        lines.append([task, measured[task]])
    return measured


def variant_rows(variants, of_prompts, n_same, about):
    """Return the rows of the results, a list of dicts, one for each Variant except PLAIN.

    variants: a list of Variants, with PLAIN among them
    of_prompts: a list of lists: for each prompt the Measurements as dicts, in order of `variants`
    n_same: how many repeats of a prompt make the same random decisions
    about: {column: value} to put into every row
    """
    measurements = {}  # {variant: [Measurement of each prompt]}
    for i, variant in enumerate(variants):
        measurements[variant] = [Measurement(**of_prompt[i]) for of_prompt in of_prompts]
    with_draft = [variant for variant in variants if variant != PLAIN]
    return [result_row(variant, measurements, n_same, **about) for variant in with_draft]
