"""Slash commands. Importing the package registers all of them in COMMANDS.

To add one, decorate an async generator with `@command` in a module that is imported below; its help text is
`commands.NAME` in the language files.
"""

from . import basics, history, model, permissions, resources, servers, sessions, tools  # noqa: F401  # registers them
from .registry import COMMANDS, escape_message, is_command, leaves, run

__all__ = ["COMMANDS", "escape_message", "is_command", "leaves", "run"]
