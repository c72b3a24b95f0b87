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
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp_types import (
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    GetPromptResult,
    Prompt,
    PromptReference,
    Resource,
    ResourceTemplateReference,
    TextResourceContents,
)
from typing_extensions import Self

from ..config.loader import read_settings
from ..config.settings import ServerConfig, read_json
from ..core.errors import (
    ChatError,
    ConfigError,
    ConnectError,
    TimeLimitError,
    ToolError,
    ToolNotFoundError,
)
from ..core.messages import Tool
from .connection import Connection
from .content import result_to_text
from .handlers import ClientHandlers, ignore
from .progress import OnProgress
from .protocol.faults import SERVER_INFO_META
from .toolbox import Toolbox

if TYPE_CHECKING:
    from .handlers import ElicitHandler, SampleHandler, ServerChange

__all__ = [
    "MCPClient",
    "MCPConnectionError",
    "MCPException",
    "MCPTimeoutError",
    "MCPToolError",
    "ServerHealth",
    "SyncMCPClient",
    "ToolContent",
]

MCPException = ChatError
MCPConnectionError = ConnectError
MCPToolError = ToolError
MCPTimeoutError = TimeLimitError
for _name, _kind in {
    "MCPException": MCPException,
    "MCPConnectionError": MCPConnectionError,
    "MCPToolError": MCPToolError,
    "MCPTimeoutError": MCPTimeoutError,
}.items():  # tracebacks show the names that programs import
    _kind.__module__, _kind.__qualname__ = "rkllm_chat", _name

Servers = str | Path | Mapping[str, Any] | Iterable[ServerConfig]
"""A configuration file, its content, a table of servers by name, or server configurations."""

_log = logging.getLogger(__name__)
logging.getLogger("rkllm_chat").addHandler(logging.NullHandler())  # else Python prints warnings that nobody handles
P = ParamSpec("P")
T = TypeVar("T")


class ToolContent(list[ContentBlock]):
    """The result of a tool: its content, as blocks of the MCP SDK (`TextContent`, `ImageContent`, ...).

    Attributes:
        structured_content: The structured part of the result; None if there is none.
        meta: The server's own data about the result, its `_meta`.
        text: All text of the result, as a model would read it.
    """

    def __init__(self, result: CallToolResult) -> None:
        super().__init__(result.content)
        self.structured_content: Any = result.structured_content
        meta: Mapping[str, Any] = result.meta or {}
        self.meta = {key: value for key, value in meta.items() if key != SERVER_INFO_META}
        self.text = result_to_text(result)


@dataclass(frozen=True)
class ServerHealth:
    """How a server is.

    Attributes:
        is_connected: Whether it is open.
        error: Why it is not; None while it is open or idle.
        latency_s: Time of the last list of its tools.
        protocol_version: The negotiated version; "" while it is not open.
        tools: Number of its tools.
    """

    is_connected: bool
    error: MCPException | None
    latency_s: float
    protocol_version: str
    tools: int


class MCPClient:
    """Several MCP servers behind one client. Use it with `async with`.

    A server that does not start does not affect the others; calling it raises MCPConnectionError with the reason.

    Attributes:
        toolbox: The tools of all servers, as a conversation uses them.
    """

    def __init__(
        self,
        servers: Servers,
        log_folder: str | Path | None = None,
        *,
        sample: SampleHandler | None = None,
        elicit: ElicitHandler | None = None,
        roots: Iterable[str | Path] = (),
        on_log: Callable[[str, str, str], None] = ignore,
        on_change: Callable[[ServerChange], None] = ignore,
    ) -> None:
        """Create a client; nothing is started before it is entered.

        A capability is declared to the servers only if there is a handler for it.

        Args:
            servers: Path of a configuration file (TOML, or JSON with `mcpServers`); the content of such a JSON file; a
                table of servers by name, each a table as in `mcpServers`, a `ServerConfig`, or an in-process server
                object of the MCP SDK; or a list of `ServerConfig` objects.
            log_folder: Folder for the servers' logs; by default in the temporary folder. Logins are stored next to it,
                and without a folder they are not.
            sample: Answers a server's sampling request: called with server and parameters, returns the result.
            elicit: Fills a server's form: called with server and parameters, returns the result.
            roots: Folders to announce to the servers.
            on_log: Called with server, level ("warning" and above) and text of a log message.
            on_change: Called with each change at a server: its tools, resources, prompts, or whether it is open.

        Raises:
            MCPException: The configuration is invalid; the message names the place.
        """
        configs, in_process, left_out = _read_servers(servers)
        folders = tuple(Path(root).expanduser().absolute() for root in roots)
        self._handlers = ClientHandlers(sample=sample, elicit=elicit, roots=folders, on_log=on_log, on_change=on_change)
        self.toolbox = Toolbox(configs, Path(log_folder) if log_folder else None, self._handlers)
        self.toolbox.left_out = left_out
        self._is_entered = False
        for name, server in in_process.items():
            self._connect_in_process(name, server)

    def _connect_in_process(self, name: str, server: Any) -> Connection:
        log = self.toolbox.log_path(name)
        connection = Connection(ServerConfig(name), log, self._handlers, source=server)
        self.toolbox.connections[name] = connection
        return connection

    @classmethod
    def from_fastmcp_config(cls, config: Mapping[str, Any]) -> Self:
        """Create a client of a FastMCP configuration: `{"mcpServers": {...}}`, in-process servers included."""
        return cls(config)

    @staticmethod
    def sync(servers: Servers, log_folder: str | Path | None = None, **handlers: Any) -> SyncMCPClient:
        """Create a client with blocking methods, for `with`; arguments as for the class."""
        return SyncMCPClient(servers, log_folder, **handlers)

    async def __aenter__(self) -> Self:
        await self.toolbox.__aenter__()
        self._is_entered = True
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all servers."""
        self._is_entered = False
        await self.toolbox.aclose()

    async def add_server(self, name: str, entry: Any) -> None:
        """Start one more server.

        Args:
            name: Its name.
            entry: A table as in `mcpServers`, a `ServerConfig`, or an in-process server object.

        Raises:
            MCPException: The entry is invalid, there is a server of that name, or it did not start and is forgotten.
        """
        if name in self.servers:
            raise MCPException(f'There is a server "{name}" already.', "Remove it first, or choose another name.")
        added, in_process, left_out = _read_servers({name: entry})
        if left_out:
            raise left_out.popitem()[1]
        toolbox = self._open_toolbox()
        if in_process:
            await self._connect_in_process(name, entry).lifecycle.open()
        else:
            await toolbox.apply_config([*self._list_configs(), *added])
        if error := self.failures.get(name):
            await self.remove_server(name)
            raise error

    async def remove_server(self, name: str) -> None:
        """Close a server and forget it. Raises MCPException if there is none of that name."""
        self.toolbox.is_connected(name)
        await self._open_toolbox().apply_config(config for config in self._list_configs() if config.name != name)

    async def reload(self, servers: Servers) -> list[str]:
        """Change to another configuration, such as the same file after an edit; what is as before keeps running.

        Returns:
            The names of the servers that were started or stopped.

        Raises:
            MCPException: The configuration is invalid; nothing has changed then.
        """
        configs, in_process, left_out = _read_servers(servers)
        self.toolbox.left_out = left_out
        changed = await self._open_toolbox().apply_config(configs)
        for name, server in in_process.items():
            await self._connect_in_process(name, server).lifecycle.open()
        return sorted({*changed, *in_process})

    def _list_configs(self) -> list[ServerConfig]:
        return [connection.config for connection in self.toolbox.connections.values()]

    def _open_toolbox(self) -> Toolbox:
        """Return the toolbox. Raises MCPException outside the `async with` statement: nothing would end its servers."""
        if not self._is_entered:
            raise MCPException("The client is not open.", "Use it in an async with statement.")
        return self.toolbox

    @property
    def health(self) -> dict[str, ServerHealth]:
        """How each server is, by its name; of an entry that is left out, why."""
        left_out = {name: ServerHealth(False, error, 0.0, "", 0) for name, error in self.toolbox.left_out.items()}
        return left_out | {
            name: ServerHealth(
                life.is_open, life.error, life.latency_s, life.protocol_version, len(connection.advertised.tools)
            )
            for name, connection in self.toolbox.connections.items()
            for life in [connection.lifecycle]
        }

    @property
    def servers(self) -> list[str]:
        """Names of all servers."""
        return list(self.toolbox.connections)

    @property
    def failures(self) -> Mapping[str, MCPException]:
        """The error of each server that is not open, by server name."""
        return self.toolbox.failures

    def is_connected(self, server: str | None = None) -> bool:
        """Tell whether a server is open; without a name, whether all are, those of entries that are left out included.

        Raises:
            MCPException: There is no such server.
        """
        if server in self.toolbox.left_out or (server is None and self.toolbox.left_out):
            return False
        return all(self.toolbox.is_connected(name) for name in ([server] if server else self.servers))

    @overload
    async def list_tools(self, server: str) -> list[Tool]: ...
    @overload
    async def list_tools(self, server: None = None) -> dict[str, list[Tool]]: ...
    async def list_tools(self, server: str | None = None) -> list[Tool] | dict[str, list[Tool]]:
        """Return the tools of one server, or of all open ones by server name.

        Raises:
            MCPException: There is no such server, or it is not open: the error says why.
        """
        if server and (error := self.failures.get(server)):
            raise error
        tools = await self._open_toolbox().list_tools(server)
        return self._by_server([(tool.server, tool) for tool in tools], server)

    async def find_tools(self, question: str) -> list[Tool]:
        """Return the tools of all open servers that may help with a question, best first, as the chat ranks them."""
        from ..prompt.tool_ranking import ToolIndex, rank_tools

        return rank_tools(ToolIndex(await self._open_toolbox().list_tools()), question, {})

    async def execute_tool(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        on_progress: OnProgress = ignore,
    ) -> ToolContent:
        """Call a tool of a server.

        Args:
            server: The server's name.
            tool: The tool's name.
            arguments: Its arguments.
            timeout_s: Limit from the last sign of progress; by default that of the server.
            on_progress: Called with progress, total if known, and message, at most four times a second.

        Returns:
            The content of its result, with its structured part as `structured_content`.

        Raises:
            MCPToolError: The tool reported failure; `details` has its "content" and "structured_content".
            MCPConnectionError: The server cannot be reached.
            MCPTimeoutError: It did not answer in time.
            MCPException: There is no such server or tool, or the server violated the protocol.
        """
        result = await self._open_toolbox().execute_tool(server, tool, arguments, on_progress, timeout_s)
        if result.is_error:
            text = f'The tool "{tool}" of server "{server}" failed: {result_to_text(result)}'
            structured = result.structured_content
            hint = self.toolbox.explain_failure(server, text, arguments or {})
            raise MCPToolError(text, hint, server=server, content=result.content, structured_content=structured)
        return ToolContent(result)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        on_progress: OnProgress = ignore,
    ) -> ToolContent:
        """Call a tool by one name: `server_tool`, `server__tool`, or `tool` if only one server has it.

        Returns and raises as `execute_tool`.
        """
        from ..calls.tool_names import find_tools

        tools = [tool for tool in self._open_toolbox().tools if tool.server]
        found = find_tools(name, tools)
        if len(found) != 1:
            names = sorted(tool.full_name for tool in found or tools)
            problem = f'Several tools are called "{name}".' if found else f'There is no tool "{name}".'
            raise ToolNotFoundError(problem, f"Available: {', '.join(names)}.", available=names)
        [tool] = found
        return await self.execute_tool(tool.server, tool.name, arguments, timeout_s=timeout_s, on_progress=on_progress)

    @overload
    async def list_prompts(self, server: str) -> list[Prompt]: ...
    @overload
    async def list_prompts(self, server: None = None) -> dict[str, list[Prompt]]: ...
    async def list_prompts(self, server: str | None = None) -> list[Prompt] | dict[str, list[Prompt]]:
        """Return the prompts of one server, or of all open ones by server name; raises as `list_resources`."""
        return self._by_server(await self._open_toolbox().list_prompts(server), server)

    async def get_prompt(self, server: str, name: str, arguments: Mapping[str, str] | None = None) -> GetPromptResult:
        """Return a prompt of a server, filled with arguments. Raises MCPException."""
        return await self._open_toolbox().get_prompt(server, name, arguments)

    async def complete(
        self,
        server: str,
        reference: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Return a server's completions of an argument of a prompt or resource template. Raises MCPException.

        Args:
            server: The server's name.
            reference: The prompt or template.
            argument: Name of the argument.
            value: The text typed so far.
            context: Arguments that are already filled in.
        """
        if not isinstance(reference, PromptReference | ResourceTemplateReference):
            hint = 'Write PromptReference(name="..."), or ResourceTemplateReference(uri="..."), of mcp_types.'
            raise MCPException(f"The reference of a completion cannot be {reference!r}.", hint)
        answer = await self._open_toolbox().complete(server, reference, argument, value, context)
        return list(answer.completion.values)

    @overload
    async def list_resources(self, server: str) -> list[Resource]: ...
    @overload
    async def list_resources(self, server: None = None) -> dict[str, list[Resource]]: ...
    async def list_resources(self, server: str | None = None) -> list[Resource] | dict[str, list[Resource]]:
        """Return the resources of one server, or of all open ones by server name.

        Raises:
            MCPException: There is no such server, or none answered.
        """
        return self._by_server(await self._open_toolbox().list_resources(server), server)

    async def read_resource(
        self, uri: str, server: str | None = None
    ) -> list[TextResourceContents | BlobResourceContents]:
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
        return list((await self._open_toolbox().read_resource(uri, server)).contents)

    def _by_server(self, found: Sequence[tuple[str, T]], server: str | None) -> list[T] | dict[str, list[T]]:
        """Return what was found at one server, or at all open ones by server name."""
        if server:
            return [item for _, item in found]
        names = [name for name in self.servers if self.toolbox.is_connected(name)]
        return {name: [item for owner, item in found if owner == name] for name in names}


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

    def _call(self, function: Callable[..., Awaitable[T]], *arguments: Any, **options: Any) -> T:
        if self._portal is None:
            raise MCPException("It is not open.", "Use it in a with statement.")
        return self._portal.call(partial(function, *arguments, **options))


def _blocking(method: Callable[Concatenate[MCPClient, P], Awaitable[T]]) -> Callable[Concatenate[SyncMCPClient, P], T]:
    """Return a method of `SyncMCPClient` that runs one of `MCPClient`, whose documentation it has."""

    @wraps(method)
    def call(self: SyncMCPClient, /, *arguments: P.args, **options: P.kwargs) -> T:
        return self._call(method, self._client, *arguments, **options)

    return call


class SyncMCPClient(BlockingContext):
    """The methods of MCPClient without `await`. Use it with `with`."""

    def __init__(self, servers: Servers, log_folder: str | Path | None = None, **handlers: Any) -> None:
        """Create a client; arguments and errors as for MCPClient. Handlers are called in another thread."""
        self._client = MCPClient(servers, log_folder, **handlers)
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

    @property
    def health(self) -> dict[str, ServerHealth]:
        """How each server is, by its name."""
        return self._client.health

    add_server = _blocking(MCPClient.add_server)
    remove_server = _blocking(MCPClient.remove_server)
    reload = _blocking(MCPClient.reload)
    find_tools = _blocking(MCPClient.find_tools)
    execute_tool = _blocking(MCPClient.execute_tool)
    call_tool = _blocking(MCPClient.call_tool)
    get_prompt = _blocking(MCPClient.get_prompt)
    complete = _blocking(MCPClient.complete)
    read_resource = _blocking(MCPClient.read_resource)

    @overload
    def list_prompts(self, server: str) -> list[Prompt]: ...
    @overload
    def list_prompts(self, server: None = None) -> dict[str, list[Prompt]]: ...
    def list_prompts(self, server: str | None = None) -> list[Prompt] | dict[str, list[Prompt]]:
        """Return the prompts of one server, or of all open ones by server name."""
        return self._call(self._client.list_prompts, server)

    @overload
    def list_resources(self, server: str) -> list[Resource]: ...
    @overload
    def list_resources(self, server: None = None) -> dict[str, list[Resource]]: ...
    def list_resources(self, server: str | None = None) -> list[Resource] | dict[str, list[Resource]]:
        """Return the resources of one server, or of all open ones by server name."""
        return self._call(self._client.list_resources, server)


def _read_servers(servers: Servers) -> tuple[list[ServerConfig], dict[str, Any], dict[str, ChatError]]:
    """Return the configured servers, the in-process server objects by name, and why entries are left out, by name."""
    if isinstance(servers, str | Path):
        settings = read_settings(Path(servers).expanduser(), os.environ)
        left_out: dict[str, ChatError] = {
            entry.name or entry.source: entry.make_error() for entry in settings.skipped
        } | _find_kept_off(settings.servers)
        for error in left_out.values():
            _log.warning("%s", error)
        return list(settings.servers), {}, left_out
    if not isinstance(servers, Mapping):
        return list(servers), {}, {}
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
    read = read_json(text, "the configuration", os.environ).servers
    return [*configs.values(), *read], in_process, _find_kept_off(read)


def _find_kept_off(servers: Iterable[ServerConfig]) -> dict[str, ChatError]:
    """Return an error for each server that is off because something of its entry is not understood."""
    return {
        server.name: ConfigError(
            f'Server "{server.name}" of {server.source} is off: {", ".join(server.kept_off)} is not understood'
            " and may be a restriction.",
            f'Write "ignored_keys": {json.dumps(server.kept_off)} into its entry to use it all the same.',
            server=server.name,
        )
        for server in servers
        if server.kept_off
    }
