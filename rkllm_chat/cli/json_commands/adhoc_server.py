"""Build a server from the command line alone: `--url` or `--stdio`, with `--header` and `--env`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ...config.servers import ServerConfig, decode_server
from ...config.trust_rules import Origin
from ...core.errors import UsageError

if TYPE_CHECKING:
    from .options import Options

_SOURCE = "command line"


def make_server(options: Options) -> ServerConfig:
    """Build the server from the options.

    `${VAR}` references are expanded later, as in a configuration file. Headers are sent to plain http URLs
    too: a user who writes both on one command line intends it.

    Raises:
        UsageError: `--stdio`, `--header` or `--env` cannot be parsed.
    """
    if options.url is not None:
        headers = dict(split_pair(pair, ":", "--header") for pair in options.header)
        entry = {"name": "url", "url": options.url, "headers": headers, "allow_insecure": True}
        return decode_server(entry, _SOURCE, _SOURCE, Origin.COMMAND_LINE)
    try:
        command_words = shlex.split(options.stdio)
    except ValueError as error:
        raise UsageError(f"--stdio is not a valid command: {error}.", "Check its quotes.", got=options.stdio) from None
    if not command_words:
        raise UsageError("--stdio is empty.", 'Write the command: --stdio "npx some-server".')
    env = dict(split_pair(pair, "=", "--env") for pair in options.env)
    entry = {"name": "stdio", "command": command_words[0], "args": command_words[1:], "env": env}
    return decode_server(entry, _SOURCE, _SOURCE, Origin.COMMAND_LINE)


def split_pair(pair: str, mark: str, option: str) -> tuple[str, str]:
    """Split a `NAME<mark>VALUE` pair of an option. Raises UsageError."""
    name, separator, value = pair.partition(mark)
    if not separator or not name.strip():
        raise UsageError(f"{option} must be NAME{mark}VALUE.", expected=f"NAME{mark}VALUE")
    return name.strip(), value.strip() if mark == ":" else value
