"""python main.py advise: which K, what to expect of it, whether speculation pays on this machine,
and what would help most. How that is found is in experiments/measuring/advice.py.
"""

import json
import os
from dataclasses import dataclass

from experiments.data.machine import machine
from experiments.data.values import SettingError, parse_Ks, parse_number
from experiments.decoding.settings import (
    Json,
    Machine,
    Models,
    PromptFile,
    Sampling,
    Weights,
    flag,
)
from experiments.drafting.load import RANDOM, Wanted
from experiments.measuring import advice
from experiments.measuring.tables import table
from utils import InputError

COLUMNS = ["K", "verify_cost", "speedup", "low", "high", "break_even_acceptance"]
COLUMNS_OF_SHAPES = ["draft", "shape", "draft_cost", "needs_acceptance"]


@dataclass(frozen=True)
class AdviseSettings(Machine, Weights, Sampling, PromptFile, Models):
    """What decides an advice."""

    draft_model_size: str = flag(
        "0.7M-17M,ngram",
        "sizes in models_dir, folders, ngram, eagle or medusa, separated by commas",
    )
    K: str = flag(
        "1..10",
        "the values of K, drafted tokens per round, to choose from, such as 1..10 or 1,2,4",
    )
    acceptance: str = flag(
        "",
        "the acceptance rate, a number from 0 to 1, or a results file of benchmark or replay with "
        "rows of the token rule and this sampling; by default it is measured",
    )
    repeats: int = flag(9, "how often to measure each time in each of nine turns", least=1)

    def check(self):
        self.Ks()
        self.given()
        if self.weights == RANDOM and not self.acceptance:
            problem = "random: random models agree on nothing; give an --acceptance from 0 to 1"
            raise SettingError("weights", problem)

    def Ks(self):
        return parse_Ks(self.K)

    def given(self):
        """The acceptance that was given as a number; None where it was not."""
        if not self.acceptance or os.path.isfile(self.acceptance):
            return None
        expected = "a number from 0 to 1, or a results file that is there"
        return parse_number("acceptance", self.acceptance, 0, 1, expected)


def acceptances(settings, pairs):
    """{draft: its acceptance}, as given, from a results file, or from a live run."""
    drafts, filter, given = pairs.drafts, settings.sampling, settings.given()
    if given is not None:
        source = "as given, for a draft in every round"
        return dict.fromkeys(drafts, advice.acceptance_of(given, None, 1, source))
    if settings.acceptance:
        where, target = settings.acceptance, settings.target_model_size
        return {
            name: advice.stored_acceptance(where, name, draft.looks_up, target, filter)
            for name, draft in drafts.items()
        }
    texts, _ = settings.chosen(pairs)
    K = min(advice.LIVE_K, max(settings.Ks()))
    how = K, texts, settings.n_tokens_to_generate, filter, settings.seed
    return {
        name: advice.live_acceptance(pairs.target, draft, name, *how)
        for name, draft in drafts.items()
    }


def possible_Ks(name, target, draft, Ks):
    """Those K that a draft can fill. Raises InputError for none."""
    most = draft.longest(target)
    if min(Ks) > most:
        raise InputError(
            f"--K {min(Ks)}: expected at most {most}, what {name} drafts in this context"
        )
    return [K for K in Ks if K <= most]


def show_advice(name, target, found):
    """The advice for people."""
    a, c, top = found["acceptance"], found["draft_cost"], found["speedup"]
    share = ""
    if a["drafting_share"] < 1:
        share = f", in {a['drafting_share']:.0%} of the rounds"
    print(f"Draft {name} for target {target}\n")
    print("Acceptance {value:.3f} ({low:.3f} to {high:.3f}; {source})".format(**a) + share)
    cost = "A drafted token costs c = {value:.3f} ({low:.3f} to {high:.3f}) target passes\n"
    print(cost.format(**c))
    print(table(found["by_K"], COLUMNS))
    print(f"\nDoes it pay here? {found['pays'].capitalize()}.", end=" ")
    print("Best K = {K}: speedup {speedup:.2f}, between {low:.2f} and {high:.2f}.\n".format(**top))
    print("What would help, most first:\n")
    print(table(found["would_help"], ["change", "from_to", "speedup", "K"]), end="\n\n")
    if found["shapes"]:
        print("Depth against width (layers x width, random weights), at the same speedup:\n")
        print(table(found["shapes"], COLUMNS_OF_SHAPES), end="\n\n")


def advise(settings: AdviseSettings, output: Json):
    """Say which K to use, what speedup to expect, whether speculative decoding pays on this
    machine, and what would help most.

    The draft and verify costs are measured, and so is the acceptance rate unless it is given. The
    speedup is predicted from them.
    """
    size, filter, repeats = settings.target_model_size, settings.sampling, settings.repeats
    pairs = Wanted.of(settings, size, settings.drafts()).load()
    target, every = pairs.target, pairs.drafts.items()
    Ks = {name: possible_Ks(name, target, draft, settings.Ks()) for name, draft in every}
    found = acceptances(settings, pairs)
    result = {"machine": machine(), "settings": settings.as_dict(), "advice": {}}
    for name, draft in every:
        costs = advice.spreads_of_costs(target, draft, filter, Ks[name], repeats)
        of_draft = advice.advice_of(found[name], costs) | {"shapes": []}
        if draft.alone:
            expected = of_draft["speedup"]["speedup"]
            what = target, draft.alone, filter, expected, costs, repeats
            of_draft["shapes"] = advice.weigh_shapes(*what)
        result["advice"][name] = of_draft
        if not output.json:
            show_advice(name, size, of_draft)
    if output.json:
        print(json.dumps(result))
