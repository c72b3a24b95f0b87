"""The file that a question has in words: "What is on my shopping list?" means shopping.txt, unknown to a model."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence, Set
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice

from ..calls.described_calls import is_file_name, list_places
from ..prompt.tool_ranking import extract_terms

__all__ = ["find_meant_file", "is_put_into"]

_INTO = r"\b(?:to|on|onto|in|into)\s+(?:(?:a|an|our|the|my|\w+['’]s)\s+)?"
"""The words before the name of a list, as in "Add butter to my shopping list"."""
_MAX_FILES = 500
"""Entries of a folder that are compared with the words of a question."""
_LONG_WORD = re.compile(r"[^\W\d_]{6,}")
_MIN_LIKENESS = 0.9
"""How much a long word must be like one of a file's name to be a misspelling of it (`difflib`, 0 to 1)."""
_MIN_NAME_LENGTH, _MIN_CJK_NAME_LENGTH = 4, 2
"""Characters of the name of a file from which on a question may say it in words."""


def find_meant_file(question: str, folders: Sequence[str]) -> str:
    """Return the full path of the only file whose name a question has in words.

    It is directly in a folder, or in one in it whose name the question has, too: "the flight in the trip folder".

    Args:
        question: What the user asks.
        folders: The folders that servers work in.

    Returns:
        The path; "" for none, for several, and where the question names a file or an address itself.
    """
    if not (question and folders) or list_places(question):
        return ""
    found = [path for folder in folders for path in _list_named(question, folder, _find_age(folder), is_folder=False)]
    inner = [path for folder in folders for path in _list_named(question, folder, _find_age(folder), is_folder=True)]
    found += [path for folder in inner for path in _list_named(question, folder, _find_age(folder), is_folder=False)]
    return found[0] if len(found) == 1 else ""


@lru_cache(maxsize=64)  # the rules on a turn ask it some hundred times
def _list_named(question: str, folder: str, _age: int, *, is_folder: bool) -> tuple[str, ...]:
    """Return the full paths of the files, or folders, directly in a folder whose names a question has in words."""
    plain, asked = question.casefold(), {*extract_terms(question)}
    # the first letters alone rule out nearly all files of a large folder
    near = [entry for entry in _list_entries(folder, is_folder) if entry[0][:3].casefold() in plain]
    return tuple(path for name, path in near if _is_said(name, plain, asked))


def _is_said(name: str, question: str, asked: Set[str]) -> bool:
    """Return whether a question has all terms of a name, whose words may be misspelled in it."""
    terms = _extract_terms(name)
    left = terms - asked
    if left and any(map(_LONG_WORD.fullmatch, name.split())):
        left = terms - {*extract_terms(_respell(question, name))}
    return bool(terms) and not left


def _find_age(folder: str) -> int:
    """Return what changes with the entries of a folder."""
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116
    except OSError:
        return 0


def is_put_into(question: str, file: str) -> bool:
    """Return whether a question puts something into a file that it has in words.

    >>> is_put_into("Add butter to my shoping list", "shopping.txt"), is_put_into("Go shopping", "shopping.txt")
    (True, False)
    """
    name = _list_words(file)
    return re.search(rf"{_INTO}{re.escape(name)}\b", _respell(question, name), re.IGNORECASE) is not None


def _respell(question: str, name: str) -> str:
    """Return a question with the words of a file's name as the name spells them: "my shoping list"."""
    words = [word.casefold() for word in name.split()]

    def correct(match: re.Match[str]) -> str:
        return next(iter(get_close_matches(match[0].casefold(), words, 1, _MIN_LIKENESS)), match[0])

    return _LONG_WORD.sub(correct, question)


@lru_cache(maxsize=1024)
def _extract_terms(name: str) -> frozenset[str]:
    return frozenset(extract_terms(name))


def _list_entries(folder: str, is_folder: bool) -> Iterator[tuple[str, str]]:
    """Yield the name, without its ending, and the full path of each file, or folder, with a name in words."""
    try:
        with os.scandir(folder) as entries:
            for entry in islice(entries, _MAX_FILES):
                name = _list_words(entry.name)
                is_long = len(name) >= (_MIN_NAME_LENGTH if name.isascii() else _MIN_CJK_NAME_LENGTH)
                is_named = is_long and not name.startswith(".")
                if is_named and (entry.is_dir() if is_folder else is_file_name(entry.name) and entry.is_file()):
                    yield name, entry.path
    except OSError:
        return


def _list_words(file: str) -> str:
    """Return the name of a file without its ending, in words."""
    return os.path.splitext(file)[0].replace("_", " ").replace("-", " ")  # noqa: PTH122
