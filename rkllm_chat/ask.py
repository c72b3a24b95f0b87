"""One turn without a terminal: `-p`, as text, as one JSON document, or as a stream of JSON lines.

There is nobody to ask, so a call that the policy leaves open is declined.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from .clean import clean, clean_json
from .config import Settings
from .desk import Desk, open_desk
from .errors import AuthError, ChatError
from .events import (
    CallFound,
    CallGarbled,
    Event,
    Notice,
    Text,
    Thought,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    Usage,
)
from .messages import ToolResult
from .redact import Redactor
from .terminal import Terminal

TYPE_WORDS: dict[type, str] = {
    Text: "text",
    Thought: "thought",
    CallFound: "call_found",
    CallGarbled: "call_garbled",
    ToolStarted: "tool_started",
    ToolProgress: "tool_progress",
    ToolFinished: "tool_finished",
    Notice: "notice",
    TurnEnded: "turn_ended",
}


async def ask(
    settings: Settings,
    line: str,
    form: str,
    state: Path,
    secrets: Redactor | None = None,
    is_mended: bool = False,
    exposed: Iterable[tuple[str, str]] = (),
) -> int:
    """Asks and prints; gives the exit code. `form` is text, json or stream-json. `is_mended`: the line held bytes
    that are no text; `exposed` as for the chat."""
    show = {"text": show_text, "json": show_json, "stream-json": show_stream}[form]
    try:
        async with (
            open_desk(settings, state, secrets=secrets) as desk,
            aclosing(events_of(desk, line, is_mended)) as events,
        ):
            desk.said += [desk.words("repl.exposed", path=path, entry=key) for path, key in exposed]
            check_logins(desk)
            return await show(desk, events)
    except ChatError as error:
        return fail((secrets or Redactor()).mend(error), form)
    except asyncio.CancelledError:
        if form != "text":
            write_line({"ok": False, "error": {"type": "Interrupted", "message": "Interrupted.", "details": {}}})
        raise


def check_logins(desk: Desk) -> None:
    """Raises AuthError if a server wants a login: that is for a person to mend, not to go on without."""
    for error in desk.failures.values():
        if isinstance(error, AuthError):
            raise error


async def events_of(desk: Desk, line: str, is_mended: bool) -> AsyncGenerator[Event, None]:
    """What failed at the start, then the turn, with what is to be said of its session."""
    for path, name in desk.settings.ignored:
        yield Notice(desk.words("trust.ignored", file=path, name=name))
    for server in dict.fromkeys(tool.server for tool in desk.chat.held()):
        yield Notice(desk.words("servers.held", server=server))
    if is_mended:
        yield Notice(desk.words("ask.mended"))
    for server, error in desk.failures.items():
        yield Notice(desk.words("repl.failed", server=server, error=error))
    async with aclosing(desk.chat.send(line)) as turn:
        async for event in turn:
            while desk.said:
                yield Notice(desk.said.pop(0))
            yield event
            if isinstance(event, ToolFinished) and event.result.status == "declined":
                yield Notice(desk.words("ask.declined", tool=event.result.tool))


async def show_text(desk: Desk, events: AsyncIterator[Event]) -> int:
    terminal = Terminal(sys.stdout, sys.stderr, desk.words, color=False, mark="")
    last: Event | None = None
    async for last in events:
        terminal.show(last)
    return exit_code(last)


async def show_json(_desk: Desk, events: AsyncIterator[Event]) -> int:
    text: list[str] = []
    results: list[ToolResult] = []
    notices: list[str] = []
    end = TurnEnded("answered")
    async for event in events:
        match event:
            case Text(piece):
                text.append(piece)
            case CallFound() | CallGarbled():
                text.clear()
            case ToolFinished(result):
                results.append(result)
            case Notice(notice):
                notices.append(notice)
            case TurnEnded():
                end = event
            case _:
                pass
    calls = [{key: value for key, value in asdict(result).items() if key != "structured"} for result in results]
    answer = {"text": "".join(text).strip(), "calls": calls, "reason": end.reason, "usage": sum_usage(end.usage)}
    write_line({"ok": True, "result": {**answer, "notices": notices}})
    return exit_code(end)


async def show_stream(_desk: Desk, events: AsyncIterator[Event]) -> int:
    event: Event | None = None
    async for event in events:
        if word := TYPE_WORDS.get(type(event)):
            body: dict[str, Any] = asdict(event)
            if isinstance(event, TurnEnded):
                body["usage"] = sum_usage(event.usage)
            write_line({"type": word, **body})
    return exit_code(event)


def exit_code(last: Event | None) -> int:
    """A turn that ran out of rounds has no answer. A tool that failed is told to the model, which then answers."""
    return int(isinstance(last, TurnEnded) and last.reason == "steps")


def sum_usage(usage: tuple[Usage, ...]) -> dict[str, Any]:
    """The turn's usage, summed, and that of each call of the model. Times are seconds."""
    names = [entry.name for entry in fields(Usage) if entry.name != "hit_limit"]
    calls = [{name: round(getattr(one, name), 6) for name in names} for one in usage]
    return {**{name: round(sum(call[name] for call in calls), 6) for name in names}, "model_calls": calls}


def fail(error: ChatError, form: str) -> int:
    """Prints an error in the form that was asked for; gives its exit code."""
    if form == "text":
        print(f"rkllm-chat: {clean(str(error))}", file=sys.stderr)
    else:
        details = {**error.details, "hint": error.hint}
        write_line({"ok": False, "error": {"type": error.type_word, "message": error.message, "details": details}})
    return error.exit_code


def write_line(value: Any) -> None:
    """One JSON document on one line, in UTF-8 whatever the locale is; what UTF-8 cannot hold becomes "?"."""
    line = clean_json(json.dumps(value, ensure_ascii=False, default=str))
    sys.stdout.buffer.write(line.encode("utf-8", errors="replace") + b"\n")
    sys.stdout.buffer.flush()
