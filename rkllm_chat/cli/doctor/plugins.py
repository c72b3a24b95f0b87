"""List what other packages add, such as engines, call formats and commands. None is imported."""

from __future__ import annotations

from collections.abc import Container, Iterator

from ...backends import BACKENDS
from ...calls.formats import FORMATS
from ...config.transports import TRANSPORTS
from ...core.plugins import KINDS, PluginKind, find_plugins, name_kind
from ...mcp_servers import BUNDLED
from ...storage.export import EXPORTS
from .board import Board, Finding, untried, wrong

_BUILT_IN: dict[PluginKind, Container[str]] = {
    "backends": ("auto", *BACKENDS),
    "formats": FORMATS,
    "servers": BUNDLED,
    "exports": EXPORTS,
    "transports": TRANSPORTS,
}


def check_plugins(board: Board) -> Iterator[Finding]:
    """Yield a line for each plugin; one with the name of something built in is not used."""
    for kind in KINDS if board.is_this_machine else ():
        for plugin in find_plugins(kind).values():
            what = f"{name_kind(kind)} {plugin.name}: {plugin.package} ({plugin.target})"
            is_hidden = plugin.name in _list_built_in(kind)
            yield wrong(what, "The name is built in; the plugin is not used.") if is_hidden else untried(what)


def _list_built_in(kind: PluginKind) -> Container[str]:
    if kind == "commands":
        from ..commands import COMMANDS  # which lists this package

        return COMMANDS
    if kind == "slash_commands":
        # Asked for only where there is such a plugin: the import takes all of prompt_toolkit.
        from ...tui.slash_commands.registry import COMMANDS as SLASH_COMMANDS

        return {name.removeprefix("/") for name in SLASH_COMMANDS}
    return _BUILT_IN[kind]
