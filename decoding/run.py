"""A run: the decoding of one text by one decoder. `Run.rounds` calls a loop of sampling.py with the
fields of the Run; `Run.finish` decodes to the end and takes the time.

A mistake or a reader's own rule is a field of the run. A trace is a watcher, a function that
`Run.finish` calls after each round. The loops know of neither.
"""

from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, Callable

from decoding.clock import Stopwatch
from decoding.coupled import SharedNoise, verify_shared_noise
from decoding.load import AUTO, Pair
from decoding.metrics import Tally
from decoding.prompt import encode_setting
from sampling import Rng, SamplingParams, autoregressive, never, speculative, stop_condition, verify


class RecordingRng(Rng):
    """An Rng that records its random choices, for the trace and the page.

    tossed: [(ratio, u)] of all calls of `accept`, which returned u < ratio
    sampled: (p, token) of the last call of `sample`; (None, None) before the first
    forced: {index in tossed: the u to use there in place of the random one}
    """

    def __init__(self, seed, forced={}):
        super().__init__(seed)
        self.forced, self.tossed, self.sampled = forced, [], (None, None)

    def sample(self, p):  # [n_vocab] -> token
        """Sample a token as Rng.sample does, and record (p, token) in `sampled`."""
        token = super().sample(p)
        self.sampled = p, token
        return token

    def accept(self, ratio):
        """Return u < ratio. u is random, as in Rng.accept, or forced; (ratio, u) is recorded."""
        u = self.random()  # drawn even if it is replaced: the numbers after it stay the same
        u = self.forced.get(len(self.tossed), u)
        self.tossed.append((ratio, u))
        return u < ratio


@dataclass(frozen=True)
class Run:
    """The decoding of one text: autoregressive if the pair has no draft, else speculative."""

    pair: Pair
    ids: list  # of int: the prompt's
    n_tokens: int  # to add
    K: Any = 4  # tokens drafted per round, or a function of the last Round
    to_probs: Callable = SamplingParams()
    new_rng: Callable = partial(RecordingRng, 0)  # () -> the Rng of the text
    is_done: Callable = never  # (generated ids) -> whether the text ends
    confidence: float = 0.0  # see sampling.NeuralDrafter
    rule: Callable = verify  # or another of the same parameters
    loop: Callable = speculative  # or one that makes a mistake

    @property
    def coupled(self):
        """Whether draft and target share the noise of each position."""
        return self.rule is verify_shared_noise

    def rounds(self, rng=None, stopwatch=None):
        """The iterator over the Rounds of this text; the first is the prefill, without tokens.

        rng: an Rng to use in place of a new one
        stopwatch: a clock.Stopwatch, which then times the drafter and the target
        """
        rng = rng or self.new_rng()
        target, draft = self.pair.target, self.pair.draft
        if stopwatch:
            target = stopwatch.timed_target(target)
        if draft is None:
            return autoregressive(
                target, self.ids, self.n_tokens, self.to_probs, rng, is_done=self.is_done
            )
        drafter = draft.new_drafter(target, self.to_probs, rng, self.confidence)
        if stopwatch:
            drafter = stopwatch.timed_drafter(drafter)
        # the loop is sampling.speculative, unless a mistake is made in it
        return self.loop(
            target, drafter, self.ids, self.n_tokens, self.K, self.to_probs, rng,
            is_done=self.is_done, rule=self.rule,
        )  # fmt: skip

    def timed_rounds(self, rng=None):
        """Yield (Round, its clock.Seconds), the prefill first. rng: an Rng, or a new one if None"""
        stopwatch = Stopwatch()
        return stopwatch.timed_rounds(self.rounds(rng, stopwatch))

    def warm_up(self):
        """Decode two tokens and drop them, because memory is slow when it is first used."""
        # a copy of K, so that an AutoK does not learn from these tokens
        for _ in replace(self, n_tokens=2, K=copy(self.K)).rounds():
            pass

    def finish(self, *watchers):
        """Decode to the end. Return {name: value} for the JSON object: the text, its token ids, its
        times, and for a speculative run the figures of its drafts.

        A watcher is a function: it is called with (Round, clock.Seconds of the round, Rng) after
        each Round except the prefill, and with (None) at the end. Its own time is not counted. The
        Rng is that of the text, in its state after the round.
        """
        rng, tally = self.new_rng(), Tally(self.coupled)
        rounds = self.timed_rounds(rng)
        _, prefill = next(rounds)  # a Round without tokens
        for this_round, seconds in rounds:
            tally.add(this_round, seconds)
            for watch in watchers:
                watch(this_round, seconds, rng)
        for watch in watchers:
            watch(None)
        ids, encoder = tally.ids, self.pair.encoder
        result = {
            "text": encoder.decode(encoder.without_end(ids)),
            "token_ids": ids,
            "seconds": tally.seconds,
            "prefill_seconds": prefill.total,
            "tokens_per_second": len(ids) / tally.seconds,
            "timed_runs": 1,  # see with_median_times
        }
        return result | tally.speculative_figures() if self.pair.draft else result


def with_median_times(result, run, budget=0.7):
    """Decode twice more. Return `result`, a dict of run.finish, with the median of the three times
    and "timed_runs": 3; `result` itself if that would take `budget` seconds, or K is a function.
    """
    seconds = result["seconds"] + result["prefill_seconds"]
    if 2 * seconds >= budget or callable(run.K):  # a K that learns would write another text
        return result
    results = sorted([result, run.finish(), run.finish()], key=itemgetter("seconds"))
    median = results[1]
    # seconds, prefill_seconds and tokens_per_second: all else is equal in the three
    return result | {name: median[name] for name in median if "second" in name} | {"timed_runs": 3}


@dataclass(frozen=True)
class GenerationConfig:
    """All that decides a text besides models and prompt. It can be sent to another process."""

    n_tokens: int
    K: int | str = 4  # or AUTO
    to_probs: SamplingParams = SamplingParams()
    stop: str = ""  # a text that ends with this string ends there
    confidence: float = 0.0
    coupled: bool = False  # whether draft and target share the noise of each position
    rule: Callable = verify  # decides, unless `coupled`
    loop: Callable = speculative

    def new_run(self, pair, prompt, decoder="speculative"):
        """Make the Run that continues a Prompt. decoder: "speculative" or "autoregressive". Raises
        InputError if `stop` cannot be encoded. With K = AUTO it may measure costs for a second.
        """
        encode_setting("stop", self.stop, pair.encoder)  # only to refuse what has no ids
        pair = pair if decoder == "speculative" else replace(pair, draft=None)
        if self.coupled:
            new_rng = partial(SharedNoise, prompt.seed, n_prompt=len(prompt.ids))
            rule = verify_shared_noise
        else:
            new_rng = partial(RecordingRng, prompt.seed)
            rule = self.rule
        K = self.K
        if K == AUTO and pair.draft:
            from decoding.auto_k import new_auto_k  # here, because only this K needs it

            # self.rule, also if coupled: the costs are measured with an Rng, not with SharedNoise
            K = new_auto_k(pair.target, pair.draft, self.to_probs, self.rule)
        return Run(
            pair=pair,
            ids=prompt.ids,
            n_tokens=self.n_tokens,
            K=K,
            to_probs=self.to_probs,
            new_rng=new_rng,
            is_done=stop_condition(pair.encoder, self.stop),
            confidence=self.confidence,
            rule=rule,
            loop=self.loop,
        )
