"""A small MCP server on stdio with pictures in results, resources and prompts; started with a folder of files to send.

`look` has a text, the picture `look.png`, and a text. `report` has a PDF, a sound and a picture for the user alone.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
OBJECT = {"type": "object", "properties": {}}
PDF, WAV = b"%PDF-1.4 nothing", b"RIFF\x24\0\0\0WAVEfmt nothing"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def picture(**more: Any) -> dict[str, Any]:
    return {"type": "image", "data": encoded((FOLDER / "look.png").read_bytes()), "mimeType": "image/png", **more}


def call(name: str) -> list[dict[str, Any]]:
    if name == "look":
        return [{"type": "text", "text": "The view:"}, picture(), {"type": "text", "text": "It is noon."}]
    blob = {"uri": "cam://report", "mimeType": "application/pdf", "blob": encoded(PDF)}
    return [
        {"type": "resource", "resource": blob},
        {"type": "audio", "data": encoded(WAV), "mimeType": "audio/wav"},
        picture(annotations={"audience": ["user"]}),
    ]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        capabilities: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
        info = {"name": "cam", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
    if method == "tools/list":
        tools = [{"name": "look", "description": "Look outside."}, {"name": "report", "description": "Report."}]
        return {"tools": [{**tool, "inputSchema": OBJECT, "annotations": {"readOnlyHint": True}} for tool in tools]}
    if method == "tools/call":
        return {"content": call(params["name"])}
    if method == "resources/list":
        return {"resources": [{"uri": "cam://view", "name": "view", "mimeType": "image/png"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": []}
    if method == "resources/read":
        blob = {"uri": params["uri"], "mimeType": "image/png", "blob": picture()["data"]}
        return {"contents": [blob]}
    if method == "prompts/list":
        return {"prompts": [{"name": "describe", "description": "Describe the view."}]}
    if method == "prompts/get":
        question = {"role": "user", "content": {"type": "text", "text": "Describe this:"}}
        return {"messages": [question, {"role": "user", "content": picture()}]}
    return None


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if (result := answer(message.get("method", ""), message.get("params", {}))) is None:
            reply["error"] = {"code": -32601, "message": "method not found"}
        else:
            reply["result"] = result
        print(json.dumps(reply), flush=True)
