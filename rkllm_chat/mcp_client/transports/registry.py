"""Open the transport of a server: a row of `config.transports.TRANSPORTS`, or a plugin's.

A transport is an async context manager that yields the `Driver` of its connection. To add one, write a subclass of
Transport and a row; a plugin names what makes one. Each module is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...config.servers import ServerConfig
from ...config.transports import COMMAND_TRANSPORT, TRANSPORTS, guess_transport
from ...core.errors import ConfigError, UsageError
from ...core.plugins import find_plugin, find_plugins

if TYPE_CHECKING:
    from .base import Transport

_Opener = Callable[[ServerConfig, Path], "Transport"]


def make_transport(server: ServerConfig, log: Path, source: Any = None) -> Transport:
    """Return the configured transport, not yet entered; by default the kind follows from command or URL.

    Args:
        server: The server's configuration.
        log: The server's log file.
        source: A server in this process (an `MCPServer`), in place of what the configuration names.

    Raises:
        ConfigError: The transport is unknown, or does not fit command or URL.
        ConnectError: The command or the working folder does not exist.
    """
    if source is not None:
        from .in_process import InProcessTransport

        return InProcessTransport(server, log, source)
    name = server.transport or guess_transport(server.url)
    if name not in TRANSPORTS:
        return _find_plugin(server, name)(server, log)
    wanted = "command" if name == COMMAND_TRANSPORT else "url"
    if not getattr(server, wanted):
        raise ConfigError(f'Server "{server.name}": the transport "{name}" needs a {wanted}.')
    module, _, opener = TRANSPORTS[name].opener.partition(":")
    opened: Transport = getattr(import_module(module), opener)(server, log)
    return opened


def _find_plugin(server: ServerConfig, name: str) -> _Opener:
    try:
        opener: _Opener = find_plugin("transports", name, TRANSPORTS)
    except UsageError:
        known = ", ".join((*TRANSPORTS, *find_plugins("transports")))
        raise ConfigError(f'Server "{server.name}": there is no transport "{name}".', f"Use one of {known}.") from None
    return opener
