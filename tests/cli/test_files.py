"""Files that commands write: what is refused before the work begins, and whole or not there."""

import pytest
from toys import refusal

from cli.files import check_output, replacing, whole


@pytest.fixture
def folder(tmp_path):
    """With a file and a link to nothing."""
    (tmp_path / "a.json").write_text("mine")
    (tmp_path / "link.json").symlink_to("nowhere")
    return tmp_path


@pytest.mark.parametrize(
    "name, message",
    [
        ("a.txt", "ends in .json or .csv"),
        ("", "ends in .json"),
        ("missing/b.json", "cannot be written"),
        ("a.json/b.json", "cannot be written"),
        ("a.json", "is there already"),
        ("link.json", "is there already"),
    ],
)
def test_what_cannot_be_written(folder, name, message):
    before = {*folder.iterdir()}
    check_output("out", folder / "b.json", (".json",))
    assert message in refusal(check_output, "out", f"{folder}/{name}", (".json", ".csv"))
    assert {*folder.iterdir()} == before and (folder / "a.json").read_text() == "mine"


def test_a_file_is_written_whole_or_not_at_all(folder):
    before = {*folder.iterdir()}
    for writing in (whole, replacing):
        with pytest.raises(ZeroDivisionError), writing(folder / "a.json") as temporary:
            temporary.write_text("half")
            1 / 0
    assert {*folder.iterdir()} == before and (folder / "a.json").read_text() == "mine"
    with replacing(folder / "a.json") as temporary:
        temporary.write_text("newer")
    assert {*folder.iterdir()} == before and (folder / "a.json").read_text() == "newer"


@pytest.mark.parametrize("writing", [whole, replacing])
def test_a_disk_that_is_full_is_named_by_its_file(tmp_path, full_disk, writing):
    with pytest.raises(OSError, match="File too large: '.*/a.json'"), full_disk(9):
        with writing(tmp_path / "a.json") as temporary:
            temporary.write_text("0123456789")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("content", [None, "mine"])
def test_a_folder_that_appears_meanwhile_is_kept_and_so_is_the_result(tmp_path, content):
    path = tmp_path / "model"

    def write():
        with whole(path) as temporary:
            temporary.mkdir()
            (temporary / "a").write_text("hours of work")
            path.mkdir()
            if content:
                (path / "a").write_text(content)

    assert "appeared during this run" in refusal(write)
    (temporary,) = tmp_path.glob("*.part")
    assert (temporary / "a").read_text() == "hours of work"
    assert [one.read_text() for one in path.iterdir()] == ([content] if content else [])
