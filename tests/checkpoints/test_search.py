"""Finding a model by name and by path, and what is said where there is none."""

import pytest
from toys import refusal, write_checkpoint

import utils


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "model")


def test_a_model_is_found_by_name_and_by_path(folder):
    assert utils.find_folder(folder.name, folder.parent) == folder
    assert utils.find_folder(str(folder), folder.parent / "elsewhere") == folder


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
