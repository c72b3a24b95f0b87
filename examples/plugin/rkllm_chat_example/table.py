"""A transport: a server with the URL `dice://20` is the dice server of this package, with dice of 20 sides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from rkllm_chat.config.servers import ServerConfig
from rkllm_chat.mcp_client.transports.base import Transport
from rkllm_chat.mcp_client.transports.stdio import StdioTransport


def make_transport(server: ServerConfig, log: Path) -> Transport:
    """Return the transport; one that is no process derives a class of its own from `Transport`."""
    sides = urlsplit(server.url).hostname or "6"
    command = replace(server, url="", command="rkllm-chat", args=("serve", "dice", "--sides", sides))
    return StdioTransport(command, log)
