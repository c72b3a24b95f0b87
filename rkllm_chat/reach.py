"""One server, opened for one command: by the small client of `wire/` where that can, else through `servers/`.

    with open_server(server) as opened:              # a ServerConfig; a process is started here, before anything else
        opened.list_tools()                          # -> [{"name", "description", "inputSchema", ...}] as it says
        opened.call_tool("echo", {"text": "x"}, 60)  # -> {"content": [...], "structuredContent": ..., "isError": ...}

Nothing here prints, and everything that is raised is a ChatError. Leaving the block ends the server and waits for it:
print and flush before that. `isError` is not raised.
"""

from __future__ import annotations

import time

from .errors import ProtocolError, UsageError
from .pins import Pins, read_told, refuse_held
from .places import find_state
from .trust import Accepted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeVar

    from typing_extensions import Self

    from .config import ServerConfig
    from .pins import Held

    Given = TypeVar("Given")

    class Way(Protocol):
        """How a server is reached: `wire/client.py` is one, `servers/once.py` the other."""

        seconds: dict[str, float]

        @property
        def info(self) -> dict[str, Any]: ...
        @property
        def version(self) -> str: ...
        @property
        def last_words(self) -> str: ...
        def explain_denial(self, text: str) -> str: ...
        def open(self) -> None: ...
        def offers(self, what: str) -> bool: ...
        def ask(self, method: str, params: dict[str, Any], phase: str, limit_s: float) -> dict[str, Any]: ...
        def close(self, is_patient: bool = True) -> None: ...


LIST_S = 10.0
"""For a page of a list, and for all of them together."""
MOST_ENTRIES = 10_000
MOST_PAGES = 500
ENVELOPE = ("resultType", "ttlMs", "cacheScope")
SERVER_INFO = "io.modelcontextprotocol/serverInfo"


def open_server(server: ServerConfig, keep_s: float | None = None) -> Opened:
    """Starts or reaches a server; the first question is asked at once, and its answer awaited when it is needed.

    With `keep_s` a server that is a process stays for so many seconds after it is left, and is there for the next call
    of this user that says the same; 0 ends it.
    """
    return Opened(server, find_way(server) if keep_s is None else find_kept(server, keep_s))


def find_kept(server: ServerConfig, keep_s: float) -> Way:
    if not server.command:
        raise UsageError(f'Server "{server.name}" is no process that could be kept.', "Leave --keep-alive out.")
    from .wire.client import Client
    from .wire.kept import reach_kept

    return Client(server, reach_kept(server, keep_s))


def find_way(server: ServerConfig) -> Way:
    """The small client for a command and for plain HTTP, the SDK for the rest."""
    if server.command and server.transport in ("", "stdio"):
        from .wire.program import start

        program = start(server)  # it boots while the rest is imported
        from .wire.client import Client
        from .wire.pipe import Pipe

        return Client(server, Pipe(server.name, program))
    from .wire.client import Client, Elsewhere

    if server.url.startswith(("http:", "https:")) and server.transport in ("", "http") and not has_login(server):
        from .wire.web import Web

        try:
            return Client(server, Web(server))
        except Elsewhere:
            pass
    return go_elsewhere(server)


def go_elsewhere(server: ServerConfig) -> Way:
    """Through the SDK. A light entry of `places.py` becomes what it stands for."""
    from .config import ServerConfig, make_server
    from .servers.once import Once

    return Once(server if isinstance(server, ServerConfig) else make_server(vars(server), f"server {server.name}"))


def has_login(server: ServerConfig) -> bool:
    """Whether the configuration says how to log in, as a table or as what it becomes."""
    oauth: Any = server.oauth
    told = oauth if isinstance(oauth, dict) else {key: value for key, value in vars(oauth).items() if key != "grant"}
    return any(told.values())


class Opened:
    """An open server. Every method raises ChatError: ConnectError, TimeLimitError, ProtocolError, AuthError."""

    def __init__(self, server: ServerConfig, way: Way) -> None:
        self.server = server
        self.way = way
        self._pins = Pins(Accepted(find_state()), server)
        self._held: dict[str, Held] | None = None

    def _go(self, do: Callable[[Way], Given]) -> Given:
        """Does it, and once more the other way if the server turns out to speak as the small client does not."""
        from .wire.client import Elsewhere

        try:
            return do(self.way)
        except Elsewhere:
            self.way.close()
            self.way = go_elsewhere(self.server)
        return do(self.way)

    def open(self) -> None:
        """Waits until the server answers."""
        self._go(lambda way: way.open())

    def list_all_tools(self) -> list[dict[str, Any]]:
        """The tools that the server has, in full and in its order; of two with one name the first."""
        found: dict[str, dict[str, Any]] = {}
        for tool in self._list("tools/list", "tools"):
            name = tool.get("name")
            if isinstance(name, str) and name:
                found.setdefault(name, tool)
        return list(found.values())

    def list_tools(self) -> list[dict[str, Any]]:
        """Those of them that the configuration offers, and that are as the user has accepted them, if he ever did."""
        tools = self.list_all_tools()
        self._held = self._pins.judge({tool["name"]: read_told(tool) for tool in tools})
        return [tool for tool in tools if self._offers(tool["name"]) and tool["name"] not in self._held]

    def check_held(self, name: str) -> None:
        """Raises ProtocolError for a tool that has changed since the user accepted it, or came later."""
        if self._held is None and self._pins.are_kept():
            self.list_tools()
        if self._held and name in self._held:
            raise refuse_held(self.server.name, name, self._held[name])

    def _offers(self, name: str) -> bool:
        server = self.server
        return (not server.tools_allow or name in server.tools_allow) and name not in server.tools_deny

    def call_tool(self, name: str, arguments: dict[str, Any], limit_s: float | None = None) -> dict[str, Any]:
        """A tool's result as the server wrote it; `limit_s` is the server's `timeout_s` if it is not given."""
        self.check_held(name)
        params = {"name": name, "arguments": arguments}
        return self._ask("tools/call", params, "call", limit_s)

    def list_resources(self) -> list[dict[str, Any]]:
        return self._list("resources/list", "resources")

    def list_templates(self) -> list[dict[str, Any]]:
        return self._list("resources/templates/list", "resourceTemplates")

    def read_resource(self, uri: str, limit_s: float | None = None) -> dict[str, Any]:
        return self._ask("resources/read", {"uri": uri}, "read", limit_s)

    def list_prompts(self) -> list[dict[str, Any]]:
        return self._list("prompts/list", "prompts")

    def get_prompt(self, name: str, arguments: dict[str, str], limit_s: float | None = None) -> dict[str, Any]:
        return self._ask("prompts/get", {"name": name, "arguments": arguments}, "prompt", limit_s)

    def _list(self, method: str, key: str) -> list[dict[str, Any]]:
        """The entries of all pages, up to a page that was there before; none from a server that has no such things.

        Raises ProtocolError for a list without end: a part of it would pass for the whole.
        """
        if not self._go(lambda way: way.offers(method.partition("/")[0])):
            return []
        entries: list[Any] = []
        cursors: set[str] = set()
        page: dict[str, Any] = {"nextCursor": ""}
        limit_s = min(LIST_S, self.server.timeout_s)
        end = time.monotonic() + limit_s
        while isinstance(cursor := page.get("nextCursor"), str) and cursor not in cursors:
            cursors.add(cursor)
            page = self._ask(method, {"cursor": cursor} if cursor else {}, "list", limit_s)
            found = page.get(key)
            entries += [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
            if len(entries) > MOST_ENTRIES or len(cursors) > MOST_PAGES or time.monotonic() > end:
                text = f'Server "{self.server.name}" lists more than {MOST_ENTRIES} {key}, or for too long.'
                raise ProtocolError(text, server=self.server.name, phase="list")
        return entries

    def _ask(self, method: str, params: dict[str, Any], phase: str, limit_s: float | None) -> dict[str, Any]:
        result = self._go(lambda way: way.ask(method, params, phase, limit_s or self.server.timeout_s))
        return strip(result)

    def close(self, is_patient: bool = True) -> None:
        """Ends the server, if it is a process, with all its children. Once is enough, and twice does no harm."""
        self.way.close(is_patient)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def strip(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what it says about itself and its server since 2026-07-28."""
    meta = result.get("_meta")
    kept = {key: value for key, value in meta.items() if key != SERVER_INFO} if isinstance(meta, dict) else meta
    stripped = {key: value for key, value in result.items() if key not in ENVELOPE and key != "_meta"}
    return {**stripped, "_meta": kept} if kept else stripped
