"""Render Jinja chat templates in a process of its own, which `template_worker` limits in all that it can do.

The process is started by the first request, serves all templates, and ends with this program.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.errors import ModelError
from ..core.programs import describe_exit

_WALL_S = 30.0
"""Deadline for a response, which includes the start of the process on a busy board."""
_CHUNK_BYTES = 1 << 16
_HINT = "Use a file of the model from another source."
_ENVIRONMENT = ("HOME", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONUSERBASE")
"""What the interpreter needs to find its modules; the worker forgets it before it reads a template."""


class TemplateRejectedError(Exception):
    """The template is invalid, or raised an error for the conversation."""


class TemplateLimitError(ModelError):
    """Rendering exceeds the limits of time, memory or output."""


def render_template(source: str, variables: Mapping[str, Any] | None, today: str = "") -> str:
    """Render a template in the worker.

    Args:
        source: Source of the template.
        variables: JSON values; None only compiles the template.
        today: ISO date for `strftime_now`; "" leaves the function undefined.

    Raises:
        TemplateRejectedError: The template is invalid or rejects the variables.
        TemplateLimitError: It exceeds the limits.
    """
    with _lock:
        response = _request({"source": source, "variables": variables, "today": today})
    if "limit" in response:
        raise TemplateLimitError(f"The model's chat template is not usable: {response['limit']}.", _HINT)
    if "error" in response:
        raise TemplateRejectedError(response["error"])
    return str(response["text"])


def start_renderer() -> None:
    """Start the process, so that it is ready when the first template is rendered."""
    with _lock:
        _find_worker()


_lock = threading.Lock()
_workers: dict[int, subprocess.Popen[bytes]] = {}
"""The worker by the id of this process: a forked process must not use its parent's."""


def _find_worker() -> subprocess.Popen[bytes]:
    worker = _workers.get(os.getpid())
    if worker is None:
        worker = _workers[os.getpid()] = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("template_worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl+C at the terminal must not reach it
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        )
    return worker


def _request(request: Mapping[str, Any]) -> dict[str, Any]:
    worker = _find_worker()
    assert worker.stdin and worker.stdout
    try:
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.write(json.dumps(request).encode() + b"\n")
            worker.stdin.flush()
        line = _read_line(worker.stdout.fileno())
        if not line:
            return {"limit": _explain_end(worker)}
    except BaseException:  # its response must not be taken for that to the next request
        _kill(worker)
        raise
    return dict(json.loads(line))


def _read_line(file: int) -> bytes:
    """Read a line; empty if the worker ends or the deadline expires."""
    end = time.monotonic() + _WALL_S
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    line = bytearray()
    while not line.endswith(b"\n"):
        if not waiting.poll(max(0.0, end - time.monotonic()) * 1000) or not (data := os.read(file, _CHUNK_BYTES)):
            return b""
        line += data
    return bytes(line)


def _explain_end(worker: subprocess.Popen[bytes]) -> str:
    code = _kill(worker)
    return "it takes too long" if code in (-signal.SIGPROF, -signal.SIGKILL) else f"its process {describe_exit(code)}"


def _kill(worker: subprocess.Popen[bytes]) -> int:
    """End the worker; return its exit code, that of a signal negative."""
    _workers.pop(os.getpid(), None)
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.wait(0.1)  # a limit may have ended it
    worker.kill()
    for pipe in (worker.stdin, worker.stdout):
        with contextlib.suppress(OSError):
            if pipe:
                pipe.close()
    return worker.wait()
