"""A run: its models and settings, and what is decoded with them, one prompt or many together. What
cannot be used, of models, settings or prompts, is an InputError.
"""

import time
from dataclasses import dataclass, replace
from functools import partial

from tqdm import tqdm

from experiments.data.values import SettingError
from experiments.decoding.adaptive_k import new_K
from experiments.decoding.batching import decode_together, require_room
from experiments.decoding.clock import clocked
from experiments.decoding.coupled import Noisy
from experiments.decoding.job import RULES, Job, decode
from experiments.decoding.metrics import explain_difference, speculation
from experiments.decoding.watch import Watch
from experiments.drafting.load import Pair, Wanted
from sampling import Filter, stop_condition
from utils import InputError


@dataclass(frozen=True)
class Prompt:
    """A text to continue. text is None where token ids were given."""

    number: int  # among the prompts of a run, from 1
    text: str | None
    ids: list
    seed: int


def wanted(settings):
    """The models of these settings."""
    drafts = [settings.draft_model_size] if settings.speculates else []
    return Wanted.of(settings, settings.target_model_size, drafts)


def load_pair(settings, download=False):
    """The Pair of these settings."""
    return wanted(settings).load(download=download).pair(settings.draft_model_size)


class Session:
    """Settings and a Pair: all that is the same for every prompt.

    decode: experiments.decoding.job.decode, or one that does the same in another way
    more: a function of the Session and a Prompt: what else the JSON object says
    """

    def __init__(self, settings, pair, decode=decode, more=None):
        self.settings, self.pair, self.decode, self.more = settings, pair, decode, more
        self.encoder = pair.encoder
        self.token_ids("stop", settings.stop)  # raises if the string cannot be encoded
        self.ended = stop_condition(self.encoder, settings.stop)

    def changed(self, **settings):
        """The same models with other settings."""
        return Session(self.settings.replace(**settings), self.pair, self.decode, self.more)

    # ------------------------------------------------------------ prompts

    def token_ids(self, name, text):
        """The ids of a text that was given as a setting of that name."""
        try:
            return self.encoder.encode(text)
        except ValueError as error:
            raise SettingError(name, f"cannot be used: {error}") from None

    def prompt(self, text, number=1):
        """The Prompt of a text; an empty one starts from <|endoftext|>.

        number: its place among several prompts, each with its own seed
        """
        ids = self.token_ids("prompt", text) or [self.encoder.end_of_text]
        if ids == [None]:
            problem = "'': expected text, as the vocabulary has no <|endoftext|> to begin with"
            raise SettingError("prompt", problem)
        return self.prompt_of(ids, text, number)

    def prompt_of(self, ids, text=None, number=1):
        longest = self.pair.target.config.n_ctx - 1
        if len(ids) > longest:
            expected = f"expected at most {longest}, the context less one; shorten it"
            raise InputError(f"prompt {number} has {len(ids)} tokens: {expected}")
        return Prompt(number, text, ids, self.settings.seed + number - 1)

    # ------------------------------------------------------------ one prompt

    def pair_of(self, decoder):
        """What a decoder runs with: the autoregressive one with the target alone."""
        return self.pair if decoder == "speculative" else replace(self.pair, draft=None)

    def K_of(self, pair, n_texts=1):
        """The K with which a pair decodes so many texts together."""
        settings, rule = self.settings, RULES[self.settings.verification]
        return new_K(settings.K, pair.target, pair.draft, settings.sampling, rule, n_texts)

    def job(self, prompt, pair, K):
        """What is to be decoded after a prompt, with this pair."""
        settings = self.settings
        return Job(
            ids=prompt.ids,
            n_tokens=settings.n_tokens_to_generate,
            K=K,
            filter=settings.sampling,
            seed=prompt.seed,
            ended=self.ended,
            coupled=settings.coupled,
            confidence=settings.draft_confidence,
            rule=settings.verification,
        )

    def run(self, prompt, pair, K=None):
        """The Run of a pair after a prompt, watched if the settings ask for that.

        K: that of several texts together; by default one of its own
        """
        job = self.job(prompt, pair, self.K_of(pair) if K is None else K)
        watch = Watch(job) if self.settings.watched and pair.draft else None
        return Run(self, pair, job, watch)

    def warm_run(self, prompt, decoder, n_texts=1):
        """The Run of a decoder, after two tokens on trial: new memory is slow the first time."""
        pair = self.pair_of(decoder)
        self.run(prompt, pair, self.K_of(pair, n_texts)).warm_up()
        return self.run(prompt, pair, self.K_of(pair, n_texts))

    def summary(self, prompt, runs):
        """The JSON object of a prompt, from {decoder: result}; nulls where one of them is missing.

        "difference" is there only for two greedy texts that differ.
        """
        model, filter = self.pair.target, self.settings.sampling
        if self.settings.coupled:
            model, filter = Noisy(model, filter, prompt.seed), Filter()
        one, two = runs.get("autoregressive"), runs.get("speculative")
        summary = {
            "settings": self.settings.as_json(prompt.text, prompt.seed, prompt.ids),
            "prompt_token_ids": prompt.ids,
            "autoregressive": one,
            "speculative": two,
            "speedup": None,
            "identical": None,
        }
        if one and two:
            texts = one["token_ids"], two["token_ids"]
            summary["speedup"] = two["tokens_per_second"] / one["tokens_per_second"]
            summary["identical"] = texts[0] == texts[1]
            if filter.greedy and not summary["identical"]:
                summary["difference"] = explain_difference(model, prompt.ids, *texts)
        return summary | self.more(self, prompt) if self.more else summary

    # ------------------------------------------------------------ many prompts

    def run_together(self, prompts, batch_size):
        """Yield the JSON object of each Prompt, in their order. batch_size of them are decoded
        together by one decoder, then by the other; then all of them are yielded.

        Each is what it would be alone. Its seconds are those in which its neighbours were decoded
        as well; the tokens and seconds of all together are kept in `totals`.
        """
        self.totals = {}
        if not prompts:
            return
        longest = max(len(prompt.ids) for prompt in prompts) + self.settings.n_tokens_to_generate
        require_room(self.pair.models, min(batch_size, len(prompts)), longest)
        for decoder in self.settings.decoders:
            self.warm_run(prompts[0], decoder, min(batch_size, len(prompts)))
            self.totals[decoder] = 0, 0.0
        for begin in range(0, len(prompts), batch_size):
            batch = prompts[begin : begin + batch_size]
            runs = [self.decode_batch(decoder, batch) for decoder in self.totals]
            # no clock runs now: texts can be compared, and results stored
            for prompt, *results in zip(batch, *runs):
                yield self.summary(prompt, dict(zip(self.totals, results)))

    def decode_batch(self, decoder, prompts):
        """The results of one decoder for these prompts; adds to `totals`."""
        pair = self.pair_of(decoder)
        K = self.K_of(pair, len(prompts))
        runs = [self.run(prompt, pair, K) for prompt in prompts]

        def finish(run, target, draft):  # models that take part in the passes of the batch
            batched = replace(pair, target=target, draft=draft)
            return replace(run, pair=batched).finish(show=lambda one: None)  # no bar for each

        tasks = [partial(finish, run) for run in runs]
        begin = time.perf_counter()
        results = list(decode_together(tasks, pair.target, pair.draft, len(runs)))
        n_tokens, seconds = self.totals[decoder]
        n_tokens += sum(len(one["token_ids"]) for one in results)
        self.totals[decoder] = n_tokens, seconds + time.perf_counter() - begin
        return results


@dataclass(frozen=True)
class Run:
    """One decoding of a Session: with which models, what, and who watches."""

    session: Session
    pair: Pair
    job: Job
    watch: Watch | None = None

    def rounds(self):
        """The Rounds; the first is the prefill."""
        rounds = self.session.decode(self.pair.target, self.pair.draft, self.job, self.watch)
        return self.watch.watched(rounds) if self.watch else rounds

    def warm_up(self):
        """Decode two tokens."""
        list(replace(self, job=replace(self.job, n_tokens=2), watch=None).rounds())

    def finish(self, show=None):
        """What the JSON object says of this decoding.

        show is called with each Round, and with None at the end; without it a progress bar appears
        on stderr when a text takes longer than a second.
        """
        encoder, total = self.pair.encoder, self.job.n_tokens
        hidden = True if show else None
        bar = tqdm(total=total, unit=" tokens", delay=1, leave=False, disable=hidden)

        def each(one):
            bar.update(len(one.tokens))
            if show:
                show(one)

        clock = self.watch.clock if self.watch else time.perf_counter
        done, prefill_seconds, seconds = clocked(self.rounds(), each, clock)
        bar.close()
        if show:
            show(None)
        ids = [int(token) for one in done for token in one.tokens]
        result = {
            "text": encoder.decode(visible(ids, encoder)),
            "token_ids": ids,
            "seconds": seconds,
            "prefill_seconds": prefill_seconds,
            "tokens_per_second": len(ids) / seconds,
        }
        if self.pair.draft:
            result |= speculation(done)
            if self.job.coupled:
                result["usual_acceptance_rate"] = self.watch.usual_acceptance_rate()
        return result


def visible(ids, encoder):
    """The ids without the <|endoftext|> that ended them."""
    if ids and ids[-1] == encoder.end_of_text:
        return ids[:-1]
    return ids
