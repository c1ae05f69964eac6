"""What python main.py does with its settings: one prompt, or many together, through one decoder or
both.
"""

import time
from types import SimpleNamespace

import utils
from experiments.decoding.adaptive_k import AdaptiveK, round_costs
from experiments.decoding.batching import decode_together
from experiments.decoding.gumbel import Noisy
from experiments.decoding.recorder import Watch
from experiments.decoding.running import compare, decode, speculation, timed_run
from experiments.decoding.settings import check_settings, prompt_ids, token_ids
from sampling import Filter, stop_condition
from utils import InputError

# times the batch size: so many prompts go through one decoder before the other has its turn
WAVE = 8


class Generation:
    """The models and settings of a run: all that is the same for every prompt. Raises InputError."""

    def __init__(self, settings, json=False, download=False):
        self.settings, self.filter = settings, check_settings(**settings, json=json)
        self.given = given = SimpleNamespace(**settings)
        self.decoders = ("autoregressive", "speculative") if given.mode == "both" else (given.mode,)
        arrays = utils.get_backend(given.backend, given.kernels, given.exact, given.dtype)
        draft_size = given.draft_model_size if "speculative" in self.decoders else None
        pair = utils.load_pair(
            given.target_model_size, draft_size, given.models_dir, arrays, download
        )
        self.target, self.draft, self.encoder = pair
        token_ids("stop", given.stop, self.encoder)  # refuses what is no text
        self.ended, self.decode = stop_condition(self.encoder, given.stop), decode
        adapts = given.K == "auto" and "speculative" in self.decoders
        self.costs = round_costs(self.target, self.draft, self.filter) if adapts else None
        if given.mistake:
            from experiments.proving.mistakes import committing

            self.decode = committing(given.mistake, decode)

    def kernels(self):
        """A line for each shape of weight: how it is multiplied."""
        models = (("target", self.target), ("draft", self.draft))
        return [
            f"{role} {shape}: {how}"
            for role, model in models
            if model
            for shape, how in utils.kernels_of(model).items()
        ]

    def prompt_ids(self, text):
        return prompt_ids(
            text, self.encoder, self.target.config.n_ctx, self.given.n_tokens_to_generate
        )

    def ids_of(self, texts):
        """The ids of several prompts. Raises InputError that says which cannot be used."""
        found = []
        for i, text in enumerate(texts, 1):
            try:
                found.append(self.prompt_ids(text))
            except InputError as error:
                raise InputError(f"prompt {i} of {len(texts)}: {error}") from None
        return found

    def sampled_from(self, target, seed):
        """(model, filter) that the texts are drawn from: with shared noise, greedily from noisy
        logits.
        """
        return (
            (Noisy(target, self.filter, seed), Filter())
            if self.given.coupled
            else (target, self.filter)
        )

    def rounds(self, decoder, ids, seed, watch=None, models=None, n_tokens=None):
        """The rounds of one decoder after these ids, watched where there is a Watch."""
        given, (target, draft) = self.given, models or (self.target, self.draft)
        K = AdaptiveK(self.costs) if self.costs else given.K
        limits = {"ended": self.ended, "confidence": given.draft_confidence}
        n_tokens = n_tokens or given.n_tokens_to_generate
        if watch and decoder == "speculative":
            return watch.decode(target, draft, ids, n_tokens, K, self.filter, seed, **limits)
        model, filter = self.sampled_from(target, seed)
        return self.decode(decoder, model, draft, ids, n_tokens, K, filter, seed, **limits)

    def run(self, decoder, ids, seed, show=None, watch=None, models=None):
        """What the JSON object says of one decoder's run. show is called with each Round, and
        without one at the end.
        """
        clock = {"clock": watch.clock} if watch else {}
        rounds = self.rounds(decoder, ids, seed, watch, models)
        done, result = timed_run(
            rounds, self.given.n_tokens_to_generate, self.encoder, show, **clock
        )
        result |= speculation(done) if decoder == "speculative" else {}
        if self.given.coupled and decoder == "speculative":
            result["usual_acceptance_rate"] = watch.usual_acceptance_rate()
        return result

    def settings_of(self, text, i):
        """The settings that give text i alone: each has its own seed."""
        return self.settings | {"prompt": text, "seed": self.given.seed + i}

    def summary(self, text, ids, seed, runs):
        """The JSON object of a prompt, from {decoder: run}."""
        settings = self.settings | {"prompt": text, "seed": seed}
        found = {decoder: runs.get(decoder) for decoder in ("autoregressive", "speculative")}
        model, filter = self.sampled_from(self.target, seed)
        return {
            "settings": settings,
            "prompt_token_ids": ids,
            **found,
            **compare(*found.values(), model, ids, filter),
        }

    def run_together(self, texts, batch_size, first=0):
        """Yield the JSON object of each text from the first on, in their order; batch_size of them
        are decoded at a time.

        Each is what it would be alone. Its seconds are those in which its neighbours were decoded
        as well; the tokens and seconds of all together are kept in `totals`.
        """
        self.totals = {decoder: (0, 0.0) for decoder in self.decoders}

        def task(decoder, ids, seed):
            watch = Watch(coupled=True) if self.given.coupled else None
            return lambda *models: self.run(
                decoder, ids, seed, lambda one=None: None, watch, models
            )

        def together(decoder, prompts):
            n_tokens, seconds = self.totals[decoder]
            begin = time.perf_counter()
            runs = list(
                decode_together(
                    [task(decoder, *one) for one in prompts], [self.target, self.draft], batch_size
                )
            )
            n_tokens += sum(len(one["token_ids"]) for one in runs)
            self.totals[decoder] = n_tokens, seconds + time.perf_counter() - begin
            return runs

        every = [(ids, self.given.seed + i) for i, ids in enumerate(self.ids_of(texts))]
        for decoder in self.decoders:  # warm-up: new memory is slow the first time
            list(
                self.rounds(
                    decoder,
                    *every[0],
                    Watch(self.given.coupled) if self.given.coupled else None,
                    n_tokens=2,
                )
            )
        for begin in range(first, len(texts), WAVE * batch_size):
            wave = slice(begin, begin + WAVE * batch_size)
            runs = zip(*(together(decoder, every[wave]) for decoder in self.decoders))
            for text, (ids, seed), one in zip(texts[wave], every[wave], runs):
                yield self.summary(text, ids, seed, dict(zip(self.decoders, one)))
