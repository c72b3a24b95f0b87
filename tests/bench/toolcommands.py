"""What `mcp-tool` costs beside a hand-written script of the standard library that does the same call by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

RUNS = 7
SERVER = """
import json, sys
schema = {"type": "object", "properties": {"x": {"type": "string"}}}
info = {"name": "small", "version": "1"}
for line in sys.stdin:
    message = json.loads(line)
    results = {
        "initialize": lambda params: {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                                      "serverInfo": info},
        "tools/list": lambda params: {"tools": [{"name": "echo", "inputSchema": schema}]},
        "tools/call": lambda params: {"content": [{"type": "text", "text": params["arguments"]["x"]}]},
    }
    if "id" in message:
        result = results[message["method"]](message["params"])
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
FLOOR = """
import json, subprocess, sys
server = subprocess.Popen([sys.executable, *sys.argv[1:]], stdin=-1, stdout=-1, stderr=subprocess.DEVNULL)
def ask(number, method, params):
    question = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    server.stdin.write(json.dumps(question).encode() + b"\\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())
info = {"name": "floor", "version": "1"}
ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
server.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\\n')
answer = ask(2, "tools/call", {"name": "echo", "arguments": {"x": "1"}})
print(answer["result"]["content"][0]["text"])
server.stdin.close()
server.wait()
"""


def measure_calls() -> dict[str, tuple[float, float]]:
    """Median seconds of one call and peak memory in MB, by what makes it; interleaved, `RUNS` of each."""
    with tempfile.TemporaryDirectory() as folder:
        ways = prepare(Path(folder))
        environment = {**os.environ, "HOME": folder}
        spent: dict[str, list[float]] = {name: [] for name in ways}
        peak: dict[str, float] = dict.fromkeys(ways, 0.0)
        for number in range(RUNS + 1):
            for name, command in ways.items():
                seconds, memory = run(command, environment, folder)
                if number:  # the first run of each fills the page cache and the cache of tools
                    spent[name].append(seconds)
                    peak[name] = max(peak[name], memory)
    return {name: (median(spent[name]), peak[name]) for name in ways}


def prepare(folder: Path) -> Mapping[str, Sequence[str]]:
    """The commands, by their names; what they need is laid into the folder."""
    args = ["-I", "-S", "server.py"]
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    entry = {"command": sys.executable, "args": args}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"box": entry}}), encoding="utf-8")
    (folder / "floor.py").write_text(FLOOR, encoding="utf-8")
    ours = [sys.executable, "-c", "from rkllm_chat.toolcommands import main; main()"]
    return {
        "a script by hand": [sys.executable, "floor.py", *args],
        "mcp-tool": [*ours, "box__echo", "--x", "1"],
        "mcp-tool --help": [*ours, "--help"],
        "mcp-tool TOOL --help": [*ours, "box__echo", "--help"],
        "mcp-tool completion": [*ours, "completion", "words", "--", "box__"],
    }


def run(command: Sequence[str], environment: Mapping[str, str], folder: str) -> tuple[float, float]:
    """Seconds until the command has ended, and its own peak memory in MB."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} exited with {process.returncode}")
    return time.perf_counter() - begun, usage.ru_maxrss / 1024


if __name__ == "__main__":
    found = measure_calls()
    floor = found["a script by hand"][0]
    for name, (seconds, memory) in found.items():
        print(f"{name:<24} {seconds * 1e3:6.1f} ms  {seconds / floor:4.2f} x  {memory:5.1f} MB")
