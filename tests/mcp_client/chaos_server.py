"""A well-behaved MCP server on standard input and output, and MODES: ways to spoil one moment of it.

It speaks both eras, the handshake and 2026-07-28, and knows no mode by name. Standard library only: it starts at once.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODERN = "2026-07-28"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
METHOD_NOT_FOUND = -32601

MOMENTS = {
    "server/discover": "discover",
    "initialize": "initialize",
    "tools/list": "list",
    "notifications/initialized": "initialized",
    "notifications/cancelled": "cancelled",
    "ping": "ping",
    "logging/setLevel": "level",
    "tasks/get": "task",
    "tasks/update": "update",
    "tasks/result": "outcome",
    "tasks/cancel": "cancel task",
}

Message = dict[str, Any]
Spoil = Callable[["Server", Message], None]


class Mode:
    """What happens at the moments of a mode instead of the right thing.

    Moments are start, eof, call (of the tool `act` only), answered (by the client), those of MOMENTS, and other methods
    by their own names. `eras` says what the server speaks: "both", "handshake" or "modern".
    """

    def __init__(self, name: str) -> None:  # a dataclass would take 10 ms at every start
        self.name, self.eras = name, "both"
        self.spoils: dict[str, Spoil] = {}


MODES: dict[str, Mode] = {"ok": Mode("ok")}


def mode(moment: str, *names: str, eras: str = "") -> Callable[[Spoil], Spoil]:
    """Enters a function in MODES; a mode with several moments is entered several times."""

    def enter(spoil: Spoil) -> Spoil:
        for name in names:
            entry = MODES.setdefault(name, Mode(name))
            entry.eras = eras or entry.eras
            entry.spoils[moment] = spoil
        return spoil

    return enter


def in_lives(first: int, last: int, spoil: Spoil, otherwise: Spoil) -> Spoil:
    return lambda server, message: (spoil if first <= server.life <= last else otherwise)(server, message)


def give(result: Any) -> Spoil:
    return lambda server, message: server.answer(message, result)


def offer(make_tools: Callable[[], list[Message]]) -> Spoil:
    """They are made only where they are offered: some lists are long."""

    def spoil(server: Server, _message: Message) -> None:
        server.tools = make_tools()

    return spoil


def stay_silent(_server: Server, _message: Message) -> None: ...


def tool(name: str, description: str = "", schema: Any = None, **hints: bool) -> Message:
    entry = {"name": name, "description": description or f"Does {name}.", "inputSchema": schema or {"type": "object"}}
    return {**entry, "annotations": hints} if hints else entry


INFO: Message = {"name": "chaos", "version": "1"}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
SUM = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}
TOOLS = [
    tool("echo", "Gives the text back.", TEXT, readOnlyHint=True),
    tool("add", "Adds two numbers.", SUM, idempotentHint=True),
    tool("act", "Does what the mode says.", TEXT),
]


class Server:
    """The good server. `life` counts its starts in the file `state`, from 1; `log` gets a line of JSON per event."""

    def __init__(self, spoiled: Mode, delay_s: float, log: Path | None, state: Path | None, eras: str) -> None:
        self.mode = spoiled
        self.delay_s = delay_s
        self.log = log
        self.eras = eras or spoiled.eras
        self.life = count_life(state) if state else 1
        self.tools: list[Message] = list(TOOLS)
        self.calls: list[Message] = []
        self.listener: Any = None
        self.capabilities: Message = {"tools": {"listChanged": True}}
        self.course: list[Message] = []
        self.outcome: Message = {}
        self.modern = False
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._input = b""

    def run(self) -> None:
        getattr(sys, "set_int_max_str_digits", id)(0)
        signal.signal(signal.SIGINT, lambda *_: self.note("signal", name="SIGINT"))
        self.note("start", pid=os.getpid(), life=self.life, mode=sys.argv[1], **describe_process())
        self._spoil("start", {})
        while (line := self.read()) is not None:
            self.receive(json.loads(line))
        self.note("eof")
        self._spoil("eof", {})

    def receive(self, message: Message) -> None:
        self.note("in", message=message)
        method = str(message.get("method", ""))
        moment = MOMENTS.get(method, method) if method else "answered"
        if method == "tools/call" and message["params"]["name"] == "act":
            moment = "call"
            self.calls.append(message)
        if not self._spoil(moment, message):
            RIGHT.get(method, refuse)(self, message)

    def _spoil(self, moment: str, message: Message) -> bool:
        spoil = self.mode.spoils.get(moment)
        if spoil:
            spoil(self, message)
        return spoil is not None

    def read(self, limit_s: float | None = None) -> bytes | None:
        """The next line; None at the end of the input, or when `limit_s` has passed. What is due is done meanwhile."""
        end = time.monotonic() + limit_s if limit_s is not None else None
        while b"\n" not in self._input:
            waits = [when for when, _ in self._due] + ([end] if end is not None else [])
            left = max(0.0, min(waits) - time.monotonic()) if waits else None
            if not select.select([0], [], [], left)[0]:
                self._do_what_is_due()
                if end is not None and time.monotonic() >= end:
                    return None
                continue
            chunk = os.read(0, 1 << 16)
            if not chunk:
                return None
            self._input += chunk
        line, _, self._input = self._input.partition(b"\n")
        return line

    def later(self, action: Callable[[], None]) -> None:
        self._due.append((time.monotonic() + self.delay_s, action))

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        due = [action for when, action in self._due if when <= now]
        self._due = [(when, action) for when, action in self._due if when > now]
        for action in due:
            action()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def send(self, *messages: Message) -> None:
        self.write(b"".join(dump(message) + b"\n" for message in messages))

    def answer(self, request: Message, result: Any) -> None:
        self.send(self.make_answer(request, result))

    def say(self, request: Message, text: str) -> None:
        self.send(self.make_text(request, text))

    def make_answer(self, request: Message, result: Any) -> Message:
        if self.modern and isinstance(result, dict):
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}

    def make_text(self, request: Message, text: str) -> Message:
        return self.make_answer(request, {"content": [{"type": "text", "text": text}]})

    def fail(self, request: Message, code: Any, message: Any, data: Any = None) -> None:
        error = {"code": code, "message": message, **({"data": data} if data is not None else {})}
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def announce_new_tools(self, times: int = 1) -> None:
        """Says that the list has changed; in the modern era only to one who listens."""
        meta = {"io.modelcontextprotocol/subscriptionId": self.listener}
        params: Message = {"_meta": meta} if self.modern else {}
        if self.listener is not None or not self.modern:
            self.send(*[notice("notifications/tools/list_changed", **params)] * times)

    def complain(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def note(self, event: str, **details: Any) -> None:
        if self.log:
            with self.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps({"event": event, "at": time.monotonic(), **details}) + "\n")


def describe_process() -> Message:
    """What its client gave it: descriptors, environment, folder, umask, and whether its session is its own."""
    os.umask(umask := os.umask(0o077))
    descriptors = [int(entry.name) for entry in Path("/dev/fd").iterdir() if entry.exists()]
    return {
        "descriptors": sorted(descriptors),
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "umask": umask,
        "is_leader": os.getsid(0) == os.getpid(),
    }


def count_life(state: Path) -> int:
    with state.open("ab") as counter:
        counter.write(b"x")
        return counter.tell()


def dump(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def notice(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def discover(server: Server, message: Message) -> None:
    if server.eras == "handshake":
        refuse(server, message)
        return
    server.modern = True
    about = {"io.modelcontextprotocol/serverInfo": INFO}
    server.answer(message, {"supportedVersions": [MODERN], "capabilities": server.capabilities, "_meta": about})


def initialize(server: Server, message: Message) -> None:
    if server.eras == "modern":
        server.fail(message, -32022, "Unsupported protocol version", {"supported": [MODERN], "requested": "?"})
        return
    wanted = message["params"].get("protocolVersion")
    version = wanted if wanted in HANDSHAKE else HANDSHAKE[-1]
    server.answer(message, {"protocolVersion": version, "capabilities": server.capabilities, "serverInfo": INFO})


def list_tools(server: Server, message: Message) -> None:
    server.answer(message, {"tools": server.tools})


def call_tool(server: Server, message: Message) -> None:
    name, arguments = message["params"]["name"], message["params"].get("arguments") or {}
    server.note("ran", tool=name)
    if name == "add":
        server.say(message, str(arguments["a"] + arguments["b"]))
    else:
        server.say(message, str(arguments.get("text", f"{name} is done")))


def listen(server: Server, message: Message) -> None:
    server.listener = message["id"]
    meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
    accepted = message["params"].get("notifications", {})
    server.send(notice("notifications/subscriptions/acknowledged", notifications=accepted, _meta=meta))


def refuse(server: Server, message: Message) -> None:
    if "method" in message and "id" in message:
        server.fail(message, METHOD_NOT_FOUND, f"Method not found: {message['method']}")


RIGHT: dict[str, Spoil] = {
    "server/discover": discover,
    "initialize": initialize,
    "tools/list": list_tools,
    "tools/call": call_tool,
    "subscriptions/listen": listen,
    "ping": give({}),
}
