"""Cases as JSON lines, for samplers that are not Python: python main.py cases FILE.jsonl

The program in another language reads a round from each line, {"draft": [K tokens], "p": [K + 1
rows], "q": [K rows]}, and writes a line with the tokens of its round, {"tokens": [1 to K + 1
tokens]}, in the same order. `python main.py prove ANSWERS.jsonl` judges these as real runs.
"""

import json
from collections.abc import Iterator
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from cli.output import named, require_new

from .cases import RULE_CASES
from .enumerate import Branch, RealBranch
from .forms import drafted, rule_text
from .prove import after_real_runs, summary
from .trial import ALPHA, Trial

CASES = [case for case in RULE_CASES if case.rounds == 1 and case.K]


def rng_of(turn: int, case: int) -> np.random.Generator:
    """The generator that drafts the round of this turn and of CASES[case]: the same when the round
    is written and when its answer is judged.
    """
    return np.random.default_rng([turn, case])


def cases(file: str, *, runs: int = 2_000) -> None:
    """Write rounds for a sampler in another language to a file, one a line: draft, p and q. The
    sampler answers each with a line {"tokens": [...]}; `prove ANSWERS.jsonl` judges the answers. A
    file that is there already is refused.

        python main.py cases cases.jsonl
        my_sampler < cases.jsonl > answers.jsonl
        python main.py prove answers.jsonl

    Flags:
        runs: of each case, 1 or more
    """
    if runs < 1:
        raise ValueError(f"--runs {runs}: expected 1 or more")
    with require_new(file).open("x", encoding="utf-8") as lines:
        for turn in range(runs):
            for i, case in enumerate(CASES):
                # the draft is sampled, with real random numbers
                draft, p, q = drafted(case, text=(), branch=RealBranch(rng=rng_of(turn, i)))
                line = dict(case=case.name, draft=draft, p=p.tolist(), q=q.tolist())
                lines.write(json.dumps(line) + "\n")


def judge_answers(file: Path) -> dict[str, Any]:
    """Judge a file of answers, lines {"tokens": [...]}, one for each round that the function
    `cases` writes, in its order. Returns a result of `prove` (its keys: prove.py), whose verdict is
    "wrong", "not told apart" or "undecidable". Raises OSError without a file; ValueError for lines
    that are no answers, or if their number is 0 or no multiple of that of the cases.
    """
    started = monotonic()
    answers = list(read_answers(file))
    n_runs, n_over = divmod(len(answers), len(CASES))
    if n_runs == 0 or n_over > 0:
        expected = f"one for each line of `python main.py cases`, a multiple of {len(CASES)}"
        raise ValueError(f"{file}: {len(answers)} answers: expected {expected}")
    remaining = iter(answers)

    def rule(draft: Any, p: Any, q: Any, branch: Branch) -> list[int]:
        """The next answer: the runs below are in the order of the lines."""
        return next(remaining)

    sampler = partial(rule_text, rule)
    trials = [Trial(sampler, case, ALPHA / len(CASES), rng_of(0, 0)) for case in CASES]
    for turn in range(n_runs):
        for i, trial in enumerate(trials):
            trial.rng = rng_of(turn, i)  # so that it drafts what was written into the line
            trial.run(deadline=inf)
    why = f"it ran elsewhere: {n_runs:,} answers of a case are all that is known"
    for trial in trials:
        trial.conclude()
        trial.entry["problem"] = "" if trial.is_wrong else why
    # each case had real runs, and none was enumerated
    verdict, reason = after_real_runs(tried=trials, trials=trials, failure="")
    entries = [trial.entry for trial in trials]
    return summary(file.name, verdict, reason, entries, monotonic() - started)


def read_answers(file: Path) -> Iterator[list[int]]:
    """Yield the list in each line, a JSON object {"tokens": [0, 2]} with a list of whole numbers.
    Raises OSError without a file, ValueError unless it is in UTF-8, and for a line that is no such
    object.
    """
    try:
        with named(file):
            text = file.read_text("utf-8-sig")
        lines = text.removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: byte {error.start}: expected UTF-8") from None
    for n, line in enumerate(lines, 1):
        try:
            tokens = json.loads(line)["tokens"]
            is_answer = isinstance(tokens, list) and all(type(token) is int for token in tokens)
        except (ValueError, RecursionError, TypeError, LookupError):
            is_answer = False
        if not is_answer:
            expected = 'expected {"tokens": [...]}, whole numbers'
            raise ValueError(f"{file}:{n}: {line[:80]!r}: {expected}")
        yield tokens
