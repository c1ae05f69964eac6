"""What a request may hold: everything else is refused in one line that names it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live import ASKED

from experiments.page.request import MOST_CHARACTERS, Change, Request, parse
from utils import InputError


def parsed(**values):
    return parse(json.dumps(ASKED | values).encode())


def test_a_request_is_read():
    settings = {name: value for name, value in ASKED.items() if name != "prompt"}
    assert parsed() == Request("hello there", settings, {}, ())
    changes = [{"round": n, "K": 1, "temperature": 0.5} for n in (5, 2)]
    found = parsed(coins=[[7, 0.5], [9, 0]], changes=changes)
    assert found.coins == {7: 0.5, 9: 0.0}
    assert found.changes == (Change(2, 1, 0.5), Change(5, 1, 0.5))


CHANGE = {"round": 1, "K": 1, "temperature": 1}
BAD = {
    "prompt": [None, 3, ["x"], "x" * (MOST_CHARACTERS + 1)],
    "n_tokens_to_generate": [0, 201, 1.5, True, "3", None, 10**30],
    "K": [0, 13, 2.0, "auto"],
    "temperature": [-0.1, 10.1, "1", None, True, [1], float("inf"), float("nan")],
    "top_k": [-1, 1.0, 10**9],
    "top_p": [0, 1.1],
    "seed": [-1, 2**60, 1.5],
    "coins": [{}, [[1]], [[1, 1.0]], [[1, -0.1]], [[-1, 0.5]], [["a", 0.5]], [[1, 0.5]] * 51],
    "changes": [[{}], [{"round": 1, "K": 1}], [CHANGE | {"K": 99}], [CHANGE | {"round": -1}], [3]],
    "models_dir": ["/etc"],
}


@pytest.mark.parametrize("name, value", [(n, value) for n in BAD for value in BAD[n]])
def test_a_bad_value_is_named_in_one_line(name, value):
    with pytest.raises(InputError) as caught:
        parsed(**{name: value})
    message = str(caught.value)
    assert "\n" not in message and len(message) < 300
    names = {"coins": ["coin"], "changes": ["changes", "round", "K"]}.get(name, [name, "JSON"])
    assert any(part in message for part in names)


@pytest.mark.parametrize("name", ASKED)
def test_a_missing_value_is_named(name):
    rest = {other: value for other, value in ASKED.items() if other != name}
    with pytest.raises(InputError, match=f"{name} is missing"):
        parse(json.dumps(rest).encode())


@pytest.mark.parametrize("body", [b"[]", b"null", b"\xff\xfe", b"[" * 16_000, b'{"a": 1e999}'])
def test_what_is_no_object_of_numbers_is_refused(body):
    with pytest.raises(InputError, match="the request"):
        parse(body)


@given(st.binary(max_size=60))
def test_no_bytes_do_anything_else(body):
    with pytest.raises(InputError):
        parse(body)
