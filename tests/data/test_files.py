"""Files that commands write: what is refused before the work begins."""

import os
from pathlib import Path

import pytest

from experiments.data.files import all_whole, check_output, replacing, whole, whole_folder
from utils import InputError


def test_a_new_file_beside_others(tmp_path):
    (tmp_path / "a.json").write_text("mine")
    check_output("out", tmp_path / "b.json", (".json",))
    assert [*tmp_path.iterdir()] == [tmp_path / "a.json"]


@pytest.mark.parametrize(
    "name, message",
    [
        ("a.txt", "ends in .json or .csv"),
        ("", "ends in .json"),
        (".json/", "ends in .json"),
        ("b.json/", "ends in .json"),
        ("b.json/.", "ends in .json"),
        ("x" * 300 + ".json", "cannot be written"),
        ("x" * 250 + ".json", "cannot be written"),
        ("missing/b.json", "cannot be written"),
        ("a.json/b.json", "cannot be written"),
        ("folder.json", "folder.json"),
    ],
)
def test_what_cannot_be_written(tmp_path, name, message):
    (tmp_path / "a.json").write_text("mine")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InputError) as error:
        check_output("out", f"{tmp_path}/{name}", (".json", ".csv"))
    assert message in str(error.value) and "\n" not in str(error.value)
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "folder.json"}


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="needs /proc")
def test_a_folder_that_takes_no_files():
    with pytest.raises(InputError, match="/proc/x.jsonl.*cannot be written"):
        check_output("out", "/proc/x.jsonl", (".jsonl",))


def test_what_is_there_is_not_overwritten(tmp_path):
    (tmp_path / "a.json").write_text("mine")
    (tmp_path / "link.json").symlink_to("nowhere")
    for name in ("a.json", "link.json"):
        with pytest.raises(InputError, match="is there already"):
            check_output("out", tmp_path / name, (".json",))
    assert (tmp_path / "a.json").read_text() == "mine"


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = Path(tmp_path / "a.json")
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), whole(path) as temporary:
        temporary.write_text("half")
        1 / 0
    assert path.read_text() == "before" and [*tmp_path.iterdir()] == [path]


def test_a_file_that_appears_meanwhile_is_kept_and_so_is_the_result(tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(InputError, match="appeared during this run; its result is in") as error:
        with whole(path) as temporary:
            temporary.write_text("hours of work")
            path.write_text("mine")
    assert path.read_text() == "mine" and temporary.read_text() == "hours of work"
    assert str(error.value).endswith(str(temporary))
    with replacing(path) as temporary:
        temporary.write_text("newer")
    assert path.read_text() == "newer"


def test_of_several_files_all_are_kept_if_one_appears(tmp_path):
    paths = [tmp_path / "a.json", tmp_path / "a.csv"]
    with pytest.raises(InputError, match="a.csv: appeared") as error:
        with all_whole(*paths) as parts:
            for part in parts:
                part.write_text("hours of work")
            paths[1].write_text("mine")
    assert paths[1].read_text() == "mine" and not paths[0].exists()
    assert all(part.read_text() == "hours of work" for part in parts)
    assert all(str(part) in str(error.value) for part in parts)


@pytest.mark.parametrize("content", [None, "mine"])
def test_a_folder_that_appears_meanwhile_is_kept_and_so_is_the_result(tmp_path, content):
    path = tmp_path / "model"
    with pytest.raises(InputError, match="appeared during this run"):
        with whole_folder(path) as temporary:
            (temporary / "a").write_text("hours of work")
            path.mkdir()
            if content:
                (path / "a").write_text(content)
    assert (temporary / "a").read_text() == "hours of work"
    assert [one.read_text() for one in path.iterdir()] == ([content] if content else [])


@pytest.mark.parametrize("name", [".", "/"])
def test_a_place_without_a_name_is_refused(name):
    with pytest.raises(InputError, match="expected the name of a new file or folder"):
        check_output("out", name, ("",))
