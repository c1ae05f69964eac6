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
    """Describe in one line (str) what a mistake, a key of MISTAKES, does to the texts of the toy
    pair, two models whose texts can all be enumerated: the total variation distance of these texts
    from the target's, and the shortest text whose next token is wrong.
    """
    texts, right = toy_distributions(MISTAKES[name].case, MISTAKES[name])
    return f"distance {total_variation(texts, right):.4f}; {describe_first_error(texts, right)}"


def source_lines(name):
    """The source of the function that a mistake, a key of MISTAKES, changes: (right lines, wrong
    lines), two lists of the same length. The docstring is left out.
    """
    # too-many-tokens changes two functions: the one with the loop is the last
    # pieces: {right piece of the source: wrong piece}
    function, pieces = list(MISTAKES[name].changes.items())[-1]
    right, wrong, _ = patch_source(function, *pieces.items())
    return without_docstring(right), without_docstring(wrong)


def without_docstring(source):
    """The lines of a function's source, a list without the docstring. `def ...:` is one line."""
    lines = source.splitlines()
    first_statement = ast.parse(source).body[0].body[0]  # of the function
    has_docstring = isinstance(first_statement, ast.Expr)
    return lines[:1] + lines[first_statement.end_lineno if has_docstring else 1 :]


def judge_line(name, line):
    """Reply (a str) to the guess that the mistake is in this line of print_bug, counted from 1:
    yes, with the wrong and the right line, or no. name: of the mistake, a key of MISTAKES
    """
    for number, (right, wrong) in enumerate(zip(*source_lines(name)), 1):
        if right != wrong and number == line:
            return f"Yes: {MISTAKES[name].what}.\n- {wrong.strip()}\n+ {right.strip()}"
    return f"No, line {line} is as it should be."


def print_symptoms():
    """Print a line for each bug: its number, and what it does to texts."""
    for number, name in enumerate(BUGS, 1):
        print(f"{number}: {describe_symptom(name)}")


def print_bug(number):
    """Print the wrong code of a bug (its number in BUGS, from 1) with numbered lines, and what it
    does to texts.
    """
    name = BUGS[number - 1]
    _, wrong = source_lines(name)
    for n, code in enumerate(wrong, 1):
        print(f"{n:>3}  {code}")
    print(f"\n{describe_symptom(name)}")
    print(f"Which line is wrong? python -m exercises.bugs {number} LINE")


def main():
    """Print all bugs; with a number, the code of that bug; with a line too, whether that line is
    wrong. Reads the command line.
    """
    parser = argparse.ArgumentParser(description="Find the bug in a function of sampling.py.")
    which = f"which bug, from 1 to {len(BUGS)}; without it, what all of them do"
    parser.add_argument("number", nargs="?", type=int, choices=range(1, len(BUGS) + 1), help=which)
    parser.add_argument("line", nargs="?", type=int, help="the line that you think is wrong")
    arguments = parser.parse_args()
    if arguments.number is None:
        print_symptoms()
    elif arguments.line is None:
        print_bug(arguments.number)
    else:
        name = BUGS[arguments.number - 1]
        _, wrong = source_lines(name)
        n_lines = len(wrong)
        if not 1 <= arguments.line <= n_lines:
            parser.error(f"line {arguments.line}: expected 1 to {n_lines}")
        print(judge_line(name, arguments.line))


if __name__ == "__main__":
    main()
