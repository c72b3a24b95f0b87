"""What is sent: requests to servers and services, and bytes to disk, beside what is needed. No time, only counts."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from backends.openai.service import Service
from mcp_client.chaos_http import serving
from rkllm_chat.backends import open_backend
from rkllm_chat.config.settings import ServerConfig, Settings
from rkllm_chat.core.messages import Message, ToolResult
from rkllm_chat.mcp_client.toolbox import Toolbox
from rkllm_chat.storage.session_files import SessionDirectory, SessionLog
from rkllm_chat.storage.session_records import TurnFinished
from stage import call_text

from .chats import LINE, RESULT, ScriptedEngine, new_chat, run_turn
from .figures import Figure, Goal
from .oneshot import ANSWERS, OURS, PLAIN, make_environment

TURNS = 10
SERVER = f"""{ANSWERS}
with open("requests.txt", "a") as log:
    for line in sys.stdin:
        log.write(line)
        log.flush()
        if text := answer(line):
            print(text, flush=True)
"""
OPENING = ("initialize", "notifications/initialized", "tools/list")
"""What must be said before the first call, where the tools are not known. A talk asks before that whether the server
speaks the revision 2026-07-28, which has no such opening (`server/discover`)."""


def requests() -> list[Figure]:
    """Messages to a server over stdio in ten turns and in one command; requests to a service for ten turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "server.py").write_text(SERVER, encoding="utf-8")
        asyncio.run(call_server(folder))
        chat = take_methods(folder)
        entry = {"command": sys.executable, "args": [*PLAIN, "server.py"]}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"small": entry}}), encoding="utf-8")
        command = [*OURS, "call-tool", "small.echo", "--args", '{"x": "one"}']
        subprocess.run(command, cwd=folder, env=make_environment(folder), check=True, stdout=subprocess.DEVNULL)
        call = take_methods(folder)
    replies, others = asyncio.run(call_service())
    least = 1 + len(OPENING) + TURNS
    return [
        Figure(f"messages to a server, {TURNS} calls in a talk", len(chat), "", least, "needed", Goal(1, "ratio")),
        Figure("messages to a server, one call-tool", len(call), "", len(OPENING) + 1, "needed", Goal(1, "ratio")),
        Figure(f"requests to a service, {TURNS} replies", replies, "", TURNS, "needed", Goal(1, "ratio")),
        Figure("requests to a service, before the first", others, "", goal=Goal(3)),
    ]


async def call_server(folder: Path) -> None:
    """A call in each of ten turns."""
    args = (*PLAIN, str(folder / "server.py"))
    server = ServerConfig("small", command=sys.executable, args=args, cwd=str(folder), sandbox="off", ping_s=0)
    servers = Toolbox([server], folder / "logs")
    await servers.open()
    try:
        chat = new_chat(ScriptedEngine((call_text("echo", x="one"), "It says one."), 4096), servers)
        for _ in range(TURNS):
            await run_turn(chat, LINE)
    finally:
        await servers.aclose()
    called = sum(message.result is not None and message.result.status == "completed" for message in chat.history)
    assert called == TURNS, called


def take_methods(folder: Path) -> Sequence[str]:
    """What the server was sent since the last time."""
    log = folder / "requests.txt"
    found = [json.loads(line)["method"] for line in log.read_text(encoding="utf-8").splitlines()]
    log.unlink()
    return found


async def call_service() -> tuple[int, int]:
    """Requests for replies in ten turns, and all others."""
    with serving(Service()) as service:
        backend = await asyncio.to_thread(open_backend, Settings(model=service.url))
        try:
            chat = new_chat(backend, Toolbox(()))
            for _ in range(TURNS):
                await run_turn(chat, LINE)
        finally:
            await backend.aclose()
        return len(service.asked), len(service.others)


def session_bytes() -> list[Figure]:
    """Bytes on disk for a hundred turns of talk, over what was said in them."""
    call = call_text("get_tide_3", place="Husum")
    result = ToolResult("harbour", "get_tide_3", {"place": "Husum"}, "completed", RESULT)
    talk = [Message("user", LINE), Message("assistant", call), Message("tool", RESULT, result)]
    talk.append(Message("assistant", "At Husum it is 2.4 metres and rising, until 17:40."))
    with tempfile.TemporaryDirectory() as name:
        shelf = SessionDirectory(Path(name))
        journal = SessionLog(shelf, print)
        for _ in range(100):
            for message in talk:
                journal.append(message)
            journal.append(TurnFinished("answered"))
        journal.close()
        written = sum(path.stat().st_size for path in Path(name).rglob("*") if path.is_file())
    said = 100 * sum(len(message.text.encode()) for message in talk)
    return [Figure("a session on disk, 100 turns", written, "bytes", said, "what was said", Goal(4, "ratio"))]
