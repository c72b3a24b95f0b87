"""What a person is shown before a call that needs him."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rkllm_chat import language
from rkllm_chat.messages import Tool
from rkllm_chat.questions import describe_call

WORDS = language.load("en")
FOLDER = Path("/home/mara/notes")


def describe(tool: Tool, **arguments: Any) -> list[str]:
    return describe_call(tool, arguments, WORDS, FOLDER)


def test_a_call_is_shown_in_full() -> None:
    text = "one\ntwo"
    assert describe(Tool("save", server="disk"), path="a.txt", text=text, tags=["x", "日本"]) == [
        "disk wants to run save",
        '  path = "a.txt"',
        "  text = ",
        "    one",
        "    two",
        '  tags = ["x", "日本"]',
        "  ! its server does not say that it only reads",
    ]


@pytest.mark.parametrize("name", ["delete_file", "removeUser", "drop-table", "Overwrite"])
def test_a_tool_whose_name_says_that_it_deletes_is_notable(name: str) -> None:
    assert "  ! its name says that it deletes or overwrites" in describe(Tool(name, server="disk"))
    assert describe(Tool("list_files", server="disk", read_only=True)) == ["disk wants to run list_files"]


def test_a_claim_to_read_only_hides_no_name_that_deletes() -> None:
    lines = describe(Tool("delete_file", server="disk", read_only=True))
    assert lines == ["disk wants to run delete_file", "  ! its name says that it deletes or overwrites"]


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "~/.ssh/id_rsa", "~", "..", "../other", "sub/../../x", "/home/mara/notes-of-others/x"]
)
def test_a_path_that_leaves_the_folder_is_notable(path: str) -> None:
    told = describe(Tool("read", server="disk", read_only=True), files=[{"path": path}])
    assert told[-1] == f"  ! {path} lies outside of this folder"


@pytest.mark.parametrize(
    "text",
    [
        *("a.txt", "sub/a.txt", "sub/../a.txt", "/home/mara/notes/a.txt", "/home/mara/notes"),
        *("1/2", "https://example.org/../x", "and/or", "", "a\n/etc/passwd", "~3 hours", "..."),
    ],
)
def test_what_stays_in_the_folder_or_is_no_path_is_not(text: str) -> None:
    assert not any("outside" in line for line in describe(Tool("read", server="disk", read_only=True), text=text))


def test_what_hides_is_seen_in_every_part_of_a_call() -> None:
    """Names as well: `act` and `act` with a selector behind it look the same."""
    tool = Tool("act\ufe0f", server="disk\u200b", read_only=True)
    told = describe(tool, **{"path\u2060": "/tmp/❤️", "text": "a\U000e0041\nb\u202e"})
    assert told == [
        r"disk\u200b wants to run act\ufe0f",
        r'  path\u2060 = "/tmp/❤\ufe0f"',
        "  text = ",
        r"    a\U000e0041",
        r"    b\u202e",
        r"  ! /tmp/❤\ufe0f lies outside of this folder",
    ]
