"""Measure a target and a draft on held-out text: bits per byte, and for each K the acceptance rate,
in all and place by place, what a drafted token costs, and the speedup.

    python experiments/training/evaluate.py --corpus DIR --draft_model_size 0.7M

DIR holds `*_valid.txt`: stories ended by a line `<|endoftext|>`.
"""

import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import backends.blas  # noqa: E402, F401, isort: skip: before NumPy

import numpy as np  # noqa: E402
from tqdm import tqdm  # noqa: E402

import utils  # noqa: E402
from experiments.cli.exit_codes import exit_code, script  # noqa: E402
from experiments.cli.flags import call  # noqa: E402
from experiments.cli.validators import check_numbers, parse_K  # noqa: E402
from experiments.data.corpus import documents  # noqa: E402
from experiments.decoding.decoders import decode  # noqa: E402
from experiments.decoding.metrics import speculation  # noqa: E402
from experiments.decoding.settings import Settings  # noqa: E402
from experiments.decoding.timing import Clock, clocked  # noqa: E402
from experiments.drafting.pairs import CHECKPOINT, load_pairs  # noqa: E402
from sampling import Filter  # noqa: E402
from utils import InputError  # noqa: E402

N_PROMPT = 32  # tokens of a story that are continued
TEMPERATURES = (0.0, 1.0)


def bits_per_byte(model, encoder, texts):
    """The target's cross entropy of held-out text, in bits per byte of UTF-8, <|endoftext|> at both
    ends not counted.
    """
    half, nats = model.config.n_ctx // 2, 0.0
    for text in tqdm(texts, desc="bits per byte", leave=False):
        ids = [encoder.end_of_text, *encoder.encode(text)]
        for first in range(0, len(ids) - 1, half):
            # score the tokens after `first`, in windows that overlap by half
            window = ids[max(0, first - half) : first + half]
            following = ids[first + 1 : first + 1 + half]
            n_last = min(half, len(ids) - first)
            logits = model.read(window, model.new_cache(), n_last)[: len(following)]
            logits = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
            chosen = logits[range(len(following)), following]
            nats -= (chosen - np.log(np.exp(logits).sum(axis=-1))).sum()
    return nats / np.log(2) / sum(len(text.encode()) for text in texts)


def acceptance_by_place(done, K):
    """[accepted / examined] of the first draft of a round, the second, ...; None where none was."""
    rates = []
    for place in range(K):
        examined = sum(one.examined > place for one in done)
        accepted = sum(one.accepted > place for one in done)
        rates.append(accepted / examined if examined else None)
    return rates


def measure(target, draft, prompts, K, filter, n_tokens, repeats):
    """The figures of one K and temperature: the two decoders take turns, prefill not counted.

    draft_cost: c, seconds of a drafted token over those of a token of plain decoding
    speedup: the median over repeats
    """
    clock, ratios, done = Clock(), [], []
    plain_seconds, n_plain = 0.0, 0

    def timed(drafter, filter):
        drafter.propose = clock.timed("draft", drafter.propose)
        return drafter, filter

    for repeat in range(repeats):
        alone = together = 0.0
        for i, ids in enumerate(prompts):
            how = {"K": K, "filter": filter, "seed": [repeat, i]}
            plain = decode("autoregressive", target, draft, ids, n_tokens, **how)
            rounds, _, seconds = clocked(plain)
            alone += seconds
            n_plain += len(rounds)
            fast = decode("speculative", target, draft, ids, n_tokens, wrap=timed, **how)
            rounds, _, seconds = clocked(fast)
            together += seconds
            done += rounds
        plain_seconds += alone
        ratios.append(alone / together)
    found = speculation(done)
    n_drafted = max(1, found["drafted"])
    return {
        "acceptance_rate": found["acceptance_rate"],
        "tokens_per_target_pass": found["tokens_per_target_pass"],
        "draft_cost": clock.seconds["draft"] / n_drafted / (plain_seconds / n_plain),
        "speedup": statistics.median(ratios),
        "acceptance_by_place": acceptance_by_place(done, K),
    }


def print_row(temperature, K, row):
    rate = lambda value: "–" if value is None else f"{value:.3f}"
    places = " ".join(f"{rate(value)[1:]:>4}" for value in row["acceptance_by_place"])
    print(
        f"{temperature:>4} {K:>3} {rate(row['acceptance_rate']):>11} "
        f"{row['tokens_per_target_pass']:>12.2f} {row['draft_cost']:>7.3f} "
        f"{row['speedup']:>8.2f}  {places}",
        flush=True,
    )


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
    """
    check_numbers(1, n_prompts=n_prompts, n_tokens=n_tokens, repeats=repeats)
    counts, texts = parse_K(K, n_tokens), documents(corpus, "valid")
    backend = utils.get_backend()
    pairs = load_pairs(target_model_size, [draft_model_size], models_dir, CHECKPOINT, backend)
    target, draft, encoder = pairs.target, pairs.drafts[draft_model_size], pairs.encoder
    prompts = [ids[:N_PROMPT] for ids in map(encoder.encode, texts) if len(ids) >= N_PROMPT]
    prompts = prompts[:n_prompts]
    if not prompts:
        raise InputError(f"{corpus!r}: expected stories of at least {N_PROMPT} tokens")
    result = {"prompts": len(prompts), "tokens": n_tokens}
    if not skip_bits:
        result["bits_per_byte"] = bits_per_byte(target, encoder, texts)
        print(f"{result['bits_per_byte']:.3f} bits per held-out byte")
    head = f"{'T':>4} {'K':>3} {'acceptance':>11} {'tokens/pass':>12} {'c':>7} {'speedup':>8}"
    print(f"{head}  by place")
    for temperature in TEMPERATURES:
        for k in counts:
            row = measure(target, draft, prompts, k, Filter(temperature), n_tokens, repeats)
            result[f"T={temperature:g} K={k}"] = row
            print_row(temperature, k, row)
    print(json.dumps(result))


if __name__ == "__main__":
    script(lambda: exit_code(lambda: call(evaluate, sys.argv[1:])))
