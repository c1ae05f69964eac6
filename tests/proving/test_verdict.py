"""Where texts are wrong, in words."""

import pytest

from proving.verdict import describe_first_error, format_distance


@pytest.mark.parametrize(
    "texts, place",
    [
        (
            {(0,): 0.5, (0, 1): 0.5},
            "after (0,): yours [0, 0.5] and P(end) 0.5, right [0, 0.75] and P(end) 0.25",
        ),
        (
            {(0,): 0.0625, (0, 1): 0.1875, (1, 1): 0.75},
            "the first token: yours [0.25, 0.75], right [1, 0]",
        ),
        (
            {(0,): 0.25 + 1e-8, (0, 1): 0.75 - 1e-8},
            "after (0,): yours [0, 0.75] and P(end) 0.25, right [0, 0.75] and P(end) 0.25, which "
            "differ by 1e-08",
        ),
        ({(0,): 1.0}, "after (0,): yours [0, 0] and P(end) 1, right [0, 0.75] and P(end) 0.25"),
        ({(2,): 1.0}, "the first token: yours [0, 0, 1], right [1, 0, 0]"),
        ({(0,): 0.25, (0, 1): 0.75}, None),
    ],
)
def test_a_text_may_end_or_go_on(texts, place):
    """Each row has a number for each token that occurs, and the end is beside them."""
    assert describe_first_error(texts, {(0,): 0.25, (0, 1): 0.75}) == place


def test_a_distance_is_never_rounded_to_none():
    distances = 0.0, 1e-13, 1.2e-6, 0.07764
    assert [*map(format_distance, distances)] == ["0.0000", "0.0000", "1e-06", "0.0776"]
