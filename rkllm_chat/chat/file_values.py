"""The files and folders in the arguments of a call: full paths, and the lines that a change must keep."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..calls.described_calls import find_takers, is_file_name, list_places
from ..calls.schema.resolve import required_of
from ..core.messages import Tool
from ..prompt.tool_ranking import list_quoted
from .argument_values import is_placeholder
from .evidence import Evidence, Source, normalize, walk_leaves
from .tool_traits import is_path_name, names_verb, split_name

__all__ = [
    "ADDS",
    "EMPTIES",
    "REPLACES",
    "drops_lines",
    "edits_nothing",
    "fill_folder",
    "find_files",
    "keep_lines",
    "names_file",
    "read_text",
    "write_full_paths",
]

_REPOSITORY_NAME = re.compile(r"repo", re.IGNORECASE)
"""That of a repository, which a server has one of."""
_THIS_FOLDER = (".", "./")
_MAX_PATH_LENGTH, _MAX_FILE_BYTES = 400, 1_000_000
"""Characters of a path that is looked for."""
ADDS = re.compile(
    r"\b(?:add|append|insert|jot|put|write (?:it|them|this|that) (?:down|in)|(?:pop|stick|throw)\b[^.!?]*\b(?:on|onto)"
    r"|hinzu|ergänze?|(?:trage?|schreibe?|setze?)\b[^.!?]*\b(?:ein|dazu|rein|hinein)"
    r"|(?:mach|pack|schreib|setz|tu)e?\b[^.!?]*\bauf (?:de[nr]|die|meine|unsere))\b"
    r"|追加|足し|加え|入れ(?:て|とい)|書き足|加[到上进入]|添加|加一?[个条行]"
)
"""What a request has that adds to a file and takes nothing from it."""
EMPTIES = re.compile(r"\b(?:blank|clear|empty|erase|leere?n?|truncate|wipe)\b|空に|空っぽ|清空")
"""What one has that takes all from it."""
REPLACES = re.compile(
    r"\b(?:overwrite|replace|rewrite|ersetze?n?|überschreibe?n?)\b|上書き|置き換|書き換|替换|覆盖|改写"
)
"""What one has that puts a new text in the place of all that a file has."""


def fill_folder(
    tool: Tool, arguments: Mapping[str, Any], evidence: Evidence, folders: Sequence[str], working: str
) -> Mapping[str, Any]:
    """Return the arguments with the only folder of the tool's server where a required one says nothing of a path.

    "The last commit of this repository": a model writes "/path/to/repo", an address that it makes up, or ".", which is
    the folder that the program works in, and the server's entry says which it is. A file is no folder.
    """
    if len(folders) != 1:
        return arguments
    takes_file = names_verb(tool, Source("read write edit")) and bool(find_takers("a.txt", [tool]))
    required, files = required_of(tool.schema), list_places(evidence.question.original)
    unsaid = () if Path(working).is_relative_to(folders[0]) else _THIS_FOLDER

    def is_unsaid(name: str, value: object) -> bool:
        # "/home/nora/project" is made of words that are known, and no path that anybody has said
        is_made_up = _REPOSITORY_NAME.search(name) is not None and normalize(str(value)) not in evidence.known.text
        return is_placeholder(value) or value in unsaid or is_made_up

    def fill(value: object) -> object:
        named = next((file for file in files if str(value).endswith(f"/{file}")), "")
        return named or (value if takes_file else folders[0])

    return {
        name: fill(value) if name in required and is_path_name(name) and is_unsaid(name, value) else value
        for name, value in arguments.items()
    }


def write_full_paths(
    arguments: Mapping[str, Any], folders: Sequence[str], working: str, question: str
) -> Mapping[str, Any]:
    """Return the arguments with the full path of files that a user names from the working folder, or without a folder.

    A server reads "files/plan.txt" from its own folder, and there is no folder "files" in it. "plan.txt" is in its
    folder, and not in "/home/user", which a model puts before it.

    Args:
        arguments: The arguments of a call.
        folders: The folders of its server.
        working: The working folder.
        question: What the user asks: a path in it stays.
    """

    def write(name: str, value: object) -> object:
        if not isinstance(value, str) or not value.strip() or len(value) > _MAX_PATH_LENGTH:
            return value
        if "/" not in value and not is_path_name(name):  # "files" may be any word
            return value
        path, is_relative = Path(working, value), not (value.startswith("/") or ".." in Path(value).parts)
        is_inside = is_relative and any(map(path.is_relative_to, folders))
        # what its own folder has is meant; a name that is too long, or no name, exists nowhere, and raises with `Path`
        is_own = is_inside and any(os.path.exists(Path(folder, value)) for folder in folders)  # noqa: PTH110
        own = [Path(folder, path.name) for folder in folders if os.path.exists(Path(folder, path.name))]  # noqa: PTH110
        is_named = path.name in question and value not in question
        if len(own) == 1 and is_named and not (is_relative or os.path.exists(path)):  # noqa: PTH110
            return str(own[0])
        # a new file, too, is in the folder that there is
        is_there = os.path.exists(path) or (os.path.isdir(path.parent) and not has_parent(value))  # noqa: PTH110, PTH112
        return str(path) if is_inside and not is_own and is_there else value

    def has_parent(value: str) -> bool:
        return any(os.path.isdir(Path(folder, value).parent) for folder in folders)  # noqa: PTH112

    return {name: write(name, value) for name, value in arguments.items()}


def names_file(arguments: Mapping[str, Any], files: Sequence[str]) -> bool:
    """Return whether a call names one of these files, with the path of a folder before it or not."""
    values = [*map(str, walk_leaves(arguments))]
    return any(value == file or value.endswith(f"/{file}") for value in values for file in files)


def keep_lines(
    arguments: Mapping[str, Any], evidence: Evidence, folders: Sequence[str], working: str
) -> Mapping[str, Any]:
    """Return the arguments of a change with the lines of the file before those that the user adds.

    Made to add a line to a list, a model writes the line in the place of the list, or of one of its lines. The file was
    read in the turn, and is as it was read: what was cut off of a result would be lost.
    """
    if not ADDS.search(evidence.question.text):
        return arguments
    arguments = {name: _keep_edited(value, evidence.question) for name, value in arguments.items()}
    content, values = arguments.get("content"), [value for name, value in arguments.items() if name != "content"]
    if not isinstance(content, str):
        return arguments
    files = find_files(values, folders, working)
    for result in evidence.results:
        for file in files & find_files(result.arguments, folders, working):
            text = read_text(file)
            had = {line.strip() for line in text.splitlines()} - {""}
            new = [line for line in content.splitlines() if line.strip()]
            quoted = [line for line in list_quoted(evidence.question.original) if not is_file_name(line)]
            is_whole = had <= {line.strip() for line in new} and any(text in line for line in new for text in quoted)
            if len(quoted) == 1 and quoted[0] not in had and not is_whole:
                added = [line for line in new if line.strip() not in had and quoted[0] in line]
                new = added or quoted  # what else was written stands in the place of lines of the file
            if had and text.strip() == result.text.strip() and had.isdisjoint(line.strip() for line in new):
                return {**arguments, "content": "\n".join([text.rstrip("\n"), *new, ""])}
    return arguments


def _keep_edited(value: Any, question: Source) -> Any:
    """Return edits that put a line of the question behind the old one, if the question does not speak of that."""
    if isinstance(value, list):
        return [_keep_edited(item, question) for item in value]
    edits = [*_list_edits([value])] if isinstance(value, Mapping) else []
    if len(edits) != 1:
        return value
    old, new = edits[0]
    added = new.replace(old, "", 1).strip(" ,;\n") if old.strip() else ""  # "butter" of "milk, butter" and "buttermilk"
    is_line = {*old.split("\n")} <= {*new.split("\n")}
    is_added = added and not (is_line or normalize(old) in question.text) and normalize(added) in question.text
    return {name: f"{old}\n{added}" if text == new else text for name, text in value.items()} if is_added else value


def find_files(value: Any, folders: Sequence[str], working: str) -> set[Path]:
    """Return the files that arguments name, in one of these folders or with their full path."""
    paths = (leaf for leaf in walk_leaves(value) if isinstance(leaf, str) and 0 < len(leaf) <= _MAX_PATH_LENGTH)
    found = (Path(folder, path) for path in paths for folder in (*folders, working))
    return {path for path in found if os.path.isfile(path)}  # noqa: PTH113 - a name that is no name is no file


def read_text(file: Path) -> str:
    """Return the text of a file; "" for none, and for one that is too large to be in a result."""
    try:
        return file.read_text("utf-8") if file.stat().st_size <= _MAX_FILE_BYTES else ""
    except (OSError, ValueError):
        return ""


def drops_lines(arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a call writes a file that a request adds to without all that it had, or with nothing else.

    So does an edit that puts a new line in the place of an old one: "milkshake" is no "milk".
    """
    if not ADDS.search(evidence.question.text):
        return False
    if any(not {*old.split("\n")} - {""} <= {*new.split("\n")} for old, new in _list_edits(arguments)):
        return True
    values = [*map(str, walk_leaves(arguments))]
    completed = (result for result in evidence.results if result.status == "completed")
    read = [result for result in completed if any(value in values for value in walk_leaves(result.arguments))]
    if "content" not in arguments or not read:
        return False
    had = {line.strip() for result in read for line in result.text.splitlines()}
    written = {line.strip() for line in str(arguments["content"]).splitlines()}
    return any(line not in str(arguments["content"]) for line in had) or written <= had


def edits_nothing(arguments: Mapping[str, Any], text: str) -> bool:
    """Return whether a call only replaces texts that a file does not have, blanks aside, or by the same ones."""
    edits, had = [*_list_edits(arguments)], " ".join(text.split())
    return bool(edits) and all(old == new or " ".join(old.split()) not in had for old, new in edits)


def _list_edits(value: object) -> Iterator[tuple[str, str]]:
    """Yield the old and the new text of each edit: `{"oldText": "milk", "newText": "tea"}`."""
    if isinstance(value, Mapping):
        texts = {split_name(str(name)).casefold().split()[0]: text for name, text in value.items() if str(name).strip()}
        if isinstance(texts.get("old"), str) and isinstance(texts.get("new"), str):
            yield texts["old"], texts["new"]
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for item in inside:
        yield from _list_edits(item)
