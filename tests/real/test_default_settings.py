"""Eight servers that people use, with default settings: each does its work, with and without bubblewrap."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from stage import Run, Script, call_text

from .servers import find_place

SERVERS_PAGE = Path(__file__).parents[2] / "docs/servers.md"
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
def has_sandbox(request: pytest.FixtureRequest, environment: dict[str, str], tmp_path: Path) -> bool:
    """Whether bubblewrap is on the PATH of the program."""
    if request.param == "bubblewrap":
        if not shutil.which("bwrap"):
            pytest.skip("bubblewrap is not installed")
        return True
    (tmp_path / "bin").mkdir()
    for name in ("node", "git", "sh", "env"):
        program = shutil.which(name)
        assert program
        (tmp_path / "bin" / name).symlink_to(program)
    environment["PATH"] = str(tmp_path / "bin")
    return False


@pytest.mark.real
@pytest.mark.parametrize("name", SERVERS)
def test_a_server_does_its_work_in_a_turn_with_default_settings(
    name: str,
    has_sandbox: bool,
    folder: Path,
    tmp_path: Path,
    page: str,
    environment: dict[str, str],
    program: Run,
    script: Script,
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
    model = script(*(call_text(tool, **fill(given)) for tool, given in calls), "Done.")
    asked = json.dumps([(tool, fill(given)) for tool, given in calls])
    question = f"Do this: {re.sub('[^a-zA-Z0-9_./:-]+', ' ', asked)}"  # the values of the calls, without quotes
    done = program(
        "-p",
        question,
        "--model",
        model,
        "--config",
        str(config),
        "--allow",
        "*",
        "--output-format",
        "json",
        code=None,
    )
    result = json.loads(done.stdout)["result"]
    outcomes = [(call["tool"], call["status"]) for call in result["calls"]]
    assert outcomes == [(tool, "completed") for tool, _ in calls], result["calls"]
    assert expected in result["calls"][-1]["text"]
    (listed,) = json.loads(program("list-servers", "--config", str(config)).stdout)["result"]
    assert ("bubblewrap is not installed" in listed.get("sandbox_missing", "")) != has_sandbox
    left = {path.name for path in Path(environment["HOME"]).rglob("*") if path.is_file()}
    if name == "memory":
        assert ("memory.jsonl" in left) == has_sandbox  # without one, the server keeps it beside its program
        if not has_sandbox:
            (find_place() / "node_modules/@modelcontextprotocol/server-memory/dist/memory.jsonl").unlink()
    if name == "sqlite":
        assert (folder / "t.db").stat().st_size > 0


def test_the_documentation_lists_these_servers_and_what_they_were_asked_to_do() -> None:
    rows = [
        f"| `mcp-server-{name}` | {' '.join(f'`{argument}`' for argument in arguments) or '-'} | "
        f"{', '.join(dict.fromkeys(f'`{tool}`' for tool, _ in calls))} | works | works |"
        for name, (_, arguments, calls, _) in SERVERS.items()
    ]
    assert "\n".join(rows) in SERVERS_PAGE.read_text(encoding="utf-8"), "\n".join(rows)
