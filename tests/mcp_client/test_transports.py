"""Which transport a configuration means. What goes over each is in tests/real/test_transports.py."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from rkllm_chat.config.oauth import OAuth
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.config.transports import TRANSPORTS
from rkllm_chat.core.errors import ConfigError
from rkllm_chat.mcp_client.direct.open_server import open_server
from rkllm_chat.mcp_client.transports.registry import make_transport

from .faults import TESTS, Trial, try_each
from .unix_site import open_unix_site

# Mode of a server on a Unix socket -> what comes of a call, or a part of why it fails.
ON_SOCKETS = {
    "ok": "act is done",
    "partial-line": "whole",
    "exit-zero-on-call": "The connection to server",
    "huge-result": "[The result was cut: it has 95 MB, the limit is 4 MB.]",
}


@pytest.mark.parametrize(
    ("server", "kind", "mode"),
    [
        (ServerConfig("one", command=sys.executable), "stdio", "auto"),
        (ServerConfig("one", url="ws://127.0.0.1:1/"), "websocket", "auto"),
        (ServerConfig("one", url="wss://127.0.0.1:1/"), "websocket", "auto"),
        (ServerConfig("one", url="unix:///run/one"), "unix", "auto"),
        (ServerConfig("one", url="http://127.0.0.1:1/"), "", "auto"),
        (ServerConfig("one", url="http://127.0.0.1:1/", transport="http"), "http", "auto"),
        (ServerConfig("one", url="http://127.0.0.1:1/", transport="sse"), "sse", "legacy"),
    ],
    ids=["command", "ws", "wss", "unix", "unknown", "http", "sse"],
)
def test_a_configuration_means_a_transport(server: ServerConfig, kind: str, mode: str, tmp_path: Path) -> None:
    transport = make_transport(server, tmp_path / "log")
    assert (transport.kind, transport.mode) == (kind, mode)


@pytest.mark.parametrize(
    ("server", "cause"),
    [
        (ServerConfig("one", url="http://127.0.0.1:1/", transport="pigeon"), ", ".join(TRANSPORTS)),
        (ServerConfig("one", url="http://127.0.0.1:1/", transport="stdio"), 'the transport "stdio" needs a command'),
        (ServerConfig("one", command="true", transport="http"), 'the transport "http" needs a url'),
    ],
    ids=["unknown", "stdio", "http"],
)
def test_an_unknown_or_unfit_transport_is_rejected(server: ServerConfig, cause: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=cause):
        make_transport(server, tmp_path / "log")


def open_chaos(mode: str) -> AbstractContextManager[str]:
    return open_unix_site([sys.executable, "-S", "-m", "mcp_client.chaos", mode], {"PYTHONPATH": str(TESTS)})


def test_a_server_on_a_unix_socket_is_used_as_any_other(tmp_path: Path) -> None:
    async def act(trial: Trial) -> str:
        return (await trial.act()).text

    with ExitStack() as stack:
        urls = {mode: stack.enter_context(open_chaos(mode)) for mode in ON_SOCKETS}
        found = try_each(tmp_path, [ServerConfig(mode, url=url, timeout_s=5) for mode, url in urls.items()], act)
        with open_server(ServerConfig("one", url=urls["ok"], transport="unix")) as session:
            assert session.call_tool("act", {})["content"] == [{"type": "text", "text": "act is done"}]
    assert {mode: text for mode, text in found.items() if ON_SOCKETS[mode] not in text} == {}


@pytest.mark.root
def test_a_unix_socket_of_another_user_is_refused_unless_that_is_allowed(tmp_path: Path) -> None:
    async def look(trial: Trial) -> str:
        return str(trial.toolbox.failures.get(trial.server) or (await trial.act()).text)

    command = [sys.executable, "-S", "-m", "mcp_client.chaos", "ok"]
    with open_unix_site(command, {"PYTHONPATH": str(TESTS)}, user=65534) as url:
        configs = [ServerConfig("strict", url=url), ServerConfig("allowed", url=url, allow_insecure=True)]
        found = try_each(tmp_path, configs, look)
    assert found["strict"] == (
        f'Server "strict": at {unquote(url.removeprefix("unix://"))} listens another user, nobody. '
        "Set allow_insecure = true if you trust that user with what is sent."
    )
    assert found["allowed"] == "act is done"


@pytest.mark.parametrize("given", [{"headers": {"Authorization": "Bearer secret"}}, {"oauth": OAuth(client_id="a")}])
def test_what_a_unix_socket_does_not_carry_is_refused(given: dict[str, Any], tmp_path: Path) -> None:
    async def look(trial: Trial) -> str:
        return str(trial.failure)

    (key,) = given
    with open_chaos("ok") as url:
        found = try_each(tmp_path, [ServerConfig("chaos", url=url, **given)], look)["chaos"]
    assert found == (
        f'Server "chaos" has {key}, which a server on a Unix socket does not get. '
        f"Remove {key}; the rights of the socket decide."
    )


def test_a_unix_socket_where_nothing_listens_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nobody here"

    async def look(trial: Trial) -> str:
        return str(trial.failure)

    config = ServerConfig("chaos", url=f"unix://{quote(str(path))}")
    assert try_each(tmp_path, [config], look)["chaos"] == (
        f'Server "chaos": {path} cannot be opened: No such file or directory. Check that the server runs.'
    )
