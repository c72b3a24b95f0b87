"""The change that a call would make to a file, as the lines of a diff. It reads files and writes none.

Which arguments are a path and a text is known by their names, as the usual file servers have them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

_PATH_NAMES = ("path", "file_path", "filepath", "filename", "file")
_CONTENT_NAMES = ("content", "contents", "file_text")
_REPLACING = re.compile(r"write|create|save|overwrite", re.IGNORECASE)
_ADDING = re.compile(r"append|insert|add|prepend|line", re.IGNORECASE)
"""Words in the name of a tool that replaces a file, and of one that only adds to it."""
_OLD_NAMES = ("oldText", "old_text", "old_string", "old_str")
_NEW_NAMES = ("newText", "new_text", "new_string", "new_str")
_EDIT_LIST_NAME = "edits"
_MAX_FILE_BYTES = 200_000
_MAX_LINES = 2000
_CONTEXT_LINES = 3
_NO_LINE_BREAK = "\\ No newline at end of file"


@dataclass(frozen=True)
class FileChange:
    r"""A change of a file.

    Attributes:
        argument: Name of the argument that it is read from.
        path: The file, absolute; None for a change that names both texts itself.
        lines: Lines of a unified diff without its header: " ", "+", "-", "@" or "\" and the text; None if the file
            cannot be compared.
        others: Files that may be meant instead, because the path is relative.
    """

    argument: str
    path: Path | None
    lines: tuple[str, ...] | None
    others: tuple[Path, ...] = ()

    @property
    def added(self) -> int:
        """The number of added lines."""
        return sum(line.startswith("+") for line in self.lines or ())

    @property
    def removed(self) -> int:
        """The number of removed lines."""
        return sum(line.startswith("-") for line in self.lines or ())


def find_change(tool: str, arguments: Mapping[str, Any], folders: Sequence[Path]) -> FileChange | None:
    """Return the change that the arguments of a writing tool describe; None if they describe none.

    Args:
        tool: Name of the tool; a text is compared with the file only if the name says that it replaces a file.
        arguments: The arguments of the call.
        folders: Where a relative path may begin, the likeliest first; empty for a server on another machine.
    """
    path = next((arguments[name] for name in _PATH_NAMES if isinstance(arguments.get(name), str)), None)
    if path is None:
        return None
    name = next((name for name in _CONTENT_NAMES if isinstance(arguments.get(name), str)), None)
    if name is not None:
        if not _REPLACING.search(tool) or _ADDING.search(tool):
            return None
        files = _find_files(path, folders)
        old = _read_text(files[0]) if files else None
        lines = _diff(old, arguments[name]) if old is not None else None
        return FileChange(name, files[0], lines, tuple(files[1:])) if files else None
    edits = arguments.get(_EDIT_LIST_NAME)
    if isinstance(edits, list):
        pairs = [_texts_of(edit) if isinstance(edit, Mapping) and len(edit) == 2 else None for edit in edits]
        diffs = [_diff(*pair) if pair else None for pair in pairs]
        if diffs and None not in diffs:
            return FileChange(_EDIT_LIST_NAME, None, tuple(line for diff in diffs for line in diff or ()))
    return None


def _texts_of(edit: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the old and the new text of an edit."""
    old, new = (
        next((edit[name] for name in names if isinstance(edit.get(name), str)), None)
        for names in (_OLD_NAMES, _NEW_NAMES)
    )
    return (old, new) if old is not None and new is not None else None


def _find_files(path: str, folders: Sequence[Path]) -> list[Path]:
    """Return the regular files that a path may be."""
    try:
        expanded = Path(path).expanduser()
        return [file for file in dict.fromkeys(folder / expanded for folder in folders) if file.is_file()]
    except (OSError, RuntimeError, ValueError):
        return []


def _read_text(path: Path) -> str | None:
    """Return the text of a regular file of moderate size; None if it is none."""
    try:
        return path.read_bytes().decode("utf-8") if path.stat().st_size <= _MAX_FILE_BYTES else None
    except (OSError, ValueError):
        return None


def _diff(old: str, new: str) -> tuple[str, ...] | None:
    """Return the lines of a diff; None if the texts are too long to be compared.

    The line break at the end of a text begins no line; a text that loses it has the usual mark behind its lines.
    """
    before, after = (text.removesuffix("\n").split("\n") if text else [] for text in (old, new))
    if max(len(before), len(after)) > _MAX_LINES:
        return None
    lines = tuple(unified_diff(before, after, n=_CONTEXT_LINES, lineterm=""))[2:]
    return (*lines, _NO_LINE_BREAK) if old.endswith("\n") and new and not new.endswith("\n") else lines
