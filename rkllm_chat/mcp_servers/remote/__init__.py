"""An MCP server that asks an OpenAI-compatible service, so that a small model here can ask a big one elsewhere.

`server.py` defines the MCP tool, `service.py` the HTTP client. The key is read only from the environment variable that
is named on the command line, so that no key is sent to a service it does not belong to.
"""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...core.errors import UsageError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

KEY_PATTERN = re.compile(r"[!-~]+")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command line options of this server."""
    add = parser.add_argument
    add("--url", required=True, metavar="URL", help="base URL of its API, such as https://api.example.org/v1")
    add("--model", required=True, metavar="NAME", help="name of the model at the service")
    add("--key-env", default="", metavar="VAR", help="environment variable with the key (default: send no key)")
    add("--timeout", default=120, type=int, metavar="S", help="time limit of an answer in seconds (default: 120)")
    add("--max-tokens", default=1024, type=int, metavar="N", help="token limit of an answer (default: 1024)")


def build_server(options: argparse.Namespace) -> MCPServer:
    """Return the server without contacting the service. Raises UsageError."""
    url = _check_url(options.url)
    key = os.environ.get(options.key_env, "") if options.key_env else ""
    if options.key_env and not KEY_PATTERN.fullmatch(key):
        raise UsageError(f"The variable {options.key_env}, which --key-env names, does not contain a key.")
    for name, number in (("--timeout", options.timeout), ("--max-tokens", options.max_tokens)):
        if not 0 < number <= 1_000_000:
            raise UsageError(f"{name} must be from 1 to 1000000.")
    from . import server
    from .service import Service

    service = Service(url, options.model, key, options.key_env, options.timeout)
    return server.build_server(service, options.max_tokens)


def _check_url(url: str) -> str:
    """Return the URL of the chat completions endpoint. Raises UsageError."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise UsageError(f'"{url}" is not the URL of a service.', "Start it with https://.")
    if parts.username or parts.password or parts.query:
        raise UsageError(
            "The --url contains a user name, a password or a query.", "Put the key into a variable: --key-env VAR."
        )
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return f"{parts.scheme}://{parts.netloc}{path}/chat/completions"
