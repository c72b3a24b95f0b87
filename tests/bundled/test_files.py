"""Files below one folder: what is read, what is left out, and that nothing outside can be reached."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rkllm_chat.bundled.board.files import MOST_BYTES, MOST_ENTRIES, FileError, list_files, read_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to share, with a secret beside it, and links that stay inside and that lead out."""
    shared = tmp_path / "shared"
    (shared / "notes").mkdir(parents=True)
    (shared / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (shared / "notes/b.txt").write_text("東京\n", encoding="utf-8")
    (shared / "binary").write_bytes(b"a\0b")
    (shared / "empty").touch()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key.txt").write_text("secret", encoding="utf-8")
    (shared / "link-in").symlink_to(shared / "a.txt")
    (shared / "folder-in").symlink_to("notes")
    (shared / "link-out").symlink_to(tmp_path / "secret/key.txt")
    (shared / "folder-out").symlink_to("../secret")
    (shared / "loop").symlink_to("loop")
    return shared


@pytest.mark.parametrize("path", [".", "", "notes/..", "./"])
def test_a_folder_is_listed_in_order_with_its_folders_marked(path: str, folder: Path) -> None:
    names = ["a.txt", "binary", "empty", "folder-in/", "folder-out/", "link-in", "link-out", "loop", "notes/"]
    assert list_files(folder, path) == (names, False)


@pytest.mark.parametrize(
    ("path", "lines", "text", "cut"),
    [
        ("a.txt", None, "one\ntwo\nthree", False),
        ("a.txt", 2, "one\ntwo", True),
        ("a.txt", 0, "", True),
        ("a.txt", -1, "", True),
        ("a.txt", 99, "one\ntwo\nthree", False),
        ("notes/b.txt", None, "東京", False),
        ("empty", None, "", False),
        ("empty", 1, "", False),
    ],
)
def test_a_file_or_its_first_lines_are_read(path: str, lines: int | None, text: str, cut: bool, folder: Path) -> None:
    assert read_file(folder, path, lines) == (text, cut)


def test_all_lines_of_a_file_are_not_called_a_part_of_it(folder: Path) -> None:
    assert read_file(folder, "a.txt", 3) == ("one\ntwo\nthree", False)


# --- nothing outside, each with the same way leading inside ---


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("notes/../a.txt", "../secret/key.txt"),
        ("notes/../notes/../a.txt", "notes/../../secret/key.txt"),
        ("{folder}/a.txt", "{folder}/../secret/key.txt"),
        ("{folder}/a.txt", "/etc/passwd"),
        ("link-in", "link-out"),
        ("folder-in/../a.txt", "folder-out/key.txt"),
        ("folder-in/b.txt", "folder-out/../secret/key.txt"),
    ],
)
def test_a_file_outside_the_folder_cannot_be_read(inside: str, outside: str, folder: Path) -> None:
    text, _ = read_file(folder, inside.format(folder=folder), None)
    assert text in ("one\ntwo\nthree", "東京")
    with pytest.raises(FileError, match="is outside the folder"):
        read_file(folder, outside.format(folder=folder), None)


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("notes", ".."),
        ("{folder}/notes", "{folder}/../secret"),
        ("notes/../notes", "notes/../.."),
        ("folder-in", "folder-out"),
        ("notes", "/"),
        ("notes", "~"),
        ("notes", "{folder}-beside"),
    ],
)
def test_a_folder_outside_the_folder_cannot_be_listed(inside: str, outside: str, folder: Path) -> None:
    folder.with_name("shared-beside").mkdir()
    assert list_files(folder, inside.format(folder=folder)) == (["b.txt"], False)
    with pytest.raises(FileError, match="is outside the folder"):
        list_files(folder, outside.format(folder=folder))


def test_a_folder_that_is_itself_a_link_can_be_shared(folder: Path) -> None:
    link = folder.with_name("link")
    link.symlink_to(folder)
    assert read_file(link, "link-in", 1) == ("one", True)
    with pytest.raises(FileError, match="is outside the folder"):
        read_file(link, "link-out", 1)


# --- what cannot be read ---


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("nothing", "There is no 'nothing'."),
        ("a.txt/b", "There is no 'a.txt/b'."),
        ("notes", "'notes' is not a file."),
        ("", "'' is not a file."),
        ("binary", "'binary' is not a text file."),
    ],
)
def test_what_is_no_text_file_is_named(path: str, fault: str, folder: Path) -> None:
    with pytest.raises(FileError) as caught:
        read_file(folder, path, None)
    assert str(caught.value) == fault


@pytest.mark.parametrize(
    ("path", "fault"), [("nothing", "There is no 'nothing'."), ("a.txt", "'a.txt' is not a folder.")]
)
def test_what_is_no_folder_is_named(path: str, fault: str, folder: Path) -> None:
    with pytest.raises(FileError) as caught:
        list_files(folder, path)
    assert str(caught.value) == fault


@pytest.mark.parametrize("path", ["a\0b", "~nobody-of-this-name/x", "loop", "loop/x"])
def test_a_path_that_means_nothing_is_a_fault_in_words(path: str, folder: Path) -> None:
    with pytest.raises(FileError):
        read_file(folder, path, None)


@pytest.mark.parametrize("path", ["x" * 5_000, "x/" * 5_000, "x" * 300], ids=["name", "path", "over 255"])
def test_a_path_too_long_is_a_fault_in_words(path: str, folder: Path) -> None:
    with pytest.raises(FileError):
        read_file(folder, path, None)
    with pytest.raises(FileError):
        list_files(folder, path)


def test_a_named_pipe_is_no_file_and_nobody_waits_for_it(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(FileError, match="'pipe' is not a file"):
        read_file(folder, "pipe", None)


# --- how much is read ---


@pytest.mark.parametrize(("more", "cut"), [(0, False), (1, True)])
def test_a_long_file_is_cut_and_says_so(more: int, cut: bool, folder: Path) -> None:
    (folder / "long").write_bytes(b"x" * (MOST_BYTES + more))
    assert read_file(folder, "long", None) == ("x" * MOST_BYTES, cut)


@pytest.mark.parametrize(("more", "cut"), [(0, False), (1, True)])
def test_a_long_listing_is_cut_and_says_so(more: int, cut: bool, folder: Path) -> None:
    for i in range(MOST_ENTRIES + more):
        (folder / "notes" / f"a{i:03}").touch()
    (folder / "notes/b.txt").unlink()
    assert list_files(folder, "notes") == ([f"a{i:03}" for i in range(MOST_ENTRIES)], cut)


def test_bytes_that_are_no_text_are_replaced(folder: Path) -> None:
    (folder / "latin").write_bytes(b"caf\xe9\n")
    assert read_file(folder, "latin", None) == ("caf\ufffd", False)


def test_a_file_name_that_is_no_text_can_be_sent(folder: Path) -> None:
    (folder / os.fsdecode(b"notes/caf\xe9")).touch()
    names, _ = list_files(folder, "notes")
    assert len(names) == 2
    assert "\n".join(names).encode("utf-8")
