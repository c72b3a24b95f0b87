"""Eight servers that people use, with default settings: each does its work, with and without bubblewrap."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.config.files import read_servers
from rkllm_chat.config.trust_rules import Origin
from rkllm_chat.mcp_client.handlers import ClientHandlers
from rkllm_chat.mcp_client.toolbox import Toolbox

from .servers import call, find_place

pytestmark = pytest.mark.real
PAGE = b"<html><body><p>The tide is high.</p></body></html>"
NPM, PYTHON, PYTHON_V1 = "node_modules/.bin", "python/bin", "python-v1/bin"

# Name -> where its command lies, its arguments, its calls, and words of the last result.
Calls = list[tuple[str, dict[str, Any]]]
SERVERS: Mapping[str, tuple[str, list[str], Calls, str]] = {
    "filesystem": (
        NPM,
        ["{files}"],
        [
            ("write_file", {"path": "{files}/note.txt", "content": "rope"}),
            ("read_text_file", {"path": "{files}/note.txt"}),
        ],
        "rope",
    ),
    "memory": (
        NPM,
        [],
        [
            (
                "create_entities",
                {"entities": [{"name": "Husum", "entityType": "town", "observations": ["by the sea"]}]},
            ),
            ("read_graph", {}),
        ],
        "by the sea",
    ),
    "everything": (NPM, [], [("get-sum", {"a": 40, "b": 2})], "42"),
    "sequential-thinking": (
        NPM,
        [],
        [
            (
                "sequentialthinking",
                {"thought": "Ebb", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
            )
        ],
        '"thoughtHistoryLength": 1',
    ),
    "git": (
        PYTHON,
        ["--repository", "{folder}"],
        [
            ("git_add", {"repo_path": "{folder}", "files": ["rope.txt"]}),
            ("git_commit", {"repo_path": "{folder}", "message": "Buy rope"}),
            ("git_log", {"repo_path": "{folder}"}),
        ],
        "Buy rope",
    ),
    "fetch": (PYTHON, ["--allow-private-ips"], [("fetch", {"url": "{page}"})], "The tide is high."),
    "time": (PYTHON, [], [("get_current_time", {"timezone": "Asia/Tokyo"})], "+09:00"),
    "sqlite": (
        PYTHON_V1,
        ["--db-path", "t.db"],
        [
            ("create_table", {"query": "CREATE TABLE towns (name TEXT)"}),
            ("write_query", {"query": "INSERT INTO towns VALUES ('Husum')"}),
            ("read_query", {"query": "SELECT name FROM towns"}),
        ],
        "Husum",
    ),
}


class Pages(BaseHTTPRequestHandler):
    """Has one page and no robots.txt."""

    def do_GET(self) -> None:
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def page() -> Iterator[str]:
    """The address of a page on this machine."""
    with HTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(params=["bubblewrap", "no bubblewrap"])
def has_sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> bool:
    """Whether bubblewrap is on the PATH; the home folder is empty."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if request.param == "bubblewrap":
        if not shutil.which("bwrap"):
            pytest.skip("bubblewrap is not installed")
        return True
    (tmp_path / "bin").mkdir()
    for name in ("node", "git", "sh", "env"):
        program = shutil.which(name)
        assert program
        (tmp_path / "bin" / name).symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return False


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_does_its_work_with_default_settings(
    name: str, has_sandbox: bool, folder: Path, tmp_path: Path, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, arguments, calls, expected = SERVERS[name]
    (files := tmp_path / "files").mkdir()
    if name == "git":
        for line in ("init -q -b main", "config user.name Ada", "config user.email ada@example.org"):
            subprocess.run(["git", *line.split()], cwd=folder, timeout=10, check=True)
        (folder / "rope.txt").write_text("rope\n", encoding="utf-8")

    def fill(value: Any) -> Any:
        text = json.dumps(value).replace("{files}", str(files)).replace("{folder}", str(folder))
        return json.loads(text.replace("{page}", page))

    entry = {"command": str(find_place() / place / f"mcp-server-{name}"), "args": fill(arguments)}
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": {name: entry}}), encoding="utf-8")

    async def work() -> tuple[list[str], str, bool]:
        handlers = ClientHandlers(default_root=folder)
        async with Toolbox(read_servers(str(config), Origin.USER), tmp_path / "logs", handlers) as box:
            assert not box.failures, box.failures
            results = [await call(box, tool, **fill(given)) for tool, given in calls]
            sandbox = box.connections[name].sandbox
            return [one.text for one in results], results[-1].status, bool(sandbox and not sandbox.unavailable_reason)

    monkeypatch.chdir(folder)
    texts, status, is_sandboxed = asyncio.run(work())
    assert (status, is_sandboxed) == ("completed", has_sandbox), texts
    assert expected in texts[-1], texts
    left = {path.name for path in Path(os.environ["HOME"]).rglob("*") if path.is_file()}
    if name == "memory":
        assert ("memory.jsonl" in left) == has_sandbox  # without one, the server keeps it beside its program
        if not has_sandbox:
            (find_place() / "node_modules/@modelcontextprotocol/server-memory/dist/memory.jsonl").unlink()
    if name == "sqlite":
        assert (folder / "t.db").stat().st_size > 0
