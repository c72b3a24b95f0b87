"""An MCP server with the tools of one of the eight: `python -m many_tools.server NAME`.

It answers any call with what it was.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from . import read_servers


def answer(message: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    params = message.get("params", {})
    match message["method"]:
        case "initialize":
            info = {"name": "many", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [{**tool, "annotations": {"readOnlyHint": True}} for tool in tools]}
        case "tools/call":
            text = f"{params['name']} was called with {json.dumps(params['arguments'], sort_keys=True)}"
            return {"content": [{"type": "text", "text": text}]}
    return {}


if __name__ == "__main__":
    own = read_servers()[sys.argv[1]]
    for line in sys.stdin:
        if "id" in (asked := json.loads(line)):
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer(asked, own)}), flush=True)
