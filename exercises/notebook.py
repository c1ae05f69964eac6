"""What docs/walkthrough.ipynb imports: the two guesses, the included models, and the clock."""

import backends.before_numpy  # noqa: F401, isort: skip: chooses how NumPy multiplies, so first
from itertools import islice
from statistics import median
from types import FunctionType

import numpy as np

from checkpoints.registry import MODELS_DIR
from cli.prompts import STORIES, read_prompts
from decoding.clocked import Clocked
from decoding.decode import DECODERS, load_pair, timed
from exercises import solutions
from exercises.checks import CHECKS, UNWRITTEN, check, kept_and_replaced
from proof.enumerate import Undecidable, format_row
from proof.mistakes import MISTAKES, compiled, edited
from sampling import NeuralDrafter, Rng, SamplingParams, autoregressive, speculative

PAIR = "17M", "0.7M-17M", MODELS_DIR  # target, draft model
TO_PROBS = SamplingParams(1.0)  # everything here is sampled at temperature 1
N_TOKENS, K_MEASURED = 60, 4  # of each text that is measured
LEAST_V = 0.9  # that noise alone explains
MISTAKES_SHOWN = {  # of the museum, as changes of one_token_3: {name: (right, wrong)}
    "resample-from-p": ("residual_2(p, q)", "p"),
    "greedy-draft": ("sample(q)", "q.argmax()"),
    "first-draft-unverified": ("accept(p[x] / q[x])", "True"),
}
GREEN, GREY, RED, VIOLET = "#0a6449", "#7f838d", "#9c3208", "#5a48b5"
Timed = tuple[list[int], list[float]]  # a text: tokens of each round, its seconds

# ---------------------------------------------------------------- two guesses


def match(p, q, sample, accept):
    """Sample a token from p; the draft is kept if it is the same. Returns (token, is_draft)."""
    x, y = sample(q), sample(p)
    return y, x == y


def replace_from_p(p, q, sample, accept):
    """Sample a draft x from q, accept it with p(x)/q(x), else replace it by a sample from p, which
    is wrong. Returns (token, is_draft). sample(p) -> token, accept(ratio) -> bool
    """
    x = sample(q)
    if accept(p[x] / q[x]):
        return x, True
    return sample(p), False


GUESSES = {"match": match, "replace_from_p": replace_from_p}


def print_guess(guess, p, q):
    """Print the distribution of a reader's guess, and how often the guess keeps the draft, or why
    it cannot be judged. If that is not right, print the same of the answer below the task, too.

    guess: the reader's `match` or `replace_from_p`, (p, q, sample, accept) -> (token, is_draft)
    p, q: [n_vocab], of the target and the draft model
    """
    name = guess.__name__
    expected = kept_and_replaced(GUESSES[name], p, q)
    try:
        kept, replaced = kept_and_replaced(guess, p, q)
    except Undecidable as problem:
        is_unwritten = str(problem).startswith(UNWRITTEN)
        print(f"{name}: {'STILL TO BE WRITTEN' if is_unwritten else problem}")
        print_outcome("The answer below the task", p, *expected)
        return
    print_outcome(name, p, kept, replaced)
    if (kept > q + 1e-6).any():
        print("  More drafts of a token are kept than q gives: is x sampled from q?")
    if not np.allclose([kept, replaced], expected):
        print_outcome("The answer below the task", p, *expected)


def print_outcome(label, p, kept, replaced):
    """Print the distribution of a guess beside p, their total variation distance, and how often the
    draft is kept.

    label: whose distribution it is; p: [n_vocab], the target's
    kept, replaced: [n_vocab], the probability that each token comes out as the draft that is kept,
        and as a replacement; the distribution is their sum
    """
    distance = abs(kept + replaced - p).sum() / 2
    verdict = "wrong" if distance > 1e-6 else "right"
    print(f"{label}: the distribution is {verdict}, at a distance of {distance:.2f}")
    print(f"  the target's p   {format_row(p)}")
    print(f"  what comes out   {format_row(kept + replaced)}")
    print(f"  drafts kept      {kept.sum():.2f}")


def check_answer(answer):
    """Check the answer to an exercise, a function with the name of its task, such as one_token_3,
    and print a line about it. Returns the answer if it is right, otherwise the solution, so that
    the notebook goes on; an answer with another name is returned as it is.
    """
    name = getattr(answer, "__name__", "")
    if name not in CHECKS:
        print(f"{name}: expected a function with the name of its task")
        return answer
    is_right, verdict = check(name, answer)
    if is_right:
        print(verdict)
        return answer
    print(f"{verdict.rstrip('.')}. Until it is right, the answer below its task stands in.")
    return getattr(solutions, name)


def print_residual(residual, p, q):
    """Print the residual of p and q, [n_vocab], and the number by which it is scaled.

    residual: a function (p, q) -> [n_vocab], as in exercise 2
    """
    divisor = np.maximum(p - q, 0).sum()
    print(f"the residual is {format_row(residual(p, q))}, after a division by {divisor:.2f}")


def print_kept_and_replaced(rule, p, q):
    """Print the distribution of a rule for one token in two parts, draft tokens that it keeps and
    replacements. Then print the sum of the two.

    rule: a function (p, q, sample, accept) -> (token, is_draft), as in exercise 3
    p, q: the target's and the draft model's distribution, [n_vocab]
    """
    kept, replaced = kept_and_replaced(rule, p, q)
    parts = {"drafted and kept": kept, "replacements": replaced, "together": kept + replaced}
    for label, part in parts.items():
        print(f"{label:<18}{format_row(part):<18}sum {part.sum():.2f}")


# ---------------------------------------------------------------- models


class UncachedModel:
    """A model in the form of the exercises: ids -> [len(ids), n_vocab]. Row i is the distribution
    of the token after ids[: i + 1].

    passes: how often it was called. n_read: how many ids it has read in all calls
    """

    def __init__(self, model):
        self.model, self.passes, self.n_read = model, 0, 0

    def __call__(self, ids):
        return self.read(ids, self.model.new_cache(), len(ids))

    def read(self, ids, cache, n_new):  # -> [n_new, n_vocab]
        """The distributions after each of the last n_new of the ids, which are read. Adds the call
        to passes, and n_new to n_read. cache: of self.model (from new_cache); it holds the ids
        before these, none for a whole text, and afterwards these, too
        """
        self.passes += 1
        self.n_read += n_new
        return TO_PROBS(self.model.read(list(ids), cache, n_last=n_new))


class CachedModel(UncachedModel):
    """A model in the form of cached_6: (new_ids, cache) -> [len(new_ids), n_vocab]. It appends
    new_ids to cache.ids, and keeps the GPT-2's own cache as cache.of_model.
    """

    def __call__(self, new_ids, cache):
        if not hasattr(cache, "of_model"):
            cache.of_model = self.model.new_cache()
        cache.ids += new_ids
        # of_model may still hold rejected ids: `read` drops them, and goes on with the new ids
        return self.read(cache.ids, cache.of_model, len(new_ids))


def load_models():
    """Load the two models and print their sizes. Returns (target, draft model, encoder), the models
    as UncachedModels.
    """
    target, draft_model, encoder = load_pair(*PAIR)
    for role, model in (("target", target), ("draft model", draft_model)):
        config = model.config
        print(f"{role}: {config.n_parameters:,} parameters in {config.n_layer} layers")
    return UncachedModel(target), UncachedModel(draft_model), encoder


def load_cached_models():
    """The two models as CachedModels: (target, draft model)."""
    target, draft_model, _ = load_pair(*PAIR)
    return CachedModel(target), CachedModel(draft_model)


def random_choices(seed):
    """The functions (sample, accept) of a new Rng: sample(p) -> token, accept(ratio) -> bool."""
    rng = Rng(seed)
    return rng.sample, rng.accept


# ---------------------------------------------------------------- mistakes


def first_token_distribution(p, q, mistake=None):
    """The exact distribution, [n_vocab], of the token that the solution of one_token_3 returns.

    p, q: [n_vocab], of the target and of the draft model
    mistake: None, or a name in MISTAKES_SHOWN: then of that function with the mistake
    """
    rule = solutions.one_token_3
    if mistake:
        _, wrong_source = edited(rule, MISTAKES_SHOWN[mistake])
        names = vars(solutions)  # that it uses, such as residual_2
        rule = FunctionType(compiled(rule, wrong_source), names)
    kept, replaced = kept_and_replaced(rule, p, q)
    return kept + replaced


def print_mistakes():
    """Print each mistake of MISTAKES_SHOWN: what it is, and the line of one_token_3, right and
    wrong.
    """
    for name, pieces in MISTAKES_SHOWN.items():
        right, wrong = edited(solutions.one_token_3, pieces)
        print(f"{name}: {MISTAKES[name].what}")
        for right_line, wrong_line in zip(right.splitlines(), wrong.splitlines()):
            if right_line != wrong_line:
                print(f"    - {right_line.strip()}\n    + {wrong_line.strip()}")


def print_mistake_distances(p, q):
    """Print p, q and how often a draft is rejected; then, without a mistake and with each of the
    notebook's, the distribution of the first token and its total variation distance from p.

    p, q: [n_vocab], of the target and of the draft model
    """
    rejected = np.maximum(p - q, 0).sum()
    print(f"p = {format_row(p)}, q = {format_row(q)}, rejected {rejected:.2f}")
    for mistake in (None, *MISTAKES_SHOWN):
        first = first_token_distribution(p, q, mistake)
        distance = abs(p - first).sum() / 2
        print(f"    {mistake or 'no mistake':<24}{format_row(first):<26}distance {distance:.2f}")


# ---------------------------------------------------------------- by the clock


def texts_to_write(first: int, n_times: int) -> list[tuple[int, list[int]]]:
    """(seed, token ids of an opening) of each text to write: six openings, n_times each. The seeds
    are 0, 1, 2, ...

    first: 0 or 1, to take the openings 0, 2, ... 10 or 1, 3, ... 11 of the stories
    """
    _, _, encoder = load_pair(*PAIR)
    openings = [encoder.encode(opening) for opening in read_prompts(STORIES)[first:12:2]]
    return list(enumerate(openings * n_times))


def rounds_of(decoder: str, K: int, seed: int, ids: list[int]):
    """Begin a text of N_TOKENS tokens after a prompt, `ids`; <|endoftext|> does not end it. Returns
    an iterator of its Rounds, prefill first.

    decoder: "autoregressive", or "speculative" with drafts of K tokens; seed: of its random numbers
    """
    target, draft_model, _ = load_pair(*PAIR)
    rng = Rng(seed)
    if decoder == "autoregressive":
        return autoregressive(target, ids, N_TOKENS, TO_PROBS, rng)
    drafter = NeuralDrafter(draft_model, TO_PROBS, rng)
    return speculative(target, drafter, ids, N_TOKENS, K, TO_PROBS, rng)


def measure_acceptance() -> float:
    """Decode 24 texts speculatively, four of each opening. Prints the acceptance rate, and returns
    it.
    """
    accepted = examined = 0
    for seed, ids in texts_to_write(first=0, n_times=4):
        for this_round in rounds_of("speculative", K_MEASURED, seed, ids):
            accepted += this_round.accepted
            examined += this_round.examined
    print(f"a = {accepted / examined:.2f}: {accepted} of {examined} examined draft tokens")
    return accepted / examined


def measure_costs(Ks, turns: int = 12) -> dict[int, tuple[float, float]]:
    """Measure rounds with each K, two in each turn. Returns {K: (c, v)}, two medians in passes of
    the target over one token: the time to draft a token, and that of the target's pass over K + 1
    tokens. Prints them as a table, with advice if they cannot be right, and draws v.
    """
    target, draft_model, encoder = load_pair(*PAIR)
    ids = encoder.encode("The queen looked into the mirror and")
    drafting: dict[int, list[float]] = {K: [] for K in Ks}  # seconds for each token
    verifying: dict[int, list[float]] = {K: [] for K in Ks}
    single: list[float] = []
    n_tokens = 12
    for _ in range(turns):
        passes: list[float] = []  # Clocked appends the seconds of each
        clocked = Clocked(target, "read", passes)
        list(autoregressive(clocked, ids, n_tokens, TO_PROBS, Rng(0)))  # runs to the text's end
        single += passes[-n_tokens:]  # without the prefill
        for K in Ks:
            drafts, passes = seconds_of_two_rounds(target, draft_model, ids, K)
            drafting[K] += [seconds / K for seconds in drafts]
            verifying[K] += passes
    unit = median(single)
    costs = {K: (median(drafting[K]) / unit, median(verifying[K]) / unit) for K in Ks}
    print(f"one pass of the target over one token: {1000 * unit:.1f} ms")
    print(f"{'K':>3} {'c':>6} {'v':>6}")
    for K, (c, v) in costs.items():
        print(f"{K:3} {c:6.2f} {v:6.2f}")
    print_doubt(costs)
    draw_verify_costs(costs)
    return costs


def seconds_of_two_rounds(target, draft_model, ids, K) -> tuple[list[float], list[float]]:
    """Decode two rounds after ids, each with a draft of K tokens. Returns (seconds of each draft,
    of each of the target's passes over K + 1 tokens).
    """
    drafts: list[float] = []
    passes: list[float] = []
    rng = Rng(0)
    drafter = Clocked(NeuralDrafter(draft_model, TO_PROBS, rng), "propose", drafts)
    model = Clocked(target, "read", passes)
    n_tokens = 3 * (K + 1)  # room for full drafts
    rounds = speculative(model, drafter, ids, n_tokens, K, TO_PROBS, rng)
    list(islice(rounds, 3))  # runs the prefill and two rounds, and fills drafts and passes
    return drafts, passes[-2:]  # without the prefill, for which nothing was drafted


def draw_verify_costs(costs: dict[int, tuple[float, float]]):
    """Draw v of the costs {K: (c, v)} against the number of tokens in the pass, K + 1."""
    axes = new_axes("tokens in a pass of the target", "its time, in passes over one token")
    n_rows = [1, *(K + 1 for K in costs)]
    verify_costs = [1, *(v for _, v in costs.values())]
    axes.plot(n_rows, verify_costs, "o-", color=GREEN, label="one pass: v")
    axes.plot(n_rows, n_rows, "--", color=GREY, label="a pass for each token")
    axes.set(xlim=0, ylim=(0, max(verify_costs) + 2))
    show_picture(axes)


def print_doubt(costs: dict[int, tuple[float, float]]):
    """Say what to conclude, and to do, if a v of the costs {K: (c, v)} is less than LEAST_V."""
    too_short = [str(K) for K, (_, v) in costs.items() if v < LEAST_V]
    if too_short:
        print(
            f"v is far below 1 for K = {', '.join(too_short)}. A pass over more rows cannot take "
            "less time: other programs\ndisturbed the clock. This table, what is predicted from it "
            "and the race mean nothing.\nClose what else is running, and run this cell again."
        )


def run_race(K: int, predicted: float):
    """Decode twelve texts with both decoders, in turns, after the openings that measure_acceptance
    does not use. Prints the measured speedup beside the predicted one, and draws the first text.
    """
    texts = texts_to_write(first=1, n_times=2)
    runs: dict[str, list[Timed]] = {decoder: [] for decoder in DECODERS}  # a run of each text
    for seed, ids in texts:
        for decoder in DECODERS:
            seconds: list[float] = []
            rounds = timed(rounds_of(decoder, K, seed, ids), seconds)
            lengths = [len(this_round.tokens) for this_round in rounds]
            runs[decoder].append((lengths[1:], seconds[1:]))  # without the prefill
    ms = {}  # {decoder: [n_texts]}
    for decoder in DECODERS:
        ms[decoder] = 1000 * np.array([sum(seconds) for _, seconds in runs[decoder]])
        passes = np.mean([len(lengths) for lengths, _ in runs[decoder]])  # one a round
        mean = ms[decoder].mean()
        print(f"{decoder:<15}{passes:5.1f} passes of the target, {mean:4.0f} ms a text")
    baseline, speculated = ms["autoregressive"], ms["speculative"]
    speedups = baseline / speculated
    measured = baseline.sum() / speculated.sum()
    print(f"K = {K}: predicted {predicted:.2f}, measured {measured:.2f}")
    spread = f"from {min(speedups):.2f} to {max(speedups):.2f}"
    print(f"({len(texts)} texts of {N_TOKENS} tokens, {spread})")
    draw_race({decoder: runs[decoder][0] for decoder in DECODERS})


def draw_race(run_of: dict[str, Timed]):
    """Show a picture of how a text grows with time in the run of each decoder. run_of:
    {"autoregressive": and "speculative": (tokens of each round, seconds of each round)}
    """
    axes = new_axes("ms", "tokens of the first text")
    for decoder, colour in (("autoregressive", GREY), ("speculative", GREEN)):
        n_tokens, seconds = run_of[decoder]
        ends = 1000 * np.cumsum([0, *seconds])
        axes.step(ends, np.cumsum([0, *n_tokens]), where="post", color=colour, label=decoder)
    axes.set(xlim=0, ylim=0)
    show_picture(axes)


# ---------------------------------------------------------------- pictures


def new_axes(xlabel, ylabel):
    """Begin a picture. Returns its matplotlib axes."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def show_picture(axes):
    """Add the legend to the picture of `new_axes`, and show it in the notebook."""
    import matplotlib.pyplot as plt

    axes.figure.legend(loc="outside right upper", frameon=False)
    plt.show()


def draw_overlap(p, q):
    """Print min(p, q) and its sum, and draw p over q. p, q: [n_vocab]"""
    overlap, tokens = np.minimum(p, q), np.arange(len(p))
    print(f"min(p, q) = {format_row(overlap)}, sum {overlap.sum():.2f}")
    axes = new_axes("token", "probability")
    axes.bar(tokens, overlap, 1, color=GREEN, alpha=0.35, label="in both")
    hatched = {"hatch": "///", "edgecolor": GREY, "facecolor": "none", "linewidth": 0}
    axes.bar(tokens, q - overlap, 1, bottom=overlap, label="in q only", **hatched)
    axes.bar(tokens, p - overlap, 1, bottom=overlap, color=RED, alpha=0.35, label="in p only")
    edges = np.arange(len(p) + 1) - 0.5
    axes.stairs(p, edges, color=VIOLET, linewidth=2.5, label="p")
    axes.stairs(q, edges, color=GREY, linewidth=2.5, linestyle=(0, (5, 2)), label="q")
    axes.set(xticks=tokens, ylim=0)
    show_picture(axes)
