"""All servers as one box of tools. It knows no chat: a call gives a result, whatever happens.

Servers are opened side by side and fail alone; what failed is told, what works can be used. Usable by itself:

    async with Toolbox([ServerConfig("time", command="mcp-server-time")], Path("logs")) as box:
        print(await box.execute_tool("time", "get_current_time", {"timezone": "Asia/Tokyo"}))
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any, TypeVar

from mcp_types import (
    CallToolResult,
    CompleteResult,
    GetPromptResult,
    Prompt,
    PromptReference,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
)
from typing_extensions import Self

from ..config import ServerConfig
from ..errors import ChatError, ServerNotFoundError, ToolNotFoundError
from ..messages import Status, Tool, ToolResult
from ..pins import Pins
from ..trust import Accepted, is_wanted
from .asks import Asks, ignore
from .connection import Connection
from .content import read_resource_text, read_result
from .login import Login
from .progress import OnProgress
from .requests import complete, get_prompt, list_prompts, list_resources, list_templates, read_resource, subscribe
from .resources import describe_resources, resource_tools
from .traffic import log_call

Item = TypeVar("Item")


class Toolbox:
    """The enabled servers of a configuration. `connections` has each by its name.

    Beside the folder of the logs is kept what servers gave for a login and what the user has accepted of them; without
    one, nothing is kept.
    """

    def __init__(
        self, configs: Iterable[ServerConfig], log_folder: Path | None = None, asks: Asks | None = None
    ) -> None:
        self._logins = log_folder.with_name("logins") if log_folder else None
        self._accepted = Accepted(str(log_folder.parent) if log_folder else None)
        self._logs = log_folder or Path(gettempdir()) / "rkllm-chat-logs"
        self._asks = asks or Asks()
        self.connections = {config.name: self._connect(config) for config in configs if is_wanted(config)}
        self._opening: set[asyncio.Task[None]] = set()

    @classmethod
    def of(
        cls, servers: Mapping[str, Any], asks: Asks | None = None, trust: str = "ask", timeout_s: float = 60.0
    ) -> Toolbox:
        """A box over `MCPServer` objects in this process, for tests and programs that bring their own."""
        box = cls((), None, asks)
        for name, server in servers.items():
            config = ServerConfig(name, trust=trust, timeout_s=timeout_s)
            box.connections[name] = Connection(config, box._logs / f"{name}.log", asks, source=server)
        return box

    async def open(self, wait_s: float | None = None) -> None:
        """Opens all side by side; one that fails is told in `failures`. After `wait_s` the rest opens behind."""
        self._opening |= {asyncio.create_task(connection.open()) for connection in self.connections.values()}
        if self._opening:
            await asyncio.wait(self._opening, timeout=wait_s)

    async def aclose(self) -> None:
        """Closes all side by side."""
        await asyncio.gather(*(connection.aclose() for connection in self.connections.values()))
        await asyncio.gather(*self._opening, return_exceptions=True)

    close = aclose

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools of all servers, and ours for their resources where there are any."""
        found = [tool for connection in self.connections.values() for tool in connection.tools]
        offering = [one for one in self.connections.values() if one.has_resources]
        return [*found, *(resource_tools(all(one.config.trust == "trusted" for one in offering)) if offering else ())]

    @property
    def held(self) -> Sequence[Tool]:
        """The tools that nobody can call until the user has accepted how they have changed."""
        return [tool for connection in self.connections.values() for tool in connection.held]

    @property
    def failures(self) -> dict[str, ChatError]:
        """Server -> why it is not there."""
        return {name: one.error for name, one in self.connections.items() if one.error and not one.is_open}

    def is_connected(self, server: str) -> bool:
        return self._find(server).is_open

    async def restart(self, server: str) -> None:
        """Ends a server and starts it again, also one that stays down."""
        await self._find(server).restart()

    async def log_in(self, server: str) -> None:
        """Forgets a server's tokens and starts it again, so that it asks for a login, if it wants one."""
        connection = self._find(server)
        connection.login.forget()
        await connection.restart()

    async def forget_login(self, server: str) -> bool:
        """Closes a server and forgets its login; says whether there was one. Raises ChatError."""
        connection = self._find(server)
        await connection.aclose()
        return connection.login.forget()

    async def apply(self, configs: Iterable[ServerConfig]) -> list[str]:
        """Makes the box that of another configuration; gives the names of the servers that were touched.

        What is new is opened, what is gone is closed, what changed is both; the others run on.
        """
        wanted = {config.name: config for config in configs if is_wanted(config)}
        gone = [one for name, one in self.connections.items() if wanted.get(name) != one.config]
        kept = {name: one for name, one in self.connections.items() if one not in gone}
        await asyncio.gather(*(one.aclose() for one in gone))
        self.connections = {name: kept.get(name) or self._connect(config) for name, config in wanted.items()}
        new = [one for name, one in self.connections.items() if name not in kept]
        await asyncio.gather(*(one.open() for one in new))
        return sorted({one.config.name for one in (*gone, *new)})

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: OnProgress) -> ToolResult:
        """Runs a tool; failure, also of the server, is a result. Only cancellation is raised."""
        begun = time.monotonic()

        def result(status: Status, text: str, structured: Any = None) -> ToolResult:
            seconds = round(time.monotonic() - begun, 3)
            done = ToolResult(tool.server, tool.name, dict(arguments), status, text, seconds, structured)
            log_call(done)
            return done

        try:
            if not tool.server:
                return result("completed", await self._call_local(tool.name, arguments))
            connection = self._find(tool.server)
            answer = await connection.call(tool.name, arguments, on_progress, tool)
        except ChatError as error:
            return result("failed", error.message)
        text = read_result(answer)
        if not answer.is_error:
            return result("completed", text, answer.structured_content)
        told = " ".join(filter(None, (text, connection.explain_denial(text))))
        return result("failed", told, answer.structured_content)

    async def execute_tool(self, server: str, tool: str, arguments: Mapping[str, Any] | None = None) -> CallToolResult:
        """Calls a tool and gives what the server gave. Raises ChatError."""
        connection = self._find(server)
        if connection.is_open and tool not in (names := [one.name for one in connection.tools]):
            hint = f"It has {', '.join(names)}." if names else "It has no tools."
            raise ToolNotFoundError(f'Server "{server}" has no tool "{tool}".', hint, available=names)
        return await connection.call(tool, arguments or {}, ignore)

    async def list_tools(self, server: str | None = None) -> list[Tool]:
        return [tool for one in self._some(server) for tool in one.tools]

    async def list_resources(self, server: str | None = None) -> list[tuple[str, Resource]]:
        """(server, resource) of one server or of all that are open."""
        return await self._ask_each(server, list_resources)

    async def list_templates(self, server: str | None = None) -> list[tuple[str, ResourceTemplate]]:
        return await self._ask_each(server, list_templates)

    async def list_prompts(self, server: str | None = None) -> list[tuple[str, Prompt]]:
        return await self._ask_each(server, list_prompts)

    async def read_resource(self, uri: str, server: str | None = None) -> ReadResourceResult:
        """Reads a resource; without a server, from the first that has it. Raises ChatError."""
        return await read_resource(self._some(server), uri)

    async def read_text(self, uri: str, server: str | None = None) -> tuple[str, str]:
        """The media type of a resource and what a model reads of it. Raises ChatError."""
        found = await self.read_resource(uri, server)
        kind = next((part.mime_type for part in found.contents if part.mime_type), "text/plain")
        return kind, read_resource_text(found)

    async def get_prompt(self, server: str, name: str, arguments: Mapping[str, str] | None = None) -> GetPromptResult:
        return await get_prompt(self._find(server), name, dict(arguments or {}))

    async def complete(
        self,
        server: str,
        ref: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
    ) -> CompleteResult:
        """What the server suggests for an argument of a prompt or a resource template."""
        return await complete(self._find(server), ref, argument, value, dict(context or {}))

    async def complete_uri(self, typed: str) -> list[str]:
        """The URIs that a begun one may become: each template that it fits, with what its server suggests."""
        uris: list[str] = []
        for server, one in await self.list_templates():
            start, _, rest = one.uri_template.partition("{")
            argument, _, end = rest.partition("}")
            if not argument or not typed.startswith(start):
                continue
            reference = ResourceTemplateReference(type="ref/resource", uri=one.uri_template)
            answer = await self.complete(server, reference, argument.lstrip("+/?&#"), typed[len(start) :])
            uris += [f"{start}{value}{end if '{' not in end else ''}" for value in answer.completion.values]
        return uris

    async def subscribe(self, server: str, uri: str) -> None:
        """Has `asks.on_change` told when a resource changes."""
        await subscribe(self._find(server), uri)

    async def _call_local(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name == "read_resource":
            return read_resource_text(await self.read_resource(str(arguments["uri"])))
        return describe_resources(await self.list_resources(), await self.list_templates())

    def _connect(self, config: ServerConfig) -> Connection:
        connection = Connection(config, self._logs / f"{config.name}.log", self._asks)
        connection.login = Login(config, self._logins, self._asks)
        connection.pins = Pins(self._accepted, config)
        return connection

    async def _ask_each(
        self, server: str | None, ask: Callable[[Connection], Awaitable[list[Item]]]
    ) -> list[tuple[str, Item]]:
        """What one server says, or all that are open, asked side by side. Raises ChatError if none answers."""
        asked = self._some(server)
        answers = await asyncio.gather(*(ask(one) for one in asked), return_exceptions=True)
        found = [(one, answer) for one, answer in zip(asked, answers, strict=True) if isinstance(answer, list)]
        for failure in answers:
            if isinstance(failure, BaseException) and not (found and isinstance(failure, ChatError)):
                raise failure
        return [(one.config.name, item) for one, items in found for item in items]

    def _some(self, server: str | None) -> list[Connection]:
        """One server, or all that are open, also those that are only closed until they are needed."""
        return [self._find(server)] if server else [one for one in self.connections.values() if one.is_ready]

    def _find(self, server: str) -> Connection:
        if server not in self.connections:
            names = list(self.connections)
            hint = f"There are {', '.join(names)}." if names else "There are none."
            raise ServerNotFoundError(f'There is no server "{server}".', hint, available=names)
        return self.connections[server]
