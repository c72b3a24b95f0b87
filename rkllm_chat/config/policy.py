"""Approval policy of tool calls: run, ask, refuse, or refuse because the limit per turn is spent.

Precedence: deny patterns, the limit of calls per turn, the session's read-only mode, allow patterns, the configured
mode, the session's mode. A server's claim that a tool is read-only counts only if the user trusts the server and the
tool's name does not suggest deletion; it never allows more than the mode does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from ..calls.tool_names import NAME_SEPARATORS
from ..core.messages import Tool

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


@dataclass(frozen=True)
class Policy:
    """Approval settings.

    Attributes:
        approve: Which tools run without a question: with "ask" those that a trusted server calls read-only, with
            "read-only" those that any server calls so, with "all" every tool; "none" refuses all.
        allow: Tools that run without a question, by name or pattern: `board__*`, `get_time`.
        deny: Tools that never run, by name or pattern.
        max_calls: How many tools may run for one question.
    """

    approve: Mode = "ask"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_calls: int = 100


def decide_call(tool: Tool, policy: Policy, called: int = 0, mode: SessionMode | None = None) -> Decision:
    """Decide whether a call of the tool runs.

    Args:
        tool: The tool.
        policy: Approval settings.
        called: Number of calls made in this turn so far.
        mode: Mode of the session; None follows the policy. "auto" runs only what the policy would ask about.
    """
    if matches_patterns(tool, policy.deny):
        return "refuse"
    if called >= policy.max_calls:
        return "spent"
    is_reader = tool.read_only and not DELETION_WORDS.search(tool.name)
    if mode == "read-only" and not is_reader:
        return "refuse"
    if matches_patterns(tool, policy.allow) or (policy.approve == "all" and mode in (None, "auto")):
        return "run"
    if policy.approve == "none":
        return "refuse"
    trusts_claim = tool.trusted or policy.approve == "read-only"
    return "run" if (is_reader and trusts_claim) or mode == "auto" else "ask"


def describe_mode(policy: Policy, mode: SessionMode | None) -> SessionMode | Literal["none"]:
    """Return the mode that is in force: that of the session, else what the policy amounts to."""
    if policy.approve == "none":
        return "none"
    return mode or ("auto" if policy.approve == "all" else "ask")


def is_stricter(one: Mode, other: Mode) -> bool:
    """Return whether mode `one` lets less run than `other`."""
    return _STRICTNESS.index(one) > _STRICTNESS.index(other)


def matches_patterns(tool: Tool, patterns: Iterable[str]) -> bool:
    """Return whether a pattern matches the tool's name, bare or with its server in any accepted spelling."""
    names = [tool.name, *(f"{tool.server}{separator}{tool.name}" for separator in NAME_SEPARATORS)]
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def exact_pattern(tool: Tool) -> str:
    """Return the pattern that matches this tool alone, whatever characters a server put into its name."""
    return re.sub(r"[*?[]", r"[\g<0>]", tool.full_name)
