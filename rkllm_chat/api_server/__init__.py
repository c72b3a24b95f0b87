"""Serve the model to other programs through the APIs of OpenAI and Ollama.

`chat_request.py` describes a request whatever API it came through, `generation.py` turns it into a stream of reply
events, `model_host.py` loads one model at a time and lets one request run at a time, and `openai_api.py` reads and
writes the shapes of the API. A model is loaded at its first request.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.errors import UsageError
from ..mcp_servers import parse_port
from ..mcp_servers.llm import add_model_options, read_model_settings

if TYPE_CHECKING:
    from ..config.settings import Settings

__all__ = ["LIMITS", "LOOPBACK", "NAME", "Limits", "add_options", "read_options"]

NAME = "openai"
"""Name of the server on the command line."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Addresses to listen on that only this machine reaches, so that a token may be turned off."""
LIMITS = {"max_waiting": 64, "max_reply_s": 600.0, "idle_s": 600.0, "states_mb": 256}
"""The limits that `--limit` sets, with their defaults."""
_MAX_LIMIT = 1e6
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
        states_bytes: Memory for the states of conversations that alternate, with llama.cpp; 0 also turns off the files
            of beginnings, with RKLLM.
        uses_servers: Whether the model also calls tools of the configured MCP servers.
        origins: Origins of web pages of others that may use the server.
        first_s: Seconds after which a stream begins although it has nothing yet; an error before that has a status.
        keep_alive_s: Seconds of silence after which a stream says that it is alive.
    """

    host: str = LOOPBACK[0]
    allowed_hosts: tuple[str, ...] = ()
    max_waiting: int = 64
    max_reply_s: float = 600.0
    idle_s: float = 600.0
    states_bytes: int = 256 * _MB
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
    add("--yes-without-token", action="store_true", help=argparse.SUPPRESS)  # goes in version 0.3
    hosts = "further host name of this server, or the URL of a web page that may use it; may be repeated"
    add("--allow-host", metavar="NAME|URL", action="append", default=[], help=hosts)
    add("--allow-origin", dest="allow_host", action="append", help=argparse.SUPPRESS)  # goes in version 0.3
    add(
        "--mcp",
        action="store_true",
        help="let the model also call tools of the configured MCP servers; a call that needs approval is declined",
    )
    add_model_options(parser)
    add(
        "--no-check",
        action="store_true",
        help="listen although the model cannot be loaded yet; answer 503 until it can",
    )
    add("--wait-for-model", dest="no_check", action="store_true", help=argparse.SUPPRESS)  # goes in version 0.3
    add("--allow-pull", action="store_true", help="let clients download models, as `rkllm-chat models pull` does")
    known = ", ".join(f"{name}={number:g}" for name, number in LIMITS.items())
    about = f"set a limit, see docs/serving-clients.md; repeatable (default: {known})"
    add("--limit", metavar="NAME=N", action="append", default=[], help=about)


def read_options(options: argparse.Namespace) -> tuple[Settings, Limits]:
    """Return the settings of the model and the limits of the server.

    Raises:
        ConfigError: The configuration is invalid.
        UsageError: An option is out of its range, options contradict each other, or the backend is unknown.
    """
    _check_token_options(options)
    numbers = _read_limits(options)
    limits = Limits(
        options.host,
        tuple(host for host in options.allow_host if "://" not in host),
        int(numbers["max_waiting"]),
        numbers["max_reply_s"],
        numbers["idle_s"],
        int(numbers["states_mb"] * _MB),
        options.mcp,
        tuple(host.rstrip("/") for host in options.allow_host if "://" in host),
    )
    return read_model_settings(options), limits


def _read_limits(options: argparse.Namespace) -> dict[str, float]:
    """Return the limits that are set and the defaults of the others. Raises UsageError."""
    numbers: dict[str, float] = {**LIMITS}
    for pair in options.limit:
        name, _, text = pair.partition("=")
        try:
            numbers[name.strip()] = float(text)
        except ValueError:
            raise UsageError(f'--limit "{pair}" has no number.', "Write NAME=N.", got=pair) from None
    if unknown := next(iter(numbers.keys() - LIMITS.keys()), None):
        raise UsageError(f'--limit "{unknown}" is not known.', f"Known are {', '.join(LIMITS)}.", got=unknown)
    for name, number in numbers.items():
        least = 0.001 if name == "max_reply_s" else 0
        if not least <= number <= _MAX_LIMIT:
            raise UsageError(f"{name} must be from {least:g} to {_MAX_LIMIT:g}.", got=number)
    return numbers


def _check_token_options(options: argparse.Namespace) -> None:
    """Raise UsageError if no token is to be required where one must be."""
    if not options.no_token:
        return
    if options.token_env:
        raise UsageError("--token-env and --no-token exclude each other.")
    if options.host not in LOOPBACK:
        raise UsageError("With --host other machines can reach the server, so it requires a token.")
    if (options.mcp or options.allow_pull) and not options.yes_without_token:
        raise UsageError(
            "With --mcp or --allow-pull, and --no-token, every user of this machine could call the tools of your MCP "
            "servers or fill its disk.",
            "Leave out --no-token: clients find the token where it is stored.",
        )
