"""Lists of K, as benchmark and replay take them."""

import pytest
from toys import refusal

from experiments.benchmark.flag_values import parse_Ks


@pytest.mark.parametrize(
    "text, found",
    [("1..4", [1, 2, 3, 4]), ("4,1", [4, 1]), ("1..2, 5", [1, 2, 5]), ("10..10", [10])]
    + [(text, None) for text in "0 -1 1,,2 3..1 1.. ..3 1.5 a 1,1 1..3,2 11 0..3".split() + [""]],
)
def test_lists_of_K(text, found):
    """Those that make no sense are refused."""
    if found is None:
        assert "--K" in refusal(parse_Ks, text, 10)
    else:
        assert parse_Ks(text, 10) == found
