"""Use from Python: load a pair of models, decode, print the text as it comes, bring a drafter.

In the root of the repository: python -m docs.library. Anywhere: after pip install . there.
"""

from speculate import sampling, utils

(target, draft), encoder = utils.load_models(["17M", "0.7M-17M"])


class Echo:
    """A drafter of your own. It expects the last nine tokens to come again.

    The text stays exact as long as each token is sampled from its row of q.
    """

    n_vocab = target.config.n_vocab

    def prefill(self, ids, target_cache):
        """Begin a text. ids: the prompt without its last token, which `propose` gets."""

    def propose(self, ids, k):  # [n_ids] -> [n_drafted], [n_drafted, n_vocab]; n_drafted <= k
        tokens = (ids[-9:] * k)[:k]
        return tokens, sampling.one_hot(tokens, self.n_vocab)


ids = encoder.encode("Once upon a time")
greedy, rng = sampling.SamplingParams(temperature=0.0), sampling.Rng(seed=0)
for drafter in (sampling.NeuralDrafter(draft, greedy, rng), Echo()):
    print(encoder.decode(ids), end="")
    decode = encoder.incremental_decoder()  # keeps the bytes of an unfinished character
    is_done = sampling.stop_condition(encoder)  # at <|endoftext|>
    n_passes, n_tokens, examined, accepted = -1, 0, 0, 0  # the first round is the prefill
    for this_round in sampling.speculative(target, drafter, ids, 40, 4, greedy, rng, is_done):
        print(decode(encoder.without_end(this_round.tokens)), end="", flush=True)
        n_passes += 1
        n_tokens += len(this_round.tokens)
        examined += this_round.examined
        accepted += this_round.accepted
    print(decode([], final=True))
    print(f"{type(drafter).__name__}: {accepted} of {examined} examined drafted tokens accepted,")
    print(f"{n_tokens / n_passes:.2f} tokens per target pass\n")
