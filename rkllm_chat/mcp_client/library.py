"""MCPClient: several MCP servers behind one client, for programs that use this package as a library.

    from rkllm_chat import MCPClient

    async with MCPClient({"mcpServers": {"time": {"command": "mcp-server-time"}}}) as client:
        print(await client.list_tools())
        content = await client.execute_tool("time", "get_current_time", {"timezone": "Asia/Tokyo"})

Scripts without an event loop use the same methods without `await`:

    with MCPClient.sync("mcp.json") as client:
        content = client.execute_tool("time", "get_current_time", {"timezone": "Asia/Tokyo"})

All errors are MCPException or derived from it. Nothing is printed.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp_types import Resource
from typing_extensions import Self

from ..config.loader import read_settings
from ..config.settings import ServerConfig, read_json
from ..core.errors import (
    ChatError,
    ConnectError,
    TimeLimitError,
    ToolError,
    ToolNotFoundError,
)
from ..core.messages import Tool
from .connection import Connection
from .content import result_to_text
from .toolbox import Toolbox

__all__ = ["MCPClient", "MCPConnectionError", "MCPException", "MCPTimeoutError", "MCPToolError", "SyncMCPClient"]

MCPException = ChatError
MCPConnectionError = ConnectError
MCPToolError = ToolError
MCPTimeoutError = TimeLimitError

Servers = str | Path | Mapping[str, Any] | Iterable[ServerConfig]
"""A configuration file, its content, a table of servers by name, or server configurations."""

_log = logging.getLogger(__name__)
logging.getLogger("rkllm_chat").addHandler(logging.NullHandler())  # else Python prints warnings that nobody handles
T = TypeVar("T")


class MCPClient:
    """Several MCP servers behind one client. Use it with `async with`.

    A server that does not start does not affect the others; calling it raises MCPConnectionError with the reason.

    Attributes:
        toolbox: The tools of all servers, as a conversation uses them.
    """

    def __init__(self, servers: Servers, log_folder: str | Path | None = None) -> None:
        """Create a client; nothing is started before it is entered.

        Args:
            servers: Path of a configuration file (TOML, or JSON with `mcpServers`); the content of such a JSON file; a
                table of servers by name, each a table as in `mcpServers`, a `ServerConfig`, or an in-process server
                object of the MCP SDK; or a list of `ServerConfig` objects.
            log_folder: Folder for the servers' logs; by default in the temporary folder. Logins are stored next to it,
                and without a folder they are not.

        Raises:
            MCPException: The configuration is invalid; the message names the place.
        """
        configs, in_process = _read_servers(servers)
        self.toolbox = Toolbox(configs, Path(log_folder) if log_folder else None)
        for name, server in in_process.items():
            log = self.toolbox.log_path(name)
            self.toolbox.connections[name] = Connection(ServerConfig(name), log, source=server)

    @classmethod
    def from_fastmcp_config(cls, config: Mapping[str, Any]) -> Self:
        """Create a client of a FastMCP configuration: `{"mcpServers": {...}}`, in-process servers included."""
        return cls(config)

    @staticmethod
    def sync(servers: Servers, log_folder: str | Path | None = None) -> SyncMCPClient:
        """Create a client with blocking methods, for `with`; arguments as for the class."""
        return SyncMCPClient(servers, log_folder)

    async def __aenter__(self) -> Self:
        await self.toolbox.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all servers."""
        await self.toolbox.aclose()

    @property
    def servers(self) -> list[str]:
        """Names of all servers."""
        return list(self.toolbox.connections)

    @property
    def failures(self) -> Mapping[str, MCPException]:
        """The error of each server that is not open, by server name."""
        return self.toolbox.failures

    def is_connected(self, server: str | None = None) -> bool:
        """Tell whether a server is open; without a name, whether all are.

        Raises:
            MCPException: There is no such server.
        """
        return all(self.toolbox.is_connected(name) for name in ([server] if server else self.servers))

    @overload
    async def list_tools(self, server: str) -> list[Tool]: ...
    @overload
    async def list_tools(self, server: None = None) -> dict[str, list[Tool]]: ...
    async def list_tools(self, server: str | None = None) -> list[Tool] | dict[str, list[Tool]]:
        """Return the tools of one server, or of all open ones by server name.

        Raises:
            MCPException: There is no such server.
        """
        tools = await self.toolbox.list_tools(server)
        if server:
            return tools
        return {name: [tool for tool in tools if tool.server == name] for name in self._open_servers()}

    async def execute_tool(self, server: str, tool: str, arguments: Mapping[str, Any] | None = None) -> list[Any]:
        """Call a tool of a server.

        Returns:
            The content of its result, as blocks of the MCP SDK (`TextContent`, `ImageContent`, ...).

        Raises:
            MCPToolError: The tool reported failure; `details["content"]` has its content.
            MCPConnectionError: The server cannot be reached.
            MCPTimeoutError: It did not answer in time.
            MCPException: There is no such server or tool, or the server violated the protocol.
        """
        result = await self.toolbox.execute_tool(server, tool, arguments)
        if result.is_error:
            text = f'The tool "{tool}" of server "{server}" failed: {result_to_text(result)}'
            raise MCPToolError(text, server=server, content=result.content)
        return list(result.content)

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> list[Any]:
        """Call a tool by one name: `server_tool`, `server__tool`, or `tool` if only one server has it.

        Returns and raises as `execute_tool`.
        """
        from ..calls.tool_names import find_tools

        tools = [tool for tool in self.toolbox.tools if tool.server]
        found = find_tools(name, tools)
        if len(found) != 1:
            names = sorted(tool.full_name for tool in found or tools)
            problem = f'Several tools are called "{name}".' if found else f'There is no tool "{name}".'
            raise ToolNotFoundError(problem, f"Available: {', '.join(names)}.", available=names)
        return await self.execute_tool(found[0].server, found[0].name, arguments)

    @overload
    async def list_resources(self, server: str) -> list[Resource]: ...
    @overload
    async def list_resources(self, server: None = None) -> dict[str, list[Resource]]: ...
    async def list_resources(self, server: str | None = None) -> list[Resource] | dict[str, list[Resource]]:
        """Return the resources of one server, or of all open ones by server name.

        Raises:
            MCPException: There is no such server, or none answered.
        """
        found = await self.toolbox.list_resources(server)
        if server:
            return [resource for _, resource in found]
        return {name: [resource for owner, resource in found if owner == name] for name in self._open_servers()}

    async def read_resource(self, uri: str, server: str | None = None) -> list[Any]:
        """Read a resource.

        Args:
            uri: Its URI; `scheme://SERVER/path` names the server, too, if there is one of that name.
            server: The server; by default the one that the URI names, else the first that has the resource.

        Returns:
            Its contents, as objects of the MCP SDK.

        Raises:
            MCPException: There is no such resource or server, or the server cannot be reached.
        """
        scheme, separator, rest = uri.partition("://")
        owner, slash, path = rest.partition("/")
        if server is None and separator and slash and owner in self.toolbox.connections:
            server, uri = owner, f"{scheme}://{path}"
        return list((await self.toolbox.read_resource(uri, server)).contents)

    def _open_servers(self) -> list[str]:
        return [name for name in self.servers if self.toolbox.is_connected(name)]


class BlockingContext:
    """Runs methods of an async context manager for code without an event loop, which runs in a thread meanwhile."""

    def __init__(self, target: AbstractAsyncContextManager[Any]) -> None:
        """Wrap an object that has not been entered."""
        self._target = target
        self._context: AbstractContextManager[BlockingPortal] | None = None
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        self._context = self._run_target()
        self._portal = self._context.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        context, self._context, self._portal = self._context, None, None
        if context:
            context.__exit__(kind, error, traceback)

    @contextmanager
    def _run_target(self) -> Iterator[BlockingPortal]:
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(self._target):
            yield portal

    def close(self) -> None:
        """Leave the context, as at the end of the `with` statement."""
        self.__exit__(None, None, None)

    def _call(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        if self._portal is None:
            raise MCPException("It is not open.", "Use it in a with statement.")
        return self._portal.call(function, *arguments)


class SyncMCPClient(BlockingContext):
    """The methods of MCPClient without `await`. Use it with `with`."""

    def __init__(self, servers: Servers, log_folder: str | Path | None = None) -> None:
        """Create a client; arguments and errors as for MCPClient."""
        self._client = MCPClient(servers, log_folder)
        super().__init__(self._client)

    @property
    def servers(self) -> list[str]:
        """Names of all servers."""
        return self._client.servers

    @property
    def failures(self) -> Mapping[str, MCPException]:
        """The error of each server that is not open, by server name."""
        return self._client.failures

    def is_connected(self, server: str | None = None) -> bool:
        """Tell whether a server is open; without a name, whether all are."""
        return self._client.is_connected(server)

    @overload
    def list_tools(self, server: str) -> list[Tool]: ...
    @overload
    def list_tools(self, server: None = None) -> dict[str, list[Tool]]: ...
    def list_tools(self, server: str | None = None) -> list[Tool] | dict[str, list[Tool]]:
        """Return the tools of one server, or of all open ones by server name."""
        return self._call(self._client.list_tools, server)

    def execute_tool(self, server: str, tool: str, arguments: Mapping[str, Any] | None = None) -> list[Any]:
        """Call a tool of a server; as `MCPClient.execute_tool`."""
        return self._call(self._client.execute_tool, server, tool, arguments)

    def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> list[Any]:
        """Call a tool by one name; as `MCPClient.call_tool`."""
        return self._call(self._client.call_tool, name, arguments)

    @overload
    def list_resources(self, server: str) -> list[Resource]: ...
    @overload
    def list_resources(self, server: None = None) -> dict[str, list[Resource]]: ...
    def list_resources(self, server: str | None = None) -> list[Resource] | dict[str, list[Resource]]:
        """Return the resources of one server, or of all open ones by server name."""
        return self._call(self._client.list_resources, server)

    def read_resource(self, uri: str, server: str | None = None) -> list[Any]:
        """Read a resource; as `MCPClient.read_resource`."""
        return self._call(self._client.read_resource, uri, server)


def _read_servers(servers: Servers) -> tuple[list[ServerConfig], dict[str, Any]]:
    """Return the configured servers, and the in-process server objects by name."""
    if isinstance(servers, str | Path):
        settings = read_settings(Path(servers).expanduser(), os.environ)
        for entry in settings.skipped:
            _log.warning("%s", entry.make_error())
        return list(settings.servers), {}
    if not isinstance(servers, Mapping):
        return list(servers), {}
    entries = servers.get("mcpServers", servers)
    if not isinstance(entries, Mapping):
        raise MCPException('"mcpServers" must be a table of servers by name.')
    configs = {name: replace(entry, name=name) for name, entry in entries.items() if isinstance(entry, ServerConfig)}
    tables = {name: entry for name, entry in entries.items() if isinstance(entry, Mapping)}
    try:
        text = json.dumps({"mcpServers": tables})
    except (TypeError, ValueError) as error:
        raise MCPException(f"The configuration cannot be written as JSON: {error}.") from error
    in_process = {name: entry for name, entry in entries.items() if name not in {**configs, **tables}}
    return [*configs.values(), *read_json(text, "the configuration", os.environ).servers], in_process
