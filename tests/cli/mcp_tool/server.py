"""A small MCP server on stdio that records what it is sent: `python server.py TOOLS RECORD`.

TOOLS is a JSON file with the tools that it lists; `does` of a tool selects one of BEHAVIORS (default: "record"), and
`needs` names a client capability without which it is not listed. RECORD gets a line for its start, one for each
message, and one for each call: `{"name": ..., "arguments": ...}`. Environment variables: WAITS_FOR=RECORD waits until
that other server has started, CHILD=1 starts a child that stays, STUBBORN=1 prevents it from ending by itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **more}


def die(_: Any) -> dict[str, Any]:
    print("my last words", file=sys.stderr, flush=True)
    os._exit(7)


def hang(_: Any) -> dict[str, Any]:
    time.sleep(600)
    return {}


def see(_: Any) -> dict[str, Any]:
    return text(json.dumps(dict(os.environ)))


def wait_for_other_server() -> None:
    record, end = os.environ.get("WAITS_FOR"), time.monotonic() + 5
    while record and not Path(record).exists():
        if time.monotonic() > end:
            sys.exit("the other server did not start")
        time.sleep(0.005)


BEHAVIORS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "record": lambda arguments: text("recorded", structuredContent=arguments),
    "fail": lambda _: text("it broke\nin two lines", isError=True),
    "die": die,
    "hang": hang,
    "see": see,
    "say": lambda arguments: text(str(arguments.get("text"))),
    "nothing": lambda _: {"content": []},
    "picture": lambda _: {
        "content": [
            {"type": "text", "text": "here"},
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "AAEC"}},
            {"type": "resource_link", "uri": "https://example.org/a", "name": "a"},
        ]
    },
    "people": lambda _: {
        "content": [],
        "structuredContent": {"result": [{"name": "Ada", "age": 36}, {"name": "東京"}]},
    },
    "large": lambda _: text("x" * 1_000_000),
}


def serve(tools: list[dict[str, Any]], record: Path) -> None:
    behaviors = {tool["name"]: tool.pop("does", "record") for tool in tools}
    needs = {tool["name"]: tool.pop("needs", "") for tool in tools}
    offered: set[str] = {""}

    def note(entry: Any) -> None:
        with record.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(entry)}\n")

    child = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "600") if os.environ.get("CHILD") else 0
    note({"started": os.getpid(), "child": child})
    wait_for_other_server()
    for line in sys.stdin:
        message = json.loads(line)
        note({"method": message["method"]})
        if "id" not in message:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        params = message.get("params", {})
        match message["method"]:
            case "initialize":
                offered.update(params["capabilities"])
                info = {"name": "toolserver", "version": "1"}
                version = params["protocolVersion"]
                reply["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                reply["result"] = {"tools": [tool for tool in tools if needs[tool["name"]] in offered]}
            case "tools/call":
                note({"name": params["name"], "arguments": params["arguments"]})
                behavior = behaviors[params["name"]]
                if behavior == "error":
                    reply["error"] = {"code": -32602, "message": "bad params"}
                else:
                    reply["result"] = BEHAVIORS[behavior](params["arguments"])
            case _:
                reply["error"] = {"code": -32601, "message": "no"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    print("starting up", file=sys.stderr, flush=True)
    if os.environ.get("STUBBORN"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
    if os.environ.get("STUBBORN"):
        time.sleep(600)
