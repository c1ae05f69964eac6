"""The command python main.py mistakes: measure how wrong each mistake of the museum is, and print a
table.
"""

import json
import textwrap
from dataclasses import dataclass, replace
from functools import cache

from cli.flags import Json, Models, flag
from cli.from_flags import spec_from
from cli.hints import find_mistake
from decoding.prompt import Prompt
from decoding.run import GenerationConfig

from decoding.text_difference import first_difference
from experiments.progress import progress
from proving.distance import (
    collect_tokens,
    distance_and_errors,
    toy_distributions,
    toy_functions,
)
from proving.mistakes import MISTAKES
from proving.mistakes_page import diff_lines
from proving.patching import apply_mistake
from proving.verdict import enumerate_round
from sampling import RULES, SamplingParams

GREEDY = SamplingParams(0.0)
N_TOKENS, SEED = 60, 123  # of the texts by the models, as main.py has them
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

    def load_pair(self):
        """Load the Pair. Raises InputError if it cannot be loaded."""
        spec = spec_from(self, self.target_model_size, [self.draft_model_size])
        # no kernels chosen by time: the same rounding, and so the same texts, in every run
        return replace(spec, kernels="plain").load().pair(self.draft_model_size)


def rounds_in_case(pair, case, to_probs):
    """Prepare a speculative text by a Pair, with the prompt, stop string and rule of a MistakeCase,
    and with the SamplingParams `to_probs`. Returns the iterator of its Rounds.
    """
    prompt = Prompt.from_text(case.prompt, pair, SEED)
    if case.full:
        # repeat the prompt until the context has room for two tokens only
        n = pair.target.config.n_ctx - 2
        prompt = Prompt.from_ids((prompt.ids * n)[-n:], pair, SEED)  # at least n ids, cut to n
    rule = RULES[case.verification]
    config = GenerationConfig(N_TOKENS, to_probs=to_probs, stop=case.stop, rule=rule)
    return config.new_run(pair, prompt).rounds()


@cache
def decode_correctly(pair, case, to_probs):
    """Decode a speculative text by a Pair with the right code, in a MistakeCase and with the
    SamplingParams `to_probs`. Returns its token ids, a tuple of ints; if the loop ends in an error,
    the last element is the error's name. Keeps the result for later calls.
    """
    return collect_tokens(rounds_in_case(pair, case, to_probs))


def find_first_wrong_token(pair, mistake):
    """Decode texts by the Pair with the Mistake and with the right code, from the same seed.
    Returns the index of the first token in which the two differ; None if no token does.

    First a greedy text is tried. If it shows no difference, a sampled text is tried too, unless the
    mistake leaves the distribution right: then a sampled text may differ and still not be wrong.
    """
    case = mistake.case
    # a mistake with a cost leaves the distribution right
    attempts = [GREEDY] if mistake.cost else [GREEDY, case.to_probs]
    for to_probs in attempts:
        right = decode_correctly(pair, case, to_probs)
        with apply_mistake(mistake):
            wrong = collect_tokens(rounds_in_case(pair, case, to_probs))
        position = first_difference(right, wrong)
        if position is not None:
            return position
    return None


def tokens_per_toy_round(mistake):
    """Enumerate a round by two tiny models. Returns its mean number of tokens, [with the Mistake,
    with the right code]; None if the mistake changes more than an accept/reject rule.
    """
    case = mistake.case
    rule = RULES[case.verification]
    if mistake.changes.keys() != {rule}:
        return None
    target, draft_model = toy_functions(case, case.toy_n_free)
    _, right_kept = enumerate_round(rule, target, draft_model, case.toy_K)
    with apply_mistake(mistake):  # which patches `rule` in place
        _, wrong_kept = enumerate_round(rule, target, draft_model, case.toy_K)
    # a round has one token more than drafted tokens are kept, the target's own
    return [1 + float(wrong_kept), 1 + float(right_kept)]


def measure_mistake(name, mistake, pair):
    """Measure how wrong a Mistake is. Returns a dict:

        name, seen_in, caught_by: str, as in MISTAKES
        total_variation: the distance of the toy's texts from the target's distribution; None if
            all end in an error
        errors: the probability that a text of the toy ends in an error
        tokens_per_round: as from tokens_per_toy_round
        first_difference: as from find_first_wrong_token

    name: a key of MISTAKES; pair: the Pair that writes the texts
    """
    distance, errors = distance_and_errors(*toy_distributions(mistake.case, mistake))
    return {
        "name": name,
        "seen_in": mistake.seen_in,
        "total_variation": distance,
        "errors": errors,
        "tokens_per_round": tokens_per_toy_round(mistake),
        "first_difference": find_first_wrong_token(pair, mistake),
        "caught_by": mistake.caught_by,
    }


def print_mistake(row, mistake):
    """Print the figures of a Mistake as a line of the table, and below it what is known of the
    mistake. row: the dict that measure_mistake returns
    """
    first = "-" if row["first_difference"] is None else row["first_difference"]
    distance = "-" if row["total_variation"] is None else f"{row['total_variation']:.4f}"
    print(f"{row['name']:<24} {distance:>8} {row['errors']:>6.0%} {first:>11}")
    print_wrapped(mistake.what)
    if mistake.cost:
        print_wrapped(f"the distribution is right, but at a cost: {mistake.cost}")
    if row["tokens_per_round"]:
        with_mistake, without = row["tokens_per_round"]
        print_wrapped(
            f"{with_mistake:.2f} tokens a round on the toy; the right code gives {without:.2f}"
        )
    print_wrapped(f"seen in {row['seen_in']}")
    print_wrapped(f"caught by {row['caught_by']}")


def print_wrapped(text):
    """Print a text indented, in lines of up to 100 columns that break between words only."""
    whole_words = {"break_long_words": False, "break_on_hyphens": False}
    indents = {"initial_indent": " " * 4, "subsequent_indent": " " * 8}
    print(textwrap.fill(text, 100, **indents, **whole_words))


def mistakes(*names, settings: MuseumSettings, output: Json):
    """List the known ways to get speculative decoding wrong: how wrong each is, where it shows
    first, which test catches it.

    Without names a table of all; with names those, and the lines of code they change. If only a
    rule is changed, its tokens per round on a toy pair of models are shown too: a wrong rule can be
    faster.
    """
    chosen = {name: find_mistake(name) for name in names or MISTAKES}
    pair = settings.load_pair()
    rows = []
    for name, mistake in progress(chosen.items(), len(chosen), "mistakes", "measured"):
        rows.append(measure_mistake(name, mistake, pair))
    if output.json:
        print(json.dumps({"mistakes": rows}))
        return
    print(LEGEND)
    print(f"{'mistake':<24} {'distance':>8} {'errors':>6} {'wrong from':>11}")
    for row, mistake in zip(rows, chosen.values()):
        print_mistake(row, mistake)
        if names:
            print(textwrap.indent("\n".join(diff_lines(mistake)), "    "))
