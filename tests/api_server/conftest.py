"""Fixtures: the API server as a process, and the official clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import ollama
import openai
import pytest

from mcp_servers.serving import Served, serve

Connect = Callable[[Served], openai.OpenAI]
ConnectOllama = Callable[[Served], ollama.Client]


@pytest.fixture
def start_api(environment: dict[str, str], folder: Path) -> Iterator[Callable[..., Served]]:
    """Starts the server with options and variables."""
    with ExitStack() as stack:
        yield lambda *options, **variables: stack.enter_context(
            serve("openai", *options, port_option="--port", env={**environment, **variables}, cwd=folder)
        )


@pytest.fixture(scope="module")
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
def connect_ollama() -> Iterator[ConnectOllama]:
    """Opens a client of the `ollama` package for a server."""
    with ExitStack() as stack:
        yield lambda served: stack.enter_context(
            ollama.Client(host=served.url.removesuffix("/v1"), timeout=30, headers=served.headers)
        )
