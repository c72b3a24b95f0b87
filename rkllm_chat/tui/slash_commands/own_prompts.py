"""Prompts in files as commands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ...chat.app import App
from ...chat.attachments import send_message
from ...chat.event_stream import Emit
from ...config.prompt_files import PromptFile, approve_prompt, find_prompt_file, is_approved, list_prompt_files
from ...core.events import Notice, Page
from ...core.sanitize import escape_visibly, sanitize_line
from .registry import SOURCES, Command, CommandSource, suggest_nothing


async def find_own_prompt(_app: App, name: str) -> Command | None:
    """Return the command of a prompt in a file. Raises ConfigError if the file cannot be read."""
    prompt = await asyncio.to_thread(find_prompt_file, name.lower())
    if prompt is None:
        return None
    found = prompt

    async def run(app: App, argument: str, emit: Emit) -> None:
        await _send(app, found, argument, emit)

    return Command((f"/{found.name}",), found.usage, run, suggest_nothing, _describe(found))


async def list_own_prompts(_app: App) -> Mapping[str, str]:
    """Return the description of each prompt by the name of its command."""
    found = await asyncio.to_thread(list_prompt_files)
    return {f"/{name}": _describe(prompt) for name, prompt in found.items()}


def _describe(prompt: PromptFile) -> str:
    return sanitize_line(prompt.description or prompt.path)


async def _send(app: App, prompt: PromptFile, argument: str, emit: Emit) -> None:
    """Send a prompt; one of this folder is shown first, and approved once."""
    text = prompt.fill(argument)
    store = app.server_approval.trust_store
    if not is_approved(prompt, store):
        await emit(Notice(app.words("prompts.of_folder", path=sanitize_line(prompt.path))))
        await emit(Page(escape_visibly(prompt.text)))
        if app.frontend is None or not await app.frontend.confirm(app.words("prompts.approve")):
            return
        approve_prompt(prompt, store)
    await send_message(app, text, emit)


SOURCES.append(CommandSource(find_own_prompt, list_own_prompts))
