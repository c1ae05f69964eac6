"""How good a drafter is: tokens per pass of 17M, on twelve story openings.

python -m exercises.score                        # drafter_13 of exercises/mine.py
python -m exercises.score exercises.solutions    # of another module
"""

import backends.blas  # isort: skip  # noqa: F401, chooses how NumPy multiplies: import it first
import argparse
import importlib

from cli.exit_codes import exit_code, script
from cli.prompts import choose_prompts
from decoding.drafts import Draft
from decoding.load import NGRAM, Pair, load
from decoding.run import Run
from exercises.checks import Wrong, check_drafter_13
from utils import MODELS_DIR, InputError, get_backend

TARGET, MODEL = "17M", "0.7M-17M"
N_PROMPTS, N_TOKENS, K = 12, 60, 4


class Yours(Draft):
    """The drafters that drafter_13 makes."""

    def __init__(self, make):
        self.make = make

    def drafter(self, target, filter, chance, confidence=0.0):
        return self.make(target.config.n_vocab, chance.sample)


def tokens_per_pass(pair, prompts):
    """Tokens per target pass with this pair's draft, over all prompts."""
    n_tokens = n_passes = 0
    for ids in prompts:
        rounds = Run(pair, ids, N_TOKENS, K).rounds()
        next(rounds)  # the prefill
        for round in rounds:
            n_tokens += len(round.tokens)
            n_passes += 1
    return n_tokens / n_passes


def score(module="exercises.mine"):
    """Print the table."""
    try:
        make = vars(importlib.import_module(module)).get("drafter_13")
        if make is None:
            raise InputError(
                f"{module}: it has no drafter_13: expected one as in exercises/mine.py"
            )
        check_drafter_13(make)
    except ImportError as error:
        raise InputError(f"{module}: it cannot be loaded: {error}") from None
    except NotImplementedError:
        problem = f"{module}: drafter_13 is still to be written; see docs/exercises.md"
        raise InputError(problem) from None
    except Wrong as wrong:
        raise InputError(f"{module}: drafter_13 is not right yet: {wrong}") from None
    pairs = load(TARGET, [NGRAM, MODEL], MODELS_DIR, get_backend(kernels="plain"))
    prompts, _ = choose_prompts("", N_PROMPTS, pairs.encoder, pairs.target.config.n_ctx - N_TOKENS)
    print(f"{'drafter':<12} tokens per pass of {TARGET}")
    for name, draft in {"yours": Yours(make), **pairs.drafts}.items():
        pair = Pair(pairs.target, draft, pairs.encoder)
        print(f"{name:<12} {tokens_per_pass(pair, prompts):.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Tokens per pass of 17M with your drafter_13.")
    parser.add_argument("module", nargs="?", default="exercises.mine", help="where it is written")
    script(lambda: exit_code(lambda: score(**vars(parser.parse_args()))))
