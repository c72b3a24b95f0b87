"""Whether a call runs, is asked about, or is refused. It asks nobody and runs nothing.

A deny pattern is stronger than everything, then comes the limit of calls in a turn; an allow pattern is stronger than
the mode. A server's claim that a tool only reads counts where the user trusts that server, and not for a tool whose
name says that it deletes; a claim never allows more than the mode does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from .messages import Tool
from .names import SPELLINGS

Decision = Literal["run", "ask", "refuse", "spent"]
Consent = Literal["once", "always", "no", "stop"]
"""A person's answer: run it, run this tool without asking from now on, do not run it, end the turn."""
Mode = Literal["ask", "read-only", "all", "none"]
STRICTNESS: tuple[Mode, ...] = ("all", "read-only", "ask", "none")
DELETES = re.compile(r"delete|remove|drop|erase|destroy|overwrite|truncate|wipe|kill", re.IGNORECASE)
"""What says in a tool's name that something may be lost, whatever else its server says."""


@dataclass(frozen=True)
class Policy:
    """`approve`: "ask" asks unless a trusted server says the tool only reads; "read-only" believes every server in
    that; "all" runs everything; "none" refuses everything. Patterns are shell-like: `board__*`, `get_time`.
    `max_calls` bounds what is called in one turn."""

    approve: Mode = "ask"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_calls: int = 100


def decide(tool: Tool, policy: Policy, called: int = 0) -> Decision:
    """The policy's word on a call of this tool; `called` are the calls of the turn until then."""
    if matches(tool, policy.deny):
        return "refuse"
    if called >= policy.max_calls:
        return "spent"
    if matches(tool, policy.allow) or policy.approve == "all":
        return "run"
    if policy.approve == "none":
        return "refuse"
    believed = tool.trusted or policy.approve == "read-only"
    return "run" if tool.read_only and believed and not DELETES.search(tool.name) else "ask"


def is_stricter(one: Mode, other: Mode) -> bool:
    """Whether a mode lets less run than another."""
    return STRICTNESS.index(one) > STRICTNESS.index(other)


def matches(tool: Tool, patterns: Iterable[str]) -> bool:
    """Whether a pattern names the tool, bare or with its server in any accepted spelling."""
    names = [tool.name, *(f"{tool.server}{mark}{tool.name}" for mark in SPELLINGS)]
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)
