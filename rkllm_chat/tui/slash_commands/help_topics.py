"""GROUPS: how help arranges the commands; their actions are those of the language files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...core.i18n import Words
from .registry import COMMANDS, Command

GROUPS: dict[str, tuple[str, ...]] = {
    "conversation": ("/attach", "/retry", "/edit", "/undo", "/copy", "/compact", "/context", "/calls"),
    "sessions": ("/clear", "/sessions", "/export"),
    "servers": ("/tools", "/call", "/permissions", "/mcp", "/resources", "/prompt", "/skills"),
    "model": ("/model", "/system", "/set"),
    "program": ("/help", "/doctor", "/quit"),
}
"""Names of the commands by group, in the order in which help lists them."""

_ACTION = re.compile(r"(?:[A-Z]+ )?([a-z]+(?: [a-z]+(?= |$))*)")
"""The words of an action that are written as they stand, behind its argument if that comes first."""


def iter_groups() -> Iterator[tuple[str, list[Command]]]:
    """Yield each group with its commands; those of no group come last."""
    grouped = {name for names in GROUPS.values() for name in names}
    rest = [entry for entry in dict.fromkeys(COMMANDS.values()) if entry.names[0] not in grouped]
    yield from ((group, [COMMANDS[name] for name in names]) for group, names in GROUPS.items())
    if rest:
        yield "other", rest


def list_actions(name: str, words: Words) -> dict[str, str]:
    """Return what can be written behind a command, and its explanation."""
    return {
        key.removeprefix(f"actions.{name} "): text
        for key, text in words.sentences.items()
        if key.startswith(f"actions.{name} ")
    }


def explain_action(name: str, action: str, words: Words) -> str:
    """Return the explanation of an action of a command; "" if there is none."""
    explained = ((_ACTION.match(written), text) for written, text in list_actions(name, words).items())
    return next((text for match, text in explained if match and match[1] == action), "")
