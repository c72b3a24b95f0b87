"""The command that shows, changes and saves settings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from ...chat.app import App
from ...chat.event_stream import Emit
from ...chat.model_loading import make_loading_event
from ...chat.setting_choices import check_setting_choices, list_choices
from ...config.editor import save_setting
from ...config.named_settings import DEFAULT, KEYS, TABLE_OF, TABLES, find_key, parse_value, replace_setting
from ...config.settings import Settings, Thinking
from ...config.value_checks import describe_values
from ...core.errors import UsageError
from ...core.events import Notice, Shown, Table
from ...core.sanitize import shorten_line
from .model import choose_model
from .permissions import accept_pattern
from .registry import command

_IN_PROMPT = ("system", "tool_format", "prompt_profile")
_RELOADED = ("backend", "context_tokens", "key_env")
"""Keys whose change loads the model again."""
_AT_START = ("keep_secrets", "prefill_ahead", "keep_prefix", "llama_library")
"""Keys that are read when the program starts."""
_SAVE = "--save"
_SEPARATOR = re.compile(r"(?<=\w)=|\s+")
_THOUGHTS = ("show", "hide")
_MAX_LENGTH = 60


async def _suggest_settings(_app: App, typed: str) -> Sequence[str]:
    """Return the keys, or the values of a key."""
    name, blank, _ = typed.partition(" ")
    key = name.rpartition(".")[2]
    if not blank:
        return [*TABLE_OF, *KEYS]
    values = _describe_accepted(key).split("|") if key in TABLE_OF else []
    values += _THOUGHTS if key == "thinking" else ()
    return [*(value for value in values if value.isidentifier() or "-" in value[1:]), DEFAULT, _SAVE]


@command(
    "/set",
    usage="[GROUP | KEY [VALUE | default] [--save]]",
    example="/set temperature 0.2 --save",
    suggest=_suggest_settings,
)
async def change_settings(app: App, argument: str, emit: Emit) -> None:
    """Change a setting, or list them; --save keeps it."""
    name, _, text = _SEPARATOR.sub(" ", argument, count=1).partition(" ")
    text = text.strip()
    if is_saved := text == _SAVE or text.endswith(f" {_SAVE}"):
        text = text.removesuffix(_SAVE).rstrip()
    if not name or name in KEYS:
        await _list_settings(app, name, emit)
        return
    key = find_key(name, "/set")
    if key == "thinking" and text in _THOUGHTS:
        await emit(Shown(thoughts=text == "show"))
        await emit(Notice(app.words("model.thinking", state=text)))
        return
    if text:
        value = _parse(key, text)
        for pattern in set(value) - set(getattr(app.settings.policy, key)) if key in ("allow", "deny") else ():
            if not await accept_pattern(app, key, pattern):
                return
        if key in _AT_START and not is_saved:
            raise UsageError(f"{key} is read when the program starts.", f"Write /set {key} {text} {_SAVE}.")
        await _apply(app, key, value, emit)
    await emit(Table((), (_row_of(app, key),)))
    if is_saved:
        await _save(app, key, text, emit)


async def _list_settings(app: App, group: str, emit: Emit) -> None:
    """List the settings of a group; without one, those that are not built in, and the groups."""
    plain = Settings()
    keys = KEYS.get(group) or [key for key in TABLE_OF if _read_current(app.settings, key) != _read_current(plain, key)]
    if keys:
        await emit(Table((), tuple(_row_of(app, key) for key in keys)))
    if not group:
        await emit(Table((), tuple((f"{table}:", ", ".join(names)) for table, names in KEYS.items())))
        await emit(Notice(app.words("set.more")))


def _parse(key: str, text: str) -> Any:
    """Return the checked value of a text. Raises ConfigError or UsageError."""
    value = parse_value(key, text, "/set")
    if key in list_choices() and text != DEFAULT:
        check_setting_choices(replace(Settings(), **{key: value}))
    return value


async def _apply(app: App, key: str, value: Any, emit: Emit) -> None:
    """Change a setting of this chat, with what follows from it."""
    if key == "model" and value:
        await choose_model(app, value, emit)
        value = app.settings.model
    settings = replace_setting(app.settings, key, value)
    if key == "thinking":
        await app.switch_thinking(cast("Thinking", value))
    elif key in _RELOADED or (key == "model" and not value):
        await emit(make_loading_event(settings, app.state))
        await app.switch_model(settings)
        await emit(Notice(app.words("model.now", model=app.backend.name, context=app.backend.context_tokens)))
    app.settings = settings
    if key == "language":
        app.words.set_language(value)
    if key in _IN_PROMPT:
        await emit(Notice(app.words("model.system_changed")))
    elif key in _AT_START:
        await emit(Notice(app.words("set.at_start")))


async def _save(app: App, key: str, text: str, emit: Emit) -> None:
    """Write the current value to the user's configuration, and say if another place sets it too."""
    if app.source is None:
        raise UsageError("This chat was started without a configuration that could be changed.")
    table = TABLE_OF[key]
    value = _read_current(app.settings, key)
    path = app.source.own_file
    save_setting(table, key, None if text == DEFAULT else value, path)
    await emit(Notice(app.words("set.saved", name=key, path=path)))
    app.configured = app.source.read()
    read = _read_current(app.configured, key)
    if read != value and not (isinstance(value, tuple) and set(value) <= set(read)):
        await emit(Notice(app.words("set.overridden", name=key, value=_show(read))))


def _read_current(settings: Settings, key: str) -> Any:
    table = TABLE_OF[key]
    return getattr(settings if TABLES[table] is Settings else getattr(settings, table), key)


def _row_of(app: App, key: str) -> tuple[str, ...]:
    """Return the table row of a setting: its name, its value and the accepted ones."""
    return (
        f"{TABLE_OF[key]}.{key}",
        _show(_read_current(app.settings, key)),
        shorten_line(_describe_accepted(key), _MAX_LENGTH),
    )


def _describe_accepted(key: str) -> str:
    return "|".join(list_choices().get(key, ())) or describe_values(TABLES[TABLE_OF[key]], key)


def _show(value: Any) -> str:
    """Return a value as it can be typed."""
    if isinstance(value, bool):
        return "on" if value else "off"
    text = ", ".join(value) if isinstance(value, tuple) else "" if value is None else str(value)
    return shorten_line(text, _MAX_LENGTH) or "-"
