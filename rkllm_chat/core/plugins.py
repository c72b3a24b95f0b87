"""Plugins: what other packages add, such as an engine, a call format or a slash command, announced as entry points.

A package announces a plugin in the entry point group `rkllm_chat.KIND` under the name that users write. A plugin is
imported only when it is asked for by that name, and never replaces what is built in. Looking for plugins takes about
30 ms, so that is also done only for a name that is not built in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, get_args

from .errors import ConfigError, UsageError

PluginKind = Literal["backends", "formats", "commands", "servers", "slash_commands", "exports", "transports"]
KINDS: tuple[PluginKind, ...] = get_args(PluginKind)
"""What each kind of plugin is:

- backends: an instance of a class of `rkllm_chat.backends.Engine`, or only its function `open`:
  `(settings: Settings) -> Backend`, which loads the model.
- formats: a `Format` with that name.
- commands: a module with `make_parser() -> ArgumentParser` and `main(arguments) -> exit code`.
- servers: a module with `add_options(parser)` and `build_server(options) -> MCPServer`; its docstring is the help text.
- slash_commands: a coroutine function `(app, argument, emit)`; the first line of its docstring is the help text.
- exports: a function `(conversation: ExportedConversation, words: Words) -> str`.
- transports: a function `(server: ServerConfig, log: Path) -> Transport`.
"""
_MAX_REASON_CHARS = 300
_MEMBERS: dict[PluginKind, tuple[str, ...]] = {
    "backends": (),
    "formats": ("name", "layout", "openers"),
    "commands": ("make_parser", "main"),
    "servers": ("add_options", "build_server"),
    "slash_commands": ("__call__",),
    "exports": ("__call__",),
    "transports": ("__call__",),
}


class Plugin(NamedTuple):
    """An announced plugin.

    Attributes:
        kind: What it adds.
        name: Name by which users ask for it.
        target: Where it is: "module" or "module:attribute".
        package: Name and version of the package that announces it.
    """

    kind: PluginKind
    name: str
    target: str
    package: str


def name_kind(kind: PluginKind) -> str:
    """Return what one plugin of a kind is called."""
    return kind[:-1].replace("_", " ")


def find_plugins(kind: PluginKind) -> dict[str, Plugin]:
    """Return the plugins of a kind by their names; of two with one name, the package first in the alphabet wins."""
    from importlib.metadata import entry_points

    found: dict[str, Plugin] = {}
    for entry in entry_points(group=f"rkllm_chat.{kind}"):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""
        plugin = Plugin(kind, entry.name, entry.value, package)
        found[entry.name] = min(plugin, found.get(entry.name, plugin), key=lambda plugin: plugin.package)
    return dict(sorted(found.items()))


def load_plugin(plugin: Plugin) -> Any:
    """Import a plugin.

    Raises:
        ConfigError: It cannot be imported, or is not what its kind demands.
    """
    from contextlib import redirect_stdout
    from pkgutil import resolve_name

    try:
        with redirect_stdout(sys.stderr):  # what it prints would be part of a JSON document
            loaded = resolve_name(plugin.target)
        is_usable = plugin.kind != "backends" or callable(loaded) or hasattr(loaded, "open")
        missing = [member for member in _MEMBERS[plugin.kind] if not hasattr(loaded, member)]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a foreign module raises, SystemExit included: it would end a turn with 0
        raise _error(plugin, f"{type(error).__name__}: {error}"[:_MAX_REASON_CHARS]) from error
    if not is_usable:
        raise _error(plugin, f"{plugin.target} is no function and has no open")
    if missing:
        raise _error(plugin, f"{plugin.target} has no {' and no '.join(missing)}")
    return loaded


def find_plugin(kind: PluginKind, name: str, built_in: Iterable[str] = ()) -> Any:
    """Import the plugin that a user asked for by a name that is not built in.

    Args:
        kind: What is asked for.
        name: The name.
        built_in: Names that are built in, to propose them.

    Raises:
        UsageError: There is no plugin with that name.
        ConfigError: The plugin cannot be loaded.
    """
    from difflib import get_close_matches

    plugins = find_plugins(kind)
    if name in plugins:
        return load_plugin(plugins[name])
    known = [*built_in, *plugins]
    matches = get_close_matches(name, known, n=1)
    text = f'There is no {name_kind(kind)} "{name}".'
    hint = f"Did you mean {matches[0]}?" if matches else f"Known {kind.replace('_', ' ')}: {', '.join(known)}."
    raise UsageError(text, hint, got=name, closest=matches, available=known)


def _error(plugin: Plugin, reason: str) -> ConfigError:
    text = f'The {name_kind(plugin.kind)} "{plugin.name}" of {plugin.package} cannot be loaded: {reason}.'
    return ConfigError(text, "Install another version of that package, or remove it.", plugin=plugin.name)
