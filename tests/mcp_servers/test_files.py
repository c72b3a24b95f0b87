"""Files below one folder: what is read, what is truncated, and that nothing outside can be reached."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.mcp_servers.board.files import MAX_ENTRIES, MAX_FILE_BYTES, list_files, read_file
from rkllm_chat.mcp_servers.text_files import FileError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to share, with a secret beside it, and links that stay inside and that lead out."""
    shared = tmp_path / "shared"
    (shared / "notes").mkdir(parents=True)
    (shared / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (shared / "notes/b.txt").write_text("東京\n", encoding="utf-8")
    (shared / "binary").write_bytes(b"a\0b")
    (shared / "empty").touch()
    (shared / ".env").touch()
    (shared / ".git").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key.txt").write_text("secret", encoding="utf-8")
    (shared / "link-in").symlink_to(shared / "a.txt")
    (shared / "folder-in").symlink_to("notes")
    (shared / "link-out").symlink_to(tmp_path / "secret/key.txt")
    (shared / "folder-out").symlink_to("../secret")
    (shared / "loop").symlink_to("loop")
    return shared


@pytest.mark.parametrize("path", ["", "notes/.."])
def test_a_folder_is_listed_in_order_with_its_folders_marked_and_nothing_hidden(path: str, folder: Path) -> None:
    names = ["a.txt", "binary", "empty", "folder-in/", "folder-out/", "link-in", "link-out", "loop", "notes/"]
    assert list_files(folder, path) == (names, False)


@pytest.mark.parametrize(
    ("path", "lines", "text", "is_cut"),
    [
        ("a.txt", None, "one\ntwo\nthree", False),
        ("a.txt", 2, "one\ntwo", True),
        ("a.txt", 3, "one\ntwo\nthree", False),
        ("a.txt", -1, "", True),
        ("notes/b.txt", None, "東京", False),
        ("empty", 1, "", False),
    ],
)
def test_a_file_or_its_first_lines_are_read(
    path: str, lines: int | None, text: str, is_cut: bool, folder: Path
) -> None:
    assert read_file(folder, path, lines) == (text, is_cut)


# Each with a path of the same kind that leads inside.


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("notes/../a.txt", "../secret/key.txt"),
        ("{folder}/a.txt", "{folder}/../secret/key.txt"),
        ("link-in", "link-out"),
        ("folder-in/../a.txt", "folder-out/key.txt"),
        ("folder-in/b.txt", "folder-out/../secret/key.txt"),
    ],
)
def test_a_file_outside_the_folder_cannot_be_read(inside: str, outside: str, folder: Path) -> None:
    text, _ = read_file(folder, inside.format(folder=folder), None)
    assert text in ("one\ntwo\nthree", "東京")
    with pytest.raises(FileError, match="outside the folder"):
        read_file(folder, outside.format(folder=folder), None)


@pytest.mark.parametrize(
    ("inside", "outside"), [("notes", ".."), ("folder-in", "folder-out"), ("notes", "~"), ("notes", "{folder}-beside")]
)
def test_a_folder_outside_the_folder_cannot_be_listed(inside: str, outside: str, folder: Path) -> None:
    folder.with_name("shared-beside").mkdir()
    assert list_files(folder, inside) == (["b.txt"], False)
    with pytest.raises(FileError, match="outside the folder"):
        list_files(folder, outside.format(folder=folder))


@pytest.mark.parametrize(
    ("shared", "shown", "refused", "reason"),
    [
        ("home", "notes.txt", ".bashrc", "hidden"),
        ("home", "notes.txt", ".ssh/id_ed25519", "hidden"),
        ("home", "notes.txt", "to-key", "hidden"),
        ("home", "notes.txt", "projects/.old/one.txt", "hidden"),
        ("home/.config", "editor/theme.txt", "rkllm-chat/config.toml", "secrets"),
        ("home/.config", "editor/theme.txt", "gh/hosts.yml", "secrets"),
        ("home/.local/state", "editor/history.txt", "rkllm-chat/tokens/board", "secrets"),
        ("home/.cache", "page.txt", "../.ssh/id_ed25519", "outside"),
    ],
)
def test_hidden_files_and_secrets_are_not_shared_in_any_folder(
    shared: str, shown: str, refused: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, folder = tmp_path / "home", tmp_path / shared
    monkeypatch.setenv("HOME", str(home))
    for path in (folder / shown, folder / refused, home / ".ssh/id_ed25519"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text", encoding="utf-8")
    if refused == "to-key":
        (folder / refused).unlink()
        (folder / refused).symlink_to(".ssh/id_ed25519")
    assert read_file(folder, shown, None) == ("text", False)
    with pytest.raises(FileError, match=reason):
        read_file(folder, refused, None)
    if "/" in refused:
        with pytest.raises(FileError, match=reason):
            list_files(folder, str(Path(refused).parent))


def test_a_folder_of_secrets_cannot_be_shared(tmp_path: Path) -> None:
    key = tmp_path / ".ssh/keys/id"
    key.parent.mkdir(parents=True)
    key.write_text("key", encoding="utf-8")
    for folder in (tmp_path / ".ssh", key.parent):
        with pytest.raises(FileError, match="secrets"):
            list_files(folder, "")


def test_a_folder_that_is_a_link_can_be_shared(folder: Path) -> None:
    link = folder.with_name("link")
    link.symlink_to(folder)
    assert read_file(link, "link-in", 1) == ("one", True)
    with pytest.raises(FileError, match="outside the folder"):
        read_file(link, "link-out", 1)


@pytest.mark.proc
def test_a_folder_that_becomes_a_link_while_a_file_is_opened_is_not_followed(folder: Path) -> None:
    """The exchange happens between the check of the path and the system call, which Python announces."""
    (folder.with_name("secret") / "b.txt").write_text("secret", encoding="utf-8")
    exchanged: list[str] = []

    def exchange(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not exchanged and str(arguments[0]) == f"{folder}/notes/b.txt":
            exchanged.append(event)
            (folder / "notes").rename(folder / "before")
            (folder / "notes").symlink_to("../secret")

    assert read_file(folder, "notes/b.txt", None) == ("東京", False)
    sys.addaudithook(exchange)
    with pytest.raises(FileError, match="has changed"):
        read_file(folder, "notes/b.txt", None)
    assert exchanged


UNREADABLE = {
    "nothing": "no 'nothing'",
    "notes": "'notes' is not a file",
    "pipe": "'pipe' is not a file",
    "binary": "'binary' is not a text file",
    "a\0b": "not a path",
    "~nobody-of-this-name/x": "~nobody",
    "loop/x": "loop",
}
UNLISTABLE = {"nothing": "no 'nothing'", "a.txt": "'a.txt' is not a folder"}
TOO_LONG = {"x/" * 5_000: "x", "x" * 300: "x"}


def test_what_cannot_be_read_or_listed_is_an_error(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for path, words in (UNREADABLE | TOO_LONG).items():
        with pytest.raises(FileError, match=words):
            read_file(folder, path, None)
    for path, words in (UNLISTABLE | TOO_LONG).items():
        with pytest.raises(FileError, match=words):
            list_files(folder, path)


@pytest.mark.parametrize(("more", "is_cut"), [(0, False), (1, True)])
def test_a_long_file_and_a_long_list_are_truncated(more: int, is_cut: bool, folder: Path) -> None:
    (folder / "long").write_bytes(b"x" * (MAX_FILE_BYTES + more))
    assert read_file(folder, "long", None) == ("x" * MAX_FILE_BYTES, is_cut)
    for i in range(MAX_ENTRIES + more):
        (folder / "notes" / f"a{i:03}").touch()
    (folder / "notes/b.txt").unlink()
    assert list_files(folder, "notes") == ([f"a{i:03}" for i in range(MAX_ENTRIES)], is_cut)


def test_bytes_that_are_not_utf_8_are_replaced_in_texts_and_names(folder: Path) -> None:
    (folder / "latin").write_bytes(b"caf\xe9\n")
    assert read_file(folder, "latin", None) == ("caf\ufffd", False)
    (folder / os.fsdecode(b"notes/caf\xe9")).touch()
    names, _ = list_files(folder, "notes")
    assert names == ["b.txt", "caf\ufffd"]
