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

from ..prompt.tool_ranking import CAMEL_CASE

_PATH_NAMES = (
    "path", "file_path", "filepath", "filename", "file_name", "file", "target_file", "output_path", "output_file",
)  # fmt: skip
_DESTINATION_NAMES = (
    "destination", "destination_path", "dest", "target", "target_path", "new_path", "to", "output", "output_path",
    "output_file",
)  # fmt: skip
_CONTENT_NAMES = ("content", "contents", "file_text", "file_content", "new_content", "text")
_REPLACING = re.compile(r"write|create|save|\b(?:export|put|store)\b")
_ADDING = re.compile(r"append|insert|prepend|\b(?:add|lines?)\b")
"""Words in the name of a tool that replaces a file, and of one that only adds to it."""
_OLD_NAMES = ("old_text", "old_string", "old_str")
_NEW_NAMES = ("new_text", "new_string", "new_str")
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
        path: The file, absolute; None for a change that names both texts itself, and if it is unknown.
        lines: Lines of a unified diff without its header: " ", "+", "-", "@" or "\" and the text; None if the file
            cannot be compared.
        possible_paths: Files of which one may be meant, because the path is relative.
    """

    argument: str
    path: Path | None
    lines: tuple[str, ...] | None
    possible_paths: tuple[Path, ...] = ()

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
        folders: Where a relative path may begin, the likeliest first; empty for a server whose files are elsewhere.
    """
    path_name = _find_text(arguments, _PATH_NAMES)
    if path_name is None:
        return None
    path, name = arguments[path_name], _find_text(arguments, _CONTENT_NAMES)
    if name is not None:
        words = _split(tool)
        if not _REPLACING.search(words) or _ADDING.search(words):
            return None
        places = _find_places(path, folders)
        return _compare_with_file(name, arguments[name], places) if folders else FileChange(name, None, None)
    edits = arguments.get(_EDIT_LIST_NAME)
    if isinstance(edits, list):
        pairs = [_texts_of(edit) if isinstance(edit, Mapping) and len(edit) == 2 else None for edit in edits]
        diffs = [_diff(*pair) if pair else None for pair in pairs]
        if diffs and None not in diffs:
            edited = _edit_file([pair for pair in pairs if pair], _find_places(path, folders)) if folders else None
            return edited or FileChange(_EDIT_LIST_NAME, None, tuple(line for diff in diffs for line in diff or ()))
    return None


def find_existing_targets(tool: str, arguments: Mapping[str, Any], folders: Sequence[Path]) -> list[Path]:
    """Return the files that exist where a call would put one whose text it does not name: a copy, an export.

    Args:
        tool: Name of the tool.
        arguments: The arguments of the call.
        folders: As in `find_change`.
    """
    if _find_text(arguments, _CONTENT_NAMES) is not None:
        return []
    words = _split(tool)
    names = (*_DESTINATION_NAMES, *(_PATH_NAMES if _REPLACING.search(words) and not _ADDING.search(words) else ()))
    name = _find_text(arguments, names)
    return [path for path in _find_places(arguments[name], folders) if _is_file(path)] if name is not None else []


def _compare_with_file(argument: str, text: str, places: Sequence[Path]) -> FileChange | None:
    """Return the change of the file in the likeliest place; None if there is no file yet.

    With one in another place, nothing is compared: the server may mean either.
    """
    files = tuple(path for path in places if _is_file(path))
    if not files:
        return None
    if files != (places[0],):
        return FileChange(argument, None, None, files)
    old = _read_text(files[0])
    return FileChange(argument, files[0], _diff(old, text) if old is not None else None)


def _edit_file(pairs: Sequence[tuple[str, str]], places: Sequence[Path]) -> FileChange | None:
    """Return the change that edits make to the file in the likeliest place; None if it has not all of the old texts.

    Without an old text, servers put the new one before the first line: the edit alone would look like a new line.
    """
    files = [path for path in places if _is_file(path)]
    text = _read_text(files[0]) if files and files == [places[0]] else None
    if text is None:
        return None
    edited = text
    for old, new in pairs:
        if old not in edited:
            return None
        edited = edited.replace(old, new, 1)
    lines = _diff(text, edited)
    return FileChange(_EDIT_LIST_NAME, files[0], lines) if lines is not None else None


def _texts_of(edit: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the old and the new text of an edit."""
    old, new = (_find_text(edit, names) for names in (_OLD_NAMES, _NEW_NAMES))
    return (edit[old], edit[new]) if old is not None and new is not None else None


def _find_text(arguments: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return the argument with the first of these names that has a text, in snake_case or camelCase."""
    spelled = {_split(name).replace(" ", "_"): name for name, value in arguments.items() if isinstance(value, str)}
    return next((spelled[name] for name in names if name in spelled), None)


def _split(name: str) -> str:
    """Return the words of a name, in small letters."""
    return " ".join(re.split(r"[\W_]+", CAMEL_CASE.sub(" ", name))).lower()


def _find_places(path: str, folders: Sequence[Path]) -> list[Path]:
    """Return what a path may stand for, each once."""
    places = dict[Path, Path]()
    try:
        expanded = Path(path).expanduser()
        for folder in folders:
            places.setdefault((folder / expanded).resolve(), folder / expanded)
    except (OSError, RuntimeError, ValueError):
        return []
    return [*places.values()]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


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
