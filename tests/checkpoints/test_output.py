"""Files that commands write: what is refused before the work begins, and whole or not there."""

import os
import platform

import pytest
from command_line import python
from toys import refusal

from checkpoints.output import check_output, create_atomically, replace_atomically, temporary_path


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
        (f"{'n' * 250}.json", "cannot be written (File name too long)"),  # before it is whole
    ],
)
def test_what_cannot_be_written(folder, name, message):
    before = {*folder.iterdir()}
    check_output("out", folder / "b.json", (".json",))
    assert message in refusal(check_output, "out", f"{folder}/{name}", (".json", ".csv"))
    assert {*folder.iterdir()} == before and (folder / "a.json").read_text() == "mine"


def test_a_file_is_written_whole_or_not_at_all(folder):
    before = {*folder.iterdir()}
    for writing in (create_atomically, replace_atomically):
        with pytest.raises(ZeroDivisionError), writing(folder / "a.json") as temporary:
            temporary.write_text("half")
            1 / 0
    assert {*folder.iterdir()} == before and (folder / "a.json").read_text() == "mine"
    with replace_atomically(folder / "a.json") as temporary:
        temporary.write_text("newer")
    assert {*folder.iterdir()} == before and (folder / "a.json").read_text() == "newer"


@pytest.mark.parametrize("writing", [create_atomically, replace_atomically])
def test_a_disk_that_is_full_is_named_by_its_file(tmp_path, full_disk, writing):
    with pytest.raises(OSError, match="File too large: '.*/a.json'"), full_disk(9):
        with writing(tmp_path / "a.json") as temporary:
            temporary.write_text("0123456789")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(os.name != "posix", reason="asks for processes")
@pytest.mark.parametrize("writing", [create_atomically, replace_atomically])
def test_what_a_killed_process_left_is_deleted_by_the_next(tmp_path, writing):
    """What another machine writes stays, and what another process of this one does."""
    path, host = tmp_path / "a.json", platform.node()
    owners = "b.json.7", f"a.json.{'x' * len(host)}.999999999", f"a.json.{host}.{os.getppid()}"
    others = {tmp_path / f"{owner}.part" for owner in owners}
    for other in others:
        other.write_text("mine")
    begin = "import os\nfrom checkpoints.output import create_atomically\n"
    begin += f"with create_atomically({str(path)!r}) as part:\n"
    python("-c", begin + "    part.touch()\n    os._exit(9)")
    assert len([*tmp_path.iterdir()]) == 1 + len(others)
    with writing(path) as temporary:
        temporary.write_text("newer")
        assert temporary_path(path) == temporary and temporary.exists()  # its process runs
    assert {*tmp_path.iterdir()} == {path, *others}


@pytest.mark.parametrize("content", [None, "mine"])
def test_a_folder_that_appears_meanwhile_is_kept_and_so_is_the_result(tmp_path, content):
    path = tmp_path / "model"

    def write():
        with create_atomically(path) as temporary:
            temporary.mkdir()
            (temporary / "a").write_text("hours of work")
            path.mkdir()
            if content:
                (path / "a").write_text(content)

    assert "appeared during this run" in refusal(write)
    (kept,) = {*tmp_path.iterdir()} - {path}
    assert (kept / "a").read_text() == "hours of work" and not kept.name.endswith(".part")
    assert [one.read_text() for one in path.iterdir()] == ([content] if content else [])
