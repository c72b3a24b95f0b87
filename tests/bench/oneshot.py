"""What a one-shot command costs beside a script of the standard library that asks the same server the same by hand."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rkllm_chat.config.files import TRUST_VARIABLE

from .figures import Figure, Goal, in_turn, seconds

RUNS = 7
PLAIN = ["-I", "-S"]
OURS = [sys.executable, "-c", "from rkllm_chat.__main__ import main; main()"]
MCP_TOOL = [sys.executable, "-c", "from rkllm_chat.cli.mcp_tool.__main__ import main; main()"]
PEAK = """
import os, sys
end = os._exit
def tell(code):
    status = open("/proc/self/status").read()
    os.write(2, status.partition("VmHWM:")[2].split()[0].encode())
    end(code)
os._exit = tell
from MODULE import main
main()
"""
ANSWERS = """
import json, sys
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
INFO = {"name": "small", "version": "1"}
RESULTS = {
    "initialize": lambda params: {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": INFO},
    "tools/list": lambda params: {"tools": [{"name": "echo", "inputSchema": SCHEMA}]},
    "tools/call": lambda params: {"content": [{"type": "text", "text": params["arguments"]["x"]}]},
}
def answer(line):
    message = json.loads(line)
    if "id" not in message:
        return ""
    if message["method"] not in RESULTS:
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown"}})
    result = RESULTS[message["method"]](message.get("params", {}))
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
"""
SERVER = f"""{ANSWERS}
for line in sys.stdin:
    if text := answer(line):
        print(text, flush=True)
"""
SITE = f"""{ANSWERS}
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1
    def log_message(self, *_): pass
    def do_POST(self):
        body = answer(self.rfile.read(int(self.headers["content-length"]))).encode()
        self.send_response(200 if body else 202)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
site = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{{site.server_port}}/mcp", flush=True)
site.serve_forever()
"""
ASKS = """
INFO = {"name": "floor", "version": "1"}
ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO})
tell({"method": "notifications/initialized"})
print(json.dumps(ask(2, "tools/call", {"name": "echo", "arguments": {"x": "one"}})), flush=True)
"""
BY_HAND = f"""
import json, subprocess
entry = json.load(open("mcp.json"))["mcpServers"]["small"]
server = subprocess.Popen([entry["command"], *entry["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def tell(message):
    server.stdin.write(json.dumps({{"jsonrpc": "2.0", **message}}).encode() + b"\\n")
    server.stdin.flush()
def ask(number, method, params):
    tell({{"id": number, "method": method, "params": params}})
    return json.loads(server.stdout.readline())["result"]
{ASKS}
server.stdin.close()
server.wait()
"""
BY_HAND_HTTP = f"""
import http.client, json, sys
from urllib.parse import urlsplit
parts = urlsplit(json.load(open("mcp.json"))["mcpServers"]["site"]["url"])
connection = http.client.HTTPConnection(parts.netloc)
HEADERS = {{"content-type": "application/json", "accept": "application/json, text/event-stream"}}
def tell(message):
    connection.request("POST", parts.path, json.dumps({{"jsonrpc": "2.0", **message}}), HEADERS)
    return connection.getresponse().read()
def ask(number, method, params):
    return json.loads(tell({{"id": number, "method": method, "params": params}}))["result"]
{ASKS}
"""
SDK_SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("typed")
@server.tool()
def echo(x: str) -> str:
    return x
server.run()
"""
SDK = """
import asyncio, json, sys
from mcp import Client, StdioServerParameters
async def main():
    entry = json.load(open("mcp.json"))["mcpServers"]["small"]
    async with Client(StdioServerParameters(command=entry["command"], args=entry["args"])) as client:
        print((await client.call_tool("echo", {"x": "one"})).model_dump_json())
asyncio.run(main())
"""
# A program of others, where it is on the PATH: what it is given to call the tool.
PEERS = {
    "mcporter": ["--config", "mcp.json", "call", "small.echo", "x=one"],
    "mcp-inspector": [
        "--cli",
        "--config",
        "mcp.json",
        "--server",
        "small",
        "--method",
        "tools/call",
        "--tool-name",
        "echo",
        "--tool-arg",
        "x=one",
    ],
    "mcp-cli": ["--config", "mcp.json", "call-tool", "small:echo", "--args", '{"x": "one"}'],  # @wong2/mcp-cli
    "mcp2cli": ["--mcp-stdio", f"{sys.executable} -I -S server.py", "echo", "--x", "one"],
}


def one_shot_calls() -> list[Figure]:
    """One call of a tool, as a process: ours, by hand, through the SDK, and by programs of others that are here."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder)
        with subprocess.Popen([sys.executable, "site.py"], cwd=folder, stdout=subprocess.PIPE, text=True) as site:
            try:
                assert site.stdout
                add_site(folder, site.stdout.readline().strip())
                return measure(folder)
            finally:
                site.kill()


FLOORS = {  # a script by hand, for the ways that do not speak to the same server as "by hand"
    "call-tool over HTTP": "by hand over HTTP",
    "call-tool, a server of the SDK with output schemas": "by hand, a server of the SDK",
}


def measure(folder: Path) -> list[Figure]:
    call = ["--args", '{"x": "one"}']
    ways = {
        "by hand": [sys.executable, "by_hand.py"],
        "call-tool": [*OURS, "call-tool", "small.echo", *call],
        "call-tool, configured in TOML": [*OURS, "call-tool", "--config", "mcp.toml", "small.echo", *call],
        "in a sandbox: call-tool": [*OURS, "call-tool", "enclosed.echo", *call],
        "list-tools": [*OURS, "list-tools", "--server", "small"],
        "by hand over HTTP": [sys.executable, "by_hand_http.py"],
        "call-tool over HTTP": [*OURS, "call-tool", "site.echo", *call],
        "by hand, a server of the SDK": [sys.executable, "by_hand_typed.py"],
        "call-tool, a server of the SDK with output schemas": [*OURS, "call-tool", "typed.echo", *call],
        "the SDK's client": [sys.executable, "sdk.py"],
        **{name: [found, *rest] for name, rest in PEERS.items() if (found := shutil.which(name))},
    }
    spent = time_commands(ways, folder)
    floors = {name: spent.pop(name) for name in ("by hand", *FLOORS.values())}
    figures: list[Figure] = []
    for name, taken in spent.items():
        against = FLOORS.get(name, "by hand")
        goal = (
            (Goal(1.35, "ratio") if name.endswith("output schemas") else Goal(1.25, "ratio"))
            if name.startswith(("call-tool", "list-tools"))
            else None
        )
        figures.append(Figure(f"one call: {name}", taken * 1e3, "ms", floors[against] * 1e3, against, goal))
    peak = peak_mb(folder, "rkllm_chat.__main__", "call-tool", "typed.echo", *call)
    return [*figures, Figure("call-tool: peak memory", peak, "MB", goal=Goal(20))]


def time_commands(ways: Mapping[str, Sequence[str]], folder: Path) -> dict[str, float]:
    """Median seconds of each, in turn."""
    options: dict[str, Any] = {"cwd": folder, "env": make_environment(folder), "stdout": subprocess.DEVNULL}
    runs = {name: partial(subprocess.run, command, check=True, **options) for name, command in ways.items()}
    timed = {name: partial(seconds, run) for name, run in runs.items()}
    return {name: median(found) for name, found in in_turn(timed, RUNS).items()}


def peak_mb(folder: Path, module: str, *arguments: str) -> float:
    """Of a call, as the process itself sees it: what the kernel tells its parent counts the parent too."""
    command = [sys.executable, "-c", PEAK.replace("MODULE", module), *arguments]
    environment = make_environment(folder)
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return int(done.stderr) / 1024


def tool_commands() -> list[Figure]:
    """mcp-tool: a call, the pages of help and completion, beside a script that makes the call by hand."""
    call = ["small__echo", "--x", "1"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder)
        entry = {"command": sys.executable, "args": [*PLAIN, "server.py"]}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"small": entry}}), encoding="utf-8")
        ways = {
            "by hand": [sys.executable, "by_hand.py"],
            "mcp-tool": [*MCP_TOOL, *call],
            "mcp-tool --help": [*MCP_TOOL, "--help"],
            "mcp-tool SERVER__TOOL --help": [*MCP_TOOL, "small__echo", "--help"],
            "mcp-tool completion": [*MCP_TOOL, "completion", "words", "--", "small__"],
        }
        spent = time_commands(ways, folder)
        peak = peak_mb(folder, "rkllm_chat.cli.mcp_tool.__main__", *call)
    floor, goal = spent.pop("by hand") * 1e3, Goal(1.5, "ratio")
    figures = [Figure(name, taken * 1e3, "ms", floor, "one call by hand", goal) for name, taken in spent.items()]
    return [*figures, Figure("mcp-tool: peak memory", peak, "MB", goal=Goal(20))]


PR_SET_CHILD_SUBREAPER = 36
OPEN_SANDBOX = [
    "bwrap",
    *("--ro-bind", "/", "/"),
    *("--dev", "/dev"),
    *("--proc", "/proc"),
    "--unshare-all",
    "--die-with-parent",
]


def processor_times() -> list[Figure]:
    """Processor time of a call with its server, which other programs change least; in a sandbox, beside an open one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder)
        args = [*PLAIN, "server.py"]
        small: dict[str, Any] = {"command": sys.executable, "args": args}
        servers = {"small": {**small, "sandbox": "off"}, "enclosed": {**small, "sandbox": "on"}}
        servers["open"] = {"command": OPEN_SANDBOX[0], "args": [*OPEN_SANDBOX[1:], sys.executable, *args]}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        call = ["--args", '{"x": "one"}']
        ways = {
            "by hand": [sys.executable, "by_hand.py"],
            "call-tool": [*OURS, "call-tool", "small.echo", *call],
            "list-tools": [*OURS, "list-tools", "--server", "small"],
            "mcp-tool": [*MCP_TOOL, "small__echo", "--x", "one"],
        }
        if shutil.which("bwrap"):
            ways["by hand in bwrap"] = [sys.executable, "by_hand_open.py"]
            ways["in a sandbox: call-tool"] = [*OURS, "call-tool", "enclosed.echo", *call]
        spent = in_turn({way: partial(processor_s, command, folder) for way, command in ways.items()}, CPU_RUNS)
    figures: list[Figure] = []
    for way, goal in CPU_GOALS.items():
        against = "by hand in bwrap" if "sandbox" in way else "by hand"
        if way in spent:
            ours, floor = median(spent[way]), median(spent[against])
            figures.append(Figure(f"processor: {way}", ours * 1e3, "ms", floor * 1e3, against, Goal(goal, "ratio")))
    return figures


CPU_RUNS = 20
CPU_GOALS = {"call-tool": 1.4, "list-tools": 1.45, "mcp-tool": 1.45, "in a sandbox: call-tool": 1.35}


def processor_s(command: Sequence[str], folder: Path) -> float:
    """Seconds of a command and all that it started: what its sandbox leaves behind is waited for, too."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=make_environment(folder), stdout=subprocess.DEVNULL, check=True)
    with suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def make_environment(folder: Path) -> dict[str, str]:
    """A user of his own; bytecode is written, as it is where the program is installed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    root = str(Path(__file__).parents[2])
    own = {"HOME": str(folder), TRUST_VARIABLE: "1"}
    return {**kept, **own, "PYTHONPATH": os.pathsep.join([root, kept.get("PYTHONPATH", "")])}


def lay_out(folder: Path) -> None:
    programs = {"server": SERVER, "site": SITE, "by_hand": BY_HAND, "by_hand_http": BY_HAND_HTTP, "sdk": SDK}
    programs |= {"sdk_server": SDK_SERVER}
    programs |= {f"by_hand_{name}": BY_HAND.replace('"small"', f'"{name}"') for name in ("typed", "open")}
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


def add_site(folder: Path, url: str) -> None:
    args = [*PLAIN, "server.py"]
    small = {"command": sys.executable, "args": args}
    typed = {"command": sys.executable, "args": ["sdk_server.py"]}
    servers = {"small": small, "typed": typed, "enclosed": {**small, "sandbox": "on"}, "site": {"url": url}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    entry = f'[[servers]]\nname = "small"\ncommand = "{sys.executable}"\nargs = {json.dumps(args)}\n'
    (folder / "mcp.toml").write_text(entry, encoding="utf-8")
