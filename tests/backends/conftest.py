"""Models opened through llama.cpp, a real service, and a talk with which other backends are compared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from altered import with_template
from backends.openai.real import serving_model
from backends.openai.talks import LINES, chat_with, talk
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.core.messages import Message


@pytest.fixture(scope="session")
def through_llama(shipped_model: Path) -> list[Message]:
    """The history of a talk through llama.cpp in this process."""

    async def run_talk() -> list[Message]:
        backend = LlamaBackend(shipped_model, 0)
        chat = chat_with(backend)
        await talk(chat, *LINES)
        await backend.aclose()
        return chat.history

    return asyncio.run(run_talk())


@pytest.fixture(scope="session")
def real_service(shipped_model: Path) -> Iterator[str]:
    """The URL of a real service that has the small model."""
    with serving_model(shipped_model) as url:
        yield url


@pytest.fixture
def anyio_backend() -> str:
    """Tests that are coroutines run on asyncio."""
    return "asyncio"


@pytest.fixture
def open_llama(shipped_model: Path, tmp_path: Path) -> Iterator[Callable[..., LlamaBackend]]:
    """Opens the shipped model, also with another chat template; closes what it opened."""
    backends: list[LlamaBackend] = []

    def open_one(context_tokens: int = 0, template: str = "", **options: Any) -> LlamaBackend:
        model = shipped_model
        if template:
            model = tmp_path / f"altered-{len(backends)}.gguf"
            model.write_bytes(with_template(shipped_model.read_bytes(), template))
        backends.append(LlamaBackend(model, context_tokens, **options))
        return backends[-1]

    yield open_one
    for backend in backends:
        asyncio.run(backend.aclose())
