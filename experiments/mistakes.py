"""python main.py mistakes: the museum of ways to get speculative decoding wrong, and how wrong each
is.
"""

import json
import textwrap
from dataclasses import dataclass
from functools import cache

from tqdm import tqdm

from cli.flags import Json, Models, Settings, flag
from decoding.load import load_pair
from decoding.prompt import Prompt
from decoding.run import Run
from proving.distance import compare, first_difference, text_of, toy_distributions, toy_pair
from proving.gallery import diff_of
from proving.mistakes import MISTAKES, find
from proving.own_rule import after_toy_prompt
from proving.patching import made
from proving.verdict import one_round
from sampling import RULES, Filter

GREEDY = Filter(0.0)


@dataclass(frozen=True)
class MuseumSettings(Models):
    """The pair that shows at which token a text goes wrong."""

    target_model_size: str = flag("7M", "a size in models_dir, or a folder")
    draft_model_size: str = flag("0.7M", "a size in models_dir, or a folder")

    def of_texts(self):
        """The settings of texts by this pair, as main.py writes them by default."""
        return Settings(**self.as_dict(), mode="speculative", kernels="plain")


def rounds_of(settings, pair, scene, filter):
    """The rounds of a speculative text in the scene of a mistake, but with another filter."""
    settings = settings.replace(
        temperature=filter.temperature,
        top_k=filter.top_k or 0,
        top_p=filter.top_p,
        stop=scene.stop,
        verification=scene.verification,
    )
    prompt = Prompt.of(scene.prompt, settings, pair)
    if scene.full:
        # repeat the prompt until the context has room for two tokens
        n = pair.target.config.n_ctx - 2
        prompt = Prompt.of_ids((prompt.ids * n)[-n:], settings, pair)
    return Run.of(settings, pair, prompt).rounds()


@cache
def right_text(settings, pair, scene, filter):
    return text_of(rounds_of(settings, pair, scene, filter))


def wrong_from(settings, pair, mistake):
    """The first token in which a text with the mistake leaves the text of the right code, seed and
    all else equal; None if it does not.

    At temperature 0 if it shows there, otherwise in the mistake's own scene. A mistake whose
    distribution is right is asked at temperature 0 only: elsewhere its text may differ and not be
    wrong.
    """
    scene = mistake.scene
    for filter in [GREEDY] if mistake.cost else [GREEDY, scene.filter]:
        right = right_text(settings, pair, scene, filter)
        with made(mistake):
            wrong = text_of(rounds_of(settings, pair, scene, filter))
        place = first_difference(right, wrong)
        if place is not None:
            return place
    return None


def tokens_per_round(mistake):
    """The mean number of tokens that a round of K drafted tokens gives on the toy: [with the
    mistake, with the right code]. None where the mistake is not made in a rule alone.
    """
    scene = mistake.scene
    rule = RULES[scene.verification]
    if {*mistake.changes} != {rule}:
        return None
    _, K = scene.toy
    target, draft = (
        after_toy_prompt(model, scene.filter) for model in toy_pair(scene.toy_room, scene.toy_draft)
    )
    # one_round counts one token less, the target's own
    _, right = one_round(rule, target, draft, K)
    with made(mistake):
        _, wrong = one_round(rule, target, draft, K)
    return [1 + float(wrong), 1 + float(right)]


def row_of(name, mistake, settings, pair):
    """What the JSON object says of a mistake."""
    far, errors = compare(*toy_distributions(mistake.scene, mistake))
    return {
        "name": name,
        "seen_in": mistake.seen_in,
        "total_variation": far,
        "errors": errors,
        "tokens_per_round": tokens_per_round(mistake),
        "first_difference": wrong_from(settings, pair, mistake),
        "caught_by": mistake.caught_by,
    }


def show(row, mistake):
    first = "-" if row["first_difference"] is None else row["first_difference"]
    far = "-" if row["total_variation"] is None else f"{row['total_variation']:.4f}"
    figures = f"{far:>8} {row['errors']:>6.0%} {first:>11}"
    print(f"{row['name']:<24} {figures}  {row['seen_in']}")
    print(f"    {mistake.what}")
    if mistake.cost:
        print(f"    the distribution is right, but at a cost: {mistake.cost}")
    if row["tokens_per_round"]:
        wrong, right = row["tokens_per_round"]
        print(f"    {wrong:.2f} tokens a round on the toy; the right code gives {right:.2f}")
    print(f"    caught by {row['caught_by']}")


def mistakes(*names, settings: MuseumSettings, output: Json):
    """The known ways to get speculative decoding wrong: how wrong each is, where it shows first,
    which test catches it.

    Without names a table of all; with names those, and the lines of code they change. Distance is
    the total variation distance from the target's distribution of whole texts, computed exactly on
    a toy pair: 0 is right, 1 has nothing in common. Errors is how often the program fails there
    instead; the distance is that of the texts that come out. Wrong from is the first token, counted
    from 0, in which a text of 60 tokens by the pair of models leaves the right one. Where only a
    rule is changed, its tokens per round on the toy are shown too: a wrong rule can be faster.
    """
    chosen = {name: find(name) for name in names or MISTAKES}
    of_texts = settings.of_texts()
    pair = load_pair(of_texts)
    bar = tqdm(chosen.items(), desc="mistakes", leave=False, disable=None)
    rows = [row_of(name, mistake, of_texts, pair) for name, mistake in bar]
    if output.json:
        print(json.dumps({"mistakes": rows}))
        return
    print(f"{'mistake':<24} {'distance':>8} {'errors':>6} {'wrong from':>11}  seen in")
    for row, mistake in zip(rows, chosen.values()):
        show(row, mistake)
        if names:
            print(textwrap.indent("\n".join(diff_of(mistake)), "    "))
