"""A slash command: `/shout TEXT` in the chat."""

from __future__ import annotations

from rkllm_chat.chat.app import App
from rkllm_chat.chat.event_stream import Emit
from rkllm_chat.core.events import Notice


async def shout(_app: App, argument: str, emit: Emit) -> None:
    """Show a text in capital letters."""
    await emit(Notice(argument.upper()))
