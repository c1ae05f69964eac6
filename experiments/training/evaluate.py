"""Measure the embedded pair on held-out text: bits per byte, acceptance rate, and speedup for each
K.

    python experiments/training/evaluate.py --corpus DIR       # *_valid.txt: stories ended by a line <|endoftext|>

Bits per byte: every token is scored with at least half a context before it, where its story has
that much. Speedup: time of our own cached autoregressive loop over time of the speculative one,
same prompts, same token counts, decoding only (prefill apart), the two taking turns; the median
over repeats.
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
from experiments.decoding.timing import clocked  # noqa: E402
from sampling import Filter, NeuralDrafter, NGramDrafter, autoregressive, speculative  # noqa: E402
from utils import InputError  # noqa: E402


def bits_per_byte(model, encoder, texts):
    """The target's cross entropy of held-out text, in bits per byte of UTF-8, <|endoftext|> at both
    ends not counted.
    """
    half, nats = model.config.n_ctx // 2, 0.0
    for text in tqdm(texts, desc="bits per byte", leave=False):
        ids = [encoder.end_of_text, *encoder.encode(text)]
        for first in range(0, len(ids) - 1, half):
            # score the tokens after first, in windows that overlap by half
            window = ids[max(0, first - half) : first + half]
            following = ids[first + 1 : first + 1 + half]
            logits = model.read(window, model.new_cache(), n_last=min(half, len(ids) - first))[
                : len(following)
            ]
            logits = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
            nats -= (
                logits[range(len(following)), following] - np.log(np.exp(logits).sum(axis=-1))
            ).sum()
    return nats / np.log(2) / sum(len(text.encode()) for text in texts)


def compare(target, draft, prompts, K, filter, n_tokens, repeats):
    """Acceptance, tokens per target pass and speedup over all prompts at one K and temperature."""
    ratios, done = [], []
    for repeat in range(repeats):
        seconds = np.zeros(2)
        for i, ids in enumerate(prompts):
            rng = np.random.default_rng([repeat, i])
            drafter = (
                NeuralDrafter(draft, filter, rng) if draft else NGramDrafter(target.config.n_vocab)
            )
            alone, _, plain = clocked(
                autoregressive(target, ids, n_tokens, filter, np.random.default_rng(i))
            )
            rounds, _, fast = clocked(speculative(target, drafter, ids, n_tokens, K, filter, rng))
            seconds += plain, fast
            done += rounds
            assert len(alone) == sum(len(one.tokens) for one in rounds)
        ratios.append(seconds[0] / seconds[1])
    examined, accepted = sum(one.examined for one in done), sum(one.accepted for one in done)
    per_pass = sum(len(one.tokens) for one in done) / len(done)
    return {
        "acceptance_rate": accepted / max(1, examined),
        "tokens_per_target_pass": per_pass,
        "speedup": statistics.median(ratios),
    }


def evaluate(
    corpus="",
    target="7M",
    draft="0.7M",
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
        target: a size in models/, or a folder
        draft: likewise, or ngram
        K: how many tokens to draft per round: several numbers, such as 1,2,4 or 1..8
        n_prompts: how many stories to continue
        n_tokens: how many tokens to generate for each
        repeats: of each measurement; medians are reported
        skip_bits: do not compute bits per byte
    """
    check_numbers(1, n_prompts=n_prompts, n_tokens=n_tokens, repeats=repeats)
    counts = parse_K(K, n_tokens)
    backend, texts = utils.get_backend(), documents(corpus, "valid")
    target, draft, encoder = utils.load_pair(target, draft, utils.MODELS_DIR, backend)
    prompts = [ids[:32] for ids in map(encoder.encode, texts) if len(ids) >= 32][:n_prompts]
    if not prompts:
        raise InputError(f"{corpus!r}: expected stories of at least 32 tokens")
    result = {"prompts": len(prompts), "tokens": n_tokens}
    if not skip_bits:
        result["bits_per_byte"] = bits_per_byte(target, encoder, texts)
        print(f"{result['bits_per_byte']:.3f} bits per held-out byte")
    print(f"{'T':>4} {'K':>3} {'acceptance':>11} {'tokens/pass':>12} {'speedup':>8}")
    for temperature in (0.0, 1.0):
        for k in counts:
            row = compare(target, draft, prompts, k, Filter(temperature), n_tokens, repeats)
            result[f"T={temperature:g} K={k}"] = row
            acceptance, per_pass, speedup = row.values()
            print(
                f"{temperature:>4} {k:>3} {acceptance:>11.3f} {per_pass:>12.2f} {speedup:>8.2f}",
                flush=True,
            )
    print(json.dumps(result))


if __name__ == "__main__":
    script(lambda: exit_code(lambda: call(evaluate, sys.argv[1:])))
