"""Tool names: which one the model is shown, and which tool is meant by what it writes. It guesses nothing.

Accepted are `server__tool`, `server.tool`, `server/tool`, `server_tool`, and the bare name while one server has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from .messages import Tool

SPELLINGS = ("__", ".", "/", "_")


def shown_names(tools: Iterable[Tool]) -> dict[str, Tool]:
    """The name the model is shown for each tool, sorted by server and name: bare while it is unique and spells no
    other tool's full name, else `server__tool`."""
    ordered = sorted(tools, key=lambda tool: (tool.server, tool.name))
    count = Counter(name for tool in ordered for name in (tool.name, *spellings(tool)))
    return {tool.name if count[tool.name] == 1 else tool.full_name: tool for tool in ordered}


def find_tools(name: str, tools: Iterable[Tool]) -> list[Tool]:
    """All tools that `name` may mean: one is the answer, none is unknown, several is ambiguous.

    A full name wins over a bare one, so a tool called `a__b` cannot shadow tool `b` of server `a`.
    """
    known = list(tools)
    exact = [tool for tool in known if tool.full_name == name and tool.server]
    spelled = [tool for tool in known if name in spellings(tool)]
    return exact or spelled or [tool for tool in known if tool.name == name]


def spellings(tool: Tool) -> set[str]:
    """The tool's name with its server, in every accepted spelling."""
    return {f"{tool.server}{mark}{tool.name}" for mark in SPELLINGS} if tool.server else set()


def nearest_names(name: str, tools: Sequence[Tool], most: int = 3) -> list[str]:
    """The shown names nearest to an unknown one, for an error that helps."""
    return get_close_matches(name, list(shown_names(tools)), n=most, cutoff=0.4)
