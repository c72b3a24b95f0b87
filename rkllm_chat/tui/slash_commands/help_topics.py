"""GROUPS and ACTIONS: how help arranges the commands, and the actions that it explains."""

from __future__ import annotations

from collections.abc import Iterator

from .registry import COMMANDS, Command

GROUPS: dict[str, tuple[str, ...]] = {
    "conversation": ("/attach", "/retry", "/edit", "/undo", "/copy", "/compact", "/context", "/calls"),
    "sessions": ("/clear", "/sessions", "/export"),
    "servers": ("/tools", "/call", "/permissions", "/mcp", "/resources", "/prompt", "/skills"),
    "model": ("/model", "/system", "/set"),
    "program": ("/help", "/doctor", "/quit"),
}
"""Names of the commands by group, in the order in which help lists them."""

ACTIONS: dict[str, dict[str, str]] = {
    "/tools": {
        "NAME ...": "name",
        "on NAME ...": "on",
        "off NAME ...": "off",
        "only NAME ...": "only",
        "all": "all",
        "none": "none",
        "forget": "forget",
    },
    "/permissions": {
        "allow PATTERN": "allow",
        "deny PATTERN": "deny",
        "forget PATTERN": "forget",
        "mode read-only|ask|auto": "mode",
    },
    "/mcp": {
        "list": "list",
        "status": "status",
        "NAME": "name",
        "get NAME": "name",
        "add NAME -- COMMAND ...": "add",
        "add NAME URL": "add_url",
        "remove NAME": "remove",
        "enable NAME": "enable",
        "disable NAME": "disable",
        "enable NAME --save": "save",
        "disable NAME --save": "save",
        "restart NAME": "restart",
        "reload": "reload",
        "schema TOOL": "schema",
        "log NAME": "log",
        "auth NAME [forget]": "auth",
        "review [NAME]": "review",
        "allow NAME write FOLDER": "allow",
        "allow NAME network": "allow_network",
        "allow NAME reset": "allow_reset",
    },
    "/set": {
        "KEY": "show",
        "KEY VALUE": "value",
        "KEY default": "default",
        "KEY VALUE --save": "save",
        "thinking show": "thinking_show",
        "thinking hide": "thinking_hide",
    },
    "/system": {"TEXT": "text", "reset": "reset"},
    "/copy": {"code": "code", "code NUMBER": "code_number"},
    "/attach": {"NUMBER": "number", "NUMBER FILE": "save"},
    "/resources": {"SERVER": "server", "watch": "watched", "watch URI": "watch", "unwatch URI": "unwatch"},
    "/sessions": {"WORDS": "words", "resume ID": "resume"},
    "/context": {"cache": "cache", "prompt": "prompt", "prompt TEXT": "prompt_text", "usage": "usage"},
    "/compact": {"preview": "preview"},
}
"""What can be written behind a command, and the key of its explanation behind `actions.` and the command's name."""


def iter_groups() -> Iterator[tuple[str, list[Command]]]:
    """Yield each group with its commands; those of no group come last."""
    grouped = {name for names in GROUPS.values() for name in names}
    rest = [entry for entry in dict.fromkeys(COMMANDS.values()) if entry.names[0] not in grouped]
    yield from ((group, [COMMANDS[name] for name in names]) for group, names in GROUPS.items())
    if rest:
        yield "other", rest
