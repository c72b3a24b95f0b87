"""List all tools of all configured servers (`mcp-tool --help`).

The servers are queried in parallel; a server that fails is listed with its error.
"""

from __future__ import annotations

from threading import Thread
from typing import Any

from ...config.files import FoundServers
from ...config.servers import ServerConfig
from ...core.errors import ChatError, UsageError
from ...core.sanitize import sanitize_line
from ...mcp_client.direct.open_server import ServerSession, open_server
from ..json_commands.commands import prepare_server
from ..json_commands.invocation import block_signals, make_internal_error
from ..json_commands.options import OPTIONS
from .call_tool import find_configured
from .invocation import ToolInvocation
from .options import NAMES, Options

_USAGE = """\
Usage: mcp-tool [OPTIONS] SERVER__TOOL [FLAGS]

Call one tool of a configured MCP server; SERVER.TOOL and SERVER/TOOL name it too. Words before the tool's name are
options of mcp-tool, words after it are flags of the tool. Most options also work after the tool's name, unless the tool
has an argument of that name. mcp-tool SERVER__TOOL --help shows the flags of a tool; mcp-tool completion bash|zsh|fish
prints a completion script.

Options:"""
_EXIT_CODES = """\
Exit codes: 0 ok, 1 the tool failed, 2 usage or arguments, 3 configuration, 4 authentication, 5 cannot start or connect,
6 protocol, unknown server or tool, 7 timeout, 8 internal, 130 interrupted, 143 terminated."""


def list_all_tools(options: Options, invocation: ToolInvocation) -> str:
    """Return the list of all tools.

    Raises:
        UsageError: No tool is named and `--help` is not given.
        ConfigError: No server is configured, and a document is requested.
    """
    found = None
    try:
        found = find_configured(options, invocation)
    except ChatError as error:
        if not options.help or options.output in ("json", "yaml"):
            raise
        config_message = "\n".join(error.details.get("lines", [str(error)]))
    if found is None:
        return f"{_show_usage()}\n\n{config_message}\n\n{_EXIT_CODES}"
    if not options.help:
        raise UsageError("No tool is named.", "mcp-tool --help lists the tools.")
    queries = [_ServerQuery(name, options, invocation, found) for name in found.servers]
    for query in queries:
        query.start()
    for query in queries:
        query.request_tools()
    for query in queries:
        query.wait()
    invocation.listed_servers += [(found.get(query.name), query.tools) for query in queries if query.error is None]
    return _show_all(queries, options)


class _ServerQuery:
    """One server whose tools are requested.

    Attributes:
        name: The server's name.
        tools: Its tools, after `wait`.
        left_out: Tools that cannot be used, with the reason.
        error: Why the request failed, or None.
    """

    def __init__(self, name: str, options: Options, invocation: ToolInvocation, found: FoundServers) -> None:
        self.name = name
        self.tools: list[dict[str, Any]] = []
        self.left_out: dict[str, str] = {}
        self.error: ChatError | None = None
        self._invocation, self._options, self._found = invocation, options, found
        self._server: ServerConfig | None = None
        self._opened: ServerSession | None = None
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the server's process without waiting for it.

        All processes are started before the first thread, because starting one briefly changes the working directory of
        this process.
        """
        try:
            self._server = prepare_server(self._found, self.name, self._options, self._invocation)
            if self._server.command:
                self._open(self._server)
        except ChatError as error:
            self.error = error

    def _open(self, server: ServerConfig) -> ServerSession:
        with block_signals():
            self._opened = open_server(server)
            self._invocation.other_sessions.append(self._opened)
        return self._opened

    def request_tools(self) -> None:
        """Request the tools in a thread."""
        if self._server and not self.error:
            self._thread = Thread(target=self._list_tools, args=(self._server,))
            self._thread.start()

    def _list_tools(self, server: ServerConfig) -> None:
        try:
            opened = self._opened or self._open(server)
            self.tools, self.left_out = opened.list_tools(), opened.left_out
        except ChatError as error:
            self.error = error
        except Exception as error:  # the other servers are listed even after an internal error
            self.error = make_internal_error(error)

    def wait(self) -> None:
        """Wait for the request to finish."""
        if self._thread:
            self._thread.join()

    @property
    def reason(self) -> str:
        """The error message with secrets hidden."""
        return str(self._invocation.hide_secrets(str(self.error), self.name))


def _show_all(queries: list[_ServerQuery], options: Options) -> str:
    """Format the tools of all servers."""
    if options.output in ("json", "yaml"):
        from .output_formats import FORMATTERS

        result = [{"server": query.name, "ok": query.error is None, **_contents_of(query)} for query in queries]
        return FORMATTERS[options.output]({"servers": result})
    from .help_pages import format_server_tools

    parts = [_show_usage()]
    for query in queries:
        lines = (
            [f"  (not available: {sanitize_line(query.reason)})"]
            if query.error
            else [*format_server_tools(query.name, query.tools), *_name_left_out(query)]
        )
        parts.append("\n".join([f"{query.name}:", *(lines or ["  (no tools)"])]))
    return "\n\n".join([*parts, _EXIT_CODES])


def _name_left_out(query: _ServerQuery) -> list[str]:
    return [f"  ({sanitize_line(name)} is left out: {reason})" for name, reason in query.left_out.items()]


def _contents_of(query: _ServerQuery) -> dict[str, Any]:
    """Return the tools or the error of a server for a document."""
    if query.error is None:
        return {"tools": query.tools, **({"leftOut": query.left_out} if query.left_out else {})}
    return {"error": {"type": query.error.type_name, "message": query.reason}}


def _show_usage() -> str:
    """Return the usage text and the options."""
    from .help_pages import format_columns

    rows = [(f"{name} {OPTIONS[name][0]}".rstrip(), OPTIONS[name][1]) for name in NAMES]
    return "\n".join([_USAGE, *format_columns(rows)])
