"""A run: its folder, its checkpoint, its steps.

The same command resumes a run in its folder, from the last checkpoint.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from train.files import reading, write
from train.learning import move, new_optimizers, rate_at

ROUND = 200  # steps from a checkpoint to the next
STATE = "training.pt"  # the checkpoint, in the folder of a run

Lesson = Callable[[int, int], Iterator[list[torch.Tensor]]]  # (first step, end) -> their batches
Losses = Callable[[torch.Tensor, float], Iterator[torch.Tensor]]  # (a batch, progress from 0 to 1)


@contextmanager
def memory_named() -> Iterator[None]:
    """A context manager: if torch cannot allocate a tensor in the block, as its size overflows or
    memory does not suffice, raises MemoryError, which says what to do. Other errors pass.
    """
    try:
        yield
    except (RuntimeError, TypeError) as error:
        if not re.search("allocate memory|out of memory|[Oo]verflow", str(error)):
            raise
        problem = "not enough memory for this model; make it smaller, or lower --tokens_per_step"
        raise MemoryError(problem) from error


def run_folder(folder: str) -> Path:
    """The path of the folder of a run: it is missing or empty, or has training.pt (STATE), the
    checkpoint of one to resume. Raises ValueError if it holds anything else, as nothing but a run's
    own results is ever replaced.
    """
    path = Path(folder)
    is_run = (path / STATE).is_file()
    holds = {one.name for one in path.iterdir()} if path.is_dir() else set()
    holds.discard("training.part")  # what a kill leaves of the first checkpoint
    if path.is_file() or (holds and not is_run):
        raise ValueError(f"{path}: is there already, and no run to resume; give a new folder")
    return path


def prepare(device: str) -> None:
    """Set the precision of torch's products for a device, "cpu" or "cuda". Raises ValueError for
    "cuda" if torch finds no GPU.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: torch finds no GPU; expected cpu")
    # float32; in products TF32 on a GPU, and bfloat16 on a CPU that has instructions for it
    torch.set_float32_matmul_precision("high" if device == "cuda" else "medium")


def resume(folder: Path, identity: dict[str, Any], parts: list[Any]) -> int:
    """Load the states of `parts`, models and optimizers, from the checkpoint in a run's folder, in
    place, and return how many steps the run has taken. Without a checkpoint, load nothing and
    return 0. Raises ValueError if the checkpoint cannot be read, or is of another run.

    identity: {name of a setting: value}, which the checkpoint of the same run has, too
    """
    path = folder / STATE
    if not path.exists():
        return 0
    with reading(path, "delete it, and the run begins anew"):
        saved = torch.load(path, weights_only=True, map_location="cpu")
        known = saved["identity"]
        differing = [name for name in known | identity if known.get(name) != identity.get(name)]
        if not differing:
            for part, state in zip(parts, saved["states"], strict=True):
                part.load_state_dict(state)
        step = saved["step"]
    if differing:
        name = differing[0]
        other = f"its run has {name} {known.get(name)!r}, not {identity.get(name)!r}"
        raise ValueError(f"{folder}: {other}; give a new folder")
    return step


def save(folder: Path, step: int, identity: dict[str, Any], parts: list[Any]) -> None:
    """Write the checkpoint of a run into its folder, in place of an older one: the steps taken, its
    identity, {name of a setting: value}, and the states of its parts, models and optimizers.
    """
    file, states = BytesIO(), [part.state_dict() for part in parts]
    torch.save({"step": step, "identity": identity, "states": states}, file)
    write(folder / STATE, file.getvalue())


def rest_of_round(lesson: Lesson, step: int, steps: int) -> Iterator[list[torch.Tensor]]:
    """Yield a list of batches for each step of a run, from `step` on to the end of its round, or to
    `steps`, the end of the run. A round is 200 steps (ROUND), from a multiple of 200 on.

    lesson(first, end): yields the batches of the steps first to end - 1. What it yields for a step
        depends on `first`, so it is asked for the whole round, also if a part of that is done
    """
    first = step - step % ROUND  # of the round
    batches_of_steps = lesson(first, min(first + ROUND, steps))
    return islice(batches_of_steps, step - first, None)  # without those that are done


def add_gradients(batches: list[Any], losses: Losses, progress: float) -> None:
    """Add the gradients of a step to those that the models' parameters hold. What is lowered is the
    mean of a model's losses over the batches.

    losses(batch, progress): yields a loss for each model; progress: of the run, from 0 to 1
    """
    for batch in batches:
        for loss in losses(batch, progress):  # one at a time, to spare memory
            (loss / len(batches)).backward()


def train(
    folder: Path,
    identity: dict[str, Any],
    models: list[torch.nn.Module],
    rates: list[float],
    lesson: Lesson,
    losses: Losses,
    exam: Callable[[], str],
    steps: int,
) -> None:
    """Take the remaining steps of a run, from its checkpoint on if there is one. A step moves each
    model along the gradients of its losses, of all batches of the step. After every 200 steps
    (ROUND) and at the end, write the checkpoint into the folder and print what the exam says.

    identity: the settings that a run keeps when it is resumed: all but steps and rates
    rates: the highest learning rate of each model, from which `rate_at` makes that of a step
    steps: how many the run takes in all
    lesson(first step, end): yields for each of these steps its batches
    losses(batch, progress of the run from 0 to 1): yields a loss for each model
    exam(): in words, how good the models are now
    Raises ValueError for a run of another identity, or one that has taken more steps, and OSError
    if the folder cannot be made, or written.
    """
    optimizers = [new_optimizers(model, rate) for model, rate in zip(models, rates)]
    parts: list[Any] = list(models)  # what a checkpoint has the states of
    for its_optimizers in optimizers:
        parts += its_optimizers
    step = resume(folder, identity, parts)
    if step > steps:
        raise ValueError(f"--steps {steps}: {folder} has taken {step}; give as many or more")
    folder.mkdir(parents=True, exist_ok=True)  # before the work, as it may fail
    with tqdm(total=steps, initial=step, mininterval=5, disable=None) as bar:
        while step < steps:
            for batches in rest_of_round(lesson, step, steps):
                add_gradients(batches, losses, step / steps)
                for its_optimizers, rate in zip(optimizers, rates):
                    move(its_optimizers, rate * rate_at(step, steps))
                step += 1
                bar.update()
            save(folder, step, identity, parts)
            bar.write(f"step {step}: {exam()}")
