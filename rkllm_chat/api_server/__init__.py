"""Serve the model to other programs through the APIs of OpenAI and Ollama.

`chat_request.py` describes a request whatever API it came through, `generation.py` turns it into a stream of reply
events, `model_host.py` loads one model at a time and lets one request run at a time, and `openai_api.py` reads and
writes the shapes of the API. A model is loaded at its first request.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from ..config.settings import Settings
from ..core.errors import UsageError
from ..mcp_servers import parse_port
from ..mcp_servers.llm import add_model_options, read_settings

__all__ = ["LOOPBACK", "NAME", "Limits", "add_options", "read_options"]

NAME = "openai"
"""Name of the server on the command line."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Addresses to listen on that only this machine reaches, so that a token may be turned off."""
_MAX_WAITING, _MAX_REPLY_S, _IDLE_S, _STATES_MB = 64, 600.0, 600.0, 256
_MB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """Limits of the server.

    Attributes:
        host: Address that it listens on.
        allowed_hosts: Further host names that requests may use.
        max_waiting: Requests that may wait for the model; further ones are refused with 429.
        max_reply_s: Time limit of a request once it has the model, in seconds.
        idle_s: Seconds without a request after which the model is unloaded; 0 keeps it.
        states_bytes: Memory for the states of conversations that alternate, with llama.cpp.
        uses_servers: Whether the model also calls tools of the configured MCP servers.
        origins: Origins of web pages of others that may use the server.
        first_s: Seconds after which a stream begins although it has nothing yet; an error before that has a status.
        keep_alive_s: Seconds of silence after which a stream says that it is alive.
    """

    host: str = LOOPBACK[0]
    allowed_hosts: tuple[str, ...] = ()
    max_waiting: int = _MAX_WAITING
    max_reply_s: float = _MAX_REPLY_S
    idle_s: float = _IDLE_S
    states_bytes: int = _STATES_MB * _MB
    uses_servers: bool = False
    origins: tuple[str, ...] = ()
    first_s: float = 0.5
    keep_alive_s: float = 10.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command line options of the server."""
    add = parser.add_argument
    add("--host", metavar="ADDRESS", default=LOOPBACK[0], help="address to listen on (default: 127.0.0.1)")
    add("--port", metavar="PORT", type=parse_port, default=8080, help="port; 0 selects a free one (default: 8080)")
    add(
        "--token-env",
        metavar="VAR",
        default="",
        help="environment variable with the token that requests must send (default: one that is made and stored)",
    )
    add("--no-token", action="store_true", help="require no token; any user of this machine can then use the server")
    add(
        "--yes-without-token",
        action="store_true",
        help="let --mcp and --no-token stand together: any user of this machine can then call the tools",
    )
    add("--allow-host", metavar="NAME", action="append", help="further host name of this server; may be repeated")
    add("--allow-origin", metavar="URL", action="append", help="origin of a web page that may use it; may be repeated")
    add(
        "--mcp",
        action="store_true",
        help="let the model also call tools of the configured MCP servers; a call that needs approval is declined",
    )
    add_model_options(parser)
    add(
        "--wait-for-model",
        action="store_true",
        help="listen although the model cannot be loaded yet, and answer 503 until it can",
    )
    add(
        "--max-waiting",
        metavar="N",
        type=int,
        default=_MAX_WAITING,
        help=f"requests that may wait for the model (default: {_MAX_WAITING})",
    )
    add(
        "--max-reply-s",
        metavar="X",
        type=float,
        default=_MAX_REPLY_S,
        help=f"time limit of a reply in seconds (default: {_MAX_REPLY_S:g})",
    )
    add(
        "--idle-s",
        metavar="X",
        type=float,
        default=_IDLE_S,
        help=f"unload the model after so many seconds without a request; 0 keeps it (default: {_IDLE_S:g})",
    )
    add(
        "--states-mb",
        metavar="N",
        type=int,
        default=_STATES_MB,
        help=f"memory for conversations that alternate, with llama.cpp (default: {_STATES_MB})",
    )


def read_options(options: argparse.Namespace) -> tuple[Settings, Limits]:
    """Return the settings of the model and the limits of the server.

    Raises:
        ConfigError: The configuration is invalid.
        UsageError: An option is out of its range, options contradict each other, or the backend is unknown.
    """
    _check_token_options(options)
    least = {"max_waiting": 0, "idle_s": 0, "states_mb": 0, "max_reply_s": 0.001}
    for name, number in least.items():
        if not getattr(options, name) >= number:
            raise UsageError(f"--{name.replace('_', '-')} must be {number:g} or more.")
    limits = Limits(
        options.host,
        tuple(options.allow_host or ()),
        options.max_waiting,
        options.max_reply_s,
        options.idle_s,
        options.states_mb * _MB,
        options.mcp,
        tuple(origin.rstrip("/") for origin in options.allow_origin or ()),
    )
    return read_settings(options), limits


def _check_token_options(options: argparse.Namespace) -> None:
    """Raise UsageError if no token is to be required where one must be."""
    if not options.no_token:
        return
    if options.token_env:
        raise UsageError("--token-env and --no-token exclude each other.")
    if options.host not in LOOPBACK:
        raise UsageError("With --host other machines can reach the server, so it requires a token.")
    if options.mcp and not options.yes_without_token:
        raise UsageError(
            "With --mcp and --no-token every user of this machine could call the tools of your MCP servers.",
            "Leave out --no-token, or add --yes-without-token.",
        )
