"""The application with scripted replies and without servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rkllm_chat.backends.scripted import ScriptedBackend
from rkllm_chat.chat.app import App, open_app
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.config.settings import Settings
from rkllm_chat.core.i18n import load


@asynccontextmanager
async def open_scripted_app(folder: Path, replies: Sequence[str], **settings: Any) -> AsyncIterator[App]:
    """Open the application on a script in `folder`."""
    script = folder / "replies.json"
    script.write_text(json.dumps(replies), encoding="utf-8")
    chosen: dict[str, Any] = {"model": str(script), "backend": "scripted", "servers": (), **settings}
    async with open_app(Settings(**chosen), folder, words=load()) as app:
        yield app


def backend_of(chat: Conversation) -> ScriptedBackend:
    assert isinstance(chat.backend, ScriptedBackend)
    return chat.backend
