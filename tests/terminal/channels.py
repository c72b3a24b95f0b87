"""An MCP server that puts every attack sequence into one channel, each between marks of its own: `channels.py CHANNEL`.

Standard library only, and `attacks` from the folder of the tests.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from attacks import SEQUENCES

MARKED = [f"k{number:02}:{text}:q{number:02}" for number, text in enumerate(SEQUENCES.values())]
"""A sequence between marks that are looked for in what reaches the terminal."""
LINES = "\n".join(MARKED)
ERRORS_A_CALL = 6


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


TOOLS: dict[str, list[dict[str, Any]]] = {
    "descriptions": [tool(f"tool{i:02}", description=text) for i, text in enumerate(MARKED)],
    "titles": [tool(f"tool{i:02}", title=text, annotations={"title": text}) for i, text in enumerate(MARKED)],
}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "title": MARKED[0], "default": MARKED[46]}}}


class Server:
    """Well-behaved but for its channel."""

    def __init__(self, channel: str) -> None:
        self.channel = channel

    def on(self, channel: str, value: str) -> str:
        return value if self.channel == channel else "plain"

    def answer(self, method: str) -> Any:
        say = self.on
        match method:
            case "initialize":
                told = say("server instructions", LINES)
                return {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                    "serverInfo": {"name": told, "version": told, "title": told},
                    "instructions": told,
                }
            case "tools/list":
                return {"tools": [tool("act"), *TOOLS.get(self.channel, [])]}
            case "resources/list":
                shown = MARKED if self.channel == "resources" else []
                return {
                    "resources": [
                        {"uri": f"evil://{i:02}", "name": f"r{i:02}", "title": text} for i, text in enumerate(shown)
                    ]
                }
            case "resources/templates/list":
                return {"resourceTemplates": []}
            case "prompts/list":
                titled = MARKED if self.channel == "prompts" else []
                return {
                    "prompts": [{"name": "ask"}, *({"name": f"p{i:02}", "title": one} for i, one in enumerate(titled))]
                }
            case "prompts/get":
                content = {"type": "text", "text": say("prompts", LINES)}
                return {"messages": [{"role": "user", "content": content}]}
        return {}

    def call(self, request: dict[str, Any]) -> None:
        """The result, an error of the tool or of the protocol, or a question."""
        what = str(request["params"].get("arguments", {}).get("what", ""))
        if self.channel == "errors" and what.isdecimal():
            first = int(what) * ERRORS_A_CALL
            send(id=request["id"], error={"code": -32000, "message": " ".join(MARKED[first : first + ERRORS_A_CALL])})
            return
        if self.channel == "elicitation":
            ask = {"message": " ".join(MARKED), "requestedSchema": SCHEMA}
            send(id=99, method="elicitation/create", params=ask)
            while json.loads(sys.stdin.readline()).get("id") != 99:
                pass
        text = LINES if self.channel in ("results", "errors") else "plain"
        send(
            id=request["id"], result={"content": [{"type": "text", "text": text}], "isError": self.channel == "errors"}
        )

    def run(self) -> None:
        if self.channel == "stderr":
            print(LINES, file=sys.stderr, flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            if request.get("method") == "tools/call":
                self.call(request)
            elif "id" in request and "method" in request:
                send(id=request["id"], result=self.answer(request["method"]))


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    Server(sys.argv[1]).run()
