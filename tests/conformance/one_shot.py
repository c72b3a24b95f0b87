"""The one-shot commands as a client of the conformance suite: `python one_shot.py URL`.

Lists what the server has, calls every tool, reads every resource and gets every prompt, each by a command of its own,
as a script would. Calls that MCP_CONFORMANCE_CONTEXT gives are made as given.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from conformance.client import fill

LIMIT_S = 30


def run(folder: str, *words: str) -> dict[str, Any]:
    """Run a command; print and return its document."""
    environment = {**os.environ, "HOME": folder}
    command = [sys.executable, "-m", "rkllm_chat", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=LIMIT_S, check=False)
    print(*words, done.stdout.decode(), done.stderr.decode())
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def main(url: str) -> int:
    """Use everything that the server has; the exit code is 0 if its tools could be listed."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    given = {call["name"]: call["arguments"] for call in context.get("toolCalls", ())}
    server = ("--url", url, "--timeout", "20")
    with tempfile.TemporaryDirectory() as folder:
        listed = run(folder, "list-tools", *server)
        for tool in listed.get("result", ()):
            if not given or tool["name"] in given:
                arguments = given.get(tool["name"], fill(tool["inputSchema"]))
                run(folder, "call-tool", "--tool", tool["name"], "--args", json.dumps(arguments), *server)
        for resource in run(folder, "list-resources", *server).get("result", {}).get("resources", ()):
            run(folder, "read-resource", resource["uri"], *server)
        for prompt in run(folder, "list-prompts", *server).get("result", ()):
            arguments = {argument["name"]: "text" for argument in prompt.get("arguments") or ()}
            run(folder, "get-prompt", "--prompt", prompt["name"], "--args", json.dumps(arguments), *server)
    return 0 if listed["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1]))
