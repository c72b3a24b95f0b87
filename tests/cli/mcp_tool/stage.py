"""`mcp-tool` as a process, in a folder with servers that record what they are sent."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fork_server import run as run_forked
from processes import is_there

COMMAND = [sys.executable, "-m", "rkllm_chat.cli.mcp_tool"]
SERVER = Path(__file__).with_name("server.py")
LIMIT_S = 30


class Stage:
    """A user's folder and home; `servers` become its mcp.json."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, {**environment, "TMPDIR": str(folder)}
        self.servers: dict[str, Any] = {}

    def add(self, name: str, tools: Sequence[dict[str, Any]], **more: Any) -> None:
        """A server with these tools; one that says nothing else has an empty schema."""
        listed = [{"inputSchema": {"type": "object", "properties": {}}, **tool} for tool in tools]
        (self.folder / f"{name}.tools").write_text(json.dumps(listed), encoding="utf-8")
        args = ["-S", str(SERVER), f"{name}.tools", f"{name}.record"]
        self.configure(name, {"command": sys.executable, "args": args, **more})

    def configure(self, name: str, entry: dict[str, Any]) -> None:
        self.servers[name] = entry
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": self.servers}), encoding="utf-8")

    def run(self, *words: str, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = run_forked(
            [*COMMAND, *words],
            input=stdin,
            encoding="utf-8",
            env=self.environment,
            cwd=self.folder,
            timeout=LIMIT_S,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def refuse(self, *words: str, code: int) -> list[str]:
        """The lines on standard error of a command that fails, and prints nothing else."""
        done = self.run(*words, code=code)
        assert done.stdout == ""
        return done.stderr.splitlines()

    def shell(self, line: str, shell: str = "bash") -> subprocess.CompletedProcess[str]:
        """A line for a shell, with `mcp-tool` on its PATH."""
        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        program = programs / "mcp-tool"
        program.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        environment = {**self.environment, "PATH": f"{programs}:{self.environment['PATH']}"}
        command = [shell, "--norc", "-c", line]
        return subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            env=environment,
            cwd=self.folder,
            timeout=LIMIT_S,
            check=False,
        )

    def record(self, name: str) -> list[dict[str, Any]]:
        """What a server wrote down."""
        path = self.folder / f"{name}.record"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def calls(self, name: str = "box") -> list[str]:
        """The arguments of the calls of a server, as exact JSON."""
        return [json.dumps(entry["arguments"]) for entry in self.record(name) if "arguments" in entry]

    def processes(self, name: str = "box") -> list[int]:
        """The servers that were started, and their children."""
        started = [entry for entry in self.record(name) if "started" in entry]
        return [pid for entry in started for pid in (entry["started"], entry["child"]) if pid]

    def wait_for(self, name: str, key: str) -> None:
        """Returns when a server has written down an entry of that kind, within five seconds."""
        end = time.monotonic() + 5
        while not any(key in entry for entry in self.record(name)):
            assert time.monotonic() < end, f"no {key} within 5 s"
            time.sleep(0.005)

    def wait_for_call(self) -> None:
        self.wait_for("box", "arguments")

    def wait_for_end(self) -> None:
        """Returns when the server and its children have gone, within five seconds."""
        end = time.monotonic() + 5
        while any(map(is_there, self.processes())):
            assert time.monotonic() < end, f"{self.processes()} are still there after 5 s"
            time.sleep(0.005)

    def was_started(self, name: str) -> bool:
        return bool(self.record(name))
