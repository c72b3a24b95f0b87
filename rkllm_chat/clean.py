"""Untrusted text made safe: it must not steer a terminal, and nothing in it may stay unseen or pass for something else.

What a model, a tool or a server wrote goes through `clean` before it is printed, through `reveal` where somebody is to
approve it, and through `unmask` before a model reads it. `fold` is for whoever looks for words in such a text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"

# C0 but for tab and newline, DEL, C1 (a terminal reads 0x9b as ESC [), and the marks that turn text around.
UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{BIDI}\ud800-\udfff]")

# What takes no room: Default_Ignorable_Code_Point (Unicode 16, DerivedCoreProperties.txt) and interlinear annotation.
# The tags of plane 14 copy ASCII unseen, variation selectors can carry any bytes.
_HIDDEN = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
HIDDEN = re.compile(f"[{_HIDDEN}]")

# Hidden characters that belong to the letter before them: one that picks its form, or joins it to the next.
_EMOJI = "\u00a9\u00ae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINING = "\u0620-\u06ff\u0750-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af"  # Arabic to Mongolian
_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KEPT = (
    f"(?<=[#*0-9{_EMOJI}])[\ufe0e\ufe0f]"
    f"|(?<=[{_EMOJI}{_JOINING}])\u200d|(?<=[{_EMOJI}]\ufe0f)\u200d"
    f"|(?<=[{_JOINING}])\u200c"
    f"|(?<=[{_HAN}])[\ufe00-\ufe02\U000e0100-\U000e01ef]"
)
_LOOSE = f"(?!{_KEPT})[{_HIDDEN}]"
_STEERS = re.compile(f"{UNSAFE.pattern}|{_LOOSE}")
_ALL = re.compile(f"{UNSAFE.pattern}|{HIDDEN.pattern}")
UNSEEN = re.compile(f"[{BIDI}]|{_LOOSE}")
_OF_JSON = re.compile(f"[\x7f-\x9f{BIDI}\u2028\u2029]|{_LOOSE}")
_NEWLINE = re.compile("\r\n?|[\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


def clean(text: str, before: str = "") -> str:
    """The text with what steers a terminal or hides shown as its escape; CR LF, CR and U+2028 become newlines.

    `before` is what stood before it, where a text comes in pieces: a joiner that belongs to an emoji stays.

    >>> clean("a\\x1b[31mb\\u200bc")
    'a\\\\x1b[31mb\\\\u200bc'
    """
    before = before[-2:]
    shown = _STEERS.sub(_escape, before + _NEWLINE.sub("\n", text))
    return shown[len(_STEERS.sub(_escape, before)) :] if before else shown


def reveal(text: str) -> str:
    """As `clean`, and whatever has no width of its own is shown as its escape: for text that somebody is to approve.

    >>> reveal("rm\\u200d x")
    'rm\\\\u200d x'
    """
    return _ALL.sub(_escape, _NEWLINE.sub("\n", text))


def clean_line(text: str) -> str:
    """As `clean`, on one line."""
    return " ".join(clean(text).split())


def reveal_line(text: str) -> str:
    """As `reveal`, on one line."""
    return " ".join(reveal(text).split())


def clean_json(document: str) -> str:
    """A JSON document that means the same and may be printed: what steers or hides stands in it as `\\\\uXXXX`."""
    if document.isascii() and "\x7f" not in document:
        return document
    return _OF_JSON.sub(lambda match: "".join(f"\\u{unit:04x}" for unit in _units(match[0])), document)


def unmask(text: str) -> str:
    """The text as a person sees it: without what hides or turns text around. Joiners that letters need stay."""
    return text if text.isascii() else UNSEEN.sub("", text)


def fold(text: str) -> tuple[str, Sequence[int]]:
    """The text as a tokenizer may see it that normalises (NFKC, nothing invisible), and where each letter of it was.

    Measured elsewhere: full-width and zero-width disguises pass a filter that looks at the text alone.
    """
    if text.isascii() and not _CONTROL.search(text):
        return text, range(len(text))
    seen = [
        (letter, place)
        for place, written in enumerate(text)
        if not is_invisible(written)
        for letter in (written if written.isascii() else unicodedata.normalize("NFKC", written))
    ]
    return "".join(letter for letter, _ in seen), [place for _, place in seen]


def is_invisible(letter: str) -> bool:
    """Whether some tokenizer drops it: format and control characters, and what takes no room."""
    if letter.isascii():
        return bool(_CONTROL.match(letter))
    return unicodedata.category(letter) in ("Cf", "Cc") or bool(HIDDEN.match(letter))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def _units(letter: str) -> Sequence[int]:
    """The UTF-16 code units of a character."""
    data = letter.encode("utf-16-be")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
