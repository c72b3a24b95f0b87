"""Configuration files with the servers of the terminal tests; each function returns the option that selects one."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).parents[1]
HARBOUR = "--config harbour.toml"


def write_servers(folder: Path, file: str, commands: Mapping[str, list[str]], connect_s: int = 30) -> str:
    """Write one entry per server; test modules can be imported by each."""
    entries = [
        f"[[servers]]\nname = {json.dumps(name)}\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
        f"connect_s = {connect_s}\nenv = {{ PYTHONPATH = {json.dumps(str(TESTS))} }}\n"
        for name, (command, *arguments) in commands.items()
    ]
    (folder / file).write_text("".join(entries), encoding="utf-8")
    return f"--config {file}"


def write_harbour(folder: Path, *arguments: str, cwd: Path | None = None) -> str:
    """Configure the server of `harbour.py`: tools, resources, prompts and a form.

    Args:
        folder: Folder of the configuration file.
        arguments: "files" for a tool that writes files, and the folder of its relative paths; "greets" for a form as
            soon as it has started.
        cwd: Folder in which it is started; by default that of the chat.
    """
    command = [sys.executable, str(TESTS / "tui" / "harbour.py"), *arguments]
    option = write_servers(folder, "harbour.toml", {"harbour": command})
    if cwd:
        with (folder / "harbour.toml").open("a", encoding="utf-8") as file:
            file.write(f"cwd = {json.dumps(str(cwd))}\n")
    return option


def write_late(folder: Path) -> str:
    """Configure the server of `harbour.py` as `late`, which starts as soon as the folder has no file `wait`."""
    script = f"while [ -e wait ]; do sleep 0.1; done; exec {sys.executable} {TESTS}/tui/harbour.py"
    return write_servers(folder, "late.toml", {"late": ["sh", "-c", script]}, connect_s=60)


def write_chaos(folder: Path, **modes: str) -> str:
    """Configure servers of `mcp_client.chaos`, each in its mode, which log what happens to them in the folder."""
    commands = {
        name: [
            sys.executable,
            "-m",
            "mcp_client.chaos",
            mode,
            "--log",
            f"{folder / name}.jsonl",
            "--state",
            f"{folder / name}.lives",
        ]
        for name, mode in modes.items()
    }
    return write_servers(folder, "chaos.toml", commands)
