"""A run: its models and settings, and what is decoded with them, one prompt or many together."""

import time
from dataclasses import dataclass
from typing import Any

import utils
from encoder import Encoder
from experiments.data.prompts import fitting, note_skipped
from experiments.decoding.adaptive_k import AdaptiveK, round_costs
from experiments.decoding.batching import decode_together, require_memory
from experiments.decoding.decoders import NGRAM, decode
from experiments.decoding.gumbel import Noisy
from experiments.decoding.metrics import compare, speculation
from experiments.decoding.recorder import Watch
from experiments.decoding.settings import AUTO, SettingError
from experiments.decoding.timing import timed_run
from experiments.drafting.pairs import fingerprints
from experiments.drafting.stored import load_pair_or_head
from gpt2 import Model
from sampling import Filter, stop_condition
from utils import InputError


@dataclass(frozen=True)
class Models:
    """What decodes: a target, its draft (a Model, a head of the target, NGRAM, or None where
    nothing speculates) and the vocabulary of both.
    """

    target: Model
    draft: Any
    encoder: Encoder


def models_of(settings, download=False):
    """The Models of these settings. Raises InputError."""
    backend = utils.get_backend(settings.backend, settings.kernels, settings.exact, settings.dtype)
    draft_size = settings.draft_model_size if settings.speculates else None
    target, draft, encoder = load_pair_or_head(
        settings.target_model_size, draft_size, settings.models_dir, backend, download
    )
    return Models(target, NGRAM if draft_size == NGRAM else draft, encoder)


@dataclass(frozen=True)
class Prompt:
    """A text to continue. text is None where token ids were given."""

    number: int  # among the prompts of a run, from 1
    text: str | None
    ids: list
    seed: int


class Session:
    """Settings and models: all that is the same for every prompt. Raises InputError.

    decode is experiments.decoding.decoders.decode, or one that does the same in another way.
    """

    def __init__(self, settings, models, decode=decode):
        self.settings, self.models, self.decode = settings, models, decode
        self.target, self.draft, self.encoder = models.target, models.draft, models.encoder
        self.token_ids("stop", settings.stop)  # raises if the string cannot be encoded
        self.ended = stop_condition(self.encoder, settings.stop)

    def changed(self, **settings):
        """The same models with other settings. Raises InputError."""
        return Session(self.settings.replace(**settings), self.models, self.decode)

    def fingerprints(self):
        """{model: SHA-256 of its files}. Raises InputError."""
        drafts = [self.settings.draft_model_size] if self.settings.speculates else []
        return fingerprints(self.settings.target_model_size, drafts, self.settings.models_dir)

    # ------------------------------------------------------------ prompts

    def token_ids(self, name, text):
        """The ids of a text that was given as a setting of that name. Raises SettingError."""
        try:
            return self.encoder.encode(text)
        except ValueError as error:
            raise SettingError(name, f"cannot be used: {error}") from None

    def prompt(self, text, number=1, n_ctx=None):
        """The Prompt of a text; an empty one starts from <|endoftext|>. Raises InputError if it
        leaves no room in the context.

        number: its place among several prompts, each with its own seed. n_ctx: the context it must
        fit into, the target's unless another model continues it.
        """
        ids = self.token_ids("prompt", text)
        if not ids:
            if self.encoder.end_of_text is None:
                raise SettingError(
                    "prompt",
                    "'': expected text, as the vocabulary has no <|endoftext|> to begin with",
                )
            ids = [self.encoder.end_of_text]
        return self.prompt_of(ids, text, number, n_ctx or self.target.config.n_ctx)

    def prompt_of(self, ids, text, number, n_ctx):
        if len(ids) >= n_ctx:
            raise InputError(
                f"the prompt has {len(ids)} tokens: expected at most {n_ctx - 1}, the context less "
                "one; shorten it"
            )
        return Prompt(number, text, ids, self.settings.seed + number - 1)

    def prompts(self, texts, file=""):
        """The Prompts of several texts. Raises InputError that says which cannot be used.

        file: where they are from, if not from the command line. Of a file, those that are too long
        are skipped, and named on stderr.
        """
        if file:
            return self.prompts_of_file(texts, file)
        found = []
        for number, text in enumerate(texts, 1):
            try:
                found.append(self.prompt(text, number))
            except InputError as error:
                if len(texts) == 1:
                    raise
                raise InputError(f"prompt {number} of {len(texts)}: {error}") from None
        return found

    def prompts_of_file(self, texts, file):
        longest = self.target.config.n_ctx - 1
        fits, skipped = fitting(file, texts, self.encoder.encode, longest)
        if not fits:
            raise InputError(
                f"{file}: all {len(skipped)} prompts have more than {longest} tokens, the context "
                "less one; shorten them"
            )
        note_skipped(file, skipped, longest)
        return [
            Prompt(number, texts[number - 1], ids, self.settings.seed + number - 1)
            for number, ids in fits
        ]

    def prompt_of_ids(self, text):
        """The Prompt of token ids, written "1,2,3". Raises InputError."""
        n_vocab = self.encoder.n_vocab
        expected = f"expected token ids, 0 to {n_vocab - 1}, separated by commas"
        try:
            ids = [int(part) for part in text.split(",")]
        except ValueError:
            raise SettingError("prompt_ids", f"{text!r}: {expected}") from None
        for token in ids:
            if not 0 <= token < n_vocab:
                raise SettingError("prompt_ids", f"{token}: {expected}")
        return self.prompt_of(ids, None, 1, self.target.config.n_ctx)

    def new_watch(self):
        """A Watch where the settings ask for one, else None."""
        return Watch(self.settings.coupled) if self.settings.watched else None

    # ------------------------------------------------------------ one prompt

    def sampled_from(self, target, seed):
        """(model, filter) that a text is sampled from: with shared noise, greedily from noisy
        logits.
        """
        filter = self.settings.sampling
        if self.settings.coupled:
            return Noisy(target, filter, seed), Filter()
        return target, filter

    def rounds(self, decoder, prompt, watch=None, target=None, draft=None, n_tokens=None):
        """The rounds of one decoder after a prompt, watched where there is a Watch.

        target and draft may take the place of the session's.
        """
        settings = self.settings
        target, draft = target or self.target, draft or self.draft
        n_tokens = n_tokens or settings.n_tokens_to_generate
        how = {
            "K": self.new_K(draft) if decoder == "speculative" else None,
            "seed": prompt.seed,
            "ended": self.ended,
            "confidence": settings.draft_confidence,
            "verification": settings.verification,
        }
        if watch and decoder == "speculative":
            filter = settings.sampling
            return watch.decode(target, draft, prompt.ids, n_tokens, filter=filter, **how)
        target, filter = self.sampled_from(target, prompt.seed)
        return self.decode(decoder, target, draft, prompt.ids, n_tokens, filter=filter, **how)

    def new_K(self, draft):
        """K of one text: a number, or what chooses one each round."""
        if self.settings.K != AUTO:
            return self.settings.K
        # in a batch `draft` wraps self.draft anew for each text; costs are those of the original
        draft = NGRAM if draft == NGRAM else self.draft
        settings = self.settings
        costs = round_costs(self.target, draft, settings.sampling, settings.verification)
        return AdaptiveK(costs)

    def warm_up(self, decoder, prompt, **models):
        """Decode two tokens, as new memory is slow the first time."""
        list(self.rounds(decoder, prompt, self.new_watch(), n_tokens=2, **models))

    def run(self, decoder, prompt, show=None, watch=None, progress=True, **models):
        """What the JSON object says of one decoder's run. show is called with each Round, and with
        None at the end.
        """
        clock = watch.clock if watch else time.perf_counter
        rounds = self.rounds(decoder, prompt, watch, **models)
        n_tokens = self.settings.n_tokens_to_generate
        done, result = timed_run(rounds, n_tokens, self.encoder, show, clock, progress)
        if decoder == "speculative":
            result |= speculation(done)
            if self.settings.coupled:
                result["usual_acceptance_rate"] = watch.usual_acceptance_rate()
        return result

    def summary(self, prompt, runs):
        """The JSON object of a prompt, from {decoder: result}."""
        model, filter = self.sampled_from(self.target, prompt.seed)
        one, two = runs.get("autoregressive"), runs.get("speculative")
        return {
            "settings": self.settings.as_json(prompt.text, prompt.seed, prompt.ids),
            "prompt_token_ids": prompt.ids,
            "autoregressive": one,
            "speculative": two,
            **compare(one, two, model, prompt.ids, filter),
        }

    def kernels(self):
        """A line for each weight of a block, and the head: how it is multiplied."""
        lines = []
        for role, model in (("target", self.target), ("draft", self.draft)):
            if isinstance(model, Model):
                lines += [
                    f"{role} {weight}: {how}" for weight, how in utils.kernels_of(model).items()
                ]
        return lines

    # ------------------------------------------------------------ many prompts

    def run_together(self, prompts, batch_size):
        """Yield the JSON object of each Prompt, in their order. batch_size of them are decoded
        together by one decoder, then by the other; then all of them are yielded.

        Each is what it would be alone. Its seconds are those in which its neighbours were decoded
        as well; the tokens and seconds of all together are kept in `totals`.
        """
        self.totals = {decoder: (0, 0.0) for decoder in self.settings.decoders}
        if not prompts:
            return
        longest = max(len(prompt.ids) for prompt in prompts) + self.settings.n_tokens_to_generate
        require_memory([self.target, self.draft], min(batch_size, len(prompts)), longest)
        for decoder in self.settings.decoders:
            self.warm_up(decoder, prompts[0])
        for begin in range(0, len(prompts), batch_size):
            batch = prompts[begin : begin + batch_size]
            runs = [self.decode_batch(decoder, batch) for decoder in self.totals]
            # no clock runs now: texts can be compared, and results stored
            for prompt, *results in zip(batch, *runs):
                yield self.summary(prompt, dict(zip(self.totals, results)))

    def decode_batch(self, decoder, prompts):
        """The results of one decoder for these prompts; adds to `totals`."""

        def task(prompt):
            def run(target, draft):
                watch = self.new_watch()
                models = {"target": target, "draft": draft}
                return self.run(decoder, prompt, None, watch, progress=False, **models)

            return run

        begin = time.perf_counter()
        tasks = [task(prompt) for prompt in prompts]
        results = list(decode_together(tasks, [self.target, self.draft], len(tasks)))
        n_tokens, seconds = self.totals[decoder]
        n_tokens += sum(len(one["token_ids"]) for one in results)
        self.totals[decoder] = n_tokens, seconds + time.perf_counter() - begin
        return results
