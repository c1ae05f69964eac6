"""python main.py advise: which K, what to expect of it, whether speculation pays on this machine,
and what would help most. How that is found is in experiments/measuring/advice.py.
"""

import json
import os
from dataclasses import dataclass

from experiments.data.machine import machine
from experiments.data.prompts import choose_prompts
from experiments.data.values import (
    SettingError,
    check_numbers,
    longest_prompt,
    parse_Ks,
    parse_number,
)
from experiments.decoding.settings import (
    Json,
    Kernels,
    Length,
    Models,
    PromptFile,
    Sampling,
    Weights,
    flag,
)
from experiments.drafting.load import RANDOM, load
from experiments.measuring import advice
from utils import InputError

MOST_K = 512


@dataclass(frozen=True)
class AdviseSettings(Kernels, Weights, Sampling, PromptFile, Length, Models):
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
    n_tokens_to_generate: int = flag(60, "how many tokens to write after each prompt")
    repeats: int = flag(9, "how often to measure each time in each of nine turns")
    seed: int = flag(123, "of the random numbers")

    def check(self):
        check_numbers(1, repeats=self.repeats)
        self.Ks()
        self.given()
        if self.weights == RANDOM and not self.acceptance:
            problem = "random: random models agree on nothing; give an --acceptance from 0 to 1"
            raise SettingError("weights", problem)

    def Ks(self):
        return parse_Ks(self.K, MOST_K)

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
    n_tokens, K = settings.n_tokens_to_generate, min(advice.LIVE_K, max(settings.Ks()))
    longest = longest_prompt(pairs.target.config.n_ctx, n_tokens)
    texts, _ = choose_prompts(settings.prompts, settings.n_prompts, pairs.encoder, longest)
    how = K, texts, n_tokens, filter, settings.seed
    return {
        name: advice.live_acceptance(pairs.target, draft, name, *how)
        for name, draft in drafts.items()
    }


def possible_Ks(name, target, draft, Ks):
    """Those K that a draft can fill. Raises InputError for none."""
    most = draft.longest(target)
    if most < 1:
        raise InputError(f"draft {name}: the context has no room for it; expected a longer one")
    if min(Ks) > most:
        raise InputError(f"--K {min(Ks)}: expected at most {most}, what {name} drafts")
    return [K for K in Ks if K <= most]


def show_advice(name, target, found):
    """The advice for people."""
    a, c, top = found["acceptance"], found["draft_cost"], found["speedup"]
    number = lambda value: "none" if value is None else f"{value:.3f}"
    share = ""
    if a["drafting_share"] < 1:
        share = f", in {a['drafting_share']:.0%} of the rounds"
    print(f"Draft {name} for target {target}")
    print("  acceptance {value:.3f} ({low:.3f} to {high:.3f}; {source})".format(**a) + share)
    costs = "  a drafted token costs c = {value:.3f} ({low:.3f} to {high:.3f}) target passes\n"
    print(costs.format(**c))
    print(f"  {'K':>4} {'v(K+1)':>7} {'speedup':>8} {'range':>14} {'break-even acceptance':>22}")
    for row in found["by_K"]:
        figures = "  {K:>4} {verify_cost:>7.2f} {speedup:>8.2f} {low:>6.2f} to {high:.2f}"
        print(figures.format(**row) + f" {number(row['break_even_acceptance']):>22}")
    print(f"\n  Does it pay here? {found['pays'].capitalize()}.", end=" ")
    print("Best K = {K}: speedup {speedup:.2f}, between {low:.2f} and {high:.2f};".format(**top))
    even = number(top["break_even_acceptance"])
    print(f"  acceptance to break even: {even}, here {a['value']:.3f}.")
    print("  What would help, most first:")
    for gain in found["would_help"]:
        print("    {change:<34} {from_to:<28}".format(**gain), end="")
        print(f"{top['speedup']:.2f} to {gain['speedup']:.2f} at K = {gain['K']}")
    if found["shapes"]:
        print(
            "  Depth against width (layers x width, random weights): "
            "the acceptance that gives the same speedup"
        )
    for shape in found["shapes"]:
        print("    {draft:<24} {shape:<12} c = {draft_cost:.3f},".format(**shape), end=" ")
        print(f"acceptance {number(shape['needs_acceptance'])}")
    print()


def advise(settings: AdviseSettings, output: Json):
    """Say which K to use, what speedup to expect, whether speculative decoding pays on this
    machine, and what would help most.

    The draft and verify costs are measured, and so is the acceptance rate unless it is given. The
    speedup is predicted from them.
    """
    size, filter, repeats = settings.target_model_size, settings.sampling, settings.repeats
    backend, drafts = settings.get_backend(), settings.drafts()
    pairs = load(size, drafts, settings.models_dir, backend, settings.weights)
    target, every = pairs.target, pairs.drafts.items()
    Ks = {name: possible_Ks(name, target, draft, settings.Ks()) for name, draft in every}
    found = acceptances(settings, pairs)
    result = {"machine": machine(), "settings": settings.as_dict(), "advice": {}}
    for name, draft in every:
        costs = advice.measure_costs(target, draft, filter, Ks[name], repeats)
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
