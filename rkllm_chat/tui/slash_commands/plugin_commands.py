"""Slash commands of other packages, each imported when a line or its help asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache

from ...chat.app import App
from ...core.plugins import Plugin, find_plugins, load_plugin
from .registry import SOURCES, Command, CommandSource, make_command

_USAGE = "[TEXT]"


@cache
def _find_plugins() -> dict[str, Plugin]:
    """Return the plugins by name; looking for them takes about 30 ms, and each keystroke may ask for the names."""
    return find_plugins("slash_commands")


async def _find_command(_app: App, name: str) -> Command | None:
    """Return the command of a name without its slash. Raises ConfigError if it cannot be loaded."""
    plugin = (await asyncio.to_thread(_find_plugins)).get(name.lower())
    return make_command(load_plugin(plugin), (f"/{plugin.name}",), _USAGE) if plugin else None


async def _list_commands(_app: App) -> Mapping[str, str]:
    """Return the package of each command by its name; what it does is known once it is imported."""
    found = await asyncio.to_thread(_find_plugins)
    return {f"/{plugin.name.lower()}": plugin.package for plugin in found.values()}


SOURCES.append(CommandSource(_find_command, _list_commands))
