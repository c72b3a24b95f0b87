"""llama-cpp-python's own OpenAI-compatible server with the small model, as a process on loopback."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from rkllm_chat.backends.llama.trial_load import try_build

START_S = 40
CONTEXT_TOKENS = 2048
SERVER = """
import runpy, sys
from llama_cpp import llama_cpp

make_parameters = llama_cpp.llama_model_default_params

def choose_parameters():
    parameters = make_parameters()
    parameters.use_extra_bufts = extra_buffers
    return parameters

extra_buffers = sys.argv.pop(1) == "True"
llama_cpp.llama_model_default_params = choose_parameters
runpy.run_module("llama_cpp.server", run_name="__main__", alter_sys=True)
"""
"""The server, with the parameter for which it has no option: a build may run only without extra buffers here."""
RUNNING = re.compile(rb"running on (http://127\.0\.0\.1:\d+)")


@dataclass(frozen=True)
class Engine:
    """A server that runs; `log` has a line for each request that it has answered."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def count_replies(self) -> int:
        """How many replies it has begun."""
        return self.log.read_text(encoding="utf-8").count("POST /v1/completions")


@contextmanager
def serving_model(model: Path, key: str = "") -> Iterator[str]:
    """Its URL, once it listens."""
    with serving_engine(model, key) as engine:
        yield engine.url


@contextmanager
def serving_engine(model: Path, key: str = "", port: int = 0) -> Iterator[Engine]:
    """A server, once it listens. By default it would end a reply as soon as somebody else asks for one."""
    options = ["--model", str(model), "--n_ctx", str(CONTEXT_TOKENS), "--interrupt_requests", "false"]
    options += ["--host", "127.0.0.1", "--port", str(port), "--verbose", "false"]
    options += ["--n_threads", "1", "--n_threads_batch", "1"]  # see tests/backends/conftest.py
    extra_buffers = try_build("", 1, 0).extra_buffers
    command = [sys.executable, "-c", SERVER, str(extra_buffers), *options, *(["--api_key", key] if key else [])]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        tempfile.NamedTemporaryFile() as log,
        subprocess.Popen(command, stdout=log, stderr=subprocess.PIPE, env=environment) as process,
    ):
        assert process.stderr
        rest = Thread(target=process.stderr.read)  # a full pipe would stop it
        try:
            url = read_url(process.stderr.fileno())
            rest.start()
            yield Engine(f"{url}/v1", process, Path(log.name))
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
