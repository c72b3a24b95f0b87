"""Commands about the model: selection, system prompt, thinking and language."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from ...backends.shared.model_files import ModelFile, find_models
from ...calls.model_families import resolve_formats
from ...chat.app import App
from ...chat.model_loading import make_loading_event
from ...config.settings import Thinking
from ...core import i18n as language
from ...core.errors import UsageError
from ...core.events import Notice, Page, Shown, Table
from .registry import EventStream, command


async def _suggest_models(app: App, _typed: str) -> Sequence[str]:
    """Return the paths of the models that were found."""
    return [file.name if file.is_shipped else str(file.path) for file in await _find_files(app)]


@command("/model", usage="[PATH | URL]", suggest=_suggest_models)
async def choose_model(app: App, argument: str) -> EventStream:
    """List the models, or load another one; the conversation is kept."""
    if not argument:
        files = await _find_files(app)
        rows = [("*" if file.path.name == app.backend.name else "", file.name, str(file.path)) for file in files]
        yield Notice(app.words("model.now", model=app.backend.name, context=app.backend.context_tokens))
        yield Notice(_describe_call_formats(app))
        yield Table((), tuple(rows)) if rows else Notice(app.words("model.none"))
        return
    model = _choose_file(argument, await _find_files(app))
    settings = replace(app.settings, model=model, backend="auto")
    yield make_loading_event(settings, app.state)
    await app.switch_model(settings)
    yield Notice(app.words("model.now", model=app.backend.name, context=app.backend.context_tokens))
    yield Notice(_describe_call_formats(app))


def _describe_call_formats(app: App) -> str:
    """Return a sentence about the model family, its call format and the formats that it accepts."""
    family, requested = app.backend.family, app.chat.call_format
    formats = resolve_formats(requested, family.accepted_formats)
    accepted = ", ".join(one.name for one in formats if one.name != requested)
    key = "model.native" if app.backend.native_tools else "model.forms"
    return app.words(key, family=family.name, asks=requested, accepts=accepted)


async def _find_files(app: App) -> list[ModelFile]:
    """Return the model files on this machine, read in a thread."""
    return await asyncio.to_thread(find_models, app.settings.models_folder, app.settings.model)


def _choose_file(name: str, files: Sequence[ModelFile]) -> str:
    """Return the path of the only model with this name, file name or stem; else the name unchanged."""
    matches = [file for file in files if name in (file.name, file.path.name, file.path.stem)]
    return str(matches[0].path) if len(matches) == 1 and not Path(name).exists() else name


@command("/system", usage="[TEXT | reset]")
async def choose_system(app: App, argument: str) -> EventStream:
    """Show or replace the system prompt, or use that of the configuration again.

    Replacing it requires a new prefill of the whole prompt.
    """
    if argument:
        system = app.configured.system if argument == "reset" else argument
        app.settings = replace(app.settings, system=system)
        yield Notice(app.words("model.system_changed"))
    else:
        yield Page(app.settings.system or app.chat.prompt_words("prompt.system"))


async def _suggest_thinking(_app: App, _typed: str) -> Sequence[str]:
    """Return the settings of /thinking."""
    return ["show", "hide", "on", "off", "auto"]


@command("/thinking", usage="[show|hide|on|off|auto]", suggest=_suggest_thinking)
async def choose_thinking(app: App, argument: str) -> EventStream:
    """Show or hide thoughts; switch thinking on or off for models that support it."""
    if argument in ("show", "hide"):
        yield Shown(thoughts=argument == "show")
    elif argument in ("on", "off", "auto"):
        await app.switch_thinking(cast("Thinking", argument))
    elif argument:
        raise UsageError(f'Unknown setting "{argument}".', "Write show, hide, on, off or auto.")
    yield Notice(app.words("model.thinking", state=argument or app.settings.thinking))


async def _suggest_languages(_app: App, _typed: str) -> Sequence[str]:
    """Return the available languages."""
    return language.list_languages()


@command("/language", usage="[en|ja|zh]", suggest=_suggest_languages)
async def choose_language(app: App, argument: str) -> EventStream:
    """Show or change the language of the user interface."""
    if argument:
        if argument not in language.list_languages():
            raise UsageError(
                f'Unknown language "{argument}".', f"Available languages: {', '.join(language.list_languages())}."
            )
        app.words.set_language(argument)
    yield Notice(app.words("language.name"))
