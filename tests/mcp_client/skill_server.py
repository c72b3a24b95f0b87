"""An MCP server with the skills (io.modelcontextprotocol/skills) of a folder, its argument. Standard library only.

Further arguments spoil it: `undeclared`, `dynamic`, `changed` (files differ from the list), `front` (frontmatter does).
Each request is a line of `requests` in the current folder.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

FOLDER, SPOILED = Path(sys.argv[1]), sys.argv[2:]
VERSION = "2026-07-28"
META = {"io.modelcontextprotocol/serverInfo": {"name": "skills", "version": "1"}}
CACHE = {"ttlMs": 1000, "cacheScope": "private"}


def describe_file(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    digest = sha256(data).hexdigest()
    return {"uri": f"skill://{path.relative_to(FOLDER)}", "digest": f"sha256:{digest}", "size": len(data)}


def list_skills(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """The entry of each folder with a SKILL.md; frontmatters have only simple values here."""
    entries = []
    for main in sorted(folder.rglob("SKILL.md")):
        front = dict(line.split(": ", 1) for line in main.read_text().split("---\n")[1].splitlines())
        if "front" in SPOILED:
            front["description"] += " And more."
        files: Any = [describe_file(path) for path in sorted(main.parent.rglob("*")) if path.is_file()]
        resources = "dynamic" if "dynamic" in SPOILED else files
        entries.append({**describe_file(main), "frontmatter": front, "resources": resources})
    return entries


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result; None for an error."""
    match method:
        case "server/discover":
            extensions: dict[str, Any] = {} if "undeclared" in SPOILED else {"io.modelcontextprotocol/skills": {}}
            capabilities = {"tools": {}, "resources": {}, "extensions": extensions}
            return {"supportedVersions": [VERSION], "capabilities": capabilities}
        case "tools/list":
            return {"tools": [], **CACHE}
        case "resources/list":
            return {"resources": [], **CACHE}
        case "resources/templates/list":
            return {"resourceTemplates": [], **CACHE}
        case "skills/list":  # one by one, and not the hidden ones
            entries = [entry for entry in list_skills() if "hidden" not in entry["uri"]]
            at = int(params.get("cursor") or 0)
            more = {"nextCursor": str(at + 1)} if at + 1 < len(entries) else {}
            return {"skills": entries[at : at + 1], **more, **CACHE}
        case "skills/get":
            found = [entry for entry in list_skills() if entry["uri"] == params["uri"]]
            return {"skill": found[0], **CACHE} if found else None
        case "resources/read":
            text = (FOLDER / params["uri"].removeprefix("skill://")).read_text()
            text += "!" if "changed" in SPOILED else ""
            return {"contents": [{"uri": params["uri"], "text": text}], **CACHE}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    with Path("requests").open("a") as log:
        log.write(f"{message['method']} {message.get('params', {}).get('uri', '')}".strip() + "\n")
    result = answer(message["method"], message.get("params", {}))
    said = {"result": {"resultType": "complete", **result, "_meta": META}} if result is not None else {}
    fault = {"error": {"code": -32602, "message": "There is no such thing."}} if result is None else {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said, **fault}), flush=True)
