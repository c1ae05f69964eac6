"""What the target and the drafter take of a round: a clock on one method of each."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from decoding.decode import begin, timed
from sampling import Round


class Clocked:
    """Stands for an object, such as a model, one method of which appends its seconds to a list."""

    def __init__(self, owner: Any, method: str, seconds: list[float]):
        self.owner, self.method, self.seconds = owner, method, seconds

    def __getattr__(self, name: str) -> Any:
        """The owner's attribute; of the one method, a form with a clock (`call`)."""
        value = getattr(self.owner, name)
        return partial(self.call, value) if name == self.method else value

    def call(self, function: Callable, *arguments: Any, **named: Any) -> Any:
        """Call the function, append how many seconds it took, and return what it returns."""
        begun = time.perf_counter()
        result = function(*arguments, **named)
        self.seconds.append(time.perf_counter() - begun)
        return result


class TimedRound(NamedTuple):
    """A Round, and how long it took, in seconds."""

    round: Round
    seconds: float
    drafting: float  # of these, by the drafter
    reading: float  # of these, by the target


def timed_rounds(
    decoder: Any, target: Any, *arguments: Any, **options: Any
) -> Iterator[TimedRound]:
    """Decode a text by the clock: yield each Round of decoding.decode.begin, the prefill first, as
    a TimedRound, which holds it and its seconds. The arguments are those of `begin`: decoder,
    target, draft model, encoder, ids of the prompt, n_tokens, and options such as K.
    """
    seconds: list[float] = []  # of each round; `timed` appends them
    drafting: list[float] = []  # of each call in this round
    reading: list[float] = []
    clocked_target: Any = Clocked(target, "read", reading)
    clocked_drafter = partial(Clocked, method="propose", seconds=drafting)
    rounds = begin(decoder, clocked_target, *arguments, **options, around_drafter=clocked_drafter)
    for this_round in timed(rounds, seconds):
        yield TimedRound(this_round, seconds[-1], sum(drafting), sum(reading))
        drafting.clear()
        reading.clear()
