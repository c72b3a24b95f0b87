"""llama-cpp-python's own OpenAI-compatible server with the small model, as a process on loopback."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

START_S = 40
CONTEXT_TOKENS = 2048
RUNNING = re.compile(rb"running on (http://127\.0\.0\.1:\d+)")


@contextmanager
def serving_model(model: Path, key: str = "") -> Iterator[str]:
    """Its URL, once it listens. By default it would end a reply as soon as somebody else asks for one."""
    options = ["--model", str(model), "--n_ctx", str(CONTEXT_TOKENS), "--interrupt_requests", "false"]
    options += ["--host", "127.0.0.1", "--port", "0", "--verbose", "false"]
    options += ["--n_threads", "1", "--n_threads_batch", "1"]  # see tests/backends/conftest.py
    command = [sys.executable, "-m", "llama_cpp.server", *options, *(["--api_key", key] if key else [])]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr
        rest = Thread(target=process.stderr.read)  # a full pipe would stop it
        try:
            url = read_url(process.stderr.fileno())
            rest.start()
            yield f"{url}/v1"
        finally:
            process.kill()
            if rest.is_alive():
                rest.join()


def read_url(descriptor: int) -> str:
    """Where it says that it listens."""
    said, limit = b"", time.monotonic() + START_S
    while not (found := RUNNING.search(said)):
        ready, _, _ = select.select([descriptor], [], [], max(0.0, limit - time.monotonic()))
        piece = os.read(descriptor, 65536) if ready else b""
        assert piece, f"the server does not come up:\n{said.decode(errors='replace')[-2000:]}"
        said += piece
    return found[1].decode()
