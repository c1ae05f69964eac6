"""Values of flags that no model could take."""

import pytest
from toys import refusal

from cli.values import check_length


@pytest.mark.parametrize("room", [0, -1])
def test_a_context_without_room_for_a_text_names_no_negative_limit(room):
    assert "longer context" in refusal(check_length, "n_tokens_to_generate", 5, room)
