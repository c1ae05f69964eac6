"""Values of flags that no model could take."""

import pytest
from toys import refusal

from experiments.data.values import longest_prompt, parse_Ks


@pytest.mark.parametrize("n_ctx, n_tokens", [(1, 1), (0, 5)])
def test_a_context_without_room_for_a_text_names_no_negative_limit(n_ctx, n_tokens):
    assert "longer context" in refusal(longest_prompt, n_ctx, n_tokens)


def test_a_limit_of_K_is_a_texts_length_only_where_that_is_so():
    assert refusal(parse_Ks, "9", 8) == "--K '9': expected at most 8"
    assert refusal(parse_Ks, "9", 8, "the tokens of a text").endswith(", the tokens of a text")
