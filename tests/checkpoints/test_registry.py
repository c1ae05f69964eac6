"""Where a user's models are, on every platform."""

import os

import pytest

from checkpoints import registry

HOME = os.path.expanduser("~")
PLACES = {  # (platform, a variable or none): the folder in which speculate/models lies
    ("linux", ""): f"{HOME}/.local/share",
    ("freebsd14", ""): f"{HOME}/.local/share",
    ("linux", "XDG_DATA_HOME"): "/data",
    ("darwin", "XDG_DATA_HOME"): f"{HOME}/Library/Application Support",
    ("win32", ""): f"{HOME}/AppData/Local",
    ("win32", "LOCALAPPDATA"): "/data",
}


@pytest.mark.parametrize("platform, variable", PLACES)
def test_an_installed_program_keeps_models_among_the_users_data(
    tmp_path, monkeypatch, platform, variable
):
    for name in ("XDG_DATA_HOME", "LOCALAPPDATA", "GPT2_MODELS_DIR"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "/data")
    monkeypatch.setattr(registry.sys, "platform", platform)
    monkeypatch.setattr(registry, "INCLUDED", tmp_path / "models")  # beside no pyproject.toml
    expected = os.path.join(PLACES[platform, variable], "speculate", "models")
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
