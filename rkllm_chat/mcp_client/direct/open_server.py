"""Open one server for one command, with the small client where possible, else with that of the chat.

    with open_server(server) as opened:              # a ServerConfig; starts a process at once
        opened.list_tools()                          # -> [{"name", "description", "inputSchema", ...}] as it says
        opened.call_tool("echo", {"text": "x"}, 60)  # -> {"content": [...], "structuredContent": ..., "isError": ...}

Prints nothing and raises only ChatErrors; `isError` is not raised. Leaving the block stops the server and waits for it,
so print and flush before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ...config.files import find_state_folder
from ...config.oauth import OAuth
from ...config.project_trust import TrustStore
from ...config.servers import ServerConfig
from ...config.tool_pins import ToolPins, extract_pinned_fields, extract_prompt_fields, quarantine_error
from ...core.errors import ProtocolError, TimeLimitError
from ..protocol.cut_result import describe_cut_result, read_cut_size
from ..protocol.faults import (
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    NEEDS,
    SERVER_INFO_META,
    TOOL_FAULTS,
    explain_list_fault,
    find_tool_fault,
    make_list_error,
    make_output_error,
)
from ..protocol.limits import LIST_TIMEOUT_S, MAX_RESULT_BYTES
from ..protocol.output_check import (
    NO_STRUCTURED_CONTENT,
    describe_output_fault,
    explain_output_mismatch,
    find_output_fault,
)
from ..protocol.paging import ListPages, explain_cut

if TYPE_CHECKING:
    from typing_extensions import Self

    from ...config.tool_pins import QuarantineReason
    from ..protocol.dialog import AskForm
    from .client import DirectClient
    from .connection_client import ConnectionClient

    _T = TypeVar("_T")

    OneShotClient = DirectClient | ConnectionClient


_ENVELOPE_MEMBERS = ("resultType", "ttlMs", "cacheScope")


def open_server(server: ServerConfig, max_bytes: int = MAX_RESULT_BYTES, ask_form: AskForm | None = None) -> OpenServer:
    """Start or connect a server; the first request is sent at once, its response read when needed.

    Args:
        server: The server's configuration.
        max_bytes: Limit of a message.
        ask_form: Answers the server's forms; None if there is nobody to ask.
    """
    return OpenServer(server, _select_client(server, max_bytes, ask_form), max_bytes, ask_form)


def open_as_chat(server: ServerConfig) -> OpenServer:
    """Connect a server as the chat does, so that it lists the same tools; what it asks of the client is declined."""
    from .connection_client import ConnectionClient

    return OpenServer(server, ConnectionClient(server, as_chat=True))


def _select_client(server: ServerConfig, max_bytes: int, ask_form: AskForm | None) -> OneShotClient:
    """Return a client: the small client for a command and plain HTTP, that of the chat for the rest."""
    if server.command and server.transport in ("", "stdio"):
        from .posix_process import start_program

        program = start_program(server)  # it starts up while the rest is imported
        from .client import DirectClient
        from .stdio_channel import StdioChannel

        return DirectClient(server, StdioChannel(server.name, program, max_bytes), program.no_sandbox, ask_form)
    from .client import DirectClient, UnsupportedByDirectClient

    if server.url.startswith(("http:", "https:")) and server.transport in ("", "http") and server.oauth == OAuth():
        from .http_channel import HttpChannel

        try:
            return DirectClient(server, HttpChannel(server, max_bytes), ask_form=ask_form)
        except UnsupportedByDirectClient:
            pass
    return _open_with_connection(server, max_bytes, ask_form)


def _open_with_connection(server: ServerConfig, max_bytes: int, ask_form: AskForm | None) -> OneShotClient:
    """Return the client of the chat."""
    from .connection_client import ConnectionClient

    return ConnectionClient(server, max_bytes, ask_form)


class OpenServer:
    """An open server. Every method raises a ChatError: ConnectError, TimeLimitError, ProtocolError, AuthError.

    Attributes:
        server: The server's configuration.
        client: The client in use.
        left_out: Tools that cannot be used, with the reason, after a listing.
        call_notices: What the user should know about the calls: what the sandbox has denied although they succeeded.
        is_list_cut: Whether a list was longer than what is read of it.
    """

    def __init__(
        self,
        server: ServerConfig,
        client: OneShotClient,
        max_bytes: int = MAX_RESULT_BYTES,
        ask_form: AskForm | None = None,
    ) -> None:
        self.server, self._ask_form = server, ask_form
        self.client = client
        self._max_bytes, self._is_handed_over = max_bytes, False
        self._pins = ToolPins(TrustStore(find_state_folder()), server)
        self._prompt_pins = ToolPins(TrustStore(find_state_folder()), server, "prompts")
        self.left_out: dict[str, str] = {}
        self.is_list_cut = False
        self._notices: list[str] = []
        self.call_notices: list[str] = []
        self._known: dict[str, dict[str, Any]] = {}
        self._quarantine: dict[str, QuarantineReason] | None = None

    def _run(self, do: Callable[[OneShotClient], _T]) -> _T:
        """Run `do`, and again with the client of the chat if the small client does not support the server."""
        from .client import UnsupportedByDirectClient

        try:
            return do(self.client)
        except UnsupportedByDirectClient:
            self._hand_over()
        return do(self.client)

    def _hand_over(self) -> None:
        """Go on with the client of the chat."""
        self._is_handed_over = True
        self.client.close()
        self.client = _open_with_connection(self.server, self._max_bytes, self._ask_form)

    def open(self) -> None:
        """Wait until the server answers."""
        self._run(lambda client: client.open())

    @property
    def sandbox_notice(self) -> str:
        """Say that the server runs without a sandbox although one is configured; "" if it does not."""
        reason = self.client.no_sandbox
        return f'Server "{self.server.name}" runs without a sandbox: {reason}.' if reason else ""

    def list_all_tools(self) -> list[dict[str, Any]]:
        """Return the server's usable tools in its order; of several with one name, the first."""
        tools: dict[str, dict[str, Any]] = {}
        for tool in self._list("tools/list", "tools"):
            name = tool.get("name")
            if not isinstance(name, str) or not name:
                continue
            if fault := find_tool_fault(tool):
                self.left_out[name] = TOOL_FAULTS[fault]
            else:
                tools.setdefault(name, tool)
        faults = {name: find_output_fault(tool.get("outputSchema")) for name, tool in tools.items()}
        self._notices += [describe_output_fault(self.server.name, name, why) for name, why in faults.items() if why]
        self._known = tools
        return list(tools.values())

    @property
    def list_notices(self) -> list[str]:
        """What the user should know about the lists that were read: where one was cut, and the faults of tools."""
        return self._notices + [
            f'The tool "{name}" of server "{self.server.name}" cannot be used: {reason}.'
            for name, reason in self.left_out.items()
        ]

    def list_tools(self) -> list[dict[str, Any]]:
        """Return the tools that the configuration allows and that are not quarantined."""
        tools = self.list_all_tools()
        self._quarantine = self._pins.find_changes({tool["name"]: extract_pinned_fields(tool) for tool in tools})
        return [tool for tool in tools if self.server.offers(tool["name"]) and tool["name"] not in self._quarantine]

    def check_quarantine(self, name: str) -> None:
        """Raise ProtocolError if the tool is left out, or was added or changed since the user accepted the tools."""
        if name in self.left_out:
            text = f'The tool "{name}" of server "{self.server.name}" cannot be used: {self.left_out[name]}.'
            raise ProtocolError(text, server=self.server.name)
        if self._quarantine is None and self._pins.has_pins():
            self.list_tools()
        if self._quarantine and name in self._quarantine:
            raise quarantine_error(self.server.name, name, self._quarantine[name])

    def call_tool(self, name: str, arguments: dict[str, Any], limit_s: float | None = None) -> dict[str, Any]:
        """Call a tool and return its result as the server wrote it.

        A tool that must be called as a task is called through the client of the chat.

        Args:
            name: The tool's name.
            arguments: Its arguments.
            limit_s: The deadline; by default that of the tool or of the server. Progress extends it.
        """
        self.check_quarantine(name)
        limit_s = limit_s or self.server.get_timeout_s(name)
        params = {"name": name, "arguments": arguments}
        if self._requires_task(name):
            self._hand_over()
        try:
            result = self._request("tools/call", params, "call", limit_s)
        except ProtocolError as error:
            if not self._is_refused_as_no_task(name, error.details.get("code")):
                raise
            self._hand_over()
            result = self._request("tools/call", params, "call", limit_s)
        if size := read_cut_size(result):
            self.call_notices.append(describe_cut_result(self.server.name, name, size))
        else:
            self._check_output(name, result)
        if not result.get("isError") and (denial := self.client.explain_denial("")):
            self.call_notices.append(denial)
        return result

    def _is_refused_as_no_task(self, name: str, code: object) -> bool:
        """Tell whether a call was refused, and not run, because the tool must be called as a task.

        In MCP 2025-11-25 the list says so, which may not have been read; in 2026-07-28 only this answer does.
        """
        if self._is_handed_over:
            return False
        is_unlisted = not self._known and code == METHOD_NOT_FOUND
        return code == MISSING_CAPABILITY or (is_unlisted and self._lists_as_task(name))

    def _requires_task(self, name: str) -> bool:
        execution = self._known.get(name, {}).get("execution")
        is_required = isinstance(execution, dict) and execution.get("taskSupport") == "required"
        return is_required and self.client.may_require_tasks

    def _lists_as_task(self, name: str) -> bool:
        """List the tools, and tell whether this one must be called as a task."""
        with suppress(ProtocolError):
            self.list_all_tools()
        return self._requires_task(name)

    def explain_failure(self, text: str) -> str:
        """Return what a user can do about a call that failed with this text, else "".

        The server may have asked for what there is not, or its sandbox may have denied it something.
        """
        return NEEDS.get(self.client.needs, "") or self.client.explain_denial(text)

    def _check_output(self, name: str, result: dict[str, Any]) -> None:
        """Check a result against the output schema of its tool, if the tools were listed. Raises ProtocolError."""
        schema = self._known.get(name, {}).get("outputSchema")
        if result.get("isError") or not isinstance(schema, dict):
            return
        structured = result.get("structuredContent")
        if "structuredContent" not in result:
            self._notices.append(describe_output_fault(self.server.name, name, NO_STRUCTURED_CONTENT))
        elif reason := explain_output_mismatch(schema, structured):
            raise make_output_error(self.server.name, reason, structuredContent=structured)

    def list_resources(self) -> list[dict[str, Any]]:
        """Return the server's resources; empty without the capability."""
        return self._list("resources/list", "resources")

    def list_templates(self) -> list[dict[str, Any]]:
        """Return the server's resource templates; empty without the capability."""
        return self._list("resources/templates/list", "resourceTemplates")

    def list_skills(self) -> list[dict[str, Any]]:
        """Return the entries of the server's skills (SEP-2640); empty without the extension."""
        return self._list("skills/list", "skills", "extensions")

    def read_resource(self, uri: str, limit_s: float | None = None) -> dict[str, Any]:
        """Read a resource; `limit_s` as for `call_tool`."""
        return self._request("resources/read", {"uri": uri}, "read", limit_s)

    def list_prompts(self) -> list[dict[str, Any]]:
        """Return the server's prompts without those that are withheld; empty without the capability."""
        prompts = self.list_all_prompts()
        withheld = self._find_withheld_prompts(prompts)
        return [prompt for prompt in prompts if prompt.get("name") not in withheld]

    def list_all_prompts(self) -> list[dict[str, Any]]:
        """Return the server's prompts; empty without the capability."""
        return self._list("prompts/list", "prompts")

    def _find_withheld_prompts(self, prompts: list[dict[str, Any]]) -> Mapping[str, QuarantineReason]:
        fields = {str(prompt.get("name")): extract_prompt_fields(prompt) for prompt in prompts}
        return self._prompt_pins.find_changes(fields)

    def get_prompt(self, name: str, arguments: dict[str, str], limit_s: float | None = None) -> dict[str, Any]:
        """Return a prompt filled with arguments; `limit_s` as for `call_tool`."""
        if self._prompt_pins.has_pins() and (why := self._find_withheld_prompts(self.list_all_prompts()).get(name)):
            raise quarantine_error(self.server.name, name, why, "prompt")
        return self._request("prompts/get", {"name": name, "arguments": arguments}, "prompt", limit_s)

    def _list(self, method: str, key: str, capability: str = "") -> list[dict[str, Any]]:
        """Return the entries of all pages, see `ListPages`; empty without the capability. A cut list is noted.

        Args:
            method: The method of the request.
            key: Member of its result that has the entries.
            capability: The capability, if it is not named like the method.

        Raises:
            ProtocolError: A page is unusable.
            TimeLimitError: All pages together take too long.
        """
        if not self._run(lambda client: client.has_capability(capability or method.partition("/")[0])):
            return []
        entries: list[dict[str, Any]] = []
        pages, limit_s = ListPages(), min(LIST_TIMEOUT_S, self.server.timeout_s)
        end = time.monotonic() + limit_s
        while not pages.is_complete:
            if (left_s := end - time.monotonic()) <= 0:
                text = f'Server "{self.server.name}" did not list what it has within {limit_s:g} s.'
                raise TimeLimitError(text, server=self.server.name, phase="list", limit_s=limit_s)
            is_first, params = pages.cursor is None, {} if pages.cursor is None else {"cursor": pages.cursor}
            try:
                page = self._request(method, params, "list", limit_s if is_first else left_s)
            except ProtocolError:
                if pages.end_at_empty_cursor():
                    break
                raise
            if fault := explain_list_fault(page, key):
                raise make_list_error(self.server.name, fault)
            entries += pages.add([entry for entry in page[key] if isinstance(entry, dict)], page.get("nextCursor"))
        if pages.is_cut:
            self.is_list_cut = True
            self._notices.append(explain_cut(self.server.name, key, pages.count))
        return entries

    def _request(self, method: str, params: dict[str, Any], phase: str, limit_s: float | None) -> dict[str, Any]:
        try:
            result = self._run(lambda client: client.request(method, params, phase, limit_s or self.server.timeout_s))
        except ProtocolError as error:
            if phase != "list" and "code" in error.details and not error.hint:  # the server's own answer
                error.hint = self.explain_failure(error.message)
            raise
        return _strip_envelope(result)

    def close(self, is_patient: bool = True) -> None:
        """Stop the server process with all its children; may be called twice."""
        self.client.close(is_patient)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _strip_envelope(result: dict[str, Any]) -> dict[str, Any]:
    """Remove the result's own metadata (MCP 2026-07-28): type, caching, and the server's name."""
    meta = result.get("_meta")
    retained = (
        {key: value for key, value in meta.items() if key != SERVER_INFO_META} if isinstance(meta, dict) else meta
    )
    stripped = {key: value for key, value in result.items() if key not in _ENVELOPE_MEMBERS and key != "_meta"}
    return {**stripped, "_meta": retained} if retained else stripped
