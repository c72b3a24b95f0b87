"""Commands about the model: which one, who it is to be, how much of its thinking is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .. import language
from ..desk import Desk
from ..discover import find_models
from ..errors import UsageError
from ..events import Notice, Page, Shown, Table
from ..families import choose_forms
from ..loading import expect_load
from . import Stream, command


async def suggest_models(desk: Desk, _typed: str) -> Sequence[str]:
    return [str(path) for path in find_models(desk.settings.model)]


@command("/model", usage="[PATH | URL]", suggest=suggest_models)
async def choose_model(desk: Desk, argument: str) -> Stream:
    """Lists the models there are, or goes on with another one; the talk stays."""
    if not argument:
        rows = [("*" if path.name == desk.backend.name else "", str(path)) for path in find_models(desk.settings.model)]
        yield Notice(desk.words("model.now", model=desk.backend.name, context=desk.backend.context_tokens))
        yield Notice(describe_forms(desk))
        yield Table((), tuple(rows)) if rows else Notice(desk.words("model.none"))
        return
    model = find_model(desk, argument)
    settings = replace(desk.settings, model=model, backend="auto")
    yield expect_load(settings, desk.state)
    await desk.switch_model(settings)
    yield Notice(desk.words("model.now", model=desk.backend.name, context=desk.backend.context_tokens))
    yield Notice(describe_forms(desk))


def describe_forms(desk: Desk) -> str:
    """What family the model is of, how it is asked for calls, and how else it may write them."""
    family, asks = desk.backend.family, desk.chat.form
    rows = (form.name for form in choose_forms(asks, family.accepts) if form.name != asks)
    key = "model.native" if desk.backend.native_tools else "model.forms"
    return desk.words(key, family=family.name, asks=asks, accepts=", ".join(rows))


def find_model(desk: Desk, name: str) -> str:
    """The path of a model that is named without its folder or its ending; else the name as it is."""
    found = [path for path in find_models(desk.settings.model) if name in (path.name, path.stem)]
    return str(found[0]) if len(found) == 1 and not Path(name).exists() else name


@command("/system", usage="[TEXT]")
async def choose_system(desk: Desk, argument: str) -> Stream:
    """Shows who the model is to be, or changes it; then the whole prompt is read anew."""
    if argument:
        desk.chat.settings = replace(desk.chat.settings, system=argument)
        yield Notice(desk.words("model.system_changed"))
    else:
        yield Page(desk.chat.settings.system or desk.chat.prompt_words("prompt.system"))


async def suggest_thinking(_desk: Desk, _typed: str) -> Sequence[str]:
    return ["show", "hide", "on", "off", "auto"]


@command("/thinking", usage="[show|hide|on|off|auto]", suggest=suggest_thinking)
async def choose_thinking(desk: Desk, argument: str) -> Stream:
    """Whether thoughts are shown whole, and, for models with the switch, whether the model thinks at all."""
    if argument in ("show", "hide"):
        yield Shown(thoughts=argument == "show")
    elif argument in ("on", "off", "auto"):
        await desk.switch_model(replace(desk.settings, thinking=argument))
    elif argument:
        raise UsageError(f'"{argument}" is none of show, hide, on, off, auto.')
    yield Notice(desk.words("model.thinking", state=argument or desk.settings.thinking))


async def suggest_languages(_desk: Desk, _typed: str) -> Sequence[str]:
    return language.languages()


@command("/language", usage="[en|ja|zh]", suggest=suggest_languages)
async def choose_language(desk: Desk, argument: str) -> Stream:
    if argument:
        if argument not in language.languages():
            raise UsageError(f'There is no language "{argument}".', f"Known are {', '.join(language.languages())}.")
        desk.words.speak(argument)
    yield Notice(desk.words("language.name"))
