"""Cases as JSON lines, for samplers that are not Python: python main.py cases FILE.jsonl

The program in another language reads a round from each line, {"draft": [K tokens], "p": [K + 1
rows], "q": [K rows]}, and writes a line with the tokens of its round, {"tokens": [1 to K + 1
tokens]}, in the same order. `python main.py prove ANSWERS.jsonl` judges these as real runs.
"""

import json
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from .cases import RULE_CASES
from .enumerate import RealBranch
from .forms import drafted, rule_text
from .prove import ALPHA, Trial, after_real_runs, entry, summary

CASES = [case for case in RULE_CASES if case.rounds == 1 and case.K]


def rng_of(turn: int, case: int) -> np.random.Generator:
    """The generator that drafts a round, when it is written and when its answer is judged."""
    return np.random.default_rng([turn, case])


def cases(file: str, *, runs: int = 2_000) -> None:
    """Write rounds for a sampler in another language to a new file, one a line: draft, p and q. It
    answers each with a line {"tokens": [...]}; `prove ANSWERS.jsonl` judges the answers.

        python main.py cases cases.jsonl
        my_sampler < cases.jsonl > answers.jsonl
        python main.py prove answers.jsonl

    Flags:
        runs: of each case
    """
    if runs < 1:
        raise ValueError(f"--runs {runs}: expected 1 or more")
    with open(file, "x", encoding="utf-8") as lines:
        for turn in range(runs):
            for i, case in enumerate(CASES):
                draft, p, q = drafted(case, (), RealBranch(rng=rng_of(turn, i)))
                line = dict(case=case.name, draft=draft, p=p.tolist(), q=q.tolist())
                lines.write(json.dumps(line) + "\n")


def judge_answers(file: Path) -> dict[str, Any]:
    """Judge the answers to all rounds, in the order of `cases`. Returns what `prove` returns.
    Raises OSError without a file, ValueError for lines that are no answers, or not enough.
    """
    started, answers = monotonic(), [*read_answers(file)]
    if not answers or len(answers) % len(CASES):
        expected = f"one for each line of `python main.py cases`, a multiple of {len(CASES)}"
        raise ValueError(f"{file}: {len(answers)} answers: expected {expected}")
    n_runs, remaining = len(answers) // len(CASES), iter(answers)
    answered = lambda *_, branch: next(remaining)  # after a draft that it need not read
    trials = [
        Trial(partial(rule_text, answered), case, entry(case), n_runs, ALPHA / len(CASES), None)
        for case in CASES
    ]
    for turn in range(n_runs):
        for i, trial in enumerate(trials):
            trial.rng = rng_of(turn, i)  # drafts the same again
            trial.run(inf)
    why = f"it ran elsewhere: {n_runs:,} answers of a case are all that is known"
    for trial in trials:
        trial.conclude()
        trial.result["problem"] = "" if trial.is_wrong else why
    results = [trial.result for trial in trials]
    verdict = after_real_runs(trials, results, "")
    return summary(file.name, *verdict, results, monotonic() - started)


def read_answers(file: Path) -> Iterator[list[int]]:
    """Yield the tokens of each line, in UTF-8, or UTF-16 as PowerShell's > writes it. Raises
    ValueError for another encoding, or a line that is no answer.
    """
    written = file.read_bytes()
    encoding = "utf-16" if written[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"
    try:
        lines = written.decode(encoding).splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: byte {error.start}: expected UTF-8") from None
    for n, line in enumerate(lines, 1):
        try:
            tokens = json.loads(line)["tokens"]
            assert isinstance(tokens, list) and all(type(token) is int for token in tokens)
        except (ValueError, KeyError, TypeError, AssertionError):
            expected = 'expected {"tokens": [...]}, whole numbers'
            raise ValueError(f"{file}:{n}: {line[:80]!r}: {expected}") from None
        yield tokens
