"""Short and common values of `env` are redacted where they stand as values, by every door alike."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stage import Run, call_text

SERVER = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        about = {"name": "teller", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "tell", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        told = "PIN_CODE=4711, \\"PIN_CODE\\": \\"4711\\", PLAIN = zq9SECRETthree; room 4711 is free"
        told = f"{told}; {json.dumps(sys.argv[1:])} {' '.join(sys.argv[1:])}"
        result = {"isError": True, "content": [{"type": "text", "text": told}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
HIDDEN = 'PIN_CODE=[redacted], "PIN_CODE": "[redacted]", PLAIN = [redacted]; room 4711 is free; '
HIDDEN += '["--token=[redacted]", "--pin", "[redacted]", "--at", "[redacted]", "--port", "8080"] '
HIDDEN += "--token=[redacted] --pin [redacted] --at [redacted] --port 8080"


@pytest.fixture
def own(folder: Path, environment: dict[str, str]) -> tuple[str, str]:
    """A server whose tool fails and tells its variables and its arguments."""
    environment |= {"S2": "zq9-secret", "PINV": "5817", "S3": "x1y2"}
    (folder / "teller.py").write_text(SERVER, encoding="utf-8")
    (folder / "own.toml").write_text(
        f'[[servers]]\nname = "teller"\ncommand = {json.dumps(sys.executable)}\nsandbox = "off"\n'
        'args = ["teller.py", "--token=${S2}", "--pin", "${PINV}", "--at", "${S3}", "--port", "8080"]\n'
        'env = { PIN_CODE = "4711", PLAIN = "zq9SECRETthree" }\n',
        encoding="utf-8",
    )
    return ("--config", "own.toml")


def test_no_door_shows_a_short_value_beside_its_name(
    own: tuple[str, str], program: Run, script: Callable[..., str], environment: dict[str, str]
) -> None:
    turn = ("-p", "Tell!", *own, "--allow", "teller__tell", "--model", script(call_text("tell"), "So."))
    assert HIDDEN in program(*turn, "--log-file", "log.jsonl").stderr
    result = json.loads(program(*turn, "--output-format", "json", "--continue").stdout)["result"]
    assert result["calls"][0]["text"] == HIDDEN
    streamed = program(*turn, "--output-format", "stream-json").stdout
    assert json.dumps(HIDDEN) in streamed
    assert HIDDEN in json.loads(program("call-tool", "teller.tell", *own, code=1).stdout)["error"]["message"]
    (session,) = Path(environment["HOME"], ".local/state/rkllm-chat/sessions").rglob("*.jsonl")
    assert json.dumps(HIDDEN)[1:-1] in session.read_text(encoding="utf-8")


def test_a_secret_that_is_added_to_a_file_of_the_folder_is_reported_with_better_places(in_process: Run) -> None:
    added = in_process("mcp", "add", "--project", "notes", "-e", "TOKEN=zq9-secret-three", "--", "notes-server")
    assert "--env TOKEN='${TOKEN}'" in added.stderr and "--scope user" in added.stderr
    assert "zq9-secret-three" not in added.stderr
    for options in (("-e", "TOKEN=${TOKEN}"), ("-e", "MODE=quick"), ("-e", "TOKEN=zq9-secret-three", "-s", "user")):
        name = f"notes{len(str(options))}"
        assert in_process("mcp", "add", "--project", name, *options, "--", "true").stderr == ""
