"""ASCII_FALLBACK: how output is encoded where the encoding of the terminal has no borders, bullets or quotes."""

from __future__ import annotations

import codecs
import unicodedata

ASCII_FALLBACK = "rkllm-chat-ascii-fallback"
"""Name of the error handler, for `errors` of a stream and of `str.encode`."""
_FALLBACKS = str.maketrans("─━│┼═•◆❯·█░▀…–—‐‑−→←×“”„‘’«»°\u00a0\u3000⠋⠙⠴⠦", '--|+=-*>-#.#.-----><x"""\'\'""o  |/-\\')
"""One character for one, so that columns stay aligned; a wide character becomes two."""


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Return what is written instead of characters that cannot be encoded; "?" for those without a fallback."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_replace_character, error.object[error.start : error.end])), error.end


def _replace_character(character: str) -> str:
    fallback = character.translate(_FALLBACKS)
    return (fallback if fallback.isascii() else "?") * (1 + (unicodedata.east_asian_width(character) in "WF"))


codecs.register_error(ASCII_FALLBACK, _replace)


def make_encodable(text: str, encoding: str) -> str:
    """Return the text with fallbacks for characters that the encoding does not have.

    >>> make_encodable("◆ a │ b", "ascii")
    '* a | b'
    """
    return text if text.isascii() else text.encode(encoding, ASCII_FALLBACK).decode(encoding)
