"""Fixtures: the API server as a process, and the official clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import ollama
import openai
import pytest

from mcp_servers.serving import Served, serve
from stage import Script

StartApi = Callable[..., Served]
"""Of the fixture `start_api`."""
StartNpuApi = Callable[..., Served]
OpenScripted = Callable[..., openai.OpenAI]
Connect = Callable[[Served], openai.OpenAI]
ConnectOllama = Callable[[Served], ollama.Client]


@pytest.fixture
def start_api(environment: dict[str, str], folder: Path) -> Iterator[StartApi]:
    """Starts the server with options and variables."""
    with ExitStack() as stack:
        yield lambda *options, **variables: stack.enter_context(
            serve("openai", *options, port_option="--port", env={**environment, **variables}, cwd=folder)
        )


@pytest.fixture
def start_npu_api(start_api: StartApi, compiled: Callable[[str], Path], npu_model: Path, folder: Path) -> StartNpuApi:
    """Starts the server on the stand-in of a layout, with more of [rkllm] and with options."""

    def start(layout: str, *options: str, more: str = "") -> Served:
        settings = f"[rkllm]\nlibrary = {json.dumps(str(compiled(layout)))}\n{more}"
        (folder / "npu.toml").write_text(settings, encoding="utf-8")
        return start_api("--config", "npu.toml", "--model", str(npu_model), *options)

    return start


@pytest.fixture(scope="session")
def shared_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of the model that ships, for tests that expect no empty cache."""
    import os

    home = tmp_path_factory.mktemp("home")
    with serve("openai", port_option="--port", env={**os.environ, "HOME": str(home)}, cwd=home) as served:
        yield served


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Opens a client of the `openai` package for a server."""
    with ExitStack() as stack:
        yield lambda served: stack.enter_context(
            openai.OpenAI(
                base_url=served.url,
                api_key=served.headers.get("Authorization", "Bearer none").removeprefix("Bearer "),
                max_retries=0,
                timeout=30,
            )
        )


@pytest.fixture
def open_scripted(start_api: StartApi, connect: Connect, script: Script) -> OpenScripted:
    """Opens a client of a server whose model gives these replies, one a request."""
    return lambda *replies, options=(): connect(start_api("--model", script(*replies), *options))


@pytest.fixture
def connect_ollama() -> Iterator[ConnectOllama]:
    """Opens a client of the `ollama` package for a server."""
    with ExitStack() as stack:
        yield lambda served: stack.enter_context(
            ollama.Client(host=served.url.removesuffix("/v1"), timeout=30, headers=served.headers)
        )
