"""The limit of one call in a one-shot command: progress extends it, and a tool may have its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcp_client.faults import TESTS, chaos
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.errors import TimeLimitError
from rkllm_chat.mcp_client.direct.open_server import open_server
from shell import Shell

LIMIT_S = 1.0
REPORTS, REPORT_S = 10, LIMIT_S / 5
SERVER = f"""
import sys
import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_client.serve_sdk import serve

server = MCPServer("slow")

@server.tool()
async def act(context: Context) -> str:
    for number in range({REPORTS}):
        await context.report_progress(number + 1, {REPORTS}, "on it")
        await anyio.sleep({REPORT_S})
    return "act is done"

serve(server, sys.argv[1])
"""


@contextmanager
def slow_server(transport: str, folder: Path) -> Iterator[ServerConfig]:
    """A server of the SDK whose tool takes twice as long as its limit and reports progress."""
    path = folder / "slow.py"
    path.write_text(SERVER, encoding="utf-8")
    environment = {"PYTHONPATH": str(TESTS)}
    if transport == "stdio":
        args = (str(path), "stdio")
        yield ServerConfig("slow", command=sys.executable, args=args, env=environment, timeout_s=LIMIT_S)
        return
    command = [sys.executable, str(path), transport]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout
        try:
            url = process.stdout.readline().strip()
            yield ServerConfig("slow", url=url, transport=transport, timeout_s=LIMIT_S)
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
def test_progress_extends_a_call(transport: str, tmp_path: Path) -> None:
    with slow_server(transport, tmp_path) as server, open_server(server) as opened:
        result = opened.call_tool("act", {})
        assert [block["text"] for block in result["content"]] == ["act is done"]
        assert opened.client.phase_seconds["call"] > LIMIT_S


@pytest.mark.slow
def test_progress_extends_a_call_only_to_its_longest_time(tmp_path: Path) -> None:
    with open_server(chaos(tmp_path, "progress-forever", delay_s=0.01)) as opened:
        opened.list_tools()
        with pytest.raises(TimeLimitError, match=r"did not answer the call within 0\.05 s"):
            opened.call_tool("act", {}, limit_s=0.05)
        assert opened.client.phase_seconds["call"] >= 20 * 0.05


@pytest.mark.slow
def test_a_tool_may_have_a_limit_of_its_own(shell: Shell) -> None:
    shell.add_chaos("hang-call", timeout_s=60.0)
    shell.servers["chaos"]["tool_timeouts"] = {"act": 0.3}
    shell.add("chaos", **shell.servers["chaos"])
    error = shell.error("call-tool", "chaos.act", "--no-check")
    assert (error["type"], error["details"]["limit_s"]) == ("TimeoutError", 0.3)
    assert shell.error("call-tool", "chaos.act", "--no-check", "--timeout", "0.5")["details"]["limit_s"] == 0.5
    shell.servers["chaos"]["tool_timeouts"] = {"act": "soon"}
    shell.add("chaos", **shell.servers["chaos"])
    assert "must be a table of numbers" in shell.error("call-tool", "chaos.act")["message"]
