"""Sanitize untrusted text: terminal control characters, bidirectional marks and invisible characters.

Text of a model, a tool or a server passes through `sanitize_for_terminal` before it is printed, through
`escape_visibly` before the user approves it, and through `strip_invisible` before a model reads it.
`normalize_for_search` normalizes such text for searching.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

MAX_LINE_LENGTH = 300
_MAX_ARGUMENTS_LENGTH = 60
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"

# C0 except tab and newline, DEL, C1 (terminals read 0x9b as ESC [), bidirectional marks, lone surrogates.
UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}\ud800-\udfff]")

# Zero-width characters: Default_Ignorable_Code_Point (Unicode 16, DerivedCoreProperties.txt) and interlinear
# annotation. Tag characters of plane 14 encode ASCII invisibly; variation selectors can encode arbitrary bytes.
_ZERO_WIDTH = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
ZERO_WIDTH = re.compile(f"[{_ZERO_WIDTH}]")

# Zero-width characters that are legitimate after certain letters: variation selectors and joiners.
_EMOJI = "\u00a9\u00ae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINING = "\u0620-\u06ff\u0750-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af"  # Arabic to Mongolian
_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LEGITIMATE = (
    f"(?<=[#*0-9{_EMOJI}])[\ufe0e\ufe0f]"
    f"|(?<=[{_EMOJI}{_JOINING}])\u200d|(?<=[{_EMOJI}]\ufe0f)\u200d"
    f"|(?<=[{_JOINING}])\u200c"
    f"|(?<=[{_HAN}])[\ufe00-\ufe02\U000e0100-\U000e01ef]"
)
_STRAY_ZERO_WIDTH = f"(?!{_LEGITIMATE})[{_ZERO_WIDTH}]"
_UNSAFE_OR_HIDDEN = f"{UNSAFE.pattern}|{_STRAY_ZERO_WIDTH}"
_ALL_ESCAPED = f"{UNSAFE.pattern}|{ZERO_WIDTH.pattern}"
_INVISIBLE = f"[{_BIDI}]|{_STRAY_ZERO_WIDTH}"
_UNSAFE_IN_JSON = f"[\x7f-\x9f{_BIDI}\u2028\u2029]|{_STRAY_ZERO_WIDTH}"
_NEWLINE = re.compile("\r\n?|[\u2028\u2029]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_BLANK_SYMBOLS = "\u2800\U0001d159"  # BRAILLE PATTERN BLANK, MUSICAL SYMBOL NULL NOTEHEAD
_DISTINCT_SCRIPTS = ("CJK UNIFIED", "CJK COMPATIBILITY", "HIRAGANA", "KATAKANA", "HANGUL", "IDEOGRAPHIC", "BOPOMOFO")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Compile an expression with large character sets when a text needs it: each takes 4 ms, and ASCII needs none."""
    return re.compile(pattern)


def compile_invisible() -> re.Pattern[str]:
    """Return the expression of invisible characters and bidirectional marks, without joiners that letters need."""
    return _compile(_INVISIBLE)


def sanitize_for_terminal(text: str, before: str = "") -> str:
    r"""Escape what could control a terminal or hide in the text; normalize line breaks to newlines.

    Zero-width joiners and variation selectors that belong to the preceding letter stay.

    Args:
        text: Untrusted text.
        before: Text that directly precedes `text` in a stream, so that a joiner after an emoji is recognized.

    >>> sanitize_for_terminal("a\x1b[31mb\u200bc")
    'a\\x1b[31mb\\u200bc'
    """
    before = before[-2:]
    text = before + _NEWLINE.sub("\n", text)
    unsafe = UNSAFE if text.isascii() else _compile(_UNSAFE_OR_HIDDEN)
    escaped = unsafe.sub(_escape, text)
    return escaped[len(unsafe.sub(_escape, before)) :] if before else escaped


def escape_visibly(text: str) -> str:
    r"""Escape like `sanitize_for_terminal`, and also every zero-width character; for text that the user approves.

    What has no shape that anyone knows is escaped too: blank symbols, private use and unassigned characters.

    >>> escape_visibly("rm\u200d x")
    'rm\\u200d x'
    """
    escaped = _compile(_ALL_ESCAPED).sub(_escape, _NEWLINE.sub("\n", text))
    return escaped if escaped.isascii() else _NOT_ASCII.sub(_escape_shapeless, escaped)


def _escape_shapeless(match: re.Match[str]) -> str:
    letter = match[0]
    is_shown = (letter.isprintable() or unicodedata.category(letter) == "Zs") and letter not in _BLANK_SYMBOLS
    return letter if is_shown else _escape(match)


def find_lookalikes(name: str) -> list[str]:
    """Return the letters of a name that may pass for others, with their Unicode names.

    Names of tools and servers are ASCII as a rule. Other letters are listed, except those of Chinese, Japanese and
    Korean, which look like no Latin ones.
    """
    letters = dict.fromkeys(letter for letter in name if not letter.isascii() and letter.isalnum())
    return [
        f"{letter} ({unicodedata.name(letter, hex(ord(letter)))})"
        for letter in letters
        if not unicodedata.name(letter, "").startswith(_DISTINCT_SCRIPTS)
    ]


def sanitize_line(text: str) -> str:
    """Return `sanitize_for_terminal(text)` on one line with single spaces."""
    return " ".join(sanitize_for_terminal(text).split())


def truncate(text: str, max_length: int) -> str:
    """Truncate a text to `max_length` characters, an ellipsis among them."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def shorten_line(text: str, max_length: int = MAX_LINE_LENGTH) -> str:
    """Return `sanitize_line(text)` with at most `max_length` characters, without reading all of a long text."""
    return truncate(sanitize_line(text[: 4 * max_length]), max_length)


def summarize_arguments(arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a call as a short line such as `place="Tokyo"`."""
    parts = (f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in arguments.items())
    return shorten_line(", ".join(parts), _MAX_ARGUMENTS_LENGTH)


def escape_line_visibly(text: str) -> str:
    """Return `escape_visibly(text)` on one line with single spaces."""
    return " ".join(escape_visibly(text).split())


def sanitize_json(document: str) -> str:
    r"""Escape control and invisible characters in a JSON document as `\uXXXX`; its meaning does not change."""
    if document.isascii() and "\x7f" not in document:
        return document
    return _compile(_UNSAFE_IN_JSON).sub(lambda match: "".join(f"\\u{unit:04x}" for unit in _units(match[0])), document)


def strip_invisible(text: str) -> str:
    """Remove invisible characters and bidirectional marks; keep joiners that letters need."""
    return text if text.isascii() else compile_invisible().sub("", text)


def normalize_for_search(text: str) -> tuple[str, Sequence[int]]:
    """Normalize text as a tokenizer might: NFKC without invisible characters.

    Full-width and zero-width disguises pass filters that compare the raw text (measured by others).

    Returns:
        The normalized text and, for each of its characters, the index of the original character.
    """
    if text.isascii() and not _CONTROL.search(text):
        return text, range(len(text))
    visible = [
        (letter, index)
        for index, character in enumerate(text)
        if not _is_invisible(character)
        for letter in (character if character.isascii() else unicodedata.normalize("NFKC", character))
    ]
    return "".join(letter for letter, _ in visible), [index for _, index in visible]


def _is_invisible(letter: str) -> bool:
    """Return whether some tokenizers drop the character: control, format and zero-width characters."""
    if letter.isascii():
        return bool(_CONTROL.match(letter))
    return unicodedata.category(letter) in ("Cf", "Cc") or bool(ZERO_WIDTH.match(letter))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def _units(letter: str) -> Sequence[int]:
    """The UTF-16 code units of a character."""
    data = letter.encode("utf-16-be")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
