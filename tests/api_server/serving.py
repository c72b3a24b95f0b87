"""`rkllm-chat serve openai` as a forked process on a free port."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fork_server import start
from mcp_servers.serving import Served
from stage import PROGRAM


@contextmanager
def serve_api(*options: str, env: Mapping[str, str], cwd: Path) -> Iterator[Served]:
    """Run the server until the end of the context."""
    process = start(
        [*PROGRAM, "serve", "openai", "--port", "0", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=dict(env),
        cwd=cwd,
    )
    assert process.stderr
    lines = [""]
    while "http://" not in lines[-1] and (line := process.stderr.readline()):
        lines.append(line)
    served = Served(process, lines)
    try:
        assert "http://" in served.line, "".join(lines)
        yield served
        if process.poll() is None:
            served.end()
    finally:
        process.kill()
        process.communicate()
