"""Use from Python: load a pair of models, decode, bring your own drafter.

Run it from the root of the repository: python -m docs.library
"""

from utils import MODELS_DIR, get_backend, load_models  # sets up BLAS: import it first

# isort: split
from sampling import Chance, Filter, NeuralDrafter, one_hot, speculative

(target, draft), encoder = load_models(["17M", "0.7M-17M"], MODELS_DIR, get_backend())


class Echo:
    """A drafter that expects the last nine tokens to come again."""

    n_vocab = target.config.n_vocab

    def prefill(self, ids):
        pass

    def propose(self, ids, k):  # up to k tokens, and the distribution each was sampled from
        tokens = (ids[-9:] * k)[:k]
        return tokens, one_hot(tokens, self.n_vocab)


ids = encoder.encode("Once upon a time")
greedy, chance = Filter(temperature=0.0), Chance(0)
for drafter in (NeuralDrafter(draft, greedy, chance), Echo()):
    tokens, n_passes = [], -1  # the first round is the prefill
    for one in speculative(target, drafter, ids, 40, 4, greedy, chance):
        tokens += one.tokens
        n_passes += 1
    print(f"{len(tokens) / n_passes:.2f} tokens per target pass: {encoder.decode(tokens)!r}")
