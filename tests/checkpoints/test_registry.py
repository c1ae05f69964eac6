"""Where a user's models are."""

import os

import pytest

from checkpoints import registry


@pytest.mark.parametrize("variable, place", [("", "~/.local/share"), ("/data", "/data")])
def test_an_installed_program_keeps_models_among_the_users_data(
    tmp_path, monkeypatch, variable, place
):
    monkeypatch.delenv("GPT2_MODELS_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", variable)
    monkeypatch.setattr(registry, "INCLUDED", tmp_path / "models")  # beside no pyproject.toml
    expected = os.path.join(os.path.expanduser(place), "speculate", "models")
    assert registry.default_models_dir() == expected


def test_a_checkout_keeps_models_in_itself_if_it_may(tmp_path, monkeypatch):
    monkeypatch.delenv("GPT2_MODELS_DIR", raising=False)
    monkeypatch.setattr(registry, "INCLUDED", tmp_path / "models")
    (tmp_path / "models").mkdir()
    (tmp_path / "pyproject.toml").touch()
    assert registry.default_models_dir() == str(tmp_path / "models")
    monkeypatch.setattr(registry.os, "access", lambda path, mode: False)
    assert registry.default_models_dir().endswith(os.path.join("speculate", "models"))
    monkeypatch.setenv("GPT2_MODELS_DIR", "mine")
    assert registry.default_models_dir() == "mine"
