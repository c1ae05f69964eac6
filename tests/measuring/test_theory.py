"""What speculative decoding can give."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.measuring import theory


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(1, 12), st.floats(0.01, 2), st.floats(1, 4), st.floats(0.01, 1))
def test_theory(a, K, c, v, h):
    assert theory.tokens_per_round(a, K) == pytest.approx(
        (1 - a ** (K + 1)) / (1 - a) if a < 1 - 1e-6 else K + 1, rel=1e-4
    )
    even = theory.needed(1, {K: K * c + v})
    if even is None:
        assert theory.speedup(1, K, c, v, h) < 1 + 1e-12
    else:
        assert theory.speedup(even, K, c, v, h) == pytest.approx(1, abs=1e-6) or even == 0
    costs = {1: c + v, K: K * c + v}
    assert theory.best(a, costs)[1] >= theory.speedup(a, K, c, v) * (1 - 1e-12)
    least = theory.needed(1.2, costs)
    reached = theory.best(1 if least is None else least, costs)[1]
    assert reached < 1.2 + 1e-12 if least is None else reached == pytest.approx(1.2) or least == 0
