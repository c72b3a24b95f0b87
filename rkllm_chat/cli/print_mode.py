"""Run one turn without a terminal (`-p`): print text, one JSON document, or a stream of JSON lines.

The user cannot be asked for approval here, so a call that the policy does not decide is declined.
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

from ..chat.app import App, open_app
from ..chat.turn import Turn
from ..config.settings import Settings
from ..core.errors import AuthError, ChatError
from ..core.events import (
    CallFound,
    CallUnreadable,
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
from ..core.messages import ToolResult
from ..core.redact import Redactor
from ..core.sanitize import sanitize_for_terminal, sanitize_json
from ..tui.event_lines import EventPrinter

_TYPE_NAMES: dict[type, str] = {
    Text: "text",
    Thought: "thought",
    CallFound: "call_found",
    CallUnreadable: "call_garbled",
    ToolStarted: "tool_started",
    ToolProgress: "tool_progress",
    ToolFinished: "tool_finished",
    Notice: "notice",
    TurnEnded: "turn_ended",
}


async def run_prompt(
    settings: Settings,
    prompt: str,
    output_format: str,
    state: Path,
    secrets: Redactor | None = None,
    is_replaced: bool = False,
    exposed: Iterable[tuple[str, str]] = (),
) -> int:
    """Run one turn and print its events.

    Args:
        settings: The settings of the conversation.
        prompt: The prompt.
        output_format: "text", "json" or "stream-json".
        state: Folder of the program's state (sessions, trust decisions).
        secrets: Hides secrets in what is printed.
        is_replaced: Whether invalid UTF-8 was replaced in the prompt.
        exposed: `(path, key)` of secrets in configuration files that other users can read.

    Returns:
        The exit code.
    """
    show = {"text": _show_text, "json": _show_json, "stream-json": _show_stream}[output_format]
    try:
        async with (
            open_app(settings, state, secrets=secrets) as app,
            aclosing(_stream_events(app, prompt, is_replaced)) as events,
        ):
            app.notices += [app.words("repl.exposed", path=path, entry=key) for path, key in exposed]
            _raise_login_error(app)
            return await show(app, events)
    except ChatError as error:
        return print_error((secrets or Redactor()).redact_error(error), output_format)
    except asyncio.CancelledError:
        if output_format != "text":
            _write_line({"ok": False, "error": {"type": "Interrupted", "message": "Interrupted.", "details": {}}})
        raise


def _raise_login_error(app: App) -> None:
    """Raise AuthError if a server requires a login, which only a user can complete."""
    for error in app.failures.values():
        if isinstance(error, AuthError):
            raise error


async def _stream_events(app: App, prompt: str, is_replaced: bool) -> AsyncGenerator[Event, None]:
    """Yield the notices about the startup, then the events of the turn and the notices of its session."""
    for path, name in app.settings.ignored:
        yield Notice(app.words("trust.ignored", file=path, name=name))
    for server in dict.fromkeys(tool.server for tool in app.chat.find_quarantined()):
        yield Notice(app.words("servers.held", server=server))
    if is_replaced:
        yield Notice(app.words("ask.mended"))
    for server, error in app.failures.items():
        yield Notice(app.words("repl.failed", server=server, error=error))
    async with aclosing(Turn(app.chat).run(prompt)) as turn:
        async for event in turn:
            while app.notices:
                yield Notice(app.notices.pop(0))
            yield event
            if isinstance(event, ToolFinished) and event.result.status == "declined":
                yield Notice(app.words("ask.declined", tool=event.result.tool))


async def _show_text(app: App, events: AsyncIterator[Event]) -> int:
    """Print the events as text and return the exit code."""
    terminal = EventPrinter(sys.stdout, sys.stderr, app.words, color=False, mark="")
    last: Event | None = None
    async for last in events:
        terminal.show(last)
    return exit_code(last)


async def _show_json(_app: App, events: AsyncIterator[Event]) -> int:
    """Collect the events, print one JSON document and return the exit code."""
    text_parts: list[str] = []
    results: list[ToolResult] = []
    notices: list[str] = []
    end = TurnEnded("answered")
    async for event in events:
        match event:
            case Text(part):
                text_parts.append(part)
            case CallFound() | CallUnreadable():
                text_parts.clear()
            case ToolFinished(result):
                results.append(result)
            case Notice(notice):
                notices.append(notice)
            case TurnEnded():
                end = event
            case _:
                pass
    calls = [_describe_call(result) for result in results]
    answer = {"text": "".join(text_parts).strip(), "calls": calls, "reason": end.reason, "usage": _sum_usage(end.usage)}
    _write_line({"ok": True, "result": {**answer, "notices": notices}})
    return exit_code(end)


def _describe_call(result: ToolResult) -> dict[str, Any]:
    """Return a result as JSON; the pages of the program's own tools have no structured content."""
    return {**asdict(result), "structured": result.structured if result.server else None}


async def _show_stream(_app: App, events: AsyncIterator[Event]) -> int:
    """Print each event as a JSON line and return the exit code."""
    event: Event | None = None
    async for event in events:
        if type_name := _TYPE_NAMES.get(type(event)):
            body: dict[str, Any] = asdict(event)
            if isinstance(event, TurnEnded):
                body["usage"] = _sum_usage(event.usage)
            _write_line({"type": type_name, **body})
    return exit_code(event)


def exit_code(last: Event | None) -> int:
    """Return 1 if the turn ended without an answer because its rounds were used up, else 0.

    A failed tool call is no failure of the turn: the model gets the error and answers.
    """
    return int(isinstance(last, TurnEnded) and last.reason == "steps")


def _sum_usage(usage: tuple[Usage, ...]) -> dict[str, Any]:
    """Return the usage of a turn: its sum and, under "model_calls", each model call. Times are seconds."""
    names = [entry.name for entry in fields(Usage) if entry.name != "hit_limit"]
    calls = [{name: round(getattr(model_call, name), 6) for name in names} for model_call in usage]
    return {**{name: round(sum(call[name] for call in calls), 6) for name in names}, "model_calls": calls}


def print_error(error: ChatError, output_format: str) -> int:
    """Print an error as text or JSON, according to the output format, and return its exit code."""
    if output_format == "text":
        print(f"rkllm-chat: {sanitize_for_terminal(str(error))}", file=sys.stderr)
    else:
        details = {**error.details, "hint": error.hint}
        _write_line({"ok": False, "error": {"type": error.type_name, "message": error.message, "details": details}})
    return error.exit_code


def _write_line(value: Any) -> None:
    """Write one JSON document as a line of UTF-8 to standard output.

    The locale is ignored; unencodable characters become "?".
    """
    line = sanitize_json(json.dumps(value, ensure_ascii=False, default=str))
    sys.stdout.buffer.write(line.encode("utf-8", errors="replace") + b"\n")
    sys.stdout.buffer.flush()
