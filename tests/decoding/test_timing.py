"""Loops and calls under a clock, by clocks that the tests turn forward themselves."""

import pytest
from toys import tiny_vocabulary

from encoder import Encoder
from experiments.decoding import timing
from experiments.decoding.timing import Clock, clocked, timed_run
from sampling import Round

ENCODER = Encoder(*tiny_vocabulary())
END = ENCODER.end_of_text


class Time:
    """A clock that goes forward only where a test says so."""

    now = 0.0

    def __call__(self):
        return self.now


def rounds(time, *texts):
    """A loop that takes 5 seconds to prefill, and 1 for each round."""
    time.now += 5
    yield Round([])
    for tokens in texts:
        time.now += 1
        yield Round(tokens)


def test_the_prefill_is_timed_apart():
    time, seen = Time(), []
    done, prefill, rest = clocked(rounds(time, [1], [2, 3]), seen.append, time)
    assert [one.tokens for one in done] == [[1], [2, 3]] == [one.tokens for one in seen]
    assert (prefill, rest) == (5, 2)


def test_a_run_is_its_text_and_its_speed():
    time, seen = Time(), []
    ids = ENCODER.encode("hello")
    done, result = timed_run(rounds(time, ids[:2], ids[2:]), 9, ENCODER, seen.append, time)
    assert seen == [*done, None]
    assert result == {
        "text": "hello",
        "token_ids": ids,
        "seconds": 2,
        "prefill_seconds": 5,
        "tokens_per_second": len(ids) / 2,
    }


def test_the_end_of_text_is_a_token_that_is_not_shown():
    time, ids = Time(), ENCODER.encode("a") + [END]
    _, result = timed_run(rounds(time, ids), 9, ENCODER, clock=time, progress=False)
    assert (result["text"], result["token_ids"]) == ("a", ids)


def test_time_inside_another_call_counts_for_the_inner_part(monkeypatch):
    time, clock = Time(), Clock()
    monkeypatch.setattr(timing.time, "perf_counter", time)

    def spend(seconds, inside=lambda: None):
        time.now += seconds
        inside()
        return seconds

    inner = clock.timed("inner", spend)
    outer = clock.timed("outer", spend)
    assert outer(1, lambda: [inner(2), inner(4)]) == 1
    inner(8)
    assert clock.seconds == {"outer": 1, "inner": 14}


def test_a_call_that_raises_is_still_an_error():
    with pytest.raises(ZeroDivisionError):
        Clock().timed("part", lambda: 1 / 0)()
