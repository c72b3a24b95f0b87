"""What is put to a person before something is done: the call in full, and which key means what. It asks nobody."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .chat import Onward
from .clean import clean_line, reveal
from .language import Words
from .messages import Tool
from .policy import Consent

CONSENTS: Mapping[str, Consent] = {"y": "once", "a": "always", "n": "no", "q": "stop"}
ONWARDS: Mapping[str, str] = {"c": "continue", "m": "more", "w": "answer", "s": "stop"}
MORE = 4


def describe_call(tool: Tool, arguments: Mapping[str, Any], words: Words) -> list[str]:
    """Server and tool, every argument in full, and what is notable about the tool."""
    server = clean_line(tool.server)
    lines = [words("question.call", tool=clean_line(tool.name), server=server)]
    for name, value in arguments.items():
        lines += indent(f"{reveal(clean_line(name))} = {write(value)}")
    if not tool.read_only:
        lines.append(f"  {words('question.not_read_only')}")
    return lines


def write(value: Any) -> str:
    """A value as JSON; a text of several lines as it is."""
    if isinstance(value, str) and "\n" in value:
        return "\n" + "\n".join(indent(reveal(value)))
    return reveal(json.dumps(value, ensure_ascii=False, default=str))


def indent(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def read_onward(answer: str, rounds: int) -> Onward:
    """What a key of ONWARDS means after so many rounds."""
    match answer:
        case "continue":
            return rounds
        case "more":
            return rounds * MORE
        case "answer":
            return "answer"
    return "stop"
