"""Tool names: which one the model is shown, and which tool is meant by what it writes. It guesses nothing.

Accepted are `server__tool`, `server.tool`, `server/tool`, `server:tool`, `server_tool`, and the bare name while one
server has it; blanks and quotes around, and the `functions.` or `tools.` that models are taught to write in front.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher

from .memo import by_identity
from .messages import Tool

SPELLINGS = ("__", ".", "/", ":", "_")
SPACES = ("functions.", "tools.")
QUOTES = " \t\r\n\"'`“”‘’「」"
MORE, DESCRIBE = "more", "describe_tool"
OURS = (MORE, DESCRIBE)
"""The names of tools of ours: a server's own `more` is shown with its server, and found without it while ours is not
there."""
MOST_NEAR = 8
LONGEST, SHORTEST_WORD = 80, 4
NEAR, NEAR_BY_A_WORD = 0.6, 0.3
"""How alike names are that are near (difflib's ratio), and those that share a word."""


@by_identity()
def shown_names(tools: Iterable[Tool]) -> Mapping[str, Tool]:
    """The name the model is shown for each tool, sorted by server and name: bare while it is unique and spells no
    other tool's full name, else `server__tool`."""
    ordered = sorted(tools, key=lambda tool: (tool.server, tool.name))
    count = Counter(name for tool in ordered for name in (tool.name, *spellings(tool)))
    count.update({tool.name for tool in ordered if tool.name in OURS and tool.server})
    return {tool.name if count[tool.name] == 1 else tool.full_name: tool for tool in ordered}


def shown_name(tool: Tool, tools: Iterable[Tool]) -> str:
    """The name that the model is shown for one of these tools."""
    return next((name for name, other in shown_names(tools).items() if other is tool), tool.full_name)


def find_tools(name: str, tools: Iterable[Tool]) -> list[Tool]:
    """All tools that `name` may mean: one is the answer, none is unknown, several is ambiguous.

    A full name wins over a bare one, so a tool called `a__b` cannot shadow tool `b` of server `a`; and a name as it
    stands over the same without what is around it.
    """
    known = list(tools)
    plain = name.strip(QUOTES)
    bare = (plain.removeprefix(space) for space in SPACES if plain.startswith(space))
    return next((found for spelled in (name, plain, *bare) if (found := look_up(spelled, known))), [])


def look_up(name: str, known: Sequence[Tool]) -> list[Tool]:
    known = spelled(known).get(name, ())
    exact = [tool for tool in known if tool.full_name == name and tool.server]
    joined = [tool for tool in known if name in spellings(tool)]
    own = [tool for tool in known if tool.full_name == name and name in OURS]
    return exact or own or joined or [tool for tool in known if tool.name == name]


@by_identity()
def spelled(tools: Iterable[Tool]) -> Mapping[str, Sequence[Tool]]:
    """What may be meant by each name that means anything."""
    found: dict[str, list[Tool]] = {}
    for tool in tools:
        for name in {tool.name, tool.full_name, *spellings(tool)}:
            found.setdefault(name, []).append(tool)
    return found


def spellings(tool: Tool) -> set[str]:
    """The tool's name with its server, in every accepted spelling."""
    return {f"{tool.server}{mark}{tool.name}" for mark in SPELLINGS} if tool.server else set()


def nearest_names(name: str, tools: Sequence[Tool], most: int = MOST_NEAR) -> list[str]:
    """The shown names near an unknown one, the nearest first, for an error that helps; none where none is near."""
    asked = name.strip(QUOTES).casefold()
    likeness = {shown: compare(asked, shown.casefold()) for shown in shown_names(tools)}
    near = [shown for shown, alike in likeness.items() if alike]
    return sorted(near, key=lambda shown: -likeness[shown])[:most]


def compare(one: str, other: str) -> float:
    """How alike two names are, from 0 to 1; 0 where they are not near."""
    alike = SequenceMatcher(None, one[:LONGEST], other[:LONGEST], autojunk=False).ratio()
    has_shared = bool(words_of(one) & words_of(other))
    return alike if alike >= (NEAR_BY_A_WORD if has_shared else NEAR) else 0.0


def words_of(name: str) -> set[str]:
    return {word for word in re.split(r"[\W_]+", name[:LONGEST]) if len(word) >= SHORTEST_WORD}
