"""What one-shot commands print: each way to name a server and its arguments, parts of a result, each transport."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_client.chaos_http import open_site
from mcp_client.full_server import PIXEL
from rkllm_chat.cli.json_commands import SUMMARIES
from rkllm_chat.config.loader import load_settings
from rkllm_chat.config.servers import BOARD_SERVER
from shell import Shell, serving
from stage import PROGRAM


def text_of(result: dict[str, Any]) -> str:
    return "".join(block["text"] for block in result["content"])


def test_list_tools_prints_the_tools_as_the_server_sent_them(shell: Shell) -> None:
    shell.add_chaos()
    echo, add, act = shell.result("list-tools", "--server", "chaos")
    assert echo["annotations"] == {"readOnlyHint": True}
    assert add["inputSchema"]["required"] == ["a", "b"]
    assert act["description"] == "Does what the mode says."


@pytest.mark.parametrize("line", ["--server chaos --tool echo", "--server chaos echo", "chaos__echo", "-- chaos/echo"])
def test_a_tool_is_named_by_options_or_in_one_word(line: str, shell: Shell) -> None:
    shell.add_chaos()
    output, _ = shell.start("call-tool", "--args", '{"text": "hé 東京 👋"}', *line.split()).communicate(timeout=30)
    assert text_of(json.loads(output)["result"]) == "hé 東京 👋" and "東京".encode() in output


def test_arguments_are_read_from_a_file_and_from_standard_input(shell: Shell) -> None:
    shell.add_chaos()
    text = "x" * 300_000  # more than one argument of a command line may hold
    data = json.dumps({"text": text}).encode()
    (shell.folder / "arguments.json").write_bytes(b"\xef\xbb\xbf" + data)
    assert text_of(shell.result("call-tool", "chaos.echo", "--args", "@arguments.json")) == text
    assert text_of(shell.result("call-tool", "chaos.echo", "--args", "-", stdin=data)) == text


def test_arguments_are_sent_exactly_and_are_an_empty_object_by_default(shell: Shell) -> None:
    shell.add_chaos()
    written = (
        '{"big": 123456789012345678901234567890, "zip": "00123", "one": 1, "real": 1.0, "none": null, "empty": ""}'
    )
    shell.result("call-tool", "chaos.echo", "--args", written)
    shell.result("call-tool", "chaos.echo")
    sent = [message["params"]["arguments"] for message in shell.received("tools/call")]
    assert json.dumps(sent[0]) == written
    assert sent[1] == {}


def test_a_server_on_the_command_line_needs_no_configuration(shell: Shell) -> None:
    shell.environment |= {"TOKEN_VALUE": "abc-123-secret"}
    program = f"{sys.executable} -c 'import os, sys; sys.exit(os.environ[\"GIVEN\"])'"
    error = shell.error("list-tools", "--stdio", program, "--env", "GIVEN=${TOKEN_VALUE}")
    assert error["details"]["stderr"] == "[redacted]"
    with open_site("ok") as site:
        line = ["call-tool", "echo", "--server", site.url, "--header", "Authorization: Bearer ${TOKEN_VALUE}"]
        assert text_of(shell.result(*line)) == "echo is done"
        assert "Bearer abc-123-secret" in site.requests[0].headers.values()


def test_toml_and_json_are_merged_and_the_nearer_file_wins(shell: Shell) -> None:
    shell.add_chaos(env={"FAR": "1", "BOTH": "far"})
    args = json.dumps(shell.servers["chaos"]["args"])
    path = shell.servers["chaos"]["env"]["PYTHONPATH"]
    (shell.folder / "mcp_config.toml").write_text(
        f'[chat]\nmax_steps = 3\n[[servers]]\nname = "chaos"\ncommand = "{sys.executable}"\nargs = {args}\n'
        f'env = {{ NEAR = "1", BOTH = "near", PYTHONPATH = "{path}" }}\n',
        encoding="utf-8",
    )
    assert shell.result("list-tools", "--server", "chaos")
    assert {"FAR", "NEAR", "BOTH"} <= set(shell.events("start")[0]["environment"])
    assert shell.result("list-servers")[0]["source"] == "mcp_config.toml"


def test_list_servers_starts_no_server_and_shows_no_secret(shell: Shell) -> None:
    shell.add_chaos(env={"API_TOKEN": "secret-one"})
    shell.add("site", url="https://user:secret-two@example.org/mcp?key=secret-three", headers={"X-Key": "secret-four"})
    shell.add("off", command="x", env={"MISSING": "${NO_SUCH}"}, disabled=True, sandbox="on", write=["notes"])
    document = shell.run("list-servers")
    assert "secret-" not in json.dumps(document)
    chaos, site, off, _board = document["result"]
    assert (chaos["transport"], chaos["env"]) == ("stdio", ["API_TOKEN", "PYTHONPATH"])
    assert (site["transport"], site["url"], site["headers"]) == ("http", "https://example.org/mcp", ["X-Key"])
    assert (off["enabled"], off["source"]) == (False, "mcp.json")
    assert (off["sandbox"], off["write"], chaos["sandbox"]) == ("on", ["notes"], "auto")
    assert shell.events("start") == []


def test_select_prints_one_part_of_the_result(shell: Shell) -> None:
    shell.add_chaos("structured-right")
    whole = shell.result("call-tool", "chaos.act")
    assert whole == {"content": [{"type": "text", "text": "seven"}], "structuredContent": {"value": 7}}
    names = ("raw", "content", "text", "structured")
    parts = {part: shell.result("call-tool", "chaos.act", "--select", part) for part in names}
    assert parts == {"raw": whole, "content": whole["content"], "text": "seven", "structured": {"value": 7}}


def test_verbose_names_the_protocol_and_the_times(shell: Shell) -> None:
    shell.add_chaos()
    document = shell.run("call-tool", "chaos.echo", "--verbose", "--select", "structured")
    assert document["result"] is None
    meta = document["meta"]
    assert (meta["server"], meta["protocolVersion"]) == ("chaos", "2025-11-25")
    assert meta["serverInfo"] == {"name": "chaos", "version": "1"}
    assert meta["seconds"].keys() == {"start", "list", "call"} and min(meta["seconds"].values()) > 0


def test_verbose_shows_the_standard_error_of_the_server(shell: Shell) -> None:
    program = f"{sys.executable} -c 'import sys; sys.exit(\"some words\")'"
    process = shell.start("list-tools", "--stdio", program, "--verbose")
    output, errors = process.communicate(timeout=30)
    assert (json.loads(output)["error"]["type"], errors) == ("ConnectionError", b"some words\n")


def test_init_writes_a_folder_that_works(shell: Shell) -> None:
    shell.environment["PATH"] = f"{shell.folder}:{shell.environment['PATH']}"
    laid = shell.result("init", "new/place")
    place = shell.folder / "new/place"
    assert laid["path"] == str(place)
    assert laid["gitignore_entry"] == "mcp_servers.json" == (place / ".gitignore").read_text(encoding="utf-8").strip()
    assert laid["agents_instructions"] in (place / "AGENTS.md").read_text(encoding="utf-8")
    assert sorted(path.name for path in place.iterdir()) == sorted(laid["files"])
    assert (place / "mcp_servers.json").stat().st_mode & 0o077 == 0
    there = Shell(place, shell.environment)
    assert "get_time" in {tool["name"] for tool in there.result("list-tools", "--server", "board")}
    commands = [line.strip() for line in laid["agents_instructions"].splitlines() if line.startswith("    rkllm-chat")]
    assert [command.split()[1] for command in commands] == ["mcp", "list-tools", "call-tool"]
    settings = load_settings(str(place / "mcp_servers.json"))
    assert settings.servers[0].trust == BOARD_SERVER.trust, "-p asks for no permission that the built-in one needs not"


@pytest.fixture(scope="module")
def http_entry() -> Iterator[dict[str, Any]]:
    """The full server over HTTP."""
    with serving("http", dict(os.environ)) as entry:
        yield entry


PLACE = json.dumps({"point": {"x": 1, "y": 2}})
COMMANDS: dict[str, list[str]] = {
    "list-tools": ["list-tools", "--server", "full"],
    "structured": ["call-tool", "full.place", "--args", PLACE],
    "selected": ["call-tool", "full.place", "--args", PLACE, "--select", "structured"],
    "picture": ["call-tool", "full.paint"],
    "refused": ["call-tool", "full.place", "--args", '{"point": {"x": 1}}'],
    "failed": ["call-tool", "full.fail"],
    "unknown": ["call-tool", "full.no_such"],
    "list-resources": ["list-resources", "--server", "full"],
    "read": ["read-resource", "notes://today", "--server", "full"],
    "read template": ["read-resource", "--uri", "notes://monday", "--server", "full"],
    "read nothing": ["read-resource", "nowhere://x", "--server", "full"],
    "list-prompts": ["list-prompts", "--server", "full"],
    "prompt": ["get-prompt", "full.greet", "--args", '{"name": "Ada"}'],
    "unknown prompt": ["get-prompt", "full.no_such"],
}


def run_all(shell: Shell, entry: dict[str, Any], names: Iterable[str] = COMMANDS) -> dict[str, dict[str, Any]]:
    """The documents of commands, with the full server by this entry."""
    shell.add("full", **entry)
    return {name: simplify(shell.run(*COMMANDS[name])) for name in names}


@pytest.mark.slow
def test_every_command_works_over_http(http_entry: dict[str, Any], shell: Shell) -> None:
    documents = run_all(shell, http_entry)
    assert documents["structured"]["result"]["structuredContent"] == {"x": 1, "y": 2}
    assert documents["selected"]["result"] == {"x": 1, "y": 2}
    assert documents["picture"]["result"]["content"][0]["data"] == PIXEL
    assert documents["refused"]["error"]["details"]["path"] == "point.y"
    assert documents["failed"]["error"]["type"] == "ToolError"
    assert documents["unknown"]["error"]["type"] == "ToolNotFound"
    assert documents["read"]["result"]["contents"][0]["text"] == "Mow the lawn – 芝刈り"
    assert documents["read nothing"]["error"]["type"] == "ProtocolError"
    assert "Greet Ada in a warm tone." in json.dumps(documents["prompt"])


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "sse", "websocket"])
def test_every_command_prints_the_same_over_every_transport(
    transport: str, http_entry: dict[str, Any], shell: Shell
) -> None:
    """Over stdio and HTTP a client without the SDK is used, over SSE and WebSocket the SDK."""
    names = ("structured", "list-resources", "read", "prompt") if transport == "stdio" else tuple(COMMANDS)
    expected = run_all(shell, http_entry, names)  # over stdio each command starts a server that imports the SDK
    with serving(transport, dict(os.environ)) as entry:
        documents = run_all(shell, entry, names)
    assert [name for name in names if documents[name] != expected[name]] == []


def simplify(document: dict[str, Any]) -> dict[str, Any]:
    """A document without what may differ: the message and code of a protocol error."""
    if document["ok"] or document["error"]["type"] != "ProtocolError":
        return document
    return {"ok": False, "error": {"type": "ProtocolError"}}


def test_images_and_data_are_written_to_files(http_entry: dict[str, Any], shell: Shell) -> None:
    shell.add("full", **http_entry)
    (shell.folder / "out").mkdir()
    (shell.folder / "out" / "paint-1.png").write_text("mine", encoding="utf-8")
    picture, text, blob = shell.result("call-tool", "full.paint", "--output-dir", "out")["content"]
    data = b64decode(PIXEL)
    path = shell.folder / "out" / "paint-2.png"
    facts = {"mimeType": "image/png", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    assert picture == {"type": "image", "path": str(path), **facts}
    assert (path.read_bytes(), text["text"]) == (data, "東京")
    assert Path(blob["resource"]["path"]).read_bytes() == b"\0\1\2"
    assert (shell.folder / "out" / "paint-1.png").read_text(encoding="utf-8") == "mine"
    read = shell.result("read-resource", "data://pixel", "--server", "full", "--output-dir", "out")["contents"][0]
    assert Path(read["path"]).read_bytes() == data and "blob" not in read


def test_help_is_text_and_names_every_command(shell: Shell) -> None:
    for command in ("list-tools", "call-tool", "init"):
        output, errors = shell.start(command, "--help").communicate(timeout=30)
        assert output.startswith(f"usage: rkllm-chat {command}".encode()) and errors == b""
    shown = b"".join(shell.start(*words, "--help").communicate(timeout=30)[0] for words in ((), ("json",)))
    old = {"list-servers"}  # rkllm-chat mcp list --json
    assert [
        name
        for name in SUMMARIES
        if name not in old and name not in " ".join(shown.decode().split()).replace("- ", "-")
    ] == []


LARGE_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}},
        "tools/list": {"tools": [{"name": "big", "inputSchema": {"type": "object"}}]},
    }
    if message["method"] == "tools/call":  # in pieces: the memory of this process counts as that of the command
        sys.stdout.write('{"jsonrpc": "2.0", "id": %d, "result": {"content": [' % message["id"])
        sys.stdout.write('{"type": "text", "text": "')
        for _ in range(MB):
            sys.stdout.write("x" * (1 << 20))
        print('"}]}}', flush=True)
    if message["method"] in results:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
        print(json.dumps(answer), flush=True)
"""


PEAK_OF_CHILD = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
size = sum(map(len, iter(lambda: process.stdout.read(1 << 20), b"")))
_, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
print(process.returncode, size, usage.ru_maxrss)
"""


def measure_peak_mb(folder: Path, environment: dict[str, str], size_mb: int) -> float:
    """The largest memory of a call whose result has this size.

    A small process starts the command: Linux counts the memory of the process that starts another as used by that one.
    """
    (folder / "large.py").write_text(LARGE_SERVER.replace("MB", str(size_mb)), encoding="utf-8")
    command = [*PROGRAM, "call-tool", "big", "--stdio", f"{sys.executable} large.py"]
    measuring = [sys.executable, "-c", PEAK_OF_CHILD, *command]
    done = subprocess.run(measuring, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True)
    code, size, peak = map(int, done.stdout.split())
    assert code == 0 and size > size_mb << 20
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


@pytest.mark.slow
def test_a_result_of_64_mb_is_held_at_most_twice(shell: Shell) -> None:
    """Else a board of 512 MB ends the command: its document, its text, its bytes and its value are 64 MB each."""
    small, large = (measure_peak_mb(shell.folder, shell.environment, size) for size in (1, 63))
    assert large < 200 and large - small < 2.3 * 63
