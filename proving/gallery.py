"""The gallery of docs/mistakes.md: of every mistake the lines it changes, how far the texts that
come out are from right, and where it was seen.

    python -m proving.gallery
"""

import argparse
import re

from proving.distance import compare, toy_distributions
from proving.mistakes import MISTAKES
from proving.patching import changed

# how GitHub writes a repository, an issue or a pull request: owner/name, owner/name#number
REFERENCE = re.compile(r"[\w.-]+/[\w.-]+(#\d+)?")


def link(reference):
    """A match of REFERENCE as a Markdown link. GitHub leads /issues/ on to a pull request."""
    address = reference[0].replace("#", "/issues/")
    return f"[{reference[0]}](https://github.com/{address})"


def diff_of(mistake):
    """The lines of a diff, without comments and what surrounds them."""
    for function, pieces in mistake.changes.items():
        right, wrong, _ = changed(function, pieces)
        yield f"@@ {function.__module__}.{function.__qualname__} @@"
        for before, after in zip(right.splitlines(), wrong.splitlines()):
            if before != after:
                for sign, line in (("-", before), ("+", after)):
                    yield f"{sign} {line.split('  #')[0].strip()}"


def effect_of(mistake):
    """What a mistake does on the toy pair: the distance of its texts, and how often it fails."""
    far, errors = compare(*toy_distributions(mistake.setting, mistake))
    if far is None:
        return "Always ends in an error."
    if mistake.cost:
        return f"Distance 0: {mistake.cost}."
    failing = f"; {errors:.0%} end in an error" if errors else ""
    return f"Distance {far:.4f}{failing}."


def gallery():
    """The lines of the page, all mistakes in their order."""
    for name, mistake in MISTAKES.items():
        what = mistake.what[0].upper() + mistake.what[1:]
        diff = "\n".join(diff_of(mistake))
        yield f"### {name}\n\n{what}.\n\n```diff\n{diff}\n```\n"
        yield f"{effect_of(mistake)} *Where:* {REFERENCE.sub(link, mistake.seen_in)}.\n"


if __name__ == "__main__":
    argparse.ArgumentParser(description="Print the gallery of docs/mistakes.md.").parse_args()
    print("\n".join(gallery()), end="")
