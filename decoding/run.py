"""A run: one decoding, of one text by one decoder. `Run.rounds` puts together what the loops of
sampling.py take; `Run.finish` runs them to the end, by the clock.

What changes a run, as a mistake or a reader's own rule does, replaces a field of it in `Run.of`.
What looks at one, as a trace does, is a watcher of `Run.finish`. The loops know of neither.
"""

from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable

from decoding.clock import Clock
from decoding.coupled import Shared, agree
from decoding.drafts import SeenTarget
from decoding.load import AUTO, Pair
from decoding.metrics import Tally
from decoding.prompt import encoded
from sampling import (
    RULES,
    Chance,
    Filter,
    autoregressive,
    never,
    speculative,
    stop_condition,
    verify,
)


class Coins(Chance):
    """A Chance that remembers its coins, as (ratio, u): heads where u < ratio.

    forced: {index: u}, coins to take in place of the seed's
    """

    def __init__(self, seed, forced={}):
        super().__init__(seed)
        self.forced, self.tossed = forced, []

    def toss(self, ratio):
        u = self.random()  # also where it is forced: the numbers after it stay the same
        u = self.forced.get(len(self.tossed), u)
        self.tossed.append((ratio, u))
        return u < ratio


@dataclass(frozen=True)
class Run:
    """A decoding: autoregressive where the pair has no draft, else speculative."""

    pair: Pair
    ids: list  # of the prompt
    n_tokens: int
    K: Any = 4  # tokens drafted per round, or a function of the last Round
    filter: Callable = Filter()
    new_chance: Callable = partial(Coins, 0)  # makes the Chance of a text
    ended: Callable = never
    confidence: float = 0.0  # see sampling.NeuralDrafter
    rule: Callable = verify
    loop: Callable = speculative  # or one that makes a mistake

    @classmethod
    def of(cls, settings, pair, prompt, decoder="speculative", n_texts=1):
        """The Run of a decoder after a Prompt, one of n_texts that are decoded together. Raises
        InputError for what these models cannot do.

        What only some settings ask for is imported for those.
        """
        encoded("stop", settings.stop, pair.encoder)  # raises if it cannot be encoded
        rule = RULES[settings.rule_name]
        run = cls(
            pair=pair if decoder == "speculative" else replace(pair, draft=None),
            ids=prompt.ids,
            n_tokens=settings.n_tokens_to_generate,
            K=settings.K,
            filter=settings.filter,
            new_chance=partial(Coins, prompt.seed),
            ended=stop_condition(pair.encoder, settings.stop),
            confidence=settings.draft_confidence,
            rule=rule,
        )
        if settings.coupled:
            shared = partial(Shared, prompt.seed, len(prompt.ids))
            run = replace(run, new_chance=shared, rule=agree)
        if run.pair.draft is None:
            return run
        if settings.K == AUTO:
            from decoding.adaptive_k import new_K

            run = replace(run, K=new_K(pair.target, pair.draft, run.filter, rule, n_texts))
        if settings.rule:
            from proving.own_rule import own_rule

            run = replace(run, rule=own_rule(settings.rule, settings.rule_name))
        if settings.mistake:
            from proving.mistakes import mistaken

            run = replace(run, loop=mistaken(settings.mistake))
        return run

    @property
    def coupled(self):
        """Whether draft and target share the noise of each position."""
        return self.rule is agree

    def rounds(self, chance=None):
        """The Rounds; the first is the prefill. chance: in place of the run's own."""
        chance = chance or self.new_chance()
        target, draft = self.pair.target, self.pair.draft
        if draft is None:
            return autoregressive(
                target, self.ids, self.n_tokens, self.filter, chance, ended=self.ended
            )
        target = SeenTarget(target)  # remembers its cache, which EAGLE and Medusa read
        drafter = draft.drafter(target, self.filter, chance, self.confidence)
        # the loop is sampling.speculative, unless a mistake is made in it
        return self.loop(
            target, drafter, self.ids, self.n_tokens, self.K, self.filter, chance,
            ended=self.ended, rule=self.rule,
        )  # fmt: skip

    def warm_up(self):
        """Decode two tokens on trial: new memory is slow the first time. A K that learns does not
        learn from them.
        """
        for _ in replace(self, n_tokens=2, K=copy(self.K)).rounds():
            pass

    def finish(self, *watchers):
        """What the JSON object says of this decoding: its text and its figures.

        Calls watch(round, seconds, coins) for each Round after the prefill, and watch(None) at the
        end. seconds: those of its parts, clock.Seconds. coins: those it tossed, as (ratio, u). The
        clock stands still meanwhile.
        """
        chance, clock, tally = self.new_chance(), Clock(), Tally(self.coupled)
        rounds = clock.rounds(self, chance)  # self.rounds(chance), each Round with its Seconds
        _, prefill = next(rounds)  # a Round without tokens
        coins = getattr(chance, "tossed", [])  # shared noise tosses none
        n_tossed = 0
        for round, seconds in rounds:
            tally.add(round, seconds)
            for watch in watchers:
                watch(round, seconds, coins[n_tossed:])
            n_tossed = len(coins)
        for watch in watchers:
            watch(None)
        ids, encoder = tally.ids, self.pair.encoder
        result = {
            "text": encoder.decode(encoder.without_end(ids)),
            "token_ids": ids,
            "seconds": tally.seconds,
            "prefill_seconds": prefill.total,
            "tokens_per_second": len(ids) / tally.seconds,
        }
        return result | tally.speculation() if self.pair.draft else result
