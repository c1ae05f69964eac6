"""Finding a model by name and by path, and what is said where there is none."""

import itertools
from pathlib import Path

import pytest
from toys import refusal, write_checkpoint

import utils
from checkpoints.search import locate

NAMES, PATHS = ["a", "b"], ["./a", "a/", "./b", "../a", ".", "..", "./.", "b/..", "o/n", "./o/n"]


def test_a_model_is_found_by_name_and_by_path(tmp_path):
    folder = write_checkpoint(tmp_path / "model")
    assert utils.find_folder("model", tmp_path) == folder
    assert utils.find_folder(str(folder), tmp_path / "elsewhere") == folder


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
def test_an_unknown_size_lists_what_is_there(tmp_path, size):
    assert "there are none)" in refusal(utils.find_folder, size, tmp_path)
    names = ["model.ckpt.index", "model.safetensors", "model.safetensors.index.json", "other"]
    for folder, name in zip("abcd", names):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()
    message = refusal(utils.find_folder, size, tmp_path)
    assert repr(size) in message and f"{tmp_path} (there are a, b, c)" in message
