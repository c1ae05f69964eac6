"""What docs/walkthrough.ipynb imports: the two guesses, the included models, and the clock."""

import backends.blas  # isort: skip  # noqa: F401, chooses how NumPy multiplies: import it first
from contextlib import nullcontext
from functools import cache, partial
from types import SimpleNamespace

import numpy as np

from checkpoints.registry import MODELS_DIR
from cli.prompts import choose_prompts
from decoding.clock import measure_costs
from decoding.load import Pair, load
from decoding.run import Run
from exercises import feedback
from exercises.checks import outcomes_of
from exercises.feedback import checked  # noqa: F401, the notebook calls it here
from proving.enumeration import enumerate_branches, total_variation
from proving.mistakes import MISTAKES
from proving.patching import apply_mistake, changed_lines
from proving.verdict import format_probs
from sampling import NeuralDrafter, Rng, SamplingParams, speculative
from utils import get_backend

TARGET, DRAFT = "17M", "0.7M-17M"
FILTER = SamplingParams(1.0)  # everything here is sampled at temperature 1
N_TOKENS, K_MEASURED = 60, 4  # of each text that is measured
BROKEN = ("resample-from-p", "greedy-draft", "first-draft-unverified")
GREEN, GREY, ORANGE, VIOLET = "#0a6449", "#7f838d", "#c2410c", "#5a48b5"

# ---------------------------------------------------------------- two guesses


def match(p, q, sample, accept):
    x, y = sample(q), sample(p)
    return y, x == y


def replace_from_p(p, q, sample, accept):
    x = sample(q)
    if accept(p[x] / q[x]):
        return x, True
    return sample(p), False


GUESSES = {"match": match, "replace_from_p": replace_from_p}


def guessed(guess, p, q):
    """Print the distribution of `match` or `replace_from_p` as the reader has written it.

    guess: a function (p, q, sample, accept) -> (token, is_draft). p, q: [n_vocab]
    """
    name = feedback.name_of(guess, GUESSES)
    feedback.guessed(guess, name, GUESSES[name], p, q)


def branches(rule, p, q):
    """Print the distribution of a rule for one token in two parts: drafted tokens that it keeps,
    and replacements.
    """
    outcomes = outcomes_of(rule, p, q)
    total = np.zeros(len(p))
    for name, is_draft in (("drafted and kept", True), ("replacements", False)):
        masses = [outcomes.get((token, is_draft), 0.0) for token in range(len(p))]
        total += masses
        print(f"{name:<18}{format_probs(masses):<18}sum {sum(masses):.2f}")
    print(f"{'together':<18}{format_probs(total):<18}sum {total.sum():.2f}")


# ---------------------------------------------------------------- models


@cache
def pair():
    """Load the Pair of the notebook, once."""
    return load(TARGET, [DRAFT], MODELS_DIR, get_backend()).pair(DRAFT)


class Rows:
    """A model in the form of the exercises: ids -> [len(ids), n_vocab]. Row i is the distribution
    of the token after ids[: i + 1].

    passes: how often it was called. n_read: how many ids it has read in all calls
    """

    def __init__(self, model):
        self.model, self.passes, self.n_read = model, 0, 0

    def __call__(self, ids):
        return self.read(ids, self.model.new_cache(), len(ids))

    def read(self, ids, cache, n_new):  # -> [n_new, n_vocab]
        self.passes += 1
        self.n_read += n_new
        return FILTER(self.model.read(list(ids), cache, n_last=n_new))


class Forward(Rows):
    """A model in the form of catch_up_8: (new_ids, cache) -> [len(new_ids), n_vocab]. It appends
    new_ids to cache.ids.
    """

    def __call__(self, new_ids, cache):
        if not hasattr(cache, "of_model"):
            cache.of_model = self.model.new_cache()
        cache.ids += new_ids
        # the model forgets what it has read behind the first of the new ids
        return self.read(cache.ids, cache.of_model, len(new_ids))


def models():
    """Print the sizes of the two models. Returns (target, draft model, encoder), the models as
    Rows.
    """
    both = pair().target, pair().draft.standalone_model
    for role, model in zip(("target", "draft model"), both):
        config = model.config
        print(f"{role}: {config.n_parameters:,} parameters in {config.n_layer} layers")
    return *map(Rows, both), pair().encoder


def forwards():
    """(target, draft model), each a Forward."""
    return Forward(pair().target), Forward(pair().draft.standalone_model)


def choices(seed):
    """The functions (sample, accept) of a new Rng."""
    rng = Rng(seed)
    return rng.sample, rng.accept


# ---------------------------------------------------------------- mistakes


class Constant:
    """A model whose next token has the distribution p, [n_vocab], after every text."""

    def __init__(self, p):
        self.p, self.config = p, SimpleNamespace(n_vocab=len(p), n_ctx=8)

    def new_cache(self, n_positions=None):
        return SimpleNamespace(length=0)

    def read(self, ids, cache, n_last=1):
        return np.tile(np.log(self.p), (n_last, 1))


def outcome(p, q, name=None):
    """Enumerate the first token that sampling.speculative writes, with a mistake if one is named.
    Returns its distribution, [n_vocab].
    """

    def run(rng):
        """Return the first token of one branch: prompt [0], 2 tokens to write, K = 1."""
        drafter = NeuralDrafter(Constant(q), FILTER, rng)
        rounds = speculative(Constant(p), drafter, [0], 2, 1, FILTER, rng)
        return next(token for this_round in rounds for token in this_round.tokens)

    with apply_mistake(MISTAKES[name]) if name else nullcontext():
        outcomes = enumerate_branches(run)
    return np.array([outcomes.get(token, 0.0) for token in range(len(p))])


def show_mistakes():
    """Print the lines that the mistakes of the notebook change."""
    for name in BROKEN:
        print(f"{name}: {MISTAKES[name].what}")
        for function, pieces in MISTAKES[name].changes.items():
            for lines in changed_lines(function, pieces):
                for side, line in zip(("right", "wrong"), lines):
                    print(f"    {function.__name__}, {side}   {line.strip()}")


def broken(p, q):
    """Print the distribution of the first token with each mistake, and its distance from p."""
    print(
        f"p = {format_probs(p)}, q = {format_probs(q)}, rejected {np.maximum(p - q, 0).sum():.2f}"
    )
    for name in (None, *BROKEN):
        found = outcome(p, q, name)
        far = total_variation(dict(enumerate(p)), dict(enumerate(found)))
        print(f"    {name or 'no mistake':<24}{format_probs(found):<26}distance {far:.2f}")


# ---------------------------------------------------------------- by the clock


def openings(first, n_times):
    """List [(make_rng, ids)] of texts that begin with six of twelve story openings, each opening
    n_times. make_rng() returns the Rng of a text. first: 0 or 1, which six openings
    """
    ids, _ = choose_prompts("", 12, pair().encoder, pair().target.config.n_ctx - N_TOKENS)
    return [(partial(Rng, seed), one) for seed, one in enumerate(ids[first::2] * n_times)]


def acceptance():
    """Decode 24 texts speculatively, print the acceptance rate, and return it."""
    accepted = examined = 0
    for rng, ids in openings(first=0, n_times=4):
        for this_round in Run(pair(), ids, N_TOKENS, K_MEASURED, FILTER, rng).rounds():
            accepted += this_round.accepted
            examined += this_round.examined
    print(f"a = {accepted / examined:.2f}: {accepted} of {examined} examined drafted tokens")
    return accepted / examined


def costs(Ks, turns=12):
    """Measure the draft cost c and the verify cost v of every K, print and draw them, and return
    {K: (c, v)}, both in passes of the target over one token.

    turns: how often rounds of every K are timed; each figure is a median over the turns
    """
    both = pair().target, pair().draft
    seconds, found = measure_costs(*both, FILTER, Ks, 2, range(turns))
    found = {K: tuple(np.median(of_turns, axis=0)) for K, of_turns in found.items()}
    print(f"one pass of the target over one token: {1000 * np.median(seconds):.1f} ms")
    print(f"{'K':>3} {'c':>6} {'v':>6}")
    for K, (c, v) in found.items():
        print(f"{K:3} {c:6.2f} {v:6.2f}")
    axes = new_axes("tokens in a pass of the target", "its time, in passes over one token")
    rows = [1, *(K + 1 for K in Ks)]
    axes.plot(rows, [1, *(v for _, v in found.values())], "o-", color=GREEN, label="one pass: v")
    axes.plot(rows, rows, "--", color=GREY, label="a pass for each token")
    axes.set(xlim=0, ylim=(0, 2 + max(v for _, v in found.values())))
    finish(axes)
    return found


def race(K, predicted):
    """Decode texts after the other six openings plainly and speculatively, in turn. Print the
    speedup beside the predicted one, and draw the race of the first text.
    """
    pairs = {"plain": Pair(pair().target, None, pair().encoder), "speculative": pair()}
    texts = openings(first=1, n_times=2)
    rounds = {name: [] for name in pairs}  # of each text, (tokens, milliseconds) of its rounds
    for n, (rng, ids) in enumerate(texts):
        for name in pairs:
            run = Run(pairs[name], ids, N_TOKENS, K, FILTER, rng)
            if n == 0:
                run.warm_up()
            _, *others = run.timed_rounds()  # without the prefill
            steps = [(len(this_round.tokens), 1000 * took.total) for this_round, took in others]
            rounds[name].append(np.array(steps))
    times = {name: np.array([steps[:, 1].sum() for steps in rounds[name]]) for name in pairs}
    for name in pairs:
        passes = np.mean([len(steps) for steps in rounds[name]])
        mean = times[name].mean()
        print(f"{name:<12}{passes:5.1f} passes of the target and {mean:4.0f} ms a text")
    each = times["plain"] / times["speculative"]
    speedup = times["plain"].sum() / times["speculative"].sum()
    print(f"K = {K}: predicted {predicted:.2f}, measured {speedup:.2f}")
    print(f"({len(texts)} texts of {N_TOKENS} tokens, from {min(each):.2f} to {max(each):.2f})")
    axes = new_axes("ms", "tokens of the first text")
    for name, color in zip(pairs, (GREY, GREEN)):
        tokens, ends = np.cumsum([(0, 0), *rounds[name][0]], axis=0).T
        axes.step(ends, tokens, where="post", color=color, label=name)
    axes.set(xlim=0, ylim=0)
    finish(axes)


# ---------------------------------------------------------------- pictures


def new_axes(xlabel, ylabel):
    """Begin a picture. Returns its matplotlib axes."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def finish(axes):
    """Add the legend to a picture, and show it."""
    import matplotlib.pyplot as plt

    axes.figure.legend(loc="outside right upper", frameon=False)
    plt.show()


def overlap(p, q):
    """Draw p over q, [n_vocab] both, and print min(p, q) and its sum."""
    both, x = np.minimum(p, q), np.arange(len(p))
    axes = new_axes("token", "probability")
    axes.bar(x, both, 1, color=GREEN, alpha=0.35, label="in both")
    style = {"facecolor": "none", "linewidth": 0}
    axes.bar(x, q - both, 1, both, hatch="///", edgecolor=GREY, label="in q only", **style)
    axes.bar(x, p - both, 1, both, color=ORANGE, alpha=0.35, label="in p only")
    edges = np.arange(len(p) + 1) - 0.5
    axes.stairs(p, edges, color=VIOLET, linewidth=2.5, label="p")
    axes.stairs(q, edges, color=GREY, linewidth=2.5, linestyle=(0, (5, 2)), label="q")
    axes.set(xticks=x, ylim=0)
    print(f"min(p, q) = {format_probs(both)}, sum {both.sum():.2f}")
    finish(axes)
