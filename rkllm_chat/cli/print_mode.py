"""Run one turn without a terminal (`-p`): print text, one JSON document, or a stream of JSON lines.

The user cannot be asked for approval here, so a call that the policy does not decide is declined.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from ..chat.answer import Answer
from ..chat.app import App, open_app
from ..chat.attachments import (
    choose_media,
    compose_message,
    list_mentions,
    read_attachment,
    read_picture,
    save_results,
    send_attached,
    unescape_mentions,
)
from ..chat.context import render_sent_prompt
from ..chat.event_stream import Emit, stream_events
from ..chat.json_answer import correct_answer, request_json
from ..chat.server_approval import list_config_notices
from ..config.policy import exact_pattern, find_ambiguous, find_deny_rules, find_rules_of_own
from ..config.project_trust import needs_acceptance
from ..config.settings import Settings
from ..core.errors import AuthError, ChatError, InterruptedByUserError, TimeLimitError
from ..core.events import (
    CallDescribed,
    CallFound,
    CallsDetected,
    CallUnreadable,
    Event,
    Notice,
    ReplyDiscarded,
    Text,
    TextWasThought,
    Thought,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    Usage,
)
from ..core.messages import Attachment, Tool, ToolResult, to_table
from ..core.redact import Redactor
from ..core.sanitize import sanitize_for_terminal
from ..core.standard_streams import write_error_text
from ..tui.event_lines import EventPrinter
from .output import write_error, write_json, write_result
from .prompt_input import FIRST_BYTE_S, Prompt

_TYPE_NAMES: dict[type, str] = {
    Text: "text",
    Thought: "thought",
    TextWasThought: "text_was_thought",
    CallFound: "call_found",
    CallUnreadable: "call_garbled",
    CallDescribed: "call_described",
    ReplyDiscarded: "reply_discarded",
    ToolStarted: "tool_started",
    ToolProgress: "tool_progress",
    ToolFinished: "tool_finished",
    Notice: "notice",
    TurnEnded: "turn_ended",
}


@dataclass(frozen=True)
class Output:
    """How the turn is printed.

    Attributes:
        format: "text", "json" or "stream-json".
        is_quiet: Whether the text format prints the answer alone, without the lines about tools and notices.
        schema: JSON Schema that the answer must match; None for any text.
        folder: Where pictures, sounds and other binary data of tools are saved; "" for nowhere.
        is_prompt: The prompt is printed instead, as it would be sent, and nothing is sent.
    """

    format: str = "text"
    is_quiet: bool = False
    schema: Mapping[str, Any] | None = None
    folder: str = ""
    is_prompt: bool = False


async def run_prompt(
    settings: Settings,
    prompt: Prompt,
    output: Output,
    state: Path,
    secrets: Redactor | None = None,
    exposed: Iterable[tuple[str, str]] = (),
    timeout_s: float | None = None,
) -> int:
    """Run one turn and print its events.

    Args:
        settings: The settings of the conversation.
        prompt: The prompt.
        output: How to print.
        state: Folder of the program's state (sessions, trust decisions).
        secrets: Hides secrets in what is printed.
        exposed: `(path, key)` of secrets in configuration files that other users can read.
        timeout_s: Time from the start of the command to the end of the turn; None for no limit.

    Returns:
        The exit code.
    """
    answer, redactor = Answer(), secrets or Redactor()
    show = {"text": _show_text, "json": _show_json, "stream-json": _show_stream}[output.format]

    async def run() -> int:
        async with (
            open_app(settings, state, secrets=secrets) as app,
            aclosing(stream_events(partial(_run_turn, app, prompt, output, answer))) as events,
        ):
            if output.is_prompt:
                return await _print_prompt(app, prompt, output)
            app.notices += [app.words("repl.exposed", path=path, entry=key) for path, key in exposed]
            for failure in app.failures.values():
                if isinstance(failure, AuthError):  # only a user can complete a login
                    raise failure
            return await show(app, events, answer, output)

    try:
        return await asyncio.wait_for(run(), timeout_s)
    except asyncio.TimeoutError:
        text = f"The turn was not finished within {timeout_s:g} s."
        error: ChatError = TimeLimitError(text, "Raise --timeout.", phase="turn", **_describe(answer, settings))
    except ChatError as failure:
        error = failure
    except asyncio.CancelledError:
        if output.format != "text":
            write_error(InterruptedByUserError("Interrupted."))
        raise
    return print_error(redactor.redact_error(error), output.format)


def _clean(event: Event, folder: str, secrets: Redactor) -> Event:
    """Redact a result as those of `call-tool`: what is secret by its name, and in a failed one all secrets.

    Media that are not saved in a folder have no path, as they are removed soon.
    """
    if isinstance(event, Text) and event.is_report:
        return replace(event, text=secrets.redact_all(event.text))
    if not isinstance(event, ToolFinished):
        return event
    result = event.result
    redact = secrets.redact_named if result.status == "completed" else secrets.redact_all
    texts = {key: redact(getattr(result, key)) for key in ("text", "user_text", "structured")}
    media = result.media if folder else tuple(replace(medium, path="") for medium in result.media)
    return replace(event, result=replace(result, media=media, **texts))


async def _run_turn(app: App, prompt: Prompt, output: Output, answer: Answer, emit: Emit) -> None:
    """Emit the notices about the startup, then the events of the turn and the notices of its session.

    Raises:
        ChatError: An attachment cannot be read, or the turn failed.
    """

    async def show(event: Event) -> None:
        event = _clean(event, output.folder, app.secrets)
        answer.add(event)
        await emit(event)

    async def take(event: Event) -> None:
        while app.notices:
            await show(Notice(app.notices.pop(0)))
        await show(event)
        if isinstance(event, ToolFinished) and (explanation := _explain_decline(app, event.result)):
            await show(Notice(explanation))

    for notice in _list_notices(app, prompt):
        await show(Notice(notice))
    text, attached = await _read_message(app, prompt)
    take_saved = save_results(take, output.folder, app.words)
    if output.schema is None:
        await send_attached(app, text, attached, take_saved)
    else:
        turn = partial(send_attached, app, request_json(app.chat, text, output.schema), attached)
        await correct_answer(app.chat, turn, output.schema, take_saved)


def _explain_decline(app: App, result: ToolResult) -> str:
    """Return what permits a call that was declined; "" if nothing does."""
    words, policy = app.words, app.chat.effective_policy
    tool = Tool(result.tool, server=result.server, of_folder=_is_of_folder(app.settings, result.server))
    match result.decline_reason:
        case "withheld":
            return words("ask.held", tool=tool.full_name, server=tool.server)
        case "missing":
            return words("ask.missing", tool=tool.full_name)
        case "limit":
            return words("ask.spent", tool=tool.full_name, calls=policy.max_calls)
        case "user" | "rule" | "permission":
            if rules := find_deny_rules(tool, policy):
                return words("ask.denied", tool=tool.full_name, rule=rules[0])
            pattern = quote(exact_pattern(tool))
            if tool.of_folder and (rules := find_rules_of_own(tool, policy.allow)):
                return words("ask.of_folder", tool=tool.full_name, rule=rules[0], server=tool.server, pattern=pattern)
            return words("ask.declined", pattern=pattern)
    return ""


def _is_of_folder(settings: Settings, name: str) -> bool:
    return any(server.name == name and needs_acceptance(server) for server in settings.servers)


def _list_notices(app: App, prompt: Prompt) -> Iterator[str]:
    """Yield the notices about the startup and the prompt."""
    yield from list_config_notices(app.settings, app.words)
    for server in app.servers.withholding_servers:
        yield app.words("servers.held", server=server)
    if prompt.is_replaced:
        yield app.words("ask.mended")
    if prompt.is_pipe_silent:
        yield app.words("ask.silent", seconds=f"{FIRST_BYTE_S:g}")
    for server, error in app.failures.items():
        yield app.words("repl.failed", server=server, error=error)
    for pattern, names in find_ambiguous(app.chat.effective_policy.allow, app.chat.toolbox.tools).items():
        yield app.words("ask.ambiguous", pattern=pattern, names=", ".join(names))


async def _print_prompt(app: App, prompt: Prompt, output: Output) -> int:
    """Print the prompt of the first request and return the exit code. Raises ChatError."""
    text, attached = await _read_message(app, prompt)
    text = text if output.schema is None else request_json(app.chat, text, output.schema)
    message, _ = compose_message(app, text, attached)
    sent = render_sent_prompt(app.chat, [message])
    if output.format == "text":
        print(sanitize_for_terminal(sent) if sys.stdout.isatty() else sent)
    else:
        write_result({"prompt": sent})
    return 0


async def _read_message(app: App, prompt: Prompt) -> tuple[str, list[Attachment]]:
    """Return the text of the message and its attachments. Raises ChatError."""
    attached = await choose_media(app, await _read_attachments(app, prompt)) or []
    parts = (unescape_mentions(part.text) if part.is_typed else part.text for part in prompt.parts)
    return "\n\n".join(parts), attached


async def _read_attachments(app: App, prompt: Prompt) -> list[Attachment]:
    """Read what the command line names and mentions after @, and add the text of the pipe. Raises ChatError."""
    names = [name for part in prompt.parts if part.is_typed for name in list_mentions(app, part.text)]
    attached = [await asyncio.to_thread(read_picture, app.media, path) for path in dict.fromkeys(prompt.images)]
    attached += [await read_attachment(app, name) for name in dict.fromkeys(names)]
    if prompt.attached:
        attached.append(Attachment("standard input", "text/plain", len(prompt.attached.encode()), prompt.attached))
    return attached


async def _show_text(app: App, events: AsyncIterator[Event], _answer: Answer, output: Output) -> int:
    """Print the events as text and return the exit code.

    A terminal shows a reply as it is written. What reads a pipe cannot take back one that is discarded: it gets each
    once it stands.
    """
    errors = io.StringIO() if output.is_quiet else sys.stderr
    connections = app.servers.connections
    terminal = EventPrinter(
        sys.stdout, errors, app.words, color=False, mark="", names_servers=lambda: len(connections) > 1
    )
    last: Event | None = None
    written: list[Event] = []

    def show_written() -> None:
        for event in written:
            terminal.show(event)
        written.clear()

    try:
        async for last in events:
            if isinstance(last, Text | Thought) and not sys.stdout.isatty():
                written.append(last)
                continue
            if isinstance(last, ReplyDiscarded | TextWasThought | CallsDetected):  # before a call is no answer
                written.clear()
            elif isinstance(last, ToolStarted | ToolFinished | TurnEnded):
                show_written()
            terminal.show(last)
    finally:
        show_written()
        terminal.end_line()  # an error that ends the turn stands on a line of its own
    return exit_code(last)


async def _show_json(app: App, events: AsyncIterator[Event], answer: Answer, output: Output) -> int:
    """Print one JSON document at the end and return the exit code."""
    async for _ in events:
        pass
    end = answer.end
    result = {
        **_describe(answer, app.settings),
        "reason": end.reason,
        "usage": _sum_usage(end.usage),
        "notices": answer.notices,
    }
    if output.schema is not None and not exit_code(end):
        result["value"] = json.loads(result["text"])
    write_result(result)
    return exit_code(end)


def _describe(answer: Answer, settings: Settings) -> dict[str, Any]:
    """Return the text, who wrote it, and the calls as JSON."""
    return {
        "text": answer.text,
        "answered_by": answer.end.answered_by,
        "calls": [_describe_call(result) for result in answer.results],
        "suggested_calls": [*_list_suggested(answer, settings)],
    }


def _list_suggested(answer: Answer, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the calls that the answer describes, and those that lack a permission, with what allows them."""
    for call in answer.suggested:
        yield {"tool": call.name, "arguments": call.arguments}
    for result in answer.results:
        if result.decline_reason == "permission":
            tool = Tool(result.tool, server=result.server, of_folder=_is_of_folder(settings, result.server))
            yield {"tool": tool.full_name, "arguments": result.arguments, "allow": exact_pattern(tool)}


def _describe_call(result: ToolResult) -> dict[str, Any]:
    """Return a result as JSON; the pages of the program's own tools have no structured content."""
    table = to_table(result)
    if result.media:
        table["media"] = [{**to_table(media), **({"path": media.path} if media.path else {})} for media in result.media]
    return {**table, "structured": result.structured if result.server else None}


async def _show_stream(_app: App, events: AsyncIterator[Event], _answer: Answer, _output: Output) -> int:
    """Print each event as a JSON line and return the exit code."""
    event: Event | None = None
    async for event in events:
        if type_name := _TYPE_NAMES.get(type(event)):
            body: dict[str, Any] = to_table(event)
            if isinstance(event, ToolFinished) and event.result.media:
                body["result"]["media"] = _describe_call(event.result)["media"]
            if isinstance(event, TurnEnded):
                body["usage"] = _sum_usage(event.usage)
            write_json({"type": type_name, **body})
    return exit_code(event)


def exit_code(last: Event | None) -> int:
    """Return 1 if the turn ended without an answer because its rounds were used up, else 0.

    A failed tool call is no failure of the turn: the model gets the error and answers.
    """
    return int(isinstance(last, TurnEnded) and last.reason == "steps")


def _sum_usage(usage: tuple[Usage, ...]) -> dict[str, Any]:
    """Return the usage of a turn: its sum and, under "model_calls", each model call. Times are seconds."""
    names = [entry.name for entry in fields(Usage) if entry.name not in ("hit_limit", "was_repeating")]
    calls = [{name: round(getattr(model_call, name), 6) for name in names} for model_call in usage]
    return {**{name: round(sum(call[name] for call in calls), 6) for name in names}, "model_calls": calls}


def print_error(error: ChatError, output_format: str) -> int:
    """Print an error as text or JSON, according to the output format, and return its exit code."""
    if output_format == "text":
        write_error_text(f"rkllm-chat: {sanitize_for_terminal(str(error))}")
    else:
        write_error(error)
    return error.exit_code
