"""python main.py mistakes: the museum of ways to get speculative decoding wrong, and how wrong each
is.
"""

import json
import textwrap
from dataclasses import dataclass
from functools import cache

from cli.flags import Json, Models, Settings, flag
from cli.hints import find_mistake
from cli.runs import config_from, load_pair
from decoding.difference import first_difference
from decoding.prompt import Prompt
from experiments.progress import progress
from proving.distance import collect_tokens, distance_and_errors, toy_distributions, toy_pair
from proving.mistakes import MISTAKES
from proving.mistakes_page import diff_lines
from proving.own_rule import next_token_function
from proving.patching import apply_mistake
from proving.verdict import enumerate_round
from sampling import RULES, SamplingParams

GREEDY = SamplingParams(0.0)
LEGEND = """\
distance: total variation distance of whole texts from the target's distribution, exact, on a toy
          pair: 0 is right, 1 has nothing in common
errors: how often the program fails on the toy; the distance is that of the texts that come out
wrong from: the first token, from 0, in which a text of 60 tokens by the models is not the right one
"""


@dataclass(frozen=True)
class MuseumSettings(Models):
    """The pair that shows at which token a text goes wrong."""

    target_model_size: str = flag("7M", "a size in models_dir, or a folder")
    draft_model_size: str = flag("0.7M", "a size in models_dir, or a folder")

    def text_settings(self):
        """Return the Settings of speculative texts by this pair, with the defaults of main.py."""
        return Settings(**self.as_dict(), mode="speculative", kernels="plain")


def rounds_in_case(settings, pair, case, to_probs):
    """The rounds of a speculative text in the case of a mistake, with these probabilities."""
    settings = settings.replace(
        temperature=to_probs.temperature,
        top_k=to_probs.top_k or 0,
        top_p=to_probs.top_p,
        stop=case.stop,
        verification=case.verification,
    )
    prompt = Prompt.from_text(case.prompt, pair, settings.seed)
    if case.full:
        # repeat the prompt until the context has room for two tokens
        n = pair.target.config.n_ctx - 2
        prompt = Prompt.from_ids((prompt.ids * n)[-n:], pair, settings.seed)
    return config_from(settings).new_run(pair, prompt).rounds()


@cache
def correct_text(settings, pair, case, to_probs):
    return collect_tokens(rounds_in_case(settings, pair, case, to_probs))


def find_first_wrong_token(settings, pair, mistake):
    """The first token in which a text with the mistake leaves the text of the right code, seed and
    all else equal; None if it does not.

    At temperature 0 if it shows there, otherwise in the mistake's own case. A mistake whose
    distribution is right is asked at temperature 0 only: elsewhere its text may differ and not be
    wrong.
    """
    case = mistake.case
    for to_probs in [GREEDY] if mistake.cost else [GREEDY, case.to_probs]:
        right = correct_text(settings, pair, case, to_probs)
        with apply_mistake(mistake):
            wrong = collect_tokens(rounds_in_case(settings, pair, case, to_probs))
        place = first_difference(right, wrong)
        if place is not None:
            return place
    return None


def tokens_per_toy_round(mistake):
    """Return the mean tokens of a round of K drafted tokens on the toy pair, as [with the mistake,
    with the right code]; None if the mistake changes more than a verification rule.
    """
    case = mistake.case
    rule = RULES[case.verification]
    if {*mistake.changes} != {rule}:
        return None
    _, K = case.toy
    models = toy_pair(case.toy_room, case.toy_draft)
    target, draft = (next_token_function(model, case.to_probs) for model in models)
    # enumerate_round counts one token less, the target's own
    _, right = enumerate_round(rule, target, draft, K)
    with apply_mistake(mistake):
        _, wrong = enumerate_round(rule, target, draft, K)
    return [1 + float(wrong), 1 + float(right)]


def measure_mistake(name, mistake, settings, pair):
    """Measure how wrong a mistake is. Returns its entry in the JSON object, a dict."""
    far, errors = distance_and_errors(*toy_distributions(mistake.case, mistake))
    return {
        "name": name,
        "seen_in": mistake.seen_in,
        "total_variation": far,
        "errors": errors,
        "tokens_per_round": tokens_per_toy_round(mistake),
        "first_difference": find_first_wrong_token(settings, pair, mistake),
        "caught_by": mistake.caught_by,
    }


def print_mistake(row, mistake):
    """Print the figures of a mistake (what measure_mistake returns), and below them its story."""
    first = "-" if row["first_difference"] is None else row["first_difference"]
    far = "-" if row["total_variation"] is None else f"{row['total_variation']:.4f}"
    print(f"{row['name']:<24} {far:>8} {row['errors']:>6.0%} {first:>11}")
    print_wrapped(mistake.what)
    if mistake.cost:
        print_wrapped(f"the distribution is right, but at a cost: {mistake.cost}")
    if row["tokens_per_round"]:
        wrong, right = row["tokens_per_round"]
        print_wrapped(f"{wrong:.2f} tokens a round on the toy; the right code gives {right:.2f}")
    print_wrapped(f"seen in {row['seen_in']}")
    print_wrapped(f"caught by {row['caught_by']}")


def print_wrapped(text):
    """Print a text indented, in lines of 100 columns that break between words only."""
    whole_words = {"break_long_words": False, "break_on_hyphens": False}
    indents = {"initial_indent": " " * 4, "subsequent_indent": " " * 8}
    print(textwrap.fill(text, 100, **indents, **whole_words))


def mistakes(*names, settings: MuseumSettings, output: Json):
    """The known ways to get speculative decoding wrong: how wrong each is, where it shows first,
    which test catches it.

    Without names a table of all; with names those, and the lines of code they change. Where only a
    rule is changed, its tokens per round on the toy are shown too: a wrong rule can be faster.
    """
    chosen = {name: find_mistake(name) for name in names or MISTAKES}
    text_settings = settings.text_settings()
    pair = load_pair(text_settings)
    every = progress(chosen.items(), len(chosen), "mistakes", "measured")
    rows = [measure_mistake(name, mistake, text_settings, pair) for name, mistake in every]
    if output.json:
        print(json.dumps({"mistakes": rows}))
        return
    print(LEGEND)
    print(f"{'mistake':<24} {'distance':>8} {'errors':>6} {'wrong from':>11}")
    for row, mistake in zip(rows, chosen.values()):
        print_mistake(row, mistake)
        if names:
            print(textwrap.indent("\n".join(diff_lines(mistake)), "    "))
