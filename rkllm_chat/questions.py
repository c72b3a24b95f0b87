"""What is put to a person before something is done: the call in full, and which key means what. It asks nobody."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .chat import Onward
from .clean import reveal, reveal_line
from .language import Words
from .messages import Tool
from .policy import DELETES, Consent

CONSENTS: Mapping[str, Consent] = {"y": "once", "a": "always", "n": "no", "q": "stop"}
ONWARDS: Mapping[str, str] = {"c": "continue", "m": "more", "w": "answer", "s": "stop"}
MORE = 4
LONGEST_PATH = 4096
PATH = re.compile(r"~?/|~$|\.\.(?:/|$)|[^\s:]*/\.\.(?:/|$)")


def describe_call(tool: Tool, arguments: Mapping[str, Any], words: Words, folder: Path | None = None) -> list[str]:
    """Server and tool, every argument in full, and what is notable: `folder` is the one that paths should lie in."""
    server = reveal_line(tool.server)
    lines = [words("question.call", tool=reveal_line(tool.name), server=server)]
    for name, value in arguments.items():
        lines += indent(f"{reveal_line(name)} = {write(value)}")
    return lines + [f"  {line}" for line in find_notable(tool, arguments, words, folder or Path.cwd())]


def find_notable(tool: Tool, arguments: Mapping[str, Any], words: Words, folder: Path) -> list[str]:
    """What a person should see before he says yes: that it may change or delete things, or leaves the folder."""
    notable = [] if tool.read_only else [words("question.not_read_only")]
    if DELETES.search(tool.name):
        notable.append(words("question.deletes"))
    outside = dict.fromkeys(text for text in texts_in(arguments) if leads_out(text, folder))
    return notable + [words("question.outside", path=reveal_line(path)) for path in outside]


def texts_in(value: Any) -> Iterator[str]:
    """The texts among arguments, however deep (the schema was checked, so it has an end)."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)


def leads_out(text: str, folder: Path) -> bool:
    """Whether a text is a path that leaves the folder: absolute, of a home, or with `..` in it."""
    if "\n" in text or len(text) > LONGEST_PATH or not PATH.match(text):
        return False
    try:
        path = os.path.normpath(folder / Path(text).expanduser())
    except RuntimeError:  # the home of a user that is not there
        return True
    return path != str(folder) and not path.startswith(f"{folder}{os.sep}".replace("//", "/"))


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
