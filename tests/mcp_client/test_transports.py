"""Which transport a configuration means. What goes over each is in tests/real/test_transports.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.errors import ConfigError
from rkllm_chat.mcp_client.transports.registry import make_transport


@pytest.mark.parametrize(
    ("server", "kind", "mode"),
    [
        (ServerConfig("one", command=sys.executable), "stdio", "auto"),
        (ServerConfig("one", url="ws://127.0.0.1:1/"), "websocket", "auto"),
        (ServerConfig("one", url="wss://127.0.0.1:1/"), "websocket", "auto"),
        (ServerConfig("one", url="http://127.0.0.1:1/"), "", "auto"),
        (ServerConfig("one", url="http://127.0.0.1:1/", transport="http"), "http", "auto"),
        (ServerConfig("one", url="http://127.0.0.1:1/", transport="sse"), "sse", "legacy"),
    ],
    ids=["command", "ws", "wss", "unknown", "http", "sse"],
)
def test_a_configuration_means_a_transport(server: ServerConfig, kind: str, mode: str, tmp_path: Path) -> None:
    transport = make_transport(server, tmp_path / "log")
    assert (transport.kind, transport.mode) == (kind, mode)


@pytest.mark.parametrize(
    ("server", "cause"),
    [
        (ServerConfig("one", url="http://127.0.0.1:1/", transport="pigeon"), "stdio, http, sse, websocket"),
        (ServerConfig("one", url="http://127.0.0.1:1/", transport="stdio"), 'the transport "stdio" needs a command'),
        (ServerConfig("one", command="true", transport="http"), 'the transport "http" needs a url'),
    ],
    ids=["unknown", "stdio", "http"],
)
def test_an_unknown_or_unfit_transport_is_rejected(server: ServerConfig, cause: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=cause):
        make_transport(server, tmp_path / "log")
