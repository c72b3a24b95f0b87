"""Run the JSON commands as a script does: each is a process that prints one JSON document and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fork_server import start
from mcp_client.faults import chaos, left_behind, read_events
from rkllm_chat.config.settings import ServerConfig
from stage import PROGRAM

LIMIT_S = 60
EVENT_S = 30.0
TESTS = Path(__file__).parent


@dataclass
class Shell:
    """A folder with a configuration. `run` checks what every command must satisfy."""

    folder: Path
    environment: dict[str, str]
    servers: dict[str, Any] = field(default_factory=dict[str, Any])

    def add(self, name: str, **entry: Any) -> None:
        """Add a server to mcp.json."""
        self.servers[name] = entry
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": self.servers}), encoding="utf-8")

    def add_chaos(self, mode: str = "ok", name: str = "chaos", **options: Any) -> None:
        """Add a server that misbehaves in one way and records its events in the folder."""
        server: ServerConfig = chaos(self.folder, mode, name, **options)
        copied = ("env", "cwd", "timeout_s", "connect_s", "tools_allow", "tools_deny")
        rest = {key: getattr(server, key) for key in copied if getattr(server, key)}
        self.add(name, command=server.command, args=list(server.args), **rest)

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return start([*PROGRAM, *arguments], env=self.environment, cwd=self.folder, **pipes)

    def run(self, *arguments: str, stdin: bytes = b"") -> dict[str, Any]:
        """Return the document of a command, which must be the only output and agree with the exit code."""
        process = self.start(*arguments, stdin=subprocess.PIPE)
        try:
            output, errors = process.communicate(stdin, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return self.read(output, errors, process.returncode)

    def read(self, output: bytes, errors: bytes, code: int) -> dict[str, Any]:
        assert errors == b"", errors.decode(errors="replace")
        assert output.endswith(b"\n") and output.count(b"\n") == 1, output[:500]
        document: dict[str, Any] = json.loads(output)
        assert code == (0 if document["ok"] else 1)
        assert document.keys() - {"meta", "notices"} == {"ok", "result" if document["ok"] else "error"}
        for name in self.servers:
            assert left_behind(self.folder, name) == [], name
        return document

    def result(self, *arguments: str, stdin: bytes = b"") -> Any:
        """Return the result of a command that succeeds."""
        document = self.run(*arguments, stdin=stdin)
        assert document["ok"], document
        return document["result"]

    def error(self, *arguments: str, stdin: bytes = b"") -> dict[str, Any]:
        """Return the error of a command that fails: type, message, details."""
        document = self.run(*arguments, stdin=stdin)
        assert not document["ok"], document
        error: dict[str, Any] = document["error"]
        assert error.keys() == {"type", "message", "details"}
        return error

    def events(self, event: str, name: str = "chaos") -> list[dict[str, Any]]:
        """Return the events of one kind that a chaos server recorded."""
        return [entry for entry in read_events(self.folder, name) if entry["event"] == event]

    def received(self, method: str, name: str = "chaos") -> list[dict[str, Any]]:
        """Return the messages of a method that a chaos server received."""
        messages = [entry["message"] for entry in self.events("in", name)]
        return [message for message in messages if message.get("method") == method]


def wait_until(happened: Callable[[], object]) -> None:
    """Wait for an event in another process."""
    end = time.monotonic() + EVENT_S
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


@contextmanager
def serving(transport: str, environment: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Run the full server over a transport; yield its configuration entry."""
    command = [sys.executable, "-m", "mcp_client.full_server", transport]
    path = os.pathsep.join([str(TESTS), *filter(None, [environment.get("PYTHONPATH")])])
    if transport == "stdio":
        yield {"command": command[0], "args": command[1:], "env": {"PYTHONPATH": path}}
        return
    with subprocess.Popen(
        command, env={**environment, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout
            entry = {"url": process.stdout.readline().strip()}
            yield {**entry, "transport": "sse"} if transport == "sse" else entry
        finally:
            process.send_signal(signal.SIGKILL)
