"""Commands about the program itself: help, diagnosis and quitting."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence

from ...chat.app import App
from ...chat.event_stream import Emit
from ...core.events import Leave, Notice, Page, Table
from ...core.i18n import Words
from ..key_table import make_key_table
from ..question_search import find_answer, format_found
from .registry import COMMANDS, Command, command, find, find_other, list_other
from .suggestions import correct_typo, suggest_commands

_KEYS_TOPIC = "keys"
GROUPS: dict[str, tuple[str, ...]] = {
    "conversation": ("/attach", "/retry", "/edit", "/undo", "/copy", "/compact", "/context", "/calls"),
    "sessions": ("/clear", "/sessions", "/export"),
    "servers": ("/tools", "/call", "/permissions", "/mcp", "/resources", "/prompt", "/skills"),
    "model": ("/model", "/system", "/set"),
    "program": ("/help", "/doctor", "/quit"),
}
"""Names of the commands by group, in the order in which help lists them."""
_ACTION = re.compile(r"(?:[A-Z]+ )?([a-z]+(?: [a-z]+(?= |$))*)")
"""The words of an action that are written as they stand, behind its argument if that comes first."""


async def _suggest_commands(_app: App, _typed: str) -> Sequence[str]:
    """Return the names of all commands, and the topic about keys."""
    return [*COMMANDS, _KEYS_TOPIC]


@command("/help", "/?", usage="[COMMAND | keys | WORDS]", example="/help tools", suggest=_suggest_commands)
async def show_help(app: App, argument: str, emit: Emit) -> None:
    """List commands, explain one, or answer a question."""
    await explain(app, app.words, argument, emit)


async def explain(app: App | None, words: Words, argument: str, emit: Emit) -> None:
    """Answer /help with an argument; before the app is open, without the commands of servers and plugins."""
    if not argument:
        others = await list_other(app) if app else {}
        other_rows = [(f"{words('groups.prompts')}:", ""), *others.items()] if others else []
        await emit(Table((), (*_list_commands(words), *other_rows)))
        await emit(Notice(words("help.more")))
        return
    if argument.lower() == _KEYS_TOPIC:
        await emit(make_key_table(words))
        return
    written = f"/{argument.lstrip('/')}"
    entry = find(written) or (await find_other(app, written) if app else None)
    if entry is None:
        is_name = not any(map(str.isspace, argument))
        names = [*COMMANDS, *(await list_other(app) if app else ())] if is_name else []
        found = format_found(find_answer(argument, words), words)
        near = correct_typo(written, names) if found or not is_name else suggest_commands(written, names, words)
        if near or not found:
            key = "commands.near" if near else "commands.unknown" if is_name else "help.nothing"
            await emit(Notice(words(key, name=argument, near=", ".join(near), text=argument)))
        if found:
            await emit(Page(found))
        return
    name = entry.names[0]
    await emit(Notice(f"{f'{name} {entry.usage}'.rstrip()}: {entry.describe(words)}"))
    if aliases := entry.names[1:]:
        await emit(Notice(words("help.aliases", names=" ".join(aliases))))
    if actions := list_actions(name, words):
        rows = [(f"{name} {action}", text) for action, text in actions.items()]
        await emit(Table((), tuple(rows)))
    if entry.example:
        await emit(Notice(words("help.example", text=entry.example)))


def _list_commands(words: Words) -> Iterator[tuple[str, str]]:
    """Yield a row for each group and for each of its commands."""
    for group, entries in iter_groups():
        yield f"{words(f'groups.{group}')}:", ""
        for entry in entries:
            yield " ".join(entry.names), entry.describe(words)


@command("/doctor")
async def run_doctor(app: App, _argument: str, emit: Emit) -> None:
    """Check this machine and its configuration."""
    if app.source is None or app.source.diagnose is None:
        await emit(Notice(app.words("commands.unknown", name="/doctor")))
        return
    arguments = ["--model", app.settings.model] if app.settings.model else []
    await emit(Table((), tuple(await asyncio.to_thread(app.source.diagnose, arguments))))


@command("/quit", "/exit", "/q")
async def quit_chat(_app: App, _argument: str, emit: Emit) -> None:
    """Exit."""
    await emit(Leave())


def iter_groups() -> Iterator[tuple[str, list[Command]]]:
    """Yield each group with its commands; those of no group come last."""
    grouped = {name for names in GROUPS.values() for name in names}
    rest = [entry for entry in dict.fromkeys(COMMANDS.values()) if entry.names[0] not in grouped]
    yield from ((group, [COMMANDS[name] for name in names]) for group, names in GROUPS.items())
    if rest:
        yield "other", rest


def list_actions(name: str, words: Words) -> dict[str, str]:
    """Return what can be written behind a command, and its explanation."""
    start = f"actions.{name} "
    return {key.removeprefix(start): text for key, text in words.sentences.items() if key.startswith(start)}


def explain_action(name: str, action: str, words: Words) -> str:
    """Return the explanation of an action of a command; "" if there is none."""
    explained = ((_ACTION.match(written), text) for written, text in list_actions(name, words).items())
    return next((text for match, text in explained if match and match[1] == action), "")
