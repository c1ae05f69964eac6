"""What the figures depend on besides the settings."""

import os

import pytest

from backends.machine import describe_machine


@pytest.mark.parametrize("known, expected", [(lambda: (1.0, 2.0, 3.0), 1.0), (None, None)])
def test_the_load_is_the_last_minutes_where_the_system_tells(monkeypatch, known, expected):
    monkeypatch.delattr(os, "getloadavg", raising=False)
    if known:
        monkeypatch.setattr(os, "getloadavg", known, raising=False)
    assert describe_machine()["load_average_before"] == expected
