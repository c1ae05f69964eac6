"""How far a cluster grows: prompts per second of 1 and 2 workers with one thread each, measured
here, and of more, computed from what a group of prompts costs the process that hands it out.

    python -m experiments.cluster.growth

A group occupies a worker while its texts are written and on the way there and back. It occupies
the scheduler and the client, here one process, for its share of their CPU time: as many workers are
fed as groups fit into that.
"""

import sys
import time

import backends.blas  # noqa: F401, isort: skip: before NumPy

from functools import partial

from experiments.cli.exit_codes import exit_code, script
from experiments.cli.flags import call
from experiments.cli.validators import check_numbers
from experiments.cluster.models import Wanted
from experiments.cluster.submit import Cluster
from experiments.cluster.texts import texts
from experiments.data.prompts import stories
from experiments.decoding.session import Models, Session
from experiments.decoding.settings import Settings

N_EMPTY = 500  # groups without work
WORKERS = (1, 2, 4, 8, 16, 64, 256, 1024)
MEASURED = 2  # workers


def nothing(pairs, items):
    """A group's results without any work."""
    return items


def timed(results):
    """(seconds, CPU seconds of this process) that all results take."""
    begin, cpu = time.perf_counter(), time.process_time()
    for _ in results:
        pass
    return time.perf_counter() - begin, time.process_time() - cpu


def measure(n_workers, settings, n_prompts, batch_size):
    """Seconds of a prompt, of an empty group, and CPU seconds of a group."""
    draft = settings.draft_model_size
    wanted = Wanted(settings.target_model_size, (draft,), kernels=settings.kernels)
    with Cluster(f"local:{n_workers}", wanted) as cluster:
        pairs = cluster.pairs
        session = Session(settings, Models(pairs.target, None, pairs.encoder))
        known = stories()
        chosen = [session.prompt(known[i % len(known)], i + 1) for i in range(n_prompts)]
        work = partial(texts, settings, batch_size)
        timed(cluster.run(work, chosen[: n_workers * batch_size], batch_size))  # a warm-up
        seconds, _ = timed(cluster.run(work, chosen, batch_size))
        empty, cpu = timed(cluster.run(nothing, [chosen[0]] * N_EMPTY * batch_size, batch_size))
    return seconds / n_prompts, empty / N_EMPTY, cpu / N_EMPTY


def computed(n_workers, prompt, cpu):
    """Prompts per second of so many workers: a prompt takes one of them `prompt` seconds, and the
    scheduler `cpu` seconds.
    """
    return min(n_workers / prompt, 1 / cpu)


def growth(n_prompts=64, batch_size=8, n_tokens=60):
    """Print prompts per second against the number of workers, each with one thread.

    Args:
        n_prompts: how many are measured
        batch_size: how many are in a group
        n_tokens: how many tokens after each prompt, by both decoders
    """
    check_numbers(1, n_prompts=n_prompts, batch_size=batch_size, n_tokens=n_tokens)
    settings = Settings(n_tokens_to_generate=n_tokens, kernels="64x1")
    found = {n: measure(n, settings, n_prompts, batch_size) for n in range(1, MEASURED + 1)}
    prompt, way, cpu = found[1]
    print(f"A group of {batch_size} prompts takes a worker {prompt * batch_size:.2f} s;")
    print(f"the way there and back {1e3 * way:.1f} ms, of CPU time here {1e3 * cpu:.1f} ms.")
    print(f"The scheduler feeds {prompt * batch_size / cpu:.0f} workers.\n")
    print("| workers | prompts per second | of one | how it was found |\n| --- | --- | --- | --- |")
    for n in WORKERS:
        speed = 1 / found[n][0] if n in found else computed(n, prompt, cpu / batch_size)
        how = "measured" if n in found else "computed"
        print(f"| {n} | {speed:.2f} | {speed * prompt:.1f} | {how} |")


if __name__ == "__main__":
    script(lambda: exit_code(lambda: call(growth, sys.argv[1:])))
