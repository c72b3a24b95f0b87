"""List the tools in the system text: with signatures if they fit their share of the window, else as a catalogue.

The richest level that fits is used. It depends only on the tools and the space, never on the conversation, so that the
beginning of the prompt stays the same. Tokens are counted by a function that the caller provides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from ..calls.formats import Format
from ..calls.tool_names import DESCRIBE, shown_names
from ..core.i18n import Words
from ..core.messages import Tool
from .tool_listing import first_line, render_signature, render_tool
from .untrusted_text import neutralize, neutralize_line

Level = Literal["full", "about", "names", "servers"]
LEVELS: tuple[Level, ...] = ("full", "about", "names", "servers")
"""Levels of detail, richest first."""
_NO_SERVER = "*"
"""Shown instead of a server name for tools that belong to no server."""
_MAX_DESCRIPTION_LENGTH = 48
"""Maximum characters of a tool's description at level "about"."""


@dataclass(frozen=True)
class Catalogue:
    """The tool list of the system text.

    Attributes:
        level: "full": signatures; "about": names with a few words; "names": names by server; "servers": number of tools
            per server.
        lines: Lines of the list.
        tokens: Length of the lines in tokens.
        sections: What follows the list, such as the instructions of servers.
        describe_call: How to ask for the signature of a tool, if the list has none.
    """

    level: Level = "full"
    lines: tuple[str, ...] = ()
    tokens: int = 0
    sections: tuple[str, ...] = ()
    describe_call: str = ""

    @property
    def is_full(self) -> bool:
        """Whether the list has the signatures of all tools."""
        return self.level == "full"

    def render(self, words: Words) -> str:
        """Return the list with its introduction and, without signatures, how to request them."""
        if self.is_full:
            return "\n".join(filter(None, [words("prompt.tools"), *self.lines, words("prompt.tools_end")]))
        asking = f"{words('prompt.describe')} {self.describe_call}"
        return "\n".join([words("prompt.catalogue"), *self.lines, asking])


def make_catalogue(
    tools: Iterable[Tool],
    words: Words,
    call_format: Format | None,
    limit_tokens: int,
    count_text: Callable[[str], int],
    levels: Sequence[Level] = LEVELS,
) -> Catalogue:
    """Return the first level whose lines fit into `limit_tokens`; the last one if none does.

    Args:
        tools: The tools.
        words: Model-facing sentences.
        call_format: The format that signatures are written in; None for signatures that are no calls.
        limit_tokens: What the lines may take.
        count_text: Counts the tokens of a text.
        levels: The levels to choose from.
    """
    listed = shown_names(tools)
    describe_call = render_signature(DESCRIBE, {"name": "string"}, call_format)
    catalogue = Catalogue()
    for level in levels:
        lines = _write_lines(level, listed, words, call_format)
        catalogue = Catalogue(level, lines, count_text("\n".join(lines)), describe_call=describe_call)
        if catalogue.tokens <= limit_tokens:
            break
    return catalogue


def _write_lines(level: Level, listed: Mapping[str, Tool], words: Words, call_format: Format | None) -> tuple[str, ...]:
    match level:
        case "full":
            return tuple(render_tool(name, tool, call_format) for name, tool in listed.items())
        case "about":
            return tuple(render_summary(name, tool) for name, tool in listed.items())
        case "names":
            return tuple(f"- {server}: {', '.join(names)}" for server, names in _names_by_server(listed).items())
        case "servers":
            servers = _names_by_server(listed).items()
            return tuple(words("prompt.server", server=server, count=len(names)) for server, names in servers)


def render_summary(name: str, tool: Tool) -> str:
    """Return `- get_tide: Tide height at a harbour`."""
    description = neutralize(extract_summary(first_line(tool.description)))
    return f"- {neutralize_line(name)}: {description}" if description else f"- {neutralize_line(name)}"


def extract_summary(text: str) -> str:
    """Return the first sentence of a text, or as many of its words as fit the limit of level "about"."""
    sentence = text.partition(". ")[0].partition("。")[0].rstrip(".:… ")
    if len(sentence) <= _MAX_DESCRIPTION_LENGTH:
        return sentence
    words, blank, _ = sentence[: _MAX_DESCRIPTION_LENGTH + 1].rpartition(" ")
    return (words if blank else sentence[:_MAX_DESCRIPTION_LENGTH]).rstrip(",;:(- ")


def _names_by_server(listed: Mapping[str, Tool]) -> dict[str, list[str]]:
    """Group the names shown to the model by server, in their order."""
    groups = groupby(listed.items(), key=lambda pair: pair[1].server)
    return {
        neutralize_line(server) or _NO_SERVER: [neutralize_line(name) for name, _ in group] for server, group in groups
    }
