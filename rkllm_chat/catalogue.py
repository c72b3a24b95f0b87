"""The tools as the system text lists them: in full where they fit their share of the window, else as a catalogue.

The richest level that fits is taken. It depends on the tools and the room alone, never on what is said, so that the
beginning of a prompt stays as it is. It is pure and counts with a function that is given to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from .foreign import disarm, disarm_line
from .formats import Format
from .language import Words
from .messages import Tool
from .names import DESCRIBE, shown_names
from .sketch import first_line, list_tool

Level = Literal["full", "about", "names", "servers"]
LEVELS: tuple[Level, ...] = ("full", "about", "names", "servers")
"""The richest first."""
NO_SERVER = "*"
"""Stands for the server of tools that are for all of them."""
LONGEST_ABOUT = 48
"""Characters that a catalogue says of a tool."""


@dataclass(frozen=True)
class Catalogue:
    """What the system text says of the tools: `lines`, which take so many `tokens`, at a `level`.

    full: how each is called; about: its name and a few words; names: the names, by servers; servers: how many tools
    each server has.
    """

    level: Level = "full"
    lines: tuple[str, ...] = ()
    tokens: int = 0

    @property
    def is_full(self) -> bool:
        return self.level == "full"

    def text(self, words: Words, form: Format) -> str:
        """The lines with what stands around them; where they do not say how a tool is called, how to ask for that."""
        if self.is_full:
            return "\n".join([words("prompt.tools"), *self.lines])
        asking = f"{words('prompt.describe')} {form.sketch(DESCRIBE, {'name': 'string'})}"
        return "\n".join([words("prompt.catalogue"), *self.lines, asking])


def make_catalogue(
    tools: Iterable[Tool],
    words: Words,
    form: Format,
    limit_tokens: int,
    count_text: Callable[[str], int],
    levels: Sequence[Level] = LEVELS,
) -> Catalogue:
    """The first of the levels whose lines take at most so many tokens, the last one where none does."""
    listed = shown_names(tools)
    made = Catalogue()
    for level in levels:
        lines = write_lines(level, listed, words, form)
        made = Catalogue(level, lines, count_text("\n".join(lines)))
        if made.tokens <= limit_tokens:
            break
    return made


def write_lines(level: Level, listed: Mapping[str, Tool], words: Words, form: Format) -> tuple[str, ...]:
    match level:
        case "full":
            return tuple(list_tool(name, tool, form) for name, tool in listed.items())
        case "about":
            return tuple(line_about(name, tool) for name, tool in listed.items())
        case "names":
            return tuple(f"- {server}: {', '.join(names)}" for server, names in by_server(listed).items())
        case "servers":
            servers = by_server(listed).items()
            return tuple(words("prompt.server", server=server, count=len(names)) for server, names in servers)


def line_about(name: str, tool: Tool) -> str:
    """`- get_tide: Tide height at a harbour`."""
    about = disarm(shorten(first_line(tool.description)))
    return f"- {disarm_line(name)}: {about}" if about else f"- {disarm_line(name)}"


def shorten(text: str) -> str:
    """The first sentence of a text, or as many of its words as LONGEST_ABOUT characters hold."""
    sentence = text.partition(". ")[0].partition("。")[0].rstrip(".:… ")
    if len(sentence) <= LONGEST_ABOUT:
        return sentence
    words, blank, _ = sentence[: LONGEST_ABOUT + 1].rpartition(" ")
    return (words if blank else sentence[:LONGEST_ABOUT]).rstrip(",;:(- ")


def by_server(listed: Mapping[str, Tool]) -> dict[str, list[str]]:
    """Server -> the names that the model is shown for its tools, in their order."""
    groups = groupby(listed.items(), key=lambda pair: pair[1].server)
    return {disarm_line(server) or NO_SERVER: [disarm_line(name) for name, _ in group] for server, group in groups}
