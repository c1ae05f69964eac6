"""The same shapes in the programs people would run instead: tokens per second, and a pass over five rows against one.

    pip install -r experiments/requirements-peers.txt
    python experiments/peers.py --size 124M

Random weights, float32, batch 1, greedy, the same number of tokens after the same prompt, all implementations taking turns;
medians. A peer that is not installed is listed as not run.
"""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import backends.blas  # noqa: E402, F401, isort: skip: before NumPy

import fire  # noqa: E402
import numpy as np  # noqa: E402

import utils  # noqa: E402
from backends.blas import N_THREADS  # noqa: E402
from sampling import Filter, autoregressive  # noqa: E402


class Ours:
    name = "this project"

    def __init__(self, config):
        self.model = utils.random_model(config, utils.get_backend())
        self.cache = self.model.new_cache()

    def generate(self, ids, n):
        return sum(len(one.tokens) for one in autoregressive(self.model, ids, n, Filter(), np.random.default_rng(0)))

    def rows(self, past, ids):
        self.cache.length = 0
        self.model.read(past, self.cache)
        begin = time.perf_counter()
        self.model.read(past + ids, self.cache, n_last=len(ids))
        return time.perf_counter() - begin


class Transformers:
    name = "transformers + torch"

    def __init__(self, config):
        import torch
        import transformers

        torch.set_num_threads(N_THREADS)
        self.torch = torch
        shape = dict(vocab_size=config.n_vocab, n_positions=config.n_ctx, n_embd=config.n_embd)
        shape |= dict(n_layer=config.n_layer, n_head=config.n_head, bos_token_id=None, eos_token_id=None, pad_token_id=0)
        self.model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape)).eval()

    def generate(self, ids, n):
        x = self.torch.tensor([ids])
        with self.torch.no_grad():
            return self.model.generate(x, max_new_tokens=n, min_new_tokens=n, do_sample=False).shape[1] - len(ids)

    def rows(self, past, ids):
        with self.torch.no_grad():
            cache = self.model(self.torch.tensor([past]), use_cache=True).past_key_values
            begin = time.perf_counter()
            self.model(self.torch.tensor([ids]), past_key_values=cache, use_cache=True)
            return time.perf_counter() - begin


def compare(size="124M", n_tokens=48, repeats=5):
    """Print one table for a size."""
    prompt, more = list(range(100, 113)), list(range(200, 205))
    peers, missing = [], []
    for kind in (Ours, Transformers):
        try:
            peers.append(kind(utils.SIZES[size]))
        except ImportError as error:
            missing.append(f"{kind.name}: not run, {error.name} is not installed")
    times = {peer.name: ([], [], []) for peer in peers}
    for repeat in range(repeats + 1):  # the first does not count
        for peer in peers:
            begin = time.perf_counter()
            assert peer.generate(prompt, n_tokens) == n_tokens
            measured = (time.perf_counter() - begin, peer.rows(prompt, more[:1]), peer.rows(prompt, more))
            for into, seconds in zip(times[peer.name], measured):
                into += [seconds] if repeat else []
    print(f"{size}, random weights, float32, {N_THREADS} threads, {n_tokens} tokens after {len(prompt)}, prefill included")
    print(f"{'':<22}{'tokens/s':>9}{'1 row ms':>10}{'5 rows ms':>11}{'5 / 1':>7}")
    for name, lists in times.items():
        whole, one, five = map(statistics.median, lists)
        print(f"{name:<22}{n_tokens / whole:>9.1f}{1e3 * one:>10.1f}{1e3 * five:>11.1f}{five / one:>7.2f}")
    print(*missing, sep="\n")


if __name__ == "__main__":
    fire.Fire(compare)
