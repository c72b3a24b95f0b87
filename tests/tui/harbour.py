"""An MCP server with tools, resources, prompts and a form. Standard library only."""

from __future__ import annotations

import json
import queue
import sys
import threading
from pathlib import Path
from typing import Any

TEXT = {"type": "string"}
GO, CANCELLED, CALLED = Path("go"), Path("cancelled"), Path("called")
VALUES = {"harbour": ("Hamburg", "Hull", "Husum"), "number": ("7", "12", "71")}
RESOURCES = {
    "harbour://log": "06:00 all quiet\n07:30 the Anna has left\n",
    **{f"harbour://berth/{number}": f"Berth {number} is free." for number in VALUES["number"]},
}
BERTH = {
    "type": "object",
    "properties": {
        "metres": {"type": "integer", "description": "from bow to stern", "minimum": 1, "maximum": 200},
        "side": {"type": "string", "enum": ["port", "starboard"], "default": "port"},
        "note": TEXT,
    },
    "required": ["metres"],
}


def tool(name: str, description: str, required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {**required, **optional}, "required": [*required]}
    return {"name": name, "description": description, "inputSchema": schema}


ANSWERS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "completions": {}},
        "serverInfo": {"name": "harbour", "version": "1"},
    },
    "tools/list": {
        "tools": [
            {**tool("get_tide", "Tide height at a harbour.", {"harbour": TEXT}), "annotations": {"readOnlyHint": True}},
            tool("write_log", "Writes into the log.", {"text": TEXT}, tags={"type": "array", "items": TEXT}),
            tool("book", "Books a berth for a boat.", {"boat": TEXT}),
            tool("wait", "Waits for high water.", {}),
            tool("read_year", "The log of a year.", {"year": {"type": "integer"}}),
        ]
    },
    "resources/list": {"resources": [{"uri": "harbour://log", "name": "log", "title": "What happened"}]},
    "resources/templates/list": {
        "resourceTemplates": [{"uriTemplate": "harbour://berth/{number}", "name": "berth", "title": "One berth"}]
    },
    "prompts/list": {
        "prompts": [
            {
                "name": "letter",
                "title": "A letter to a captain",
                "arguments": [
                    {"name": "captain", "required": True},
                    {"name": "harbour", "required": True},
                    {"name": "tone"},
                ],
            }
        ]
    },
    "ping": {},
}

WRITE_FILE = tool("write_file", "Writes a file.", {"path": TEXT, "content": TEXT})
FOLDER = next((argument for argument in sys.argv[1:] if argument.startswith("/")), "")
"""To which relative paths belong; else to the folder in which it was started."""
if "files" in sys.argv:
    ANSWERS["tools/list"]["tools"].append(WRITE_FILE)


class Server:
    """Answers requests in order; the call of `wait` can be cancelled."""

    def __init__(self) -> None:
        self.messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.followed: set[str] = set()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        for line in sys.stdin:
            self.messages.put(json.loads(line))
        self.messages.put(None)

    def run(self) -> None:
        while message := self.messages.get():
            if "id" in message and "method" in message:
                self.answer(message["id"], message["method"], message.get("params", {}))
            elif message.get("method") == "notifications/initialized" and "greets" in sys.argv:
                self.ask("greeting", "Who comes?")

    def answer(self, number: Any, method: str, params: dict[str, Any]) -> None:
        match method:
            case "tools/call":
                token = params.get("_meta", {}).get("progressToken")
                text = self.call(params["name"], params.get("arguments", {}), number, token)
                if text is not None:
                    send(id=number, result={"content": [{"type": "text", "text": text}]})
            case "resources/read":
                content = {"uri": params["uri"], "mimeType": "text/plain", "text": RESOURCES[params["uri"]]}
                send(id=number, result={"contents": [content]})
            case "resources/subscribe":
                self.followed.add(params["uri"])
                send(id=number, result={})
            case "resources/unsubscribe":
                self.followed.discard(params["uri"])
                send(id=number, result={})
            case "prompts/get":
                arguments = {"tone": "friendly", **params["arguments"]}
                text = "Write a {tone} letter to {captain} at {harbour}.".format(**arguments)
                send(id=number, result={"messages": [{"role": "user", "content": {"type": "text", "text": text}}]})
            case "completion/complete":
                argument = params["argument"]
                values = [value for value in VALUES.get(argument["name"], ()) if value.startswith(argument["value"])]
                send(id=number, result={"completion": {"values": values}})
            case _ if method in ANSWERS:
                send(id=number, result=ANSWERS[method])
            case _:
                send(id=number, error={"code": -32601, "message": "not known"})

    def call(self, name: str, arguments: dict[str, Any], number: Any, token: Any) -> str | None:
        """Return the text of the result; None for a cancelled call."""
        CALLED.touch()
        match name:
            case "get_tide":
                return f"The tide at {arguments['harbour']} is 2.4 metres and rising."
            case "write_log":
                if "harbour://log" in self.followed:
                    send(method="notifications/resources/updated", params={"uri": "harbour://log"})
                return f"{len(arguments['text'])} characters are in the log."
            case "book":
                self.ask("form", "How long is it?")
                if arguments["boat"] == "Both":
                    self.ask("second", "How long is the other one?")
                    self.wait(number, token)
                    send(method="notifications/cancelled", params={"requestId": "second"})
                    send(method="notifications/progress", params={"progressToken": token, "progress": 5})
                answer = self.next_message()
                while answer.get("id") != "form":
                    answer = self.next_message()
                return json.dumps(answer["result"])
            case "write_file":
                Path(FOLDER, arguments["path"]).write_text(arguments["content"], encoding="utf-8")
                return "It is written."
            case "read_year":
                year = arguments["year"]
                return "\n".join(f"{year}, day {day}: {'storm' if day == 217 else 'calm'}" for day in range(1, 366))
        return self.wait(number, token)

    def ask(self, number: str, question: str) -> None:
        send(id=number, method="elicitation/create", params={"message": question, "requestedSchema": BERTH})

    def next_message(self) -> dict[str, Any]:
        return self.messages.get() or sys.exit()

    def wait(self, number: Any, token: Any) -> str | None:
        """Report progress and wait for the file `go`."""
        progress = {"progressToken": token, "progress": 3, "total": 10, "message": "rising"}
        send(method="notifications/progress", params=progress)
        while not GO.exists():
            try:
                message = self.messages.get(timeout=0.01)
            except queue.Empty:
                continue
            if message is None:
                sys.exit()
            if message.get("method") == "notifications/cancelled" and message["params"]["requestId"] == number:
                CANCELLED.touch()
                return None
        return "high water"


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


print("harbour: open for all", file=sys.stderr, flush=True)
Server().run()
