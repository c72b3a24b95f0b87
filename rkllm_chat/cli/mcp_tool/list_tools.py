"""List all tools of all configured servers (`mcp-tool --help`).

The servers are queried in parallel; a server that fails is listed with its error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...config.servers import ServerConfig
from ...core.errors import ChatError, UsageError
from ...core.sanitize import sanitize_line
from ...mcp_client.direct.open_server import OpenServer, open_server
from ..json_commands.ask_servers import ServerAnswer, ask_servers
from ..json_commands.commands import select_server_to_start
from ..json_commands.invocation import Invocation, block_signals
from ..json_commands.options import OPTIONS, is_shown
from .call_tool import find_configured, find_only_server
from .options import NAMES, Options

_USAGE = """\
Usage: mcp-tool [OPTIONS] SERVER__TOOL [FLAGS]

Call one tool of a configured MCP server; SERVER.TOOL and SERVER/TOOL name it too. Words before the tool's name are
options of mcp-tool, words after it are flags of the tool. Most options also work after the tool's name, unless the tool
has an argument of that name. mcp-tool SERVER --help lists the tools of one server, mcp-tool SERVER__TOOL --help shows
the flags of a tool; mcp-tool completion bash|zsh|fish prints a completion script.

Options:"""
_EXIT_CODES = """\
Exit codes: 0 ok, 1 the tool failed, 2 usage or arguments, 3 configuration, 4 authentication, 5 cannot start or connect,
6 protocol, unknown server or tool, 7 timeout, 8 internal, 130 interrupted, 143 terminated."""


def list_all_tools(options: Options, invocation: Invocation, only: str = "") -> str:
    """Return the list of the tools of all servers, or of one.

    Args:
        options: The parsed options.
        invocation: The state of this run.
        only: Name of a server; "" for all.

    Raises:
        UsageError: No tool is named and `--help` is not given, or no server has the name.
        ConfigError: No server is configured, and a document is requested.
    """
    found = None
    try:
        found = find_configured(options, invocation)
    except ChatError as error:
        if not options.help or options.output == "json":
            raise
        config_message = "\n".join(error.details.get("lines", [str(error)]))
    if found is None:
        return f"{_show_usage()}\n\n{config_message}\n\n{_EXIT_CODES}"
    if not options.help:
        raise UsageError("No tool is named.", "mcp-tool --help lists the tools.")

    if only:
        only = find_only_server(only, found).name

    def open_for_listing(server: ServerConfig) -> OpenServer:
        with block_signals():
            invocation.other_opened.append(opened := open_server(server))
        return opened

    def select(name: str) -> ServerConfig:
        return select_server_to_start(found, name, options, invocation)

    answers = ask_servers([only] if only else found.servers, select, open_for_listing)
    invocation.listed_servers += [(found.get(answer.name), answer.tools) for answer in answers if answer.error is None]
    reasons = {answer.name: str(invocation.hide_secrets(str(answer.error), answer.name)) for answer in answers}
    return _show_all(answers, reasons, options)


def _show_all(answers: list[ServerAnswer], reasons: Mapping[str, str], options: Options) -> str:
    """Format the tools of all servers."""
    if options.output == "json":
        from .output_formats import FORMATTERS

        result = [
            {"server": answer.name, "ok": answer.error is None, **_contents_of(answer, reasons)} for answer in answers
        ]
        return FORMATTERS[options.output]({"servers": result})
    from .help_pages import format_server_tools

    parts = [_show_usage()]
    for answer in answers:
        lines = [f"  ({sanitize_line(name)} is left out: {reason})" for name, reason in answer.left_out.items()]
        lines = [*format_server_tools(answer.name, answer.tools), *lines]
        if answer.error:
            lines = [f"  (not available: {sanitize_line(reasons[answer.name])})"]
        parts.append("\n".join([f"{answer.name}:", *(lines or ["  (no tools)"])]))
    return "\n\n".join([*parts, _EXIT_CODES])


def _contents_of(answer: ServerAnswer, reasons: Mapping[str, str]) -> dict[str, Any]:
    """Return the tools or the error of a server for a document."""
    if answer.error is None:
        return {"tools": answer.tools, **({"leftOut": answer.left_out} if answer.left_out else {})}
    return {"error": {"type": answer.error.type_name, "message": reasons[answer.name]}}


def _show_usage() -> str:
    """Return the usage text and the options."""
    from .help_pages import format_columns

    rows = [(f"{name} {OPTIONS[name][0]}".rstrip(), OPTIONS[name][1]) for name in filter(is_shown, NAMES)]
    return "\n".join([_USAGE, *format_columns(rows)])
