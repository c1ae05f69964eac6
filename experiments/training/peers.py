"""The same weights in the programs people would run instead: plain and speculative decoding, and a
pass over K + 1 rows.

    pip install -r experiments/training/requirements-peers.txt
    python experiments/training/peers.py                                         # the default pair
    python experiments/training/peers.py --target_model_size 124M --weights random
    python experiments/training/peers.py --target_model_size 124M --weights random \
        --programs ours,openvino --turns 10 --n_prompts 1

Float32, batch 1, greedy, the same prompts and as many tokens for all. In a turn every program
writes all texts, in a new order each time; medians over turns, and their range. Prefill is
included: not every program tells it apart. A peer that is not installed is listed as not run. With
random weights a draft agrees with nothing, so only plain decoding and the passes are compared.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import backends.blas  # noqa: E402, F401, isort: skip: before NumPy

import numpy as np  # noqa: E402
from tqdm import tqdm  # noqa: E402

import utils  # noqa: E402
from backends.blas import N_THREADS  # noqa: E402
from experiments.cli.exit_codes import exit_code, script  # noqa: E402
from experiments.cli.flags import call  # noqa: E402
from experiments.cli.validators import check_choice, check_numbers, parse_list  # noqa: E402
from experiments.data.prompts import choose_prompts  # noqa: E402
from experiments.decoding.settings import Settings  # noqa: E402
from experiments.engines.programs import PROGRAMS  # noqa: E402
from experiments.engines.random_weights import write_random  # noqa: E402
from utils import InputError  # noqa: E402

PAST = list(range(100, 164))  # what is in the caches before a pass that is timed


def measure(contenders, prompts, n_tokens, turns):
    """{name: (seconds of each turn, Answers)} of contenders {name: generate}, taking turns."""
    seconds, answers = {name: [] for name in contenders}, {}
    names, rng = list(contenders), np.random.default_rng(0)
    bar = tqdm(total=(turns + 1) * len(names), unit=" turns", leave=False, disable=None)
    for turn in range(turns + 1):
        for j in rng.permutation(len(names)):
            name = names[j]
            begin = time.perf_counter()
            answers[name] = [contenders[name](ids, n_tokens) for ids in prompts]
            if turn:  # the first is the warm-up
                seconds[name].append(time.perf_counter() - begin)
            bar.update()
    bar.close()
    return {name: (seconds[name], answers[name]) for name in names}


def measure_rows(peers, n_rows, repeats):
    """{name: (seconds of one row, of n_rows)}, medians, the peers taking turns; without those that
    have no such pass.
    """
    ids = list(range(200, 200 + n_rows))
    able = [peer for peer in peers if peer.row_seconds]
    times = {peer.name: ([], []) for peer in able}
    for repeat in range(repeats + 1):
        for peer in able:
            one, many = peer.row_seconds(PAST, ids[:1]), peer.row_seconds(PAST, ids)
            if repeat:  # the first is the warm-up
                times[peer.name][0].append(one)
                times[peer.name][1].append(many)
    return {
        name: (statistics.median(one), statistics.median(many))
        for name, (one, many) in times.items()
    }


LINE = "{:<39}{:>9}{:>16}{:>13}{:>14}{:>9}{:>12}{:>10}{:>11}{:>7}"


def spread(numbers, digits):
    """The lowest and the highest."""
    return f"{min(numbers):.{digits}f} to {max(numbers):.{digits}f}"


def show(results, rows, n_tokens, n_rows):
    """One table: speed, tokens per pass, how many texts are ours, and what passes cost."""
    heads = ["tokens/s", "range", "against ours", "range", "per pass", "same texts"]
    print(LINE.format("", *heads, "1 row ms", f"{n_rows} rows ms", "ratio"))
    our_seconds, ours = next(iter(results.values()))
    for (peer, way), (seconds, answers) in results.items():
        speeds, against = ["withheld", "–"], ["–", "–"]
        n = n_tokens * len(answers)
        # texts of other lengths cannot be compared
        if all(len(answer.ids) == n_tokens for answer in answers):
            found, ratios = [n / t for t in seconds], [a / b for a, b in zip(our_seconds, seconds)]
            speeds = [f"{statistics.median(found):.1f}", spread(found, 1)]
            against = [f"{statistics.median(ratios):.2f}", spread(ratios, 2)]
        per_pass = f"{n / sum(answer.passes for answer in answers):.2f}"
        same = sum(answer.ids == our.ids for answer, our in zip(answers, ours))
        passes = ["–", "–", "–"]
        if way == "plain" and peer in rows:
            one, many = rows[peer]
            passes = [f"{1e3 * one:.2f}", f"{1e3 * many:.2f}", f"{many / one:.2f}"]
        cells = [*speeds, *against, per_pass, f"{same} of {len(answers)}", *passes]
        print(LINE.format(f"{peer}, {way}", *cells))


def start_programs(names, target, draft, K, weights):
    """(programs that are installed, a line for each that is not, the encoder)."""
    peers, missing = [], []
    with tempfile.TemporaryDirectory() as temporary:
        if weights == "random":
            folder, draft_folder = write_random(utils.SIZES[target], Path(temporary)), None
            # its own vocabulary cuts no text
            encoder = utils.load_encoder(utils.find_folder(Settings.target_model_size))
        else:
            folder, draft_folder = utils.find_folder(target), utils.find_folder(draft)
            encoder = utils.load_encoder(folder)
        for name in names:
            try:
                peers.append(PROGRAMS[name](folder, draft_folder, K))
            except ImportError as error:
                missing.append(f"{PROGRAMS[name].name}: not run, {error.name} is not installed")
    return peers, missing, encoder


def parse_programs(text):
    """The names of programs, this project's first. Raises InputError."""
    names = parse_list("programs", text)
    for name in names:
        check_choice("programs", name, *PROGRAMS)
    return ["ours", *(name for name in names if name != "ours")]


def compare(
    target_model_size=Settings.target_model_size,
    draft_model_size=Settings.draft_model_size,
    weights="checkpoint",
    programs=",".join(PROGRAMS),
    K=4,
    prompts="",
    n_prompts=8,
    n_tokens=60,
    turns=3,
):
    """Print one table: this project and the programs that are installed, with the same weights.

    Args:
        target_model_size: a size in models/, or a folder
        draft_model_size: likewise
        weights: checkpoint, or random (any size, no files needed; no draft)
        programs: which of them; this project is always there
        K: tokens drafted per round; passes over K + 1 rows are timed
        prompts: a file of prompts; without it, built-in ones
        n_prompts: how many of them
        n_tokens: how many tokens to generate for each
        turns: how often each program writes them all; medians are reported
    """
    names = parse_programs(programs)
    check_choice("weights", weights, "checkpoint", "random")
    if weights == "random" and target_model_size not in utils.SIZES:
        sizes = ", ".join(utils.SIZES)
        raise InputError(
            f"--target_model_size {target_model_size!r}: expected one of {sizes} for random weights"
        )
    check_numbers(1, K=K, n_prompts=n_prompts, n_tokens=n_tokens, turns=turns)
    peers, missing, encoder = start_programs(names, target_model_size, draft_model_size, K, weights)
    n_ctx = peers[0].model.config.n_ctx
    if n_ctx < len(PAST) + K + 1:
        most = n_ctx - len(PAST) - 1
        raise InputError(
            f"--K {K}: expected at most {most}, as passes over K + 1 tokens follow {len(PAST)}"
        )
    texts, _ = choose_prompts(prompts, n_prompts, encoder, n_ctx - n_tokens)
    contenders = {}
    for peer in peers:
        contenders |= {(peer.name, way): generate for way, generate in peer.ways().items()}
    results = measure(contenders, texts, n_tokens, turns)
    rows = measure_rows(peers, K + 1, 4 * turns)
    print(f"{target_model_size}, {weights} weights, float32, {N_THREADS} threads, ", end="")
    print(f"{len(texts)} prompts, {n_tokens} tokens each, {turns} turns, prefill included")
    show(results, rows, n_tokens, K + 1)
    print("versions:", "; ".join(peer.version for peer in peers))
    for line in missing:
        print(line)


if __name__ == "__main__":
    script(lambda: exit_code(lambda: call(compare, sys.argv[1:])))
