"""What a person types: lines, and answers to questions. It reads no keys and draws nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prompt_toolkit.document import Document

from .clean import HIDDEN

SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass
class Question:
    """What stands in the place of the line: `keys` answer at once (key -> answer), without them a line is read."""

    keys: Mapping[str, str]
    prompt: str
    answer: asyncio.Future[str | None]
    choices: Sequence[str] = ()
    draft: Document = field(default_factory=Document)


def mend(text: str) -> str:
    """The text with U+FFFD for bytes that were not UTF-8, which arrive as lone surrogates."""
    return SURROGATE.sub("\ufffd", text)


def is_written(text: str) -> bool:
    """Whether a line holds something to be seen."""
    return bool(HIDDEN.sub("", text).strip())
