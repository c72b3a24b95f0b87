"""The chat as a client of the conformance suite: `python chat.py URL`: one question, whose answer calls a tool.

The model is scripted: it calls what MCP_CONFORMANCE_CONTEXT gives, else the tool that the scenario is about.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LIMIT_S = 60
NAME = "conformance"
CALLS: dict[str, list[dict[str, Any]]] = {
    "tools_call": [{"name": "add_numbers", "arguments": {"a": 5, "b": 3}}],
    "http-invalid-tool-headers": [{"name": "valid_tool", "arguments": {"region": "us-west1"}}],
    "sse-retry": [{"name": "test_reconnection", "arguments": {}}],
}
"""What the model calls, by scenario."""
MORE_REPLIES = ["Done."] * 10
"""What it says whenever it is asked again."""


def main(url: str) -> int:
    """Ask one question; the exit code is the chat's."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    calls = context.get("toolCalls") or CALLS.get(os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), [])
    with tempfile.TemporaryDirectory() as folder:
        replies = [f"<tool_call>{json.dumps(call)}</tool_call>" for call in calls]
        Path(folder, "replies.json").write_text(json.dumps([*replies, *MORE_REPLIES]), encoding="utf-8")
        entry = {"url": url, "type": "http", "timeout": 20}
        Path(folder, "mcp.json").write_text(json.dumps({"mcpServers": {NAME: entry}}), encoding="utf-8")
        question = f"Make these calls: {json.dumps(calls)}"  # values from nowhere would be asked about
        words = ["-p", question, "--model", "replies.json", "--config", "mcp.json", "--allow", "*", "--max-steps", "30"]
        done = subprocess.run(
            [sys.executable, "-m", "rkllm_chat", *words],
            cwd=folder,
            env={**os.environ, "HOME": folder},
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=False,
        )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1]))
