"""Commands about the model: selection and system prompt."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...chat.app import App
from ...chat.event_stream import Emit
from ...chat.model_loading import ModelOffer, find_offer, find_offers, find_service_offers, make_loading_event
from ...config.named_settings import replace_setting
from ...core.errors import UsageError
from ...core.events import Notice, Page
from ...core.run_module import run_module
from ...core.user_paths import path_exists
from ..picker import Choice, Picker, PickerFrontend
from ..tried_models import find_downloaded, list_tried
from .registry import command, suggest_nearest


async def _suggest_models(app: App, _typed: str) -> Sequence[str]:
    """Return the names of the models that there are; the path or URL where a name is not unique."""
    offers = await _find_offers(app)
    return [offer.name if find_offer(offer.name, offers) else offer.target for offer in offers]


@command("/model", usage="[NAME | PATH | URL]", example="/model Qwen3-1.7B.gguf", suggest=_suggest_models)
async def choose_model(app: App, argument: str, emit: Emit) -> None:
    """Pick a model, or switch to a named one.

    The conversation is kept.
    """
    target: str | None = argument
    tried = {row["name"]: row for row in list_tried()}
    if argument:
        target = argument if argument in tried else _choose_target(argument, await _find_offers(app))
        served = await asyncio.to_thread(find_service_offers, app.settings, target)
        if len(served) > 1:
            target = await _pick_model(app, served)
    else:
        await emit(Notice(app.words("model.now", model=app.backend.name, context=app.backend.context_tokens)))
        await emit(Notice(_describe_call_formats(app)))
        offers = await _find_offers(app)
        target = await _pick_model(app, offers, [row for row in tried.values() if not find_downloaded(row, offers)])
    if target in tried and isinstance(app.frontend, PickerFrontend):
        only_file = app.source.only_file if app.source else ""
        options = ("--config", only_file) if only_file else ()
        await app.frontend.run_command(shlex.join(run_module("rkllm_chat", "models", "pull", target, *options)))
        target = find_downloaded(tried[target], await _find_offers(app))
    if target is None:
        return
    settings = replace_setting(replace(app.settings, backend="auto"), "model", target)
    await emit(make_loading_event(settings, app.state))
    await app.switch_model(settings)
    await emit(Notice(app.words("model.now", model=app.backend.name, context=app.backend.context_tokens)))


async def _find_offers(app: App) -> list[ModelOffer]:
    """Return the models that there are, in a thread."""
    return await asyncio.to_thread(find_offers, app.settings, tuple(app.used_models))


async def _pick_model(
    app: App, offers: Sequence[ModelOffer], downloads: Sequence[Mapping[str, str]] = ()
) -> str | None:
    """Let the user pick a model; return it as `--model` takes it, None to keep the current one."""
    if not isinstance(app.frontend, PickerFrontend):
        return None
    current = app.backend.name
    marks = ["*" if current in {*offer.names, f"{offer.name}.gguf"} else "" for offer in offers]
    choices = [
        Choice(offer.target, (mark, offer.name, _format_size(offer.size_bytes), offer.target.partition("#")[0]))
        for mark, offer in zip(marks, offers, strict=True)
    ]
    choices += [
        Choice(row["name"], ("", row["name"], row["size"], app.words("model.download", **row) + _tell_memory(row, app)))
        for row in downloads
    ]
    picker = Picker(app.words("picker.models"), choices, app.words)
    picker.index = next((index for index, choice in enumerate(choices) if choice.columns[0]), 0)
    return await app.frontend.pick(picker)


def _tell_memory(row: Mapping[str, str], app: App) -> str:
    return app.words("model.memory", memory=row["memory"]) if row["memory"] else ""


def _format_size(size_bytes: int) -> str:
    """Return the size of a file as text; "" for none."""
    if not size_bytes:
        return ""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.0f} MB"


def _choose_target(name: str, offers: Sequence[ModelOffer]) -> str:
    """Return the path or URL of the only model with this name; a path or URL is returned unchanged.

    Raises:
        UsageError: It is neither.
    """
    if path_exists(name) or "://" in name:
        return name
    if offer := find_offer(name, offers):
        return offer.target
    if Path(name).suffix or "/" in name:
        return name  # the engine says what is wrong with it
    names = sorted(name for offer in offers for name in offer.names)
    raise UsageError(f'There is no model "{name}".', suggest_nearest(name, names, "/model lists the models."))


def _describe_call_formats(app: App) -> str:
    """Return a sentence about the model family, its prompt profile and the call format asked for."""
    key = "model.native" if app.backend.native_tools else "model.forms"
    return app.words(key, family=app.backend.family.name, profile=app.chat.profile.name, asks=app.chat.call_format)


@command("/system", usage="[TEXT | reset]", example="/system You answer in one sentence.")
async def choose_system(app: App, argument: str, emit: Emit) -> None:
    """Show, set or reset the system prompt.

    Replacing it requires a new prefill of the whole prompt.
    """
    if argument:
        system = app.configured.system if argument == "reset" else argument
        app.settings = replace(app.settings, system=system)
        await emit(Notice(app.words("model.system_changed")))
    else:
        await emit(Page(app.settings.system or app.chat.prompt_words("prompt.system")))
