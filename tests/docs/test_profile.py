"""python -m docs.profile: where a pass spends its time."""

import pytest
from command_line import python


def test_the_parts_of_a_pass_and_its_verify_cost():
    lines = python("-m", "docs.profile", "0.7M-17M").stdout.splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    parts = "c_attn 128x384,attention,c_proj 128x128,c_fc 128x512,c_proj 512x128,head 128x2048"
    assert [row[0] for row in table[2:]] == [*parts.split(","), "pass", "rest", "v"]
    ms = {name: list(map(float, values)) for name, *values in table[2:]}
    assert all(len(values) == 5 and min(values) > 0 for values in ms.values())
    assert ms["v"][0] == 1 and max(ms["attention"]) < max(ms["pass"])


@pytest.mark.parametrize(
    "script", [["-m", "docs.profile"], ["docs/profile.py"], ["docs/pictures.py"]]
)
def test_a_wrong_name_is_an_error_with_those_that_are_known(script):
    done = python(*script, "nothing")
    assert done.returncode == 2 and "error: " in done.stderr.splitlines()[-1]
    assert "124M" in done.stderr or "verify_cost" in done.stderr
