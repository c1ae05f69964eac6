"""python main.py mistakes: the museum of ways to get speculative decoding wrong, and how wrong each
is.
"""

import json
import textwrap
from dataclasses import dataclass

from tqdm import tqdm

from experiments.decoding.session import Session, load_pair
from experiments.decoding.settings import Json, Models, Settings, flag
from experiments.proving.distance import compare, first_difference, toy_distributions
from experiments.proving.gallery import diff_of
from experiments.proving.mistakes import MISTAKES, find


@dataclass(frozen=True)
class MuseumSettings(Json, Models):
    """The pair that shows at which token a text goes wrong."""

    target_model_size: str = flag("7M", "a size in models_dir, or a folder")
    draft_model_size: str = flag("0.7M", "a size in models_dir, or a folder")

    def session(self):
        """A Session that generates as main.py does by default."""
        models = {name: value for name, value in self.as_dict().items() if name != "json"}
        settings = Settings(**models, mode="speculative", kernels="plain")
        return Session(settings, load_pair(settings))


def row_of(name, mistake, session):
    """What the JSON object says of a mistake."""
    far, errors = compare(*toy_distributions(mistake.setting, mistake))
    return {
        "name": name,
        "seen_in": mistake.seen_in,
        "total_variation": far,
        "errors": errors,
        "first_difference": first_difference(session, mistake),
        "caught_by": mistake.caught_by,
    }


def show(row, mistake):
    first = "-" if row["first_difference"] is None else row["first_difference"]
    far = "-" if row["total_variation"] is None else f"{row['total_variation']:.4f}"
    figures = f"{far:>8} {row['errors']:>6.0%} {first:>11}"
    print(f"{row['name']:<24} {figures}  {row['seen_in']}")
    print(f"    {mistake.what}")
    if mistake.cost:
        print(f"    {mistake.cost}")
    print(f"    caught by {row['caught_by']}")


def mistakes(*names, settings: MuseumSettings):
    """The known ways to get speculative decoding wrong: how wrong each is, where it shows first,
    which test catches it.

    Without names a table of all; with names those, and the lines of code they change. Distance is
    the total variation distance from the target's distribution of whole texts, computed exactly on
    a toy pair: 0 is right, 1 has nothing in common. Errors is how often the program fails there
    instead; the distance is that of the texts that come out. Wrong from is the first token, counted
    from 0, in which a text of 60 tokens by the pair of models leaves the right one.
    """
    chosen = {name: find(name) for name in names or MISTAKES}
    session = settings.session()
    bar = tqdm(chosen.items(), desc="mistakes", leave=False, disable=None)
    rows = [row_of(name, mistake, session) for name, mistake in bar]
    if settings.json:
        print(json.dumps({"mistakes": rows}))
        return
    print(f"{'mistake':<24} {'distance':>8} {'errors':>6} {'wrong from':>11}  seen in")
    for row, mistake in zip(rows, chosen.values()):
        show(row, mistake)
        if names:
            print(textwrap.indent("\n".join(diff_of(mistake)), "    "))
