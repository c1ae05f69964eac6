"""Measure a target and a draft on held-out text: bits per byte, and for each K the acceptance rate,
in all and by position, what a drafted token costs, and the speedup.

    python experiments/training/evaluate.py --corpus DIR --draft_model_size 0.7M

DIR holds `*_valid.txt`: stories ended by a line `<|endoftext|>`.
"""

import json
import statistics
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import backends.blas  # noqa: E402, F401, isort: skip: before NumPy

import numpy as np  # noqa: E402
from tqdm import tqdm  # noqa: E402

import utils  # noqa: E402
from experiments.cli.exit_codes import exit_code, script  # noqa: E402
from experiments.cli.flags import call  # noqa: E402
from experiments.cli.validators import check_length, check_numbers, parse_K  # noqa: E402
from experiments.cluster.models import Wanted  # noqa: E402
from experiments.cluster.place import place  # noqa: E402
from experiments.data.corpus import documents  # noqa: E402
from experiments.data.lines import Failed, SomeFailed, spared  # noqa: E402
from experiments.data.machine import label  # noqa: E402
from experiments.decoding.decoders import decode  # noqa: E402
from experiments.decoding.metrics import speculation  # noqa: E402
from experiments.decoding.settings import Settings  # noqa: E402
from experiments.decoding.timing import Clock, clocked  # noqa: E402
from experiments.measuring.statistics import counts_by_position  # noqa: E402
from sampling import Filter  # noqa: E402
from utils import InputError  # noqa: E402

N_PROMPT = 32  # tokens of a story that are continued
GROUP = 4  # texts, that a worker of a cluster is given at a time
TEMPERATURES = (0.0, 1.0)


def bits_in(pairs, texts):
    """The target's cross entropy of each text, in bits, <|endoftext|> at both ends not counted."""
    model, encoder = pairs.target, pairs.encoder
    half = model.config.n_ctx // 2
    for text in texts:
        ids, nats = [encoder.end_of_text, *encoder.encode(text)], 0.0
        for first in range(0, len(ids) - 1, half):
            # score the tokens after `first`, in windows that overlap by half
            window = ids[max(0, first - half) : first + half]
            following = ids[first + 1 : first + 1 + half]
            n_last = min(half, len(ids) - first)
            logits = model.read(window, model.new_cache(), n_last)[: len(following)]
            logits = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
            chosen = logits[range(len(following)), following]
            nats -= (chosen - np.log(np.exp(logits).sum(axis=-1))).sum()
        yield float(nats / np.log(2))


def bits_per_byte(where, texts, failed):
    """The target's cross entropy of held-out text, in bits per byte of UTF-8; None if all failed,
    and {what: why} of those that did is put into `failed`.
    """
    name = lambda text: f"bits per byte of the story {text[:30]!r}"
    results = spared(where.run(bits_in, texts, GROUP, name), failed)
    bits = list(tqdm(results, desc="bits per byte", total=len(texts), leave=False))
    known = [one for one in zip(bits, texts) if not isinstance(one[0], Failed)]
    n_bytes = sum(len(text.encode()) for _, text in known)
    return sum(one for one, _ in known) / n_bytes if known else None


@dataclass(frozen=True)
class Item:
    """A prompt to be continued: the number of a story, and its first tokens."""

    temperature: float
    K: int
    number: int
    ids: list

    def __str__(self):
        return f"story {self.number + 1} at K {self.K} and temperature {self.temperature:g}"


@dataclass
class Turns:
    """What was measured of both decoders after a prompt, prefill not counted.

    alone, together: seconds of the autoregressive and of the speculative text, for each repeat
    done: the speculative rounds of all repeats
    draft_seconds: those of all drafted tokens
    """

    machine: str
    alone: list
    together: list
    n_plain: int
    done: list
    draft_seconds: float


def measured(n_tokens, repeats, pairs, items):
    """The Turns of each Item: the two decoders take turns."""
    target, (draft,) = pairs.target, pairs.drafts.values()
    for item in items:
        clock, alone, together, done, n_plain = Clock(), [], [], [], 0

        def timed(drafter, filter):
            drafter.propose = clock.timed("draft", drafter.propose)
            return drafter, filter

        for repeat in range(repeats):
            seed = [repeat, item.number]
            how = {"K": item.K, "filter": Filter(item.temperature), "seed": seed}
            plain = decode("autoregressive", target, draft, item.ids, n_tokens, **how)
            rounds, _, seconds = clocked(plain)
            alone.append(seconds)
            n_plain += len(rounds)
            fast = decode("speculative", target, draft, item.ids, n_tokens, wrap=timed, **how)
            rounds, _, seconds = clocked(fast)
            together.append(seconds)
            done += rounds
        yield Turns(label(), alone, together, n_plain, done, clock.seconds["draft"])


def row_of(turns, K):
    """The figures of one K and temperature, from the Turns of all prompts.

    draft_cost: c, seconds of a drafted token over those of a token of plain decoding
    speedup: the median over repeats
    """
    alone = [sum(seconds) for seconds in zip(*(one.alone for one in turns))]
    together = [sum(seconds) for seconds in zip(*(one.together for one in turns))]
    plain_token = sum(alone) / sum(one.n_plain for one in turns)
    done = [one for prompt in turns for one in prompt.done]
    found = speculation(done)
    n_drafted = max(1, found["drafted"])
    rounds = [(one.drafted, one.examined, one.accepted) for one in done]
    _, by_position, _ = counts_by_position(rounds, K)
    return {
        "acceptance_rate": found["acceptance_rate"],
        "tokens_per_target_pass": found["tokens_per_target_pass"],
        "draft_cost": sum(one.draft_seconds for one in turns) / n_drafted / plain_token,
        "speedup": statistics.median(a / b for a, b in zip(alone, together)),
        "acceptance_by_position": by_position,
        "machines": sorted({one.machine for one in turns}),
    }


def print_row(temperature, K, row):
    rate = lambda value: "–" if value is None else f"{value:.3f}"
    shares = (rate(value).removeprefix("0") for value in row["acceptance_by_position"])
    print(
        f"{temperature:>4} {K:>3} {rate(row['acceptance_rate']):>11} "
        f"{row['tokens_per_target_pass']:>12.2f} {row['draft_cost']:>7.3f} "
        f"{row['speedup']:>8.2f}  {' '.join(f'{share:>5}' for share in shares)}",
        flush=True,
    )


def print_machines(values):
    """Say so if speeds of different machines were taken together."""
    found = {name for row in values if isinstance(row, dict) for name in row["machines"]}
    if len(found) > 1:
        print(f"The speeds are those of {len(found)} machines together: {', '.join(sorted(found))}")


def evaluate(
    corpus="",
    target_model_size=Settings.target_model_size,
    draft_model_size=Settings.draft_model_size,
    models_dir=utils.MODELS_DIR,
    K="1,2,3,4,5,6,8",
    n_prompts=40,
    n_tokens=100,
    repeats=3,
    skip_bits=False,
    cluster="",
):
    """Print a table, and the same as one line of JSON. Prompts are the first 32 tokens of held-out
    stories.

    Args:
        corpus: the folder of *_valid.txt
        target_model_size: a size in models_dir, or a folder
        draft_model_size: likewise, or ngram, eagle or medusa
        models_dir: where the folders of the sizes are
        K: how many tokens to draft per round: several numbers, such as 1,2,4 or 1..8
        n_prompts: how many stories to continue
        n_tokens: how many tokens to generate for each
        repeats: of each measurement
        skip_bits: do not compute bits per byte
        cluster: let the workers of a Dask cluster measure: local:4 starts four here,
            tcp://HOST:8786 is a scheduler
    """
    check_numbers(1, n_prompts=n_prompts, n_tokens=n_tokens, repeats=repeats)
    counts, texts = parse_K(K, n_tokens, "the tokens of a text"), documents(corpus, "valid")
    with place(cluster, Wanted(target_model_size, (draft_model_size,), models_dir)) as where:
        encoder, n_ctx = where.pairs.encoder, where.pairs.target.config.n_ctx
        check_length("n_tokens", n_tokens, n_ctx - N_PROMPT)
        prompts = [ids[:N_PROMPT] for ids in map(encoder.encode, texts) if len(ids) >= N_PROMPT]
        prompts = prompts[:n_prompts]
        if not prompts:
            raise InputError(f"{corpus!r}: expected stories of at least {N_PROMPT} tokens")
        result, failed = {"prompts": len(prompts), "tokens": n_tokens}, {}
        if not skip_bits:
            result["bits_per_byte"] = bits_per_byte(where, texts, failed)
            if result["bits_per_byte"] is not None:
                print(f"{result['bits_per_byte']:.3f} bits per held-out byte")
        head = f"{'T':>4} {'K':>3} {'acceptance':>11} {'tokens/pass':>12} {'c':>7} {'speedup':>8}"
        print(f"{head}  by position")
        items = [
            Item(temperature, k, i, ids)
            for temperature in TEMPERATURES
            for k in counts
            for i, ids in enumerate(prompts)
        ]
        run = where.run(partial(measured, n_tokens, repeats), items, name=str)
        results = spared(run, failed)
        for temperature in TEMPERATURES:
            for k in counts:
                found = [next(results) for _ in prompts]
                turns = [one for one in found if not isinstance(one, Failed)]
                if turns:
                    row = row_of(turns, k)
                    result[f"T={temperature:g} K={k}"] = row
                    print_row(temperature, k, row)
        next(results, None)  # says what failed
    print_machines(result.values())
    print(json.dumps(result | ({"failed": failed} if failed else {})))
    if failed:
        raise SomeFailed(
            failed,
            "the figures are those of the others; give the same command to measure all again",
        )


if __name__ == "__main__":
    # what the workers of a cluster are sent they look up by the name of this module
    from experiments.training.evaluate import evaluate

    script(lambda: exit_code(lambda: call(evaluate, sys.argv[1:])))
