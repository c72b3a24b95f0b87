"""Commands about the program itself: help, diagnosis and quitting."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from ...chat.app import App
from ...chat.event_stream import Emit
from ...core.events import Leave, Notice, Page, Table
from ...core.i18n import Words
from ..key_table import make_key_table
from ..question_search import find_answer
from .help_topics import iter_groups, list_actions
from .registry import COMMANDS, MIN_SIMILARITY, command, find, find_other, list_other

_KEYS_TOPIC = "keys"


async def _suggest_commands(_app: App, _typed: str) -> Sequence[str]:
    """Return the names of all commands, and the topic about keys."""
    return [*COMMANDS, _KEYS_TOPIC]


@command("/help", "/?", usage="[COMMAND | keys | WORDS]", suggest=_suggest_commands)
async def show_help(app: App, argument: str, emit: Emit) -> None:
    """List all commands by group, explain one with an example, list the keys, or answer a question."""
    words = app.words
    if not argument:
        others = await list_other(app)
        other_rows = [(f"{words('groups.prompts')}:", ""), *others.items()] if others else []
        await emit(Table((), (*_list_commands(words), *other_rows)))
        await emit(Notice(words("help.more")))
        return
    if argument.lower() == _KEYS_TOPIC:
        await emit(make_key_table(words))
        return
    written = f"/{argument.lstrip('/')}"
    entry = find(written) or await find_other(app, written)
    if entry is None:
        near = get_close_matches(written.lower(), [*COMMANDS, *await list_other(app)], 1, MIN_SIMILARITY)
        answer = find_answer(argument, words)
        if near or not answer:
            key = "commands.near" if near else "commands.unknown"
            await emit(Notice(words(key, name=argument, near="".join(near))))
        if answer:
            await emit(Page(answer))
        return
    if entry.about:
        await emit(Notice(f"{f'{entry.names[0]} {entry.usage}'.rstrip()}: {entry.about}"))
        return
    name = entry.names[0]
    await emit(Notice(f"{f'{name} {entry.usage}'.rstrip()}: {words(f'commands.{name[1:]}')}"))
    if aliases := entry.names[1:]:
        await emit(Notice(words("help.aliases", names=" ".join(aliases))))
    if actions := list_actions(name, words):
        rows = [(f"{name} {action}", text) for action, text in actions.items()]
        await emit(Table((), tuple(rows)))
    await emit(Notice(words("help.example", text=words(f"examples.{name[1:]}"))))


def _list_commands(words: Words) -> Iterator[tuple[str, str]]:
    """Yield a row for each group and for each of its commands."""
    for group, entries in iter_groups():
        yield f"{words(f'groups.{group}')}:", ""
        for entry in entries:
            yield " ".join(entry.names), words(f"commands.{entry.names[0][1:]}")


@command("/doctor")
async def run_doctor(app: App, _argument: str, emit: Emit) -> None:
    """Show the diagnosis of the machine, the model and the configuration."""
    if app.source is None or app.source.diagnose is None:
        await emit(Notice(app.words("commands.unknown", name="/doctor")))
        return
    arguments = ["--model", app.settings.model] if app.settings.model else []
    await emit(Page(await asyncio.to_thread(app.source.diagnose, arguments)))


@command("/quit", "/exit", "/q")
async def quit_chat(_app: App, _argument: str, emit: Emit) -> None:
    """Quit the chat."""
    await emit(Leave())
