"""Find the bug: functions of sampling.py, each with a mistake of the museum (docs/mistakes.md).

python -m exercises.bugs         # what each of them does to a text
python -m exercises.bugs 2       # the second: its code
python -m exercises.bugs 2 5     # is it line 5?
"""

import argparse
import ast

from proving.distance import toy_distributions
from proving.enumeration import total_variation
from proving.mistakes import MISTAKES
from proving.patching import patch_source
from proving.verdict import describe_first_error

BUGS = [
    "resample-from-p",
    "first-draft-unverified",
    "bonus-from-wrong-row",
    "too-many-tokens",
    "filter-on-draft-only",
    "block-unclipped",
]


def describe_symptom(name):
    """The symptom of a mistake on the toy pair, in one line: the distance of its texts, and the
    shortest text whose next token is wrong.
    """
    texts, right = toy_distributions(MISTAKES[name].case, MISTAKES[name])
    return f"distance {total_variation(texts, right):.4f}; {describe_first_error(texts, right)}"


def source_lines(name):
    """(lines of the right function, lines of the wrong one), without the docstring."""
    *_, (function, pieces) = MISTAKES[name].changes.items()
    right, wrong, _ = patch_source(function, *pieces.items())
    body = ast.parse(right).body[0].body
    first = body[0].end_lineno if isinstance(body[0], ast.Expr) else 1  # after the docstring
    head = [line for line in right.splitlines() if line.startswith("def ")]
    return [head + source.splitlines()[first:] for source in (right, wrong)]


def judge_line(name, line):
    """The reply to a reader who takes this line, from 1, for the wrong line: yes, with the change,
    or no.
    """
    for number, (right, wrong) in enumerate(zip(*source_lines(name)), 1):
        if right != wrong and number == line:
            return f"Yes: {MISTAKES[name].what}.\n- {wrong.strip()}\n+ {right.strip()}"
    return f"No, line {line} is as it should be."


def main(number=None, line=None):
    """Print all bugs, the code of one, or whether a line of it is wrong."""
    if number is None:
        for n, name in enumerate(BUGS, 1):
            print(f"{n}: {describe_symptom(name)}")
        return
    name = BUGS[number - 1]
    if line is not None:
        print(judge_line(name, line))
        return
    _, wrong = source_lines(name)
    for n, code in enumerate(wrong, 1):
        print(f"{n:>3}  {code}")
    print(f"\n{describe_symptom(name)}")
    print(f"Which line is wrong? python -m exercises.bugs {number} LINE")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Find the bug in a function of sampling.py.")
    which = f"which bug, from 1 to {len(BUGS)}; without it, what all of them do"
    parser.add_argument("number", nargs="?", type=int, choices=range(1, len(BUGS) + 1), help=which)
    parser.add_argument("line", nargs="?", type=int, help="the line that you think is wrong")
    asked = parser.parse_args()
    if asked.line is not None:
        n_lines = len(source_lines(BUGS[asked.number - 1])[0])
        if not 1 <= asked.line <= n_lines:
            parser.error(f"line {asked.line}: expected 1 to {n_lines}")
    main(**vars(asked))
