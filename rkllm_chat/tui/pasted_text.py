"""Which characters of the input line were pasted: pasted text is never a command and attaches nothing.

The exception is a file that the user drops on the terminal, which pastes its path: pictures and sounds become mentions,
which the user sees before the line is sent.
"""

from __future__ import annotations

import shlex
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..chat.attachments import escape_mentions
from ..storage.media import recognize_media_type
from .slash_commands import escape_message

_MAX_PASTES = 20
_MAX_PATH_LENGTH = 4096
_HEAD_BYTES = 64


def mention_dropped_files(text: str) -> str:
    """Return the mentions of pictures and sounds whose absolute paths, and nothing else, were pasted; else "".

    Terminals quote the path of a dropped file, put backslashes before blanks, or paste a `file:` URI.
    """
    text = text.strip()
    if not text.startswith(("/", "'/", '"/', "file:///")) or len(text) > _MAX_PATH_LENGTH:
        return ""
    try:
        words = [text] if _is_media(text) else shlex.split(text)
    except ValueError:
        return ""
    paths = [unquote(urlsplit(word).path) if word.startswith("file:///") else word for word in words]
    if not paths or not all(_is_media(path) and '"' not in path for path in paths):
        return ""
    return " ".join(f'@"{path}"' if " " in path else f"@{path}" for path in paths)


def _is_media(path: str) -> bool:
    """Return whether a path is that of a picture or sound."""
    try:
        if not path.startswith("/") or not path.isprintable() or not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            return bool(recognize_media_type(file.read(_HEAD_BYTES)))
    except (OSError, ValueError):
        return False


class PasteTracker:
    """Tracks the pasted characters of a text through its changes.

    A text that was pasted before counts as pasted wherever it is inserted again, as by undo, the history or an editor.
    """

    def __init__(self) -> None:
        self._text = ""
        self._is_pasted = bytearray()
        self._pastes: deque[str] = deque(maxlen=_MAX_PASTES)
        self._is_pasting = False

    def record_paste(self, text: str) -> None:
        """Record a pasted text; the next change inserts it."""
        self._pastes.append(text)
        self._is_pasting = True

    def mark(self, start: int, end: int) -> None:
        """Count characters of the text as pasted: they came too fast for a key each."""
        if self._text[start:end]:
            self._pastes.append(self._text[start:end])
            self._is_pasted[start:end] = bytearray([True]) * len(self._text[start:end])

    def update(self, text: str) -> None:
        """Set the text after a change of one region."""
        is_pasting, self._is_pasting = self._is_pasting, False
        if not self._pastes:
            self._text, self._is_pasted = text, bytearray(len(text))
            return
        old = self._text
        limit = min(len(old), len(text))
        start = _bisect(limit, lambda size: old[:size] == text[:size])
        end = _bisect(limit - start, lambda size: old[len(old) - size :] == text[len(text) - size :])
        inserted = text[start : len(text) - end]
        flag = is_pasting or any(_is_same(inserted, paste) for paste in self._pastes)
        flags = bytearray([flag]) * len(inserted)
        self._is_pasted = self._is_pasted[:start] + flags + self._is_pasted[len(old) - end :]
        self._text = text

    def escape(self) -> str:
        """Return the text as a line in which pasted characters trigger nothing, as if the user had escaped them."""
        text = escape_mentions(self._text, lambda position: bool(self._is_pasted[position]))
        start = len(text) - len(text.lstrip())
        is_pasted = start < len(text) and self._is_pasted[start]
        return text[:start] + escape_message(text[start:]) if is_pasted else text


def _is_same(inserted: str, paste: str) -> bool:
    """Whether one text contains the other; a single character may have been typed."""
    return min(len(inserted), len(paste)) > 1 and (paste in inserted or inserted in paste)


def _bisect(limit: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number up to `limit` for which a condition holds that holds for all smaller ones."""
    return bisect_left(range(1, limit + 1), True, key=lambda number: not holds(number))
