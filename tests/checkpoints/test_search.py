"""Finding a model by name and by path, and what is said where there is none."""

import itertools
from pathlib import Path

import pytest
from toys import refusal, write_checkpoint

import utils
from checkpoints.search import locate


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "model")


def test_a_model_is_found_by_name_and_by_path(folder):
    assert utils.find_folder(folder.name, folder.parent) == folder
    assert utils.find_folder(str(folder), folder.parent / "elsewhere") == folder


NAMES, PATHS = ["a", "b"], ["./a", "a/", "./b", "../a", ".", "..", "./.", "b/..", "o/n", "./o/n"]


@pytest.mark.parametrize("inside, outside", [*itertools.product([(), ("a", "o/n")], repeat=2)])
def test_what_can_only_be_a_path_names_nothing_in_the_models_directory(
    tmp_path, monkeypatch, inside, outside
):
    """But for a download of owner/name, where there is no such path."""
    models, here = tmp_path / "models", tmp_path / "here"
    for folder in (models, here, *(models / x for x in inside), *(here / x for x in outside)):
        folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(here)
    for word in NAMES + PATHS:
        places = [Path(word)] if word in PATHS else [models / word, Path(word)]
        places += [models / word] if word == "o/n" else []
        expected = next((place for place in places if place.is_dir()), None)
        assert locate(word, models) == expected, word


@pytest.mark.parametrize("size", ["125M", "", "no/such/folder", "two\nlines", "\0"])
def test_an_unknown_size_lists_what_is_there(folder, size):
    (folder.parent / "empty").mkdir()
    message = refusal(utils.find_folder, size, folder.parent)
    assert repr(size) in message and str(folder.parent) in message
    assert "there are model)" in message  # and not the empty folder


def test_every_format_is_listed(tmp_path):
    for size, name in (("a", "model.ckpt.index"), ("b", "model.safetensors.index.json")):
        (tmp_path / size).mkdir()
        (tmp_path / size / name).touch()
    assert "there are a, b)" in refusal(utils.find_folder, "c", tmp_path)


def test_an_unknown_size_where_there_are_no_models(tmp_path):
    assert "none" in refusal(utils.find_folder, "124M", tmp_path)
