"""python main.py advise: which K, what to expect of it, whether speculation pays on this machine,
and what would help most. How that is found is in experiments/measuring/advice.py.
"""

import dataclasses
import json as json_format
import os

from experiments.cli.validators import (
    check_choice,
    check_numbers,
    check_seed,
    longest_prompt,
    parse_filters,
    parse_K,
    parse_list,
    parse_probability,
)
from experiments.data.machine import machine
from experiments.data.prompts import choose_prompts
from experiments.decoding.decoders import NGRAM, longest_draft
from experiments.drafting.pairs import CHECKPOINT, RANDOM, load_pairs
from experiments.drafting.stored import is_head
from experiments.measuring import advice
from gpt2 import Model
from utils import MODELS_DIR, InputError, get_backend

MOST_K = 512


@dataclasses.dataclass(frozen=True)
class AdviseSettings:
    """What decides an advice. Raises InputError.

    What to measure:
        draft_model_size: sizes in models_dir, folders, ngram, eagle or medusa, separated by commas
        target_model_size: a size in models_dir, or a folder
        models_dir: the folder that holds a folder for each size
        K: the values of K, drafted tokens per round, to choose from, such as 1..10 or 1,2,4
        temperature: 0 is greedy decoding
        top_k: sample from this many most likely tokens; 0 keeps all
        top_p: sample from the smallest set of most likely tokens with this total probability
        acceptance: the acceptance rate, a number from 0 to 1, or a results file of benchmark or
            replay with rows of the token rule and this sampling; by default it is measured
        prompts: a file of prompts for that run (see benchmark); by default built-in stories
        n_prompts: how many prompts to use; 0 is all
        n_tokens_to_generate: how many tokens to write after each prompt
        repeats: how often to measure each time in each of nine turns
        seed: of the random numbers
        backend: what computes: numpy, or cupy on a GPU
        kernels: how NumPy multiplies: auto, plain, or WIDTHxTHREADS
        weights: checkpoint, or random, which needs --acceptance; then sizes 82M to 1558M need no
            files, and a folder only its config.json
    """

    draft_model_size: str = "0.7M-17M,ngram"
    target_model_size: str = "17M"
    models_dir: str = MODELS_DIR
    K: str = "1..10"
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    acceptance: str = ""
    prompts: str = ""
    n_prompts: int = 12
    n_tokens_to_generate: int = 60
    repeats: int = 9
    seed: int = 123
    backend: str = "numpy"
    kernels: str = "auto"
    weights: str = "checkpoint"

    def __post_init__(self):
        check_seed(self.seed)
        check_numbers(0, n_prompts=self.n_prompts)
        check_numbers(1, n_tokens_to_generate=self.n_tokens_to_generate, repeats=self.repeats)
        check_choice("weights", self.weights, CHECKPOINT, RANDOM)
        if self.weights == RANDOM and not self.acceptance:
            raise InputError(
                "--weights random: random models agree on nothing; give an --acceptance from 0 to 1"
            )

    def filter(self):
        (filter,) = parse_filters(str(self.temperature), self.top_k, self.top_p).values()
        return filter

    def drafts(self):
        return parse_list("draft_model_size", self.draft_model_size)

    def Ks(self):
        return parse_K(self.K, MOST_K)

    def stored(self):
        """Whether the acceptance comes from a results file."""
        return os.path.isfile(self.acceptance)  # False also for a name that is too long

    def given(self):
        """The acceptance that was given as a number; None where it was not."""
        if self.stored():
            return None
        try:
            return parse_probability("acceptance", self.acceptance)
        except InputError as error:
            raise InputError(f"{error}, or a results file that is there") from None


def acceptances(settings, pairs, Ks, filter):
    """{draft: its acceptance}, from where the settings say."""
    if settings.given() is not None:
        given = advice.acceptance_of(settings.given(), None, 1, "as given")
        look_up = given | {"source": "as given; taken to draft in every round"}
        return {name: look_up if name == NGRAM else given for name in pairs.drafts}
    if settings.stored():
        path, target = settings.acceptance, settings.target_model_size
        return {name: advice.stored_acceptance(path, name, target, filter) for name in pairs.drafts}
    n_tokens = settings.n_tokens_to_generate
    longest = longest_prompt(pairs.target.config.n_ctx, n_tokens)
    texts, _ = choose_prompts(settings.prompts, settings.n_prompts, pairs.encoder, longest)
    K = min(advice.LIVE_K, max(Ks))
    return {
        name: advice.live_acceptance(
            pairs.target, draft, name, K, texts, n_tokens, filter, settings.seed
        )
        for name, draft in pairs.drafts.items()
    }


def possible_Ks(name, target, draft, Ks):
    """Those K that a draft can fill. Raises InputError for none."""
    most = longest_draft(target, draft)
    if most < 1:
        raise InputError(f"draft {name}: the context has no room for it; expected a longer one")
    if min(Ks) > most:
        raise InputError(f"--K {min(Ks)}: expected at most {most}, what {name} drafts")
    return [K for K in Ks if K <= most]


def show_K_table(found):
    """What to expect of each K."""
    print(f"  {'K':>4} {'v(K+1)':>7} {'speedup':>8} {'range':>14} {'break-even acceptance':>22}")
    for row in found["by_K"]:
        even = "–"
        if row["break_even_acceptance"] is not None:
            even = f"{row['break_even_acceptance']:.3f}"
        low_high = f"{row['low']:.2f} to {row['high']:.2f}"
        print(f"  {row['K']:>4} {row['verify_cost']:>7.2f}", end=" ")
        print(f"{row['speedup']:>8.2f} {low_high:>14} {even:>22}")


def show_advice(name, target, found):
    """The advice for people."""
    a, c, top = found["acceptance"], found["draft_cost"], found["speedup"]
    share = ""
    if a["drafting_share"] < 1:
        share = f", in {a['drafting_share']:.0%} of the rounds"
    print(f"Draft {name} for target {target}")
    a_range = f"{a['low']:.3f} to {a['high']:.3f}"
    c_range = f"{c['low']:.3f} to {c['high']:.3f}"
    print(f"  acceptance {a['value']:.3f} ({a_range}; {a['source']}){share}")
    print(f"  a drafted token costs c = {c['value']:.3f} ({c_range}) target passes\n")
    show_K_table(found)
    print(f"\n  Does it pay here? {found['pays'].capitalize()}. Best K = {top['K']}:", end=" ")
    print(f"speedup {top['speedup']:.2f}, between {top['low']:.2f} and {top['high']:.2f};", end=" ")
    even = top["break_even_acceptance"]
    if even is None:
        print("no acceptance would do.")
    else:
        print(f"it pays from an acceptance of {even:.3f}, here {a['value']:.3f}.")
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
        least = "none"
        if shape["needs_acceptance"] is not None:
            least = f"{shape['needs_acceptance']:.3f}"
        print(f"    {shape['draft']:<24} {shape['shape']:<12}", end=" ")
        print(f"c = {shape['draft_cost']:.3f}, acceptance {least}")
    print()


def advise(settings: AdviseSettings, json=False):
    """Say which K to use, what speedup to expect, whether speculative decoding pays on this
    machine, and what would help most.

    The draft and verify costs are measured, and so is the acceptance rate unless it is given. The
    speedup is predicted from them.

    Run:
        json: print one JSON object and nothing else
    """
    filter, drafts, Ks = settings.filter(), settings.drafts(), settings.Ks()
    settings.given()  # refused before models are loaded
    arrays = get_backend(settings.backend, settings.kernels)
    target = settings.target_model_size
    pairs = load_pairs(target, drafts, settings.models_dir, settings.weights, arrays)
    Ks_of = {
        name: possible_Ks(name, pairs.target, draft, Ks) for name, draft in pairs.drafts.items()
    }
    found = acceptances(settings, pairs, Ks, filter)
    result = {"machine": machine(), "settings": dataclasses.asdict(settings), "advice": {}}
    for name, draft in pairs.drafts.items():
        costs = advice.measure_costs(pairs.target, draft, filter, Ks_of[name], settings.repeats)
        of_draft = advice.advice_of(found[name], costs)
        of_draft["shapes"] = []
        if isinstance(draft, Model) and not is_head(draft):
            expected = of_draft["speedup"]["speedup"]
            of_draft["shapes"] = advice.weigh_shapes(
                pairs.target, draft, arrays, filter, expected, costs, settings.repeats
            )
        result["advice"][name] = of_draft
        if not json:
            show_advice(name, target, of_draft)
    if json:
        print(json_format.dumps(result))
