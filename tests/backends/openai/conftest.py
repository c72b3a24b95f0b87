"""What these tests are handed: the remote backend, and services that it may be opened on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from backends.openai.real import CONTEXT_TOKENS
from backends.openai.service import Service
from mcp_client.chaos_http import serving
from rkllm_chat.backends import open_backend
from rkllm_chat.backends.openai.backend import OpenaiBackend
from rkllm_chat.config.settings import Openai as Options
from rkllm_chat.config.settings import Settings, Thinking
from stage import GREEDY


@pytest.fixture
def start() -> Iterator[Callable[..., Service]]:
    """Starts services of the test, on a port of their own; they end with it."""
    with ExitStack() as stack:
        yield lambda *arguments, **named: stack.enter_context(serving(Service(*arguments, **named)))


@pytest.fixture
def open_remote(run: Callable[..., Any]) -> Iterator[Callable[..., OpenaiBackend]]:
    """Opens the backend on URLs; what is no key of [openai] is one of [chat]."""
    backends: list[OpenaiBackend] = []

    def open_one(
        *urls: str, context_tokens: int = CONTEXT_TOKENS, thinking: Thinking = "auto", **options: Any
    ) -> OpenaiBackend:
        settings = Settings(
            model=" ".join(urls),
            generation=GREEDY,
            context_tokens=context_tokens,
            thinking=thinking,
            openai=Options(**options),
        )
        backend = open_backend(settings)
        assert isinstance(backend, OpenaiBackend)
        backends.append(backend)
        return backend

    yield open_one
    for backend in backends:
        run(backend.aclose())


@pytest.fixture
def service(start: Callable[..., Service]) -> Service:
    """A service that works."""
    return start()


@pytest.fixture
def backend(service: Service, open_remote: Callable[..., OpenaiBackend]) -> OpenaiBackend:
    """The backend on that service."""
    return open_remote(service.url)
