"""python main.py mistakes: the museum of ways to get speculative decoding wrong, and how wrong each
is.
"""

import difflib
import json
import textwrap
from dataclasses import dataclass

from tqdm import tqdm

from experiments.data.values import SettingError
from experiments.decoding.settings import Json, Models, flag
from experiments.drafting.load import is_size, load
from experiments.proving.distance import Pair, compare, toy_distributions
from experiments.proving.mistakes import MISTAKES, find
from experiments.proving.patching import changed
from utils import InputError, get_backend


@dataclass(frozen=True)
class MuseumSettings(Json, Models):
    """The pair that shows at which token a text goes wrong."""

    target_model_size: str = flag("7M", "a size in models_dir, or a folder")
    draft_model_size: str = flag("0.7M", "a size in models_dir, or a folder")

    def check(self):
        if not is_size(self.draft_model_size):
            problem = (
                f"{self.draft_model_size!r}: expected a model; some mistakes are a draft model's"
            )
            raise SettingError("draft_model_size", problem)


def show_changes(mistake):
    """Print the mistake as a diff of the functions it is made in."""
    for function, pieces in mistake.changes.items():
        right, wrong, _ = changed(function, pieces)
        diff = difflib.unified_diff(right.splitlines(), wrong.splitlines(), lineterm="", n=1)
        lines = list(diff)[2:]  # without the names of two files
        print(f"    {function.__module__}.py, {function.__qualname__}")
        print(textwrap.indent("\n".join(lines), "    "))


def show_cost(mistake, pair):
    """Print what a mistake costs whose distribution is right."""
    right, wrong = pair.tokens_per_pass(mistake)
    figures = f"; {wrong:.2f} tokens per target pass, not {right:.2f}" if wrong != right else ""
    print(f"    {mistake.cost}{figures}")


def row_of(name, mistake, pair):
    """What the JSON object says of a mistake."""
    far, errors = compare(*toy_distributions(mistake.setting, mistake))
    return {
        "name": name,
        "seen_in": mistake.seen_in,
        "total_variation": far,
        "errors": errors,
        "first_difference": pair.first_difference(mistake),
        "caught_by": mistake.caught_by,
    }


def require_context(target, draft, encoder):
    """Raises InputError for models that cannot read a prompt of the museum: their context is too
    short, or their vocabulary lacks a byte.
    """
    n_ctx = min(target.config.n_ctx, draft.n_ctx)
    try:
        longest = max(len(encoder.encode(mistake.setting.prompt)) for mistake in MISTAKES.values())
    except ValueError as error:
        raise InputError(f"the prompts of the mistakes: {error}") from None
    if n_ctx <= longest:
        raise InputError(
            f"a context of {n_ctx} tokens: expected more than {longest}, "
            "the longest prompt of a mistake"
        )


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
    target, draft = settings.target_model_size, settings.draft_model_size
    models = load(target, [draft], settings.models_dir, get_backend(kernels="plain")).pair(draft)
    require_context(models.target, models.draft, models.encoder)
    pair = Pair(models.target, models.draft, models.encoder)
    bar = tqdm(chosen.items(), desc="mistakes", leave=False, disable=None)
    rows = [row_of(name, mistake, pair) for name, mistake in bar]
    if settings.json:
        print(json.dumps({"mistakes": rows}))
        return
    print(f"{'mistake':<24} {'distance':>8} {'errors':>6} {'wrong from':>11}  seen in")
    for row, mistake in zip(rows, chosen.values()):
        first = "-" if row["first_difference"] is None else row["first_difference"]
        far = "-" if row["total_variation"] is None else f"{row['total_variation']:.4f}"
        figures = f"{far:>8} {row['errors']:>6.0%} {first:>11}"
        print(f"{row['name']:<24} {figures}  {row['seen_in']}")
        print(f"    {mistake.what}")
        if mistake.cost:
            show_cost(mistake, pair)
        print(f"    caught by {row['caught_by']}")
        if names:
            show_changes(mistake)
