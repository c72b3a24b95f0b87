"""Create the project of a user's own MCP server: `rkllm-chat new-server`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..config import editor
from ..core.sanitize import sanitize_for_terminal
from ..mcp_servers import scaffold
from ..mcp_servers.scaffold import make_parser

__all__ = ["main", "make_parser"]


def main(arguments: Sequence[str]) -> int:
    """Create the project and return the exit code.

    The configuration entry is printed to standard output or, with `--add`, written to the configuration file.
    """
    options = make_parser().parse(arguments)
    plan = scaffold.plan_project(options.dest)
    addition = editor.plan_addition(plan.entry, plan.name) if options.add else ""
    scaffold.create_project(plan)
    message = f"Created the server {plan.name} in {plan.folder}. Run its tests there with pytest."
    if options.add:
        editor.append_entry(addition)
        _trust_added_server(plan.name)
        print(sanitize_for_terminal(f"{message} It is configured in {editor.DEFAULT_CONFIG_PATH}."), file=sys.stderr)
    else:
        print(
            sanitize_for_terminal(f"{message} Add this to {editor.DEFAULT_CONFIG_PATH}:\n"),
            file=sys.stderr,
            flush=True,
        )
        print(plan.entry, end="")
    return 0


def _trust_added_server(name: str) -> None:
    """Trust a server that the user has just added to this folder's configuration."""
    from ..config.loader import load_settings, state_folder
    from ..config.project_trust import TrustStore
    from ..mcp_client.acceptance import accept, review_start

    for server in load_settings().servers:
        if server.name == name and server.source == str(editor.DEFAULT_CONFIG_PATH):
            accept(TrustStore(str(state_folder())), review_start(server))
