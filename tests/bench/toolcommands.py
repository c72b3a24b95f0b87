"""What `mcp-tool` costs beside a script of the standard library that makes the same call by hand."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from .figures import Figure, Goal
from .oneshot import PEAK, PLAIN, interleave, lay_out, make_environment

OURS = [sys.executable, "-c", "from rkllm_chat.toolcommands import main; main()"]
OUR_PEAK = PEAK.replace("rkllm_chat.__main__", "rkllm_chat.toolcommands")
CALL = ["small__echo", "--x", "1"]


def tool_commands() -> list[Figure]:
    """mcp-tool: a call, the pages of help and completion, beside a script that makes the call by hand."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder)
        entry = {"command": sys.executable, "args": [*PLAIN, "server.py"]}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"small": entry}}), encoding="utf-8")
        ways = {
            "by hand": [sys.executable, "by_hand.py"],
            "mcp-tool": [*OURS, *CALL],
            "mcp-tool --help": [*OURS, "--help"],
            "mcp-tool SERVER__TOOL --help": [*OURS, "small__echo", "--help"],
            "mcp-tool completion": [*OURS, "completion", "words", "--", "small__"],
        }
        spent = interleave(ways, folder)
        command = [sys.executable, "-c", OUR_PEAK, *CALL]
        environment = make_environment(folder)
        done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    floor = spent.pop("by hand") * 1e3
    figures = [
        Figure(name, seconds * 1e3, "ms", floor, "one call by hand", Goal(1.5, "ratio"))
        for name, seconds in spent.items()
    ]
    return [*figures, Figure("mcp-tool: peak memory", int(done.stderr) / 1024, "MB", goal=Goal(20))]
