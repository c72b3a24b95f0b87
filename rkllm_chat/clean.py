"""Untrusted text made safe to print. What a model, a tool or a server wrote must not steer the terminal."""

from __future__ import annotations

import re

# C0 but for tab and newline, DEL, C1 (a terminal reads 0x9b as ESC [), and the marks that turn text around.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

# What takes no room, and tags, which copy ASCII unseen.
HIDDEN = re.compile("[\u00ad\u034f\u180e\u200b-\u200d\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")


def clean(text: str) -> str:
    """The text with unsafe characters shown as their escapes; CR LF and CR become newlines.

    >>> clean("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def reveal(text: str) -> str:
    """As `clean`, and also what has no width of its own is shown as its escape: for text that somebody is to approve.

    >>> reveal("rm\u200b x")
    'rm\\u200b x'
    """
    return HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), clean(text))


def clean_line(text: str) -> str:
    """As `clean`, on one line."""
    return " ".join(clean(text).split())
