"""The gallery of docs/mistakes.md: the mistakes by the part of the code that makes them. Six are
told: symptom, cause, picture, changed lines. The others are rows of a table.

    python -m proving.gallery
"""

import argparse
import re
import textwrap
from dataclasses import dataclass

from proving.distance import compare, toy_distributions
from proving.mistakes import MISTAKES
from proving.patching import changed_lines

WIDTH = 126  # of the lines of a page

# how GitHub writes a repository's issue or pull request, and where it shows a file of a commit
REFERENCE = re.compile(r"([\w.-]+/[\w.-]+)(?:#(\d+)|/blob/\w+/([\w./-]*\w))")

GROUPS = {
    "rule": [
        "resample-from-p",
        "greedy-draft",
        "greedy-ratio",
        "first-draft-unverified",
        "missing-bonus",
        "bonus-from-wrong-row",
        "reseed",
        "residual-nan",
    ],
    "filters": [
        "filter-on-draft-only",
        "filter-on-target-only",
        "ratio-of-raw-q",
        "top-p-argsort",
        "divide-by-temperature-0",
    ],
    "cache": [
        "stale-cache",
        "rollback-off-by-one",
        "whole-text-with-cache",
        "draft-one-behind",
    ],
    "loop": ["end-ignored", "too-many-tokens", "context-unchecked", "token-0-is-padding"],
    "block": [
        "block-residual-of-tokens",
        "block-whole-or-none",
        "block-coin-is-p",
        "block-unclipped",
    ],
}


@dataclass(frozen=True)
class Told:
    """What the page says of a mistake besides what is known of each. The picture is
    docs/mistakes/NAME.svg.
    """

    symptom: str
    cause: str
    picture: str  # what it shows, in words


TOLD = {
    "resample-from-p": Told(
        symptom="none that a reader would see. The text is fluent, and as many drafted tokens are "
        "accepted as should be. But tokens that the draft model overrates come out too often.",
        cause="a rejected token is replaced by a sample from p. But p still contains the overlap, "
        "which accepted tokens have covered already. Only the residual is missing.",
        picture="Right: 0.10, 0.20, 0.70. Wrong: 0.16, 0.32, 0.52",
    ),
    "greedy-draft": Told(
        symptom="text that is too predictable; often more speed, too, because the likeliest token "
        "of a good draft model is accepted more often. transformers made its assistant greedy "
        "again for speed (huggingface/transformers#30778) and reverted this four months later "
        "(huggingface/transformers#33534).",
        cause="the draft model proposes its likeliest token, but hands over its softmax as q. The "
        "rule divides by q(x), the probability of drafting x, and that is now 1. Sample x, or "
        "hand over a one-hot q.",
        picture="Right: 0.10, 0.20, 0.70. Wrong: 0.17, 0, 0.83",
    ),
    "filter-on-draft-only": Told(
        symptom="the text reads as if at temperature 1, whatever the temperature, top-k and top-p; "
        "they only change the acceptance rate, mostly for the worse.",
        cause="the rule is exact for the p that it gets, and it gets the unfiltered one. What the "
        "filter rules out comes back through the residual.",
        picture="Right: 0, 0.22, 0.78. Wrong: 0.10, 0.20, 0.70",
    ),
    "stale-cache": Told(
        symptom="the text decays after the first rejection, even at temperature 0, and the "
        "acceptance rate falls: in the default run, with `--mistake`, from 0.85 to 0.50.",
        cause="the target's pass stores the keys and values of all drafted tokens. If those of "
        "rejected ones stay, every later token stands at a wrong position and attends to words "
        "that are not in the text.",
        picture="Right: the king was not. Wrong: the king was very old not",
    ),
    "end-ignored": Told(
        symptom="now and then the text goes on after its end. It looks random, because an end that "
        "comes last in its round does stop the text.",
        cause="a round adds several tokens, and only the last is compared with the end.",
        picture="Right: the text is cut at the end. Wrong: two more tokens",
    ),
    "block-residual-of-tokens": Told(
        symptom="none. It takes some twenty thousand sampled texts to see a distance of 0.007. "
        "Enumeration sees it at once.",
        cause="the replacement is sampled from max(0, p - q), as in the token rule. But after a "
        "deficit the [weight](block.md#the-rule) w scales the target down: the accepted tokens "
        "cover min(q, w p), and max(0, w p - q) is missing.",
        picture="Right: A. Wrong: A with 0.80, B with 0.20",
    ),
}


def link(reference):
    """A match of REFERENCE as a Markdown link, without the owner's name. GitHub leads /issues/ on
    to a pull request.
    """
    repository, number, path = reference.groups()
    name = repository.split("/")[1]
    if number:
        return f"[{name}#{number}](https://github.com/{repository}/issues/{number})"
    return f"[{name}: {path.split('/')[-1]}](https://github.com/{reference[0]})"


def linked(text):
    return REFERENCE.sub(link, text)


def filled(text):
    """A paragraph in lines of the page's width."""
    return textwrap.fill(linked(text), WIDTH, break_long_words=False, break_on_hyphens=False)


def diff_of(mistake):
    """The lines of a diff, without comments and what surrounds them."""
    for function, pieces in mistake.changes.items():
        yield f"@@ {function.__module__}.{function.__qualname__} @@"
        for lines in changed_lines(function, pieces):
            for sign, line in zip("-+", lines):
                yield f"{sign} {line.split('  #')[0].strip()}"


def distance_of(mistake):
    """The distance of its texts on the toy pair, in digits, and how often it fails."""
    far, errors = compare(*toy_distributions(mistake.scene, mistake))
    if far is None:
        return "always an error"
    failing = f"; {errors:.0%} errors" if errors else ""
    return ("0" if mistake.cost else f"{far:.4f}") + failing


def told(name):
    """The blocks of a mistake that is told."""
    mistake, more = MISTAKES[name], TOLD[name]
    yield f"### {name}"
    yield f"![{more.picture}](mistakes/{name}.svg)"
    yield filled(f"*Symptom:* {more.symptom}")
    yield filled(f"*Cause:* {more.cause}")
    yield "\n".join(["```diff", *diff_of(mistake), "```"])
    yield filled(f"Distance {distance_of(mistake)}. *Seen in* {mistake.seen_in}.")


def row(group, name):
    """The row of a mistake that is not told."""
    mistake = MISTAKES[name]
    what = f"{mistake.what}; cost: {mistake.cost}" if mistake.cost else mistake.what
    cells = [group, f"`{name}`", what, distance_of(mistake), linked(mistake.seen_in)]
    return f"| {' | '.join(cells)} |"


def gallery():
    """The blocks of the page: those that are told, group by group, then the table."""
    header = ["| part | mistake | what is done | distance | seen in |", "|---|---|---|---|---|"]
    rows = []
    for group, names in GROUPS.items():
        yield f"## {group[0].upper()}{group[1:]}"
        for name in names:
            if name in TOLD:
                yield from told(name)
            else:
                rows.append(row(group, name))
    yield "## Other mistakes"
    yield "\n".join(header + rows)


if __name__ == "__main__":
    argparse.ArgumentParser(description="Print the gallery of docs/mistakes.md.").parse_args()
    print("\n\n".join(gallery()))
