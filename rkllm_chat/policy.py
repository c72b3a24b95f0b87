"""Whether a call runs, is asked about, or is refused. It asks nobody and runs nothing.

A deny pattern is stronger than everything, an allow pattern stronger than the mode. A server's claim that a tool
only reads counts where the user trusts that server; a claim never allows more than the mode does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from .messages import Tool
from .names import SPELLINGS

Decision = Literal["run", "ask", "refuse"]
Consent = Literal["once", "always", "no", "stop"]
"""A person's answer: run it, run this tool without asking from now on, do not run it, end the turn."""
Mode = Literal["ask", "read-only", "all", "none"]


@dataclass(frozen=True)
class Policy:
    """`approve`: "ask" asks unless a trusted server says the tool only reads; "read-only" believes every server in
    that; "all" runs everything; "none" refuses everything. Patterns are shell-like: `board__*`, `get_time`."""

    approve: Mode = "ask"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


def decide(tool: Tool, policy: Policy) -> Decision:
    """The policy's word on a call of this tool."""
    if matches(tool, policy.deny):
        return "refuse"
    if matches(tool, policy.allow) or policy.approve == "all":
        return "run"
    if policy.approve == "none":
        return "refuse"
    believed = tool.trusted or policy.approve == "read-only"
    return "run" if tool.read_only and believed else "ask"


def matches(tool: Tool, patterns: Iterable[str]) -> bool:
    """Whether a pattern names the tool, bare or with its server in any accepted spelling."""
    names = [tool.name, *(f"{tool.server}{mark}{tool.name}" for mark in SPELLINGS)]
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)
