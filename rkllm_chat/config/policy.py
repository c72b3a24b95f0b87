"""Approval policy of tool calls: run, ask, refuse, or refuse because the limit per turn is spent.

Precedence: deny patterns, the limit of calls per turn, the session's read-only mode, allow patterns, the configured
mode, the session's mode. A right belongs to a tool of a server, never to a name that a server or a folder chose:
`server__tool` matches the tool of that server alone, and of the user's own one: a server that a file of the current
folder defines is named `./server__tool`. A name without `__` is allowed only while all servers are connected and one of
them offers what it may mean, tools that are withheld or switched off included. A server's claim that a tool is
read-only counts only if the user trusts the server and the tool's name does not suggest deletion; it never allows
more than the mode does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from ..core.messages import SEPARATOR, Tool

Decision = Literal["run", "ask", "refuse", "spent"]
Mode = Literal["ask", "read-only", "all", "none"]
SessionMode = Literal["read-only", "ask", "auto"]
"""What the user chose for this session: refuse what is not announced as read-only, follow the rules, or never ask."""
SESSION_MODES: tuple[SessionMode, ...] = ("read-only", "ask", "auto")
_STRICTNESS: tuple[Mode, ...] = ("all", "read-only", "ask", "none")
"""Modes from the most permissive to the strictest."""
DELETION_WORDS = re.compile(
    r"delete|remove|drop|erase|destroy|overwrite|truncate|wipe|(?<!^s)(?<![^a-z]s)kill", re.IGNORECASE
)
"""Words in a tool name that suggest loss of data, whatever the server's annotations say; a skill is not one."""
OWN_TOOLS = frozenset(("list_resources", "read_resource", "read_skill", "more", "describe_tool"))
"""Names of the program's own tools: as a bare name each means that tool, also while a server offers one of its name."""
OF_FOLDER = "./"
"""Begins a pattern that is for the servers of the current folder's files. In `allow`, others are for the user's own."""
_MARKS = tuple("./:_")
"""May stand between the names of a server and of its tool, and in either: only `__`, of which no server's name has one,
says where the server's ends."""


class OfferedTools(list[Tool]):
    """Tools that can be called, with what else a name without a server may mean. A copy keeps what it is made of.

    Attributes:
        withheld: Tools that are switched off, or withheld until the user accepts them.
        silent: Names of the servers that are not connected, whose tools are unknown.
    """

    def __init__(self, tools: Iterable[Tool], withheld: Iterable[Tool] = (), silent: Iterable[str] = ()) -> None:
        super().__init__(tools)
        copied = tools if isinstance(tools, OfferedTools) else None
        self.withheld: tuple[Tool, ...] = (*(copied.withheld if copied is not None else ()), *withheld)
        self.silent: tuple[str, ...] = (*(copied.silent if copied is not None else ()), *silent)


@dataclass(frozen=True)
class Policy:
    """Approval settings.

    Attributes:
        approve: Which tools run without a question: with "ask" those that a trusted server calls read-only, with
            "read-only" those that any server calls so, with "all" every tool; "none" refuses all.
        allow: Tools that run without a question, by name or pattern: `board__*`, `get_time`. A pattern without a server
            applies only while all servers are connected and the tools that it matches belong to one. One for a server
            that a folder's file defines begins with `./`; `*` means every tool.
        deny: Tools that never run, by name or pattern; a pattern without a server applies to every server.
        max_calls: How many tools may run for one question.
    """

    approve: Mode = "ask"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_calls: int = 100


def decide_call(
    tool: Tool,
    policy: Policy,
    called: int = 0,
    mode: SessionMode | None = None,
    tools: Iterable[Tool] | None = None,
) -> Decision:
    """Decide whether a call of the tool runs.

    Args:
        tool: The tool.
        policy: Approval settings.
        called: Number of calls made in this turn so far.
        mode: Mode of the session; None follows the policy. "auto" runs only what the policy would ask about.
        tools: All tools that can be called, which decide what a pattern without a server allows; without them, it
            allows only tools of the program itself.
    """
    if find_deny_rules(tool, policy):
        return "refuse"
    if called >= policy.max_calls:
        return "spent"
    is_reader = tool.read_only and not DELETION_WORDS.search(tool.name)
    if mode == "read-only" and not is_reader:
        return "refuse"
    if is_allowed(tool, policy.allow, tools) or (policy.approve == "all" and mode in (None, "auto")):
        return "run"
    if policy.approve == "none":
        return "refuse"
    trusts_claim = tool.trusted or policy.approve == "read-only"
    return "run" if (is_reader and trusts_claim) or mode == "auto" else "ask"


def find_deny_rules(tool: Tool, policy: Policy) -> list[str]:
    """Return the patterns of `deny` that refuse the tool."""
    return [pattern for pattern in policy.deny if _can_mean(tool, pattern) or fnmatchcase(tool.name, pattern)]


def describe_mode(policy: Policy, mode: SessionMode | None) -> SessionMode | Literal["none"]:
    """Return the mode that is in force: that of the session, else what the policy amounts to."""
    if policy.approve == "none":
        return "none"
    return mode or ("auto" if policy.approve == "all" else "ask")


def is_stricter(one: Mode, other: Mode) -> bool:
    """Return whether mode `one` lets less run than `other`."""
    return _STRICTNESS.index(one) > _STRICTNESS.index(other)


def is_allowed(tool: Tool, patterns: Iterable[str], tools: Iterable[Tool] | None = None) -> bool:
    """Return whether a pattern allows the tool: one that names its server, or one that means no other server's tools.

    Args:
        tool: The tool.
        patterns: Patterns of `allow`.
        tools: All tools that can be called; None if they are unknown.
    """
    known = None if tools is None else OfferedTools(tools)
    return any(
        _names_pair(tool, pattern) or (_can_mean(tool, pattern) and _means_one_server(pattern, tool, known))
        for pattern in patterns
        if pattern == "*" or pattern.startswith(OF_FOLDER) is tool.of_folder
    )


def qualify_patterns(patterns: Iterable[str]) -> list[str]:
    """Return patterns that the user gives for this folder: each for the user's own servers and for the folder's."""
    given = list(patterns)
    both = [
        [pattern] if pattern == "*" or pattern.startswith(OF_FOLDER) else [pattern, OF_FOLDER + pattern]
        for pattern in given
    ]
    return [pattern for forms in both for pattern in forms]


def find_named_rules(patterns: Iterable[str], server: str) -> list[str]:
    """Return the patterns of `allow` that a folder's server of this name would get if it was the user's own.

    Those that it has already are left out.
    """
    known = list(patterns)
    return [
        pattern
        for pattern in dict.fromkeys(known)
        if pattern != "*" and not pattern.startswith(OF_FOLDER) and OF_FOLDER + pattern not in known
        if SEPARATOR in pattern and fnmatchcase(server, pattern.partition(SEPARATOR)[0])
    ]


def find_held_rules(patterns: Iterable[str], server: str) -> list[str]:
    """Return the patterns of `allow` that a folder's server of this name has."""
    given = {pattern: pattern.removeprefix(OF_FOLDER) for pattern in patterns if pattern.startswith(OF_FOLDER)}
    return [
        pattern
        for pattern, rest in given.items()
        if SEPARATOR not in rest or fnmatchcase(server, rest.partition(SEPARATOR)[0])
    ]


def find_rules_of_own(tool: Tool, patterns: Iterable[str]) -> list[str]:
    """Return the patterns of `allow` that a folder's tool does not get, and would if its server was the user's own."""
    return [pattern for pattern in patterns if not pattern.startswith(OF_FOLDER) and _can_mean(tool, pattern)]


def find_matching(pattern: str, tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools that a pattern matches, by server and name or by name alone."""
    return [tool for tool in tools if _can_mean(tool, pattern)]


def find_ambiguous(patterns: Iterable[str], tools: Iterable[Tool]) -> dict[str, list[str]]:
    """Return the patterns that allow nothing because they have no server and may match tools of several.

    Each comes with the full names of what it may mean.
    """
    known = OfferedTools(tools)
    everything = [*known, *known.withheld]
    matching = {
        pattern: [
            tool for tool in find_matching(pattern, everything) if tool.of_folder is pattern.startswith(OF_FOLDER)
        ]
        for pattern in patterns
    }
    return {
        pattern: [*(tool.full_name for tool in found), *(f"{server}{SEPARATOR}{pattern}" for server in known.silent)]
        for pattern, found in matching.items()
        if found and not any(is_allowed(tool, (pattern,), known) for tool in found)
    }


def _names_pair(tool: Tool, pattern: str) -> bool:
    """Return whether a pattern names the tool with its server, and nothing else can be meant; `*` names every tool."""
    if pattern.startswith(OF_FOLDER):
        if not tool.of_folder:
            return False
        pattern = pattern.removeprefix(OF_FOLDER)
    server, separator, name = pattern.partition(SEPARATOR)
    has_server = bool(separator and tool.server)
    return pattern == "*" or (has_server and fnmatchcase(tool.server, server) and fnmatchcase(tool.name, name))


def _can_mean(tool: Tool, pattern: str) -> bool:
    """Return whether a pattern may mean the tool: one without `__` also by its name, or behind its server's name."""
    if _names_pair(tool, pattern) or SEPARATOR in pattern:
        return _names_pair(tool, pattern)
    if pattern.startswith(OF_FOLDER):
        return tool.of_folder and _can_mean(tool, pattern.removeprefix(OF_FOLDER))
    starts = [tool.server + mark for mark in _MARKS if tool.server]
    return any(fnmatchcase(tool.name, pattern.removeprefix(start)) for start in ("", *starts))


def _means_one_server(pattern: str, tool: Tool, tools: OfferedTools | None) -> bool:
    """Return whether no other server has, or may have, a tool that a pattern without a server matches."""
    if not tool.server:
        return True
    if tools is None or tools.silent or pattern in OWN_TOOLS:
        return False
    return all(match.server in ("", tool.server) for match in find_matching(pattern, [*tools, *tools.withheld]))


def exact_pattern(tool: Tool) -> str:
    """Return the pattern that matches this tool alone, whatever characters a server put into its name."""
    return (OF_FOLDER if tool.of_folder else "") + re.sub(r"[*?[]", r"[\g<0>]", tool.full_name)
