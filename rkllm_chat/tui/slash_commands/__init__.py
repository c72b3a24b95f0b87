"""Slash commands. Importing the package registers all of them in COMMANDS.

To add one, decorate a coroutine function with `@command` in a module that is imported below; the first line of its
docstring is its help.
"""

from . import (  # noqa: F401  # registers them
    basics,
    history,
    model,
    own_prompts,
    permissions,
    pictures,
    plugin_commands,
    resources,
    servers,
    sessions,
    settings,
    skills,
    tools,
)
from .basics import explain
from .registry import COMMANDS, escape_message, is_command, is_known, leaves, needs_no_turn, remove_escape, run

__all__ = [
    "COMMANDS",
    "escape_message",
    "explain",
    "is_command",
    "is_known",
    "leaves",
    "needs_no_turn",
    "remove_escape",
    "run",
]
