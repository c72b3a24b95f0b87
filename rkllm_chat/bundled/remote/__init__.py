"""An MCP server that asks an OpenAI-compatible service, so that a small model here can ask a big one elsewhere.

`server.py` speaks MCP; `service.py` knows the service. The key comes from the environment alone, from the variable that
is named, so that no key goes to a service that it was not meant for.
"""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...errors import UsageError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

KEY = re.compile(r"[!-~]+")


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--url", required=True, metavar="URL", help="where its API begins, such as https://api.example.org/v1")
    add("--model", required=True, metavar="NAME", help="as the service calls it")
    add("--key-env", default="", metavar="VAR", help="the environment variable with its key (default: no key is sent)")
    add("--timeout", default=120, type=int, metavar="S", help="seconds that an answer may take (default: 120)")
    add("--max-tokens", default=1024, type=int, metavar="N", help="tokens of one answer at most (default: 1024)")


def build_server(options: argparse.Namespace) -> MCPServer:
    """Raises UsageError. The service is not called."""
    url = check_url(options.url)
    key = os.environ.get(options.key_env, "") if options.key_env else ""
    if options.key_env and not KEY.fullmatch(key):
        raise UsageError(f"The variable {options.key_env}, which --key-env names, holds no key.")
    for name, number in (("--timeout", options.timeout), ("--max-tokens", options.max_tokens)):
        if not 0 < number <= 1_000_000:
            raise UsageError(f"{name} must be from 1 to 1000000.")
    from . import server
    from .service import Service

    service = Service(url, options.model, key, options.key_env, options.timeout)
    return server.build_server(service, options.max_tokens)


def check_url(url: str) -> str:
    """The URL where chats are completed. Raises UsageError."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_one = False
    if not is_one:
        raise UsageError(f'"{url}" is no URL of a service.', "Begin it with https://.")
    if parts.username or parts.password or parts.query:
        raise UsageError("The --url holds a user, a password or a query.", "A key goes into a variable: --key-env VAR.")
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return f"{parts.scheme}://{parts.netloc}{path}/chat/completions"
