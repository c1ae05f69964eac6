"""Print the generated part of docs/mistakes.md: the mistakes by the part of the code that makes
them. Those with a Story are told with symptom, cause, picture and changed lines; the others are
rows of a table.

    python -m proving.mistakes_page
"""

import argparse
import re
import textwrap
from dataclasses import dataclass

from proving.distance import distance_and_errors, toy_distributions
from proving.mistakes import MISTAKES
from proving.patching import changed_lines

WIDTH = 126  # of the lines of a page

# an issue or pull request as owner/name#number, or a file as owner/name/blob/commit/path
REFERENCE = re.compile(r"([\w.-]+/[\w.-]+)(?:#(\d+)|/blob/\w+/([\w./-]*\w))")

GROUPS = {  # {part of the code: names of mistakes}
    "rule": [
        "resample-from-p",
        "draft-noise-again",
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
class Story:
    """What the page says of a mistake besides the fields of its Mistake.

    picture: what docs/mistakes/NAME.svg shows, in words
    """

    symptom: str
    cause: str
    picture: str


STORIES = {
    "resample-from-p": Story(
        symptom="none that a reader would see. The text is fluent, and as many drafted tokens are "
        "accepted as should be. But tokens that the draft model overrates come out too often, and "
        "those that it underrates most too rarely.",
        cause="a rejected token is replaced by a sample from p. But p still contains the overlap, "
        "which accepted tokens have covered already. Only the residual is missing.",
        picture="Right: 0.10, 0.20, 0.70. Wrong: 0.16, 0.32, 0.52",
    ),
    "greedy-draft": Story(
        symptom="text that is too predictable; often more speed, too, because the likeliest token "
        "of a good draft model is accepted more often. transformers made its assistant greedy "
        "again for speed (huggingface/transformers#30778) and reverted this four months later "
        "(huggingface/transformers#33534).",
        cause="the draft model proposes its likeliest token, but hands over its softmax as q. The "
        "rule divides by q(x), but x is drafted with probability 1. Sample x, or hand over a "
        "one-hot q.",
        picture="Right: 0.10, 0.20, 0.70. Wrong: 0.17, 0, 0.83",
    ),
    "draft-noise-again": Story(
        symptom="none that a reader would see, and as many drafted tokens are accepted as should "
        "be. But some replacements come out too often, and others too rarely.",
        cause="one random number chooses the drafted token and, if that is rejected, its "
        "replacement. The proof needs a replacement that is independent of the noise that made "
        "the draft. In vLLM, sampled drafts and their replacements took their noise from one place "
        "of a random stream.",
        picture="Right: 0.20, 0.40, 0.40. Wrong: 0.20, 0.53, 0.27",
    ),
    "filter-on-draft-only": Story(
        symptom="the text reads as if at temperature 1, whatever the temperature, top-k and top-p; "
        "they only change the acceptance rate, mostly for the worse.",
        cause="the rule is exact for the p that it gets, and it gets the unfiltered one. What the "
        "filter rules out comes back through the residual.",
        picture="Right: 0, 0.22, 0.78. Wrong: 0.10, 0.20, 0.70",
    ),
    "stale-cache": Story(
        symptom="the text decays after the first rejection, even at temperature 0, and the "
        "acceptance rate falls: in the default run, with `--mistake`, from 0.85 to 0.50.",
        cause="the target's pass stores the keys and values of all drafted tokens. If those of "
        "rejected ones stay, every later token stands at a wrong position and attends to words "
        "that are not in the text.",
        picture="Right: the king was not. Wrong: the king was very old not",
    ),
    "end-ignored": Story(
        symptom="now and then the text goes on after its end. It looks random, because an end that "
        "comes last in its round does stop the text.",
        cause="a round adds several tokens, and only the last is compared with the end.",
        picture="Right: the text is cut at the end. Wrong: two more tokens",
    ),
    "block-residual-of-tokens": Story(
        symptom="none. It takes some twenty thousand sampled texts to see a distance of 0.007. "
        "Enumeration sees it at once.",
        cause="the replacement is sampled from max(0, p - q), as in the token rule. But after a "
        "deficit the [weight](block.md#the-rule) w scales the target down: the accepted tokens "
        "cover min(q, w p), and max(0, w p - q) is missing.",
        picture="Right: A. Wrong: A with 0.80, B with 0.20",
    ),
}


def reference_link(match):
    """A Markdown link for a re.Match of REFERENCE. The link's text has no owner's name.

    >>> reference_link(REFERENCE.fullmatch("owner/name#12"))
    '[name#12](https://github.com/owner/name/issues/12)'
    """
    repository, number, path = match.groups()
    name = repository.split("/")[1]
    if number:  # GitHub redirects /issues/ to the pull request of that number
        return f"[{name}#{number}](https://github.com/{repository}/issues/{number})"
    return f"[{name}: {path.split('/')[-1]}](https://github.com/{match[0]})"


def with_links(text):
    """The text (str) with a Markdown link in place of every REFERENCE, such as owner/name#12."""
    return REFERENCE.sub(reference_link, text)


def wrap_paragraph(text):
    """A paragraph as Markdown lines of up to WIDTH characters, with a link for every REFERENCE."""
    return textwrap.fill(with_links(text), WIDTH, break_long_words=False, break_on_hyphens=False)


def diff_lines(mistake):
    """Yield the lines of a Mistake's diff, each a str: for each changed function "@@ its name @@",
    then "- right line" and "+ wrong line" of its changed lines, without comments.
    """
    for function, pieces in mistake.changes.items():
        yield f"@@ {function.__module__}.{function.__qualname__} @@"
        for right, wrong in changed_lines(function, pieces):
            for sign, line in (("-", right), ("+", wrong)):
                code = line.split("  #")[0].strip()  # two spaces precede a comment
                yield f"{sign} {code}"


def distance_text(mistake):
    """Enumerate the texts of the toy pair with a Mistake. Returns as text their total variation
    distance from the target's and the probability of an error: "0.2281", "0", "0.1466; 3% errors"
    or "always an error".
    """
    distance, p_error = distance_and_errors(*toy_distributions(mistake.case, mistake))
    if distance is None:
        return "always an error"
    # a mistake with a `cost` has the right distribution: not 0.0000, which could be rounded
    shown = "0" if mistake.cost else f"{distance:.4f}"
    return f"{shown}; {p_error:.0%} errors" if p_error else shown


def story_blocks(name):
    """Yield the Markdown blocks, each a str, about the mistake of that name, a key of STORIES."""
    mistake, story = MISTAKES[name], STORIES[name]
    yield f"### {name}"
    yield f"![{story.picture}](mistakes/{name}.svg)"
    yield wrap_paragraph(f"*Symptom:* {story.symptom}")
    yield wrap_paragraph(f"*Cause:* {story.cause}")
    yield "\n".join(["```diff", *diff_lines(mistake), "```"])
    yield wrap_paragraph(f"Distance {distance_text(mistake)}. *Seen in* {mistake.seen_in}.")


def table_row(part, name):
    """The Markdown table row of the mistake of that name, a str.

    part: the part of the code in which the mistake is made, a key of GROUPS
    """
    mistake = MISTAKES[name]
    what = f"{mistake.what}; cost: {mistake.cost}" if mistake.cost else mistake.what
    cells = [part, f"`{name}`", what, distance_text(mistake), with_links(mistake.seen_in)]
    return f"| {' | '.join(cells)} |"


def page_blocks():
    """Yield the Markdown blocks of the page, each a str: for each part of the code the mistakes
    with a Story, then a table of the other mistakes.
    """
    header = ["| part | mistake | what is done | distance | seen in |", "|---|---|---|---|---|"]
    rows = []
    for part, names in GROUPS.items():
        yield f"## {part[0].upper()}{part[1:]}"
        for name in names:
            if name in STORIES:
                yield from story_blocks(name)
            else:
                rows.append(table_row(part, name))
    yield "## Other mistakes"
    yield "\n".join(header + rows)


if __name__ == "__main__":
    argparse.ArgumentParser(
        description="Print the generated part of docs/mistakes.md."
    ).parse_args()
    print("\n\n".join(page_blocks()))
