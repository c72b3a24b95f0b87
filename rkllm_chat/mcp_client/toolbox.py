"""Join all configured MCP servers into one toolbox.

Servers are opened concurrently, and one that fails does not affect the others. A tool call always returns a result,
also when the server fails. Usable without the rest of the program:

    async with Toolbox([ServerConfig("time", command="mcp-server-time")], Path("logs")) as toolbox:
        print(await toolbox.execute_tool("time", "get_current_time", {"timezone": "Asia/Tokyo"}))
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import Self

from ..calls.schema.resolve import properties_of
from ..config.policy import OfferedTools
from ..config.project_trust import TrustStore, is_enabled
from ..config.servers import ServerConfig, Trust, is_board
from ..config.tool_pins import (
    RESOURCE_FIELDS,
    TextPins,
    ToolPins,
    extract_prompt_fields,
    extract_text,
    quarantine_error,
)
from ..core.errors import ChatError, ProtocolError, ServerNotFoundError, ToolNotFoundError
from ..core.messages import Attachment, Media, Status, Tool, ToolResult
from ..core.skills import Skill
from .call_log import log_call
from .connection import Connection
from .content import (
    describe_resources,
    read_binary_content,
    read_binary_contents,
    resource_to_text,
    resource_tools,
    result_for_user,
    result_to_text,
)
from .handlers import ClientHandlers, ignore
from .process.denials import Denial
from .progress import OnProgress
from .protocol.faults import make_list_error
from .roots import find_named_folders
from .skills import check_file, get_skill, resolve_file
from .stored_content import store_content
from .transports.base import run_uninterrupted

if TYPE_CHECKING:
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

    from ..config.tool_pins import PinnedFields
    from .client import Client

Item = TypeVar("Item")
_PATH_WORD = re.compile(r"(?i)(?:^|_)(?:paths?|files?|filename|folder|dir|directory|repo)(?:_|$)")
_MAX_DENIALS = 3
"""What sandboxes have denied is kept up to this number, so that a server cannot have many questions asked."""


def _takes_path(tool: Tool) -> bool:
    """Tell whether a tool has an argument that is a path, as its name says, such as "repo_path" or "fileName"."""
    return any(_PATH_WORD.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)) for name in properties_of(tool.schema))


class Toolbox:
    """The enabled servers of a configuration, as one source of tools, resources and prompts.

    Args:
        configs: Server entries; disabled ones are skipped.
        log_folder: Folder for server logs. Login tokens and accepted tool descriptions are stored next to it; without a
            folder nothing is stored and logs go to the temporary folder.
        handlers: Handlers of requests and notifications from servers.

    Attributes:
        left_out: Why entries of the configuration are no servers, by name; for programs that use it as a library.
        connections: Connection by server name.
        refused: Names of further enabled servers, which the user has not accepted.
        media_store: Stores pictures, sounds and blobs of results; without it only placeholders are left of them.
    """

    def __init__(
        self, configs: Iterable[ServerConfig], log_folder: Path | None = None, handlers: ClientHandlers | None = None
    ) -> None:
        self._login_folder = log_folder.with_name("logins") if log_folder else None
        self._trust_store = TrustStore(str(log_folder.parent) if log_folder else None)
        self._log_folder = log_folder or Path(gettempdir()) / "rkllm-chat-logs"
        self._handlers = handlers or ClientHandlers()
        self.media_store = self._handlers.media_store
        self.connections = {config.name: self._connect(config) for config in configs if is_enabled(config)}
        self.refused: Collection[str] = ()
        self._opening: set[asyncio.Task[None]] = set()
        # two configurations that were applied at the same time started a server twice, and one was never ended
        self._apply_lock = asyncio.Lock()
        self._denials: list[Denial] = []
        self.left_out: dict[str, ChatError] = {}

    @classmethod
    def from_servers(
        cls,
        servers: Mapping[str, Any],
        handlers: ClientHandlers | None = None,
        trust: Trust = "ask",
        timeout_s: float = 60.0,
    ) -> Toolbox:
        """Create a toolbox of in-process `MCPServer` objects, for tests and embedding programs."""
        toolbox = cls((), None, handlers)
        for name, server in servers.items():
            config = ServerConfig(name, trust=trust, timeout_s=timeout_s)
            toolbox.connections[name] = Connection(config, toolbox.log_path(name), handlers, source=server)
        return toolbox

    def log_path(self, server: str) -> Path:
        """Return the path of a server's log."""
        return self._log_folder / f"{server}.log"

    async def open(self, wait_s: float | None = None) -> None:
        """Open all servers concurrently; failures are in `failures`.

        Args:
            wait_s: Return after this many seconds; servers that are still starting continue in the background.
        """
        self._opening |= {asyncio.create_task(connection.lifecycle.open()) for connection in self.connections.values()}
        if self._opening:
            await asyncio.wait(self._opening, timeout=wait_s)

    async def aclose(self) -> None:
        """Close all servers concurrently, also if the caller is cancelled meanwhile."""
        # a cancelled scope of anyio cancels every wait again, and would leave the servers running
        await run_uninterrupted(self._close())

    close = aclose

    async def _close(self) -> None:
        # this first: it ends the starts that the tasks of `open` wait for
        await asyncio.gather(*(connection.lifecycle.aclose() for connection in self.connections.values()))
        await asyncio.gather(*self._opening, return_exceptions=True)

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:  # of the caller, who is not inside yet and cannot close what was started
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools of all servers, plus `list_resources` and `read_resource` if any server has resources."""
        tools = [tool for connection in self.connections.values() for tool in connection.advertised.tools]
        sources = [connection for connection in self.connections.values() if connection.lifecycle.has_resources]
        if sources:
            tools += resource_tools(all(connection.config.trust == "trusted" for connection in sources))
        ready = {name for name, connection in self.connections.items() if connection.lifecycle.is_ready}
        # a right for a bare tool name must not pass to another server while the one that has the tool is down
        silent = dict.fromkeys(name for name in (*self.connections, *self.refused) if name not in ready)
        return OfferedTools(tools, self.quarantined_tools, silent)

    def select_instructions(self, by_default: bool = True) -> dict[str, str]:
        """Return what the servers say about their use and what the prompt is to have of it, by server name.

        Args:
            by_default: Include those of servers whose entry does not decide it.
        """
        return {
            name: said
            for name, connection in self.connections.items()
            if connection.lifecycle.is_ready and (said := connection.lifecycle.instructions)
            if (by_default if (own := connection.config.instructions) is None else own)
        }

    def find_folders(self) -> dict[str, tuple[str, ...]]:
        """Return the folders that the entries of servers name, by server name, where tools take paths.

        Of a server whose folder nobody named, and of the bundled one, whose paths are relative, nothing is said.
        """
        return {
            name: folders
            for name, connection in self.connections.items()
            if connection.lifecycle.is_ready and not is_board(connection.config)
            if (folders := tuple(path for path in find_named_folders(connection.config) if path != "/"))
            and any(map(_takes_path, connection.advertised.tools))
        }

    @property
    def quarantined_tools(self) -> Sequence[Tool]:
        """The quarantined tools: new or changed ones that cannot be called until the user accepts them."""
        return [tool for connection in self.connections.values() for tool in connection.advertised.quarantined_tools]

    @property
    def withholding_servers(self) -> list[str]:
        """The servers of which a tool or a text is withheld until the user accepts it."""
        return [
            name
            for name, connection in self.connections.items()
            for advertised in [connection.advertised]
            if advertised.quarantined_tools or any(section != "resources" for section, _ in advertised.texts.withheld)
        ]

    @property
    def failures(self) -> dict[str, ChatError]:
        """The error of each server that is not open, by server name."""
        lifecycles = {name: connection.lifecycle for name, connection in self.connections.items()}
        closed = {
            name: lifecycle.error for name, lifecycle in lifecycles.items() if lifecycle.error and not lifecycle.is_open
        }
        return {**self.left_out, **closed}

    def take_denials(self) -> list[Denial]:
        """Return what sandboxes have denied calls since the last time."""
        denials, self._denials = self._denials, []
        return denials

    def find_fatal_denials(self) -> list[tuple[str, str]]:
        """Return the servers that have ended because they could not write a folder, and that folder."""
        fatal = ((name, str(error.details.get("denied_folder", ""))) for name, error in self.failures.items())
        return [(name, folder) for name, folder in fatal if folder]

    def is_connected(self, server: str) -> bool:
        """Tell whether the server is open. Raises ServerNotFoundError."""
        return self._get_connection(server).lifecycle.is_open

    async def restart(self, server: str) -> None:
        """Restart a server, also one that exceeded its restart limit."""
        await self._get_connection(server).lifecycle.restart()

    async def log_in(self, server: str) -> None:
        """Delete a server's tokens and restart it, so that a new login starts if it requires one."""
        connection = self._get_connection(server)
        connection.lifecycle.login.delete_login()
        connection.lifecycle.login.has_agreed = True
        await connection.lifecycle.restart()

    async def forget_login(self, server: str) -> bool:
        """Close a server and delete its login; return whether there was one. Raises ChatError."""
        connection = self._get_connection(server)
        await connection.lifecycle.aclose()
        return connection.lifecycle.login.delete_login()

    async def apply_config(self, configs: Iterable[ServerConfig]) -> list[str]:
        """Change the toolbox to another configuration; return the names of the servers affected.

        New servers are opened, removed ones closed, changed ones both; the others keep running.
        """
        wanted = {config.name: config for config in configs if is_enabled(config)}
        async with self._apply_lock:
            removed = [
                connection for name, connection in self.connections.items() if wanted.get(name) != connection.config
            ]
            retained = {name: connection for name, connection in self.connections.items() if connection not in removed}
            await asyncio.gather(*(connection.lifecycle.aclose() for connection in removed))
            self.connections = {name: retained.get(name) or self._connect(config) for name, config in wanted.items()}
            new = [connection for name, connection in self.connections.items() if name not in retained]
            await asyncio.gather(*(connection.lifecycle.open() for connection in new))
        return sorted({connection.config.name for connection in (*removed, *new)})

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: OnProgress) -> ToolResult:
        """Run a tool and return its result; every failure except cancellation is a result.

        Args:
            tool: A tool of `tools`; it is not called if the server has changed it since it was listed.
            arguments: Validated arguments.
            on_progress: Called with progress, total and message, at most four times a second.
        """
        started_at = time.monotonic()

        def finish(
            status: Status, text: str, structured: Any = None, user_text: str = "", media: Sequence[Media] = ()
        ) -> ToolResult:
            seconds = round(time.monotonic() - started_at, 3)
            tool_result = ToolResult(
                tool.server, tool.name, dict(arguments), status, text, seconds, structured, user_text, tuple(media)
            )
            log_call(tool_result)
            return tool_result

        try:
            if not tool.server:
                text, media = await self._call_local(tool.name, arguments)
                return finish("completed", text, media=media)
            connection = self._get_connection(tool.server)
            result = await connection.call(tool.name, arguments, on_progress, tool)
        except ChatError as error:
            if isinstance(error, ProtocolError) and "code" in error.details:  # the server's own answer
                self._keep_denial(connection.find_denial(error.message, arguments))
            return finish("failed", error.message)
        text, user_text = result_to_text(result), result_for_user(result)
        media = await store_content(self.media_store, read_binary_content(result), tool.name)
        self._keep_denial(connection.find_denial(text, arguments, bool(result.is_error)))
        status: Status = "failed" if result.is_error else "completed"
        return finish(status, text, result.structured_content, user_text, media)

    def _keep_denial(self, denial: Denial | None) -> None:
        if denial and len(self._denials) < _MAX_DENIALS:
            self._denials.append(denial)

    def explain_failure(self, server: str, text: str, arguments: Mapping[str, Any]) -> str:
        """Return which setting of a server's sandbox would allow what a failed call says; "" if it was not that."""
        denial = self._get_connection(server).find_denial(text, arguments)
        return denial.text if denial else ""

    async def execute_tool(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        on_progress: OnProgress = ignore,
        limit_s: float | None = None,
    ) -> CallToolResult:
        """Call a tool and return the server's own result, within the limit of the call or the server's own.

        Raises:
            ChatError: There is no such server or tool, or the call failed.
        """
        connection = self._get_connection(server)
        if connection.lifecycle.is_open and tool not in (
            names := [offered.name for offered in connection.advertised.tools]
        ):
            if fault := connection.advertised.last_listing.fault:
                raise make_list_error(server, fault)
            hint = f"It has {', '.join(names)}." if names else "It has no tools."
            raise ToolNotFoundError(f'Server "{server}" has no tool "{tool}".', hint, available=names)
        try:
            return await connection.call(tool, arguments or {}, on_progress, limit_s=limit_s)
        except ProtocolError as error:
            if "code" in error.details and not error.hint:
                error.hint = self.explain_failure(server, error.message, arguments or {})
            raise

    async def list_tools(self, server: str | None = None) -> list[Tool]:
        """Return the tools of one server, or of all that are open or idle."""
        return [tool for connection in self._select(server) for tool in connection.advertised.tools]

    async def list_resources(self, server: str | None = None) -> list[tuple[str, Resource]]:
        """Return (server, resource) pairs of one server, or of all that are open or idle."""
        return await self._query_each(server, partial(_list_if_declared, "resources/list", "resources", "Resource"))

    async def list_templates(self, server: str | None = None) -> list[tuple[str, ResourceTemplate]]:
        """Return (server, resource template) pairs of one server, or of all that are open or idle."""
        ask = partial(_list_if_declared, "resources/templates/list", "resourceTemplates", "ResourceTemplate")
        return await self._query_each(server, ask)

    async def list_prompts(self, server: str | None = None) -> list[tuple[str, Prompt]]:
        """Return (server, prompt) pairs of one server, or of all that are open or idle, without what is withheld."""
        return await self._query_each(server, _list_accepted_prompts)

    async def read_resource(self, uri: str, server: str | None = None) -> ReadResourceResult:
        """Read a resource; without a server, from the first that has it.

        Raises:
            ChatError: Without a server: ProtocolError if no open one has it, or the error of one that did not answer.
        """
        asked, failed = list[str](), list[ChatError]()
        for connection in self._select(server):
            if connection.lifecycle.is_open and not connection.lifecycle.declares("resources"):
                continue
            try:
                read: ReadResourceResult = await _request(
                    connection, "resources/read", {"uri": uri}, "ReadResourceResult"
                )
            except ChatError as error:
                if server:
                    raise
                asked.append(connection.config.name)
                failed += [] if "code" in error.details else [error]  # a server that answered only does not have it
            else:
                return read
        if failed:
            raise failed[-1]
        if not asked:
            raise ProtocolError("No open server has resources.")
        raise ProtocolError(f'No open server has the resource "{uri}".', f"Asked: {', '.join(asked)}.", asked=asked)

    async def find_resource_server(self, uri: str) -> str | None:
        """Return the first server that lists a resource, or a template whose beginning the URI has; "" for none.

        None if that is not known, because no server says what it has.
        """
        try:
            listed = [(server, str(one.uri)) for server, one in await self.list_resources()]
            templates = [(server, one.uri_template) for server, one in await self.list_templates()]
        except ChatError:
            return None
        having = [server for server, known in listed if known == uri]
        having += [server for server, template in templates if uri.startswith(template.partition("{")[0])]
        return having[0] if having else ""

    async def read_attachment(self, uri: str, server: str | None = None) -> Attachment:
        """Return a resource as a model reads it. Raises ChatError."""
        resource = await self.read_resource(uri, server)
        kind = next((part.mime_type for part in resource.contents if part.mime_type), "text/plain")
        text = resource_to_text(resource)
        size = len(text.encode("utf-8", errors="replace"))
        stored = await store_content(self.media_store, read_binary_contents(resource), uri)
        media = tuple(replace(part, position=0) for part in stored if part.kind != "file")
        if media and len(media) == len(resource.contents):
            text, size = "", sum(part.size_bytes for part in media)
        return Attachment(uri, kind, size, text, media)

    @property
    def skills(self) -> list[Skill]:
        """The skills of all servers that are open or idle."""
        return [skill for connection in self._select(None) for skill in connection.lifecycle.skills]

    async def find_skills(self, uri: str) -> list[Skill]:
        """Return the skills of a URI, one for each server that has it, whether it lists it or not. Raises ChatError."""
        asked = [
            connection
            for connection in self._select(None)
            if ("skills", uri) not in connection.advertised.texts.withheld
        ]
        found = await asyncio.gather(
            *(connection.request(partial(get_skill, server=connection.config.name, uri=uri)) for connection in asked)
        )
        return [skill for skill in found if skill]

    async def read_skill(self, skill: Skill, path: str = "") -> str:
        """Return the text of a file of a skill, by default of its `SKILL.md`, from the skill's own server.

        Raises:
            UsageError: The skill has no such file.
            ProtocolError: The file is not what the server listed; the list is read again.
            ChatError: The server fails.
        """
        connection, uri = self._get_connection(skill.server), resolve_file(skill, path)
        result = await connection.request(
            lambda client: client.request("resources/read", {"uri": uri}, connection.config.timeout_s),
            connection.config.timeout_s,
        )
        try:
            return check_file(skill, uri, result)
        except ProtocolError:
            connection.lifecycle.refresh_lists()
            raise

    async def get_prompt(self, server: str, name: str, arguments: Mapping[str, str] | None = None) -> GetPromptResult:
        """Return a prompt of a server, filled with arguments.

        Raises:
            ProtocolError: The prompt is new, or has changed, and the user has not accepted it.
            ChatError: The server fails.
        """
        connection = self._get_connection(server)
        # which prompts are withheld is known only once they are listed
        with suppress(ChatError):  # a server may have prompts and no list of them
            await _list_accepted_prompts(connection)
        if why := connection.advertised.texts.withheld.get(("prompts", name)):
            raise quarantine_error(server, name, why, "prompt")
        params = {"name": name, "arguments": dict(arguments or {})}
        prompt: GetPromptResult = await _request(connection, "prompts/get", params, "GetPromptResult")
        return prompt

    async def complete(
        self,
        server: str,
        ref: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
    ) -> CompleteResult:
        """Return the server's completions for an argument of a prompt or resource template.

        Args:
            server: Name of the server.
            ref: The prompt or template.
            argument: Name of the argument to complete.
            value: The text typed so far.
            context: Arguments that are already filled in.
        """
        from .sdk_types import dump_model

        params = {"ref": dump_model(ref), "argument": {"name": argument, "value": value}}
        params |= {"context": {"arguments": dict(context)}} if context else {}
        connection = self._get_connection(server)
        result: CompleteResult = await _request(connection, "completion/complete", params, "CompleteResult")
        return result

    async def complete_uri(self, prefix: str) -> list[str]:
        """Return completions of a partly typed resource URI: the values of the variable that its end belongs to."""
        uris: list[str] = []
        templates = await self.list_templates()
        if templates:
            from .uri_templates import find_open_variable  # the SDK, 0.5 s
        for server, template in templates:
            if (variable := find_open_variable(template.uri_template, prefix)) is None:
                continue
            from mcp_types import ResourceTemplateReference

            reference = ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
            try:
                answer = await self.complete(server, reference, variable.name, variable.typed, variable.context)
            except ChatError:  # of a server without completion; the others may have it
                continue
            uris += [variable.expand(value) for value in answer.completion.values]
        return uris

    async def subscribe(self, server: str, uri: str) -> None:
        """Subscribe to changes of a resource, in any version of the protocol; `handlers.on_change` receives its URI."""
        connection = self._get_connection(server)
        await connection.request(lambda _client: connection.lifecycle.subscribe(uri))

    async def unsubscribe(self, server: str, uri: str) -> None:
        """End a subscription; one at a server that is down ends without a request. Raises ChatError."""
        connection = self._get_connection(server)
        if connection.lifecycle.is_open:
            await connection.request(lambda _client: connection.lifecycle.unsubscribe(uri))
        else:
            await connection.lifecycle.unsubscribe(uri)

    @property
    def subscriptions(self) -> list[tuple[str, str]]:
        """The (server, URI) pairs that are subscribed to."""
        return [
            (name, uri) for name, connection in self.connections.items() for uri in connection.lifecycle.subscribed_uris
        ]

    async def _call_local(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, list[Media]]:
        if name == "read_resource":
            result = await self.read_resource(str(arguments["uri"]))
            return resource_to_text(result), await store_content(self.media_store, read_binary_contents(result), name)
        resources, templates = await self.list_resources(), await self.list_templates()
        return describe_resources(resources, templates, self._find_withheld_resources(resources, templates)), []

    def _find_withheld_resources(
        self, resources: Sequence[tuple[str, Resource]], templates: Sequence[tuple[str, ResourceTemplate]]
    ) -> set[tuple[str, str]]:
        """Return the (server, URI) pairs of resources and templates whose descriptions are withheld."""
        texts: dict[str, dict[str, PinnedFields]] = {}
        for server, resource in resources:
            texts.setdefault(server, {})[str(resource.uri)] = extract_text(resource, *RESOURCE_FIELDS)
        for server, template in templates:
            texts.setdefault(server, {})[template.uri_template] = extract_text(template, *RESOURCE_FIELDS)
        return {
            (server, uri)
            for server, fields in texts.items()
            for uri in self._get_connection(server).advertised.texts.find_withheld("resources", fields)
        }

    def _connect(self, config: ServerConfig) -> Connection:
        connection = Connection(config, self.log_path(config.name), self._handlers)
        connection.lifecycle.login_folder = self._login_folder
        connection.advertised.pins = ToolPins(self._trust_store, config, offers=self._handlers.find_offers(config))
        connection.advertised.texts = TextPins(self._trust_store, config)
        return connection

    async def _query_each(
        self, server: str | None, ask: Callable[[Connection], Awaitable[list[Item]]]
    ) -> list[tuple[str, Item]]:
        """Query one server, or all that are open or idle, concurrently. Raises ChatError if none answers."""
        connections = self._select(server)
        results = await asyncio.gather(*(ask(connection) for connection in connections), return_exceptions=True)
        successes = [
            (connection, items)
            for connection, items in zip(connections, results, strict=True)
            if isinstance(items, list)
        ]
        for failure in results:
            if isinstance(failure, BaseException) and not (successes and isinstance(failure, ChatError)):
                raise failure
        return [(connection.config.name, item) for connection, items in successes for item in items]

    def _select(self, server: str | None) -> list[Connection]:
        """Return one server, or all that are open or idle (stopped until they are needed)."""
        if server:
            return [self._get_connection(server)]
        return [connection for connection in self.connections.values() if connection.lifecycle.is_ready]

    def _get_connection(self, server: str) -> Connection:
        if server not in self.connections:
            if server in self.left_out:
                raise self.left_out[server]
            names = list(self.connections)
            hint = f"The configured servers are {', '.join(names)}." if names else "No server is configured."
            raise ServerNotFoundError(f'There is no server "{server}".', hint, available=names)
        return self.connections[server]


async def _list_accepted_prompts(connection: Connection) -> list[Prompt]:
    """Return the prompts of a server that are not withheld. Raises ChatError."""
    prompts = await _list_if_declared("prompts/list", "prompts", "Prompt", connection)
    texts = {
        prompt.name: extract_prompt_fields(prompt.model_dump(by_alias=True, exclude_none=True)) for prompt in prompts
    }
    withheld = connection.advertised.texts.find_withheld("prompts", texts)
    return [prompt for prompt in prompts if prompt.name not in withheld]


async def _list_if_declared(method: str, key: str, kind: str, connection: Connection) -> list[Any]:
    """Return all entries of a list; empty if the server does not declare the capability. Raises ChatError."""
    capability = method.partition("/")[0]

    async def send(client: Client) -> list[Any]:
        if not client.declares(capability):
            return []
        listing = await client.list_all(method, key)
        if listing.pages.is_cut:
            connection.lifecycle.report_cut(capability, listing.pages.count)
        return listing.entries

    entries = await connection.request(send)
    if not entries:
        return []
    from .sdk_types import read_entries

    return read_entries(kind, entries)


async def _request(connection: Connection, method: str, params: dict[str, Any], kind: str) -> Any:
    """Send a request and return its result as an object of the SDK's types. Raises ChatError."""
    limit_s = connection.config.timeout_s
    result = await connection.request(lambda client: client.request(method, params, limit_s), limit_s)
    from .sdk_types import read_result

    return read_result(connection.config.name, kind, result)
