"""The clock of the machine jumps while a tool runs, as at the first contact with a time server after a start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stage import call_text

Script = Callable[..., str]

# A clock that is ahead of the real one by the seconds in the file `offset`; the monotonic one is not touched.
SHIM = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    FILE *file = !failed && clock == CLOCK_REALTIME ? fopen(OFFSET, "r") : NULL;
    long ahead = 0;
    if (file) {
        if (fscanf(file, "%ld", &ahead) == 1) now->tv_sec += ahead;
        fclose(file);
    }
    return failed;
}
"""
SERVER = """
import json, sys, time
from pathlib import Path
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        about = {"name": "a", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    elif message["method"] == "tools/list":
        schema = {"type": "object", "properties": {"seconds": {"type": "integer"}}}
        result = {"tools": [{"name": "jump", "inputSchema": schema}]}
    elif message["method"] == "tools/call":
        Path("offset").write_text(str(message["params"]["arguments"]["seconds"]))
        result = {"content": [{"type": "text", "text": "jumped"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
YEAR_S = 31_536_000


@pytest.mark.skipif(sys.platform != "linux", reason="the clock is replaced by LD_PRELOAD")
def test_a_turn_and_its_session_go_on_when_the_clock_jumps(
    folder: Path, environment: dict[str, str], script: Script
) -> None:
    library, source = folder / "clock.so", folder / "clock.c"
    source.write_text(SHIM, encoding="utf-8")
    build = ["cc", "-shared", "-fPIC", f'-DOFFSET="{folder / "offset"}"', "-o", str(library), str(source)]
    subprocess.run(build, check=True)
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    entry = {"name": "clock", "command": sys.executable, "args": ["server.py"], "sandbox": "off", "timeout_s": 20}
    lines = [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
    (folder / "own.toml").write_text("\n".join(["[[servers]]", *lines]), encoding="utf-8")
    jumps = [call_text("clock__jump", seconds=seconds) for seconds in (YEAR_S, -YEAR_S, 40 * YEAR_S)]
    options = ["--config", "own.toml", "--allow", "clock__*", "--continue", "--output-format", "json"]
    command = [sys.executable, "-m", "rkllm_chat", "-p", "Go!", "--model", script(*jumps, "Done."), *options]
    for turn in (1, 2):
        done = subprocess.run(
            command,
            cwd=folder,
            env={**environment, "LD_PRELOAD": str(library)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        result = json.loads(done.stdout)["result"]
        assert (result["text"], result["reason"]) == ("Done.", "answered")
        assert [call["status"] for call in result["calls"]] == ["completed"] * 3
        assert all(0 <= call["seconds"] < 20 for call in result["calls"])
        [session] = Path(environment["HOME"], ".local/state/rkllm-chat/sessions").glob("*.jsonl")
        said = [json.loads(line) for line in session.read_text(encoding="utf-8").splitlines()]
        assert json.dumps(said).count('"Go!"') == turn
    moved = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time())"],
        env={**environment, "LD_PRELOAD": str(library)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert float(moved.stdout) > 80 * YEAR_S
