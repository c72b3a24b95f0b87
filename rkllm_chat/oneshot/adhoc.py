"""A server that stands on the command line alone: --url or --stdio, with --header and --env."""

from __future__ import annotations

import shlex

from ..entries import check_entry
from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .options import Options

SOURCE = "command line"


def make_entry(options: Options) -> dict[str, Any]:
    """The entry that the options mean; `${VAR}` in them is expanded later, as in a file.

    Whoever writes headers beside an http URL means them to go there.
    """
    if options.url is not None:
        headers = dict(split(pair, ":", "--header") for pair in options.header)
        entry = {"name": "url", "url": options.url, "headers": headers, "allow_insecure": True}
        return check_entry(entry, SOURCE, SOURCE)
    try:
        words = shlex.split(options.stdio)
    except ValueError as error:
        raise UsageError(f"--stdio is no command: {error}.", "Mind the quotes.", got=options.stdio) from None
    if not words:
        raise UsageError("--stdio is empty.", 'Write the command: --stdio "npx some-server".')
    env = dict(split(pair, "=", "--env") for pair in options.env)
    return check_entry({"name": "stdio", "command": words[0], "args": words[1:], "env": env}, SOURCE, SOURCE)


def split(pair: str, mark: str, option: str) -> tuple[str, str]:
    name, middle, value = pair.partition(mark)
    if not middle or not name.strip():
        raise UsageError(f"{option} wants NAME{mark}VALUE.", expected=f"NAME{mark}VALUE")
    return name.strip(), value.strip() if mark == ":" else value
