"""Eight servers with two hundred tools, and two hundred questions as a person types them.

`real.json` is what servers list that others wrote and that ship: filesystem, memory, everything, time, git, board.
`made_up.txt` are tools beside them, in words that are like theirs. A line of `questions.tsv` is a language, a question,
and the tools that are right for it, as `server.tool`. The questions were written before there was anything that ranks;
they are not to be fitted to it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.messages import Tool

HERE = Path(__file__).parent
LINE = re.compile(r"(\w+)\((.*)\): (.+)")
PARAMETER = re.compile(r"(\w+)(\??)(?:: ([^,(]+))?")


@dataclass(frozen=True)
class Question:
    """What is asked in a language, and the full names of the tools that are right."""

    language: str
    text: str
    right: frozenset[str]


def read_servers() -> dict[str, list[dict[str, Any]]]:
    """Server -> its tools, as it lists them."""
    servers: dict[str, list[dict[str, Any]]] = json.loads((HERE / "real.json").read_text(encoding="utf-8"))
    server = ""
    for line in (HERE / "made_up.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            server = line[2:]
            servers[server] = []
        else:
            servers[server].append(read_tool(line))
    return servers


def read_tool(line: str) -> dict[str, Any]:
    """`name(parameter, other?: integer): What it does`."""
    found = LINE.fullmatch(line)
    assert found, line
    name, written, about = found.groups()
    parameters = PARAMETER.findall(written)
    schema = {
        "type": "object",
        "properties": {key: read_type(kind.strip()) for key, _, kind in parameters},
        "required": [key for key, optional, _ in parameters if not optional],
    }
    return {"name": name, "description": about, "inputSchema": schema}


def read_type(kind: str) -> dict[str, Any]:
    if kind.startswith('"'):
        return {"enum": [json.loads(choice) for choice in kind.split(" | ")]}
    if kind.startswith("["):
        return {"type": "array", "items": read_type(kind[1:-1])}
    return {"type": kind or "string"}


def read_tools() -> list[Tool]:
    return [
        Tool(tool["name"], tool["description"], tool["inputSchema"], server)
        for server, tools in read_servers().items()
        for tool in tools
    ]


def read_questions() -> Iterator[Question]:
    for line in (HERE / "questions.tsv").read_text(encoding="utf-8").splitlines():
        language, text, right = line.split("\t")
        yield Question(language, text, frozenset(name.replace(".", "__", 1) for name in right.split()))


def configure() -> tuple[ServerConfig, ...]:
    """The eight servers as processes; each answers any call with its name and arguments."""
    path = os.pathsep.join(map(str, HERE.parents[:2]))
    return tuple(
        ServerConfig(
            name,
            command=sys.executable,
            args=("-m", "many_tools.server", name),
            env={"PYTHONPATH": path},
            trust="trusted",
        )
        for name in read_servers()
    )
