"""New files: whole or not at all, and never over another."""

import os

import pytest
from toys import refusal

from cli.output import line_writer, new_file, require_new


def test_a_file_appears_whole(tmp_path):
    path = tmp_path / "a.html"
    with new_file(path) as temporary:
        temporary.write_text("all of it")
        assert temporary.parent == tmp_path and not path.exists()
    assert path.read_text() == "all of it" and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("written", [True, False])
def test_what_is_half_written_is_cleared_away(tmp_path, error, written):
    with pytest.raises(error), new_file(tmp_path / "a") as temporary:
        if written:
            temporary.write_text("half")
        raise error
    assert [*tmp_path.iterdir()] == []


def test_a_file_that_appears_meanwhile_is_kept_and_the_result_is_too(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(ValueError, match="has appeared meanwhile") as refused:
        with new_file(path) as temporary:
            temporary.write_text("ours")
            path.write_text("mine")
    assert path.read_text() == "mine" and temporary.read_text() == "ours"
    assert str(temporary) in str(refused.value)


def test_a_full_disk_is_an_error_of_the_file_and_lines_are_whole(tmp_path, full_disk):
    path = tmp_path / "a"
    with full_disk(10):
        with pytest.raises(OSError) as of_a_whole_file, new_file(path) as temporary:
            temporary.write_text("more than 10 bytes")
        write = line_writer(path)
        write("7 bytes")
        with pytest.raises(OSError) as of_a_line:
            write("7 bytes")
    assert of_a_whole_file.value.filename == of_a_line.value.filename == str(path)
    assert path.read_text() == "7 bytes\n"
    write("7 bytes")
    assert path.read_text() == "7 bytes\n7 bytes\n"


def test_a_first_line_that_finds_no_room_leaves_no_file(tmp_path, full_disk):
    with full_disk(3), pytest.raises(OSError):
        line_writer(tmp_path / "a")("7 bytes")
    assert [*tmp_path.iterdir()] == []


def test_of_two_programs_that_write_lines_one_stops(tmp_path):
    path = tmp_path / "a"
    write, write_too = line_writer(path), line_writer(path)
    write("one")
    with pytest.raises(ValueError, match="a: another program writes to it, too"):
        write_too("two")
    write("three")
    assert path.read_text() == "one\nthree\n"


def test_names_that_are_refused(tmp_path):
    path = tmp_path / "a.html"
    assert require_new(path, ".html", ".htm") == path
    assert "a.txt: expected a name that ends in .html" in refusal(
        require_new, tmp_path / "a.txt", ".html"
    )
    assert "a: cannot be written" in refusal(require_new, tmp_path / "none" / "a")
    with pytest.raises(OSError, match="a{300}"):
        require_new(tmp_path / ("a" * 300))
    for prepare in (require_new, line_writer):
        assert "cannot be written: a folder" in refusal(prepare, tmp_path)
    path.symlink_to("nowhere")  # a link that leads nowhere is there, too
    assert "a.html: is there already" in refusal(require_new, path)
    (tmp_path / "b").symlink_to("none/b")
    assert "b: cannot be written" in refusal(line_writer, tmp_path / "b")


def test_the_longest_name_can_be_written(tmp_path):
    with new_file(tmp_path / ("a" * 255)) as temporary:
        temporary.write_text("text")
    assert [len(path.name) for path in tmp_path.iterdir()] == [255]


def test_a_folder_that_is_read_only_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    for prepare in (require_new, line_writer):
        assert "a: cannot be written" in refusal(prepare, tmp_path / "a")


def test_without_hard_links_too_nothing_is_overwritten(tmp_path, monkeypatch):
    def link(source, target):
        if target.name == "mine":
            target.write_text("mine")
        raise PermissionError(1, "Operation not permitted")  # such as on FAT

    monkeypatch.setattr(os, "link", link)
    with new_file(tmp_path / "a") as temporary:
        temporary.write_text("ours")
    with pytest.raises(ValueError, match="is there already"), new_file(tmp_path / "mine") as path:
        path.write_text("ours")
    assert (tmp_path / "a").read_text() == "ours"
    assert (tmp_path / "mine").read_text() == "mine"
