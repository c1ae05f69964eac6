"""assert_exact: the referee in a test of yours. It needs NumPy alone (docs/ci.md)."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .cases import Case, ToProbs, filtered
from .prove import prove
from .words import describe


def assert_exact(
    function: Callable,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    to_probs: ToProbs | None = None,
    cases: Sequence[Case] | None = None,
    batch: bool = False,
    measured: bool = False,
    timeout: float = 120.0,
    seed: int | None = 0,
) -> dict[str, Any]:
    """Raise AssertionError unless a sampler keeps the target's distribution in every case. Its
    message has the shortest wrong text, what its probability is and should be, and how it comes
    about. Returns the result of `prove`, a dict, whose keys are listed at the top of prove.py.

        def test_my_sampler():
            assert_exact(my_sampler, temperature=0.8)

    function: a rule, a batch rule, a rule for trees or a loop, as `python main.py prove --help`
        describes them; ValueError if it is none of these
    temperature, top_k, top_p: what it does with each row of a model before it samples
    to_probs: the same as a function of one row, in their place
    cases: those of proof/cases.py if None; a few of them for a slow sampler
    batch: whether it is a rule for batches
    measured: whether "not told apart in real runs" is enough, where not every branch can be taken,
        because it hides its random numbers or is compiled. Then it warns with the distance that
        would have shown. Without it that fails: a test that says exact should mean it
    timeout: seconds, after which it fails. A function that catches every exception in a loop, or
        waits in a thread of its own, is not stopped
    seed: of the drafts in real runs; None for another each time
    """
    if to_probs is None:
        to_probs = filtered(temperature, top_k, top_p)
    result = prove(function, cases, to_probs=to_probs, batch=batch, timeout=timeout, seed=seed)
    verdict, words = result["verdict"], describe(result)
    if verdict == "not told apart" and measured:
        warnings.warn(words, stacklevel=2)
    elif verdict == "not told apart":
        raise AssertionError(f"{words}\n  To accept that: assert_exact(..., measured=True)")
    elif verdict != "exact":
        raise AssertionError(words)
    return result
