"""Commands about the conversation: undo, retry, tool results, context and usage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from ...calls.tool_names import shown_names
from ...chat.app import App
from ...chat.compaction import compact, find_older_messages, restore_compacted, write_transcript
from ...chat.context import count_tokens, render_sent_prompt
from ...chat.event_stream import Emit, emit_all
from ...chat.instructions_budget import count_instructions, render_prompt_instructions
from ...chat.prefill import estimate_cost
from ...chat.tool_selection import count_signatures, count_text_in_prompt, select_catalogue
from ...chat.turn import Turn
from ...core.errors import UsageError
from ...core.events import Copied, Draft, Event, Notice, Page, Table, Usage
from ...core.i18n import Words
from ...core.messages import Attachment, Message, Tool, ToolResult
from ...core.sanitize import escape_visibly, shorten_line, summarize_arguments
from ...prompt.compose import compose_prompt, keep_visible_media
from ...prompt.tool_catalogue import Catalogue, make_catalogue
from ..markdown.blocks import find_code_blocks
from ..status_line import find_rate, format_cost, format_rate, format_seconds, format_tokens, progress_bar
from .registry import command, escape_message, suggest_words

_TEMPLATE_TOKENS, _MAX_TEMPLATE_FRACTION = 40, 1 / 4
_MAX_LINE_LENGTH = 60
_MAX_PROMPTS = 20
_NOT_BEGUN = ("declined", "not_run")


@command("/calls", usage="[NUMBER]", example="/calls 2")
async def show_calls(app: App, argument: str, emit: Emit) -> None:
    """List tool calls, or show one in full."""
    results = [message.result for message in app.chat.history if message.result]
    if not results:
        await emit(Notice(app.words("history.none")))
    elif argument:
        await emit(Page(_describe_result(results[_parse_call_number(argument, len(results)) - 1], app.words)))
    else:
        is_full = len(app.servers.connections) > 1
        rows = [_row_of(number, result, app.words, is_full) for number, result in enumerate(results, 1)]
        await emit(Table((), tuple(rows)))


def _row_of(number: int, result: ToolResult, words: Words, is_full: bool) -> tuple[str, ...]:
    """Return the table row of a tool result, with the full name of its tool if `is_full`."""
    arguments, status = summarize_arguments(result.arguments), words(f"export.{result.outcome}")
    text = shorten_line(result.text, _MAX_LINE_LENGTH)
    tool = Tool(result.tool, server=result.server).full_name if is_full else result.tool
    time = "-" if result.outcome in _NOT_BEGUN else format_seconds(result.seconds)
    return (str(number), tool, arguments, status, time, text)


def _parse_call_number(text: str, count: int) -> int:
    """Parse the number of one of `count` tool calls. Raises UsageError."""
    if not text.isdecimal() or not 1 <= int(text) <= count:
        raise UsageError(f'There is no tool call "{text}".', f"Write a number from 1 to {count}; /calls lists them.")
    return int(text)


def _describe_result(result: ToolResult, words: Words) -> str:
    """Return a tool call with its full result."""
    name = f"{result.server}__{result.tool}" if result.server else result.tool
    arguments = json.dumps(result.arguments, ensure_ascii=False, default=str) if result.arguments else ""
    status = words(f"export.{result.outcome}")
    texts = "\n".join(filter(None, (result.text, result.user_text)))
    time = "" if result.outcome in _NOT_BEGUN else format_seconds(result.seconds)
    head = " ".join(filter(None, (name, arguments, status, time)))
    return f"{head}\n{texts}"


@command("/undo", usage="[NUMBER]", example="/undo 2")
async def undo_turns(app: App, argument: str, emit: Emit) -> None:
    """Remove the last turn, or several.

    The prefix before them stays in the engine's cache. A summary of older turns counts as one turn: the messages that
    it replaced return.
    """
    turns = sum(message.role == "user" for message in app.chat.history)
    if argument and not (argument.isdecimal() and 1 <= int(argument) <= max(turns, 1)):
        raise UsageError(f'"{argument}" is not a number of turns.', f"Write a number from 1 to {max(turns, 1)}.")
    for _ in range(int(argument or 1)):
        if (messages := restore_compacted(app.chat)) is not None:
            await emit(Notice(app.words("compact.undone", messages=messages)))
        else:
            text = shorten_line(remove_last_turn(app).text, _MAX_LINE_LENGTH)
            await emit(Notice(app.words("history.undone", text=text)))


@command("/retry")
async def retry_turn(app: App, _argument: str, emit: Emit) -> None:
    """Send the last question again."""
    turn = Turn(app.chat)
    turn.check_length([app.chat.history[_find_last_turn(app)]])
    message = remove_last_turn(app)
    await emit_all(turn.run([Message("user", message.text, media=message.media)]), emit)


@command("/edit")
async def edit_turn(app: App, _argument: str, emit: Emit) -> None:
    """Put the last question back into the input line.

    The last turn is removed; its pictures are attached again.
    """
    message = remove_last_turn(app)
    app.attachments += [
        Attachment(medium.name, medium.media_type, medium.size_bytes, "", (medium,)) for medium in message.media
    ]
    await emit(Draft(escape_message(message.text)))


def remove_last_turn(app: App) -> Message:
    """Remove the last turn and return its user message. Raises UsageError if there is none."""
    last = _find_last_turn(app)
    message = app.chat.history[last]
    del app.chat.history[last:]
    if last <= app.chat.first_shown:  # dropped messages may fit again
        app.chat.first_shown = app.chat.retained_count = 0
    return message


def _find_last_turn(app: App) -> int:
    """Return the index of the last user message. Raises UsageError if no turn can be removed."""
    history = app.chat.history
    last = next((i for i in reversed(range(len(history))) if history[i].role == "user"), None)
    if last is None:
        raise UsageError("The conversation has no message yet.")
    if any(history[last] is compaction.summary for compaction in app.chat.compactions):
        raise UsageError("Only the summary of older turns is left.", "/undo restores the turns that it replaced.")
    return last


@command("/copy", usage="[code [NUMBER]]", example="/copy code", suggest=suggest_words("code"))
async def copy_answer(app: App, argument: str, emit: Emit) -> None:
    """Copy the last answer to the clipboard."""
    replies = (message for message in reversed(app.chat.history) if message.role == "assistant")
    answer = next((reply.text for reply in replies if reply.reply_kind != "discarded"), None)
    if answer is None:
        raise UsageError("The conversation has no answer yet.")
    text = _choose_code(answer, argument) if argument else answer
    await emit(Copied(text))
    await emit(Notice(app.words("history.copied", size=len(text))))


def _choose_code(answer: str, argument: str) -> str:
    """Return the code block that `code NUMBER` selects; without a number, the only one. Raises UsageError."""
    word, _, number = argument.partition(" ")
    if word != "code":
        raise UsageError(f'Unknown argument "{argument}".', "Write /copy, /copy code or /copy code NUMBER.")
    blocks = find_code_blocks(answer)
    if not blocks:
        raise UsageError("The last answer has no code block.", "/copy copies the answer.")
    if not number and len(blocks) == 1:
        return blocks[0]
    if not number.isdecimal() or not 1 <= int(number) <= len(blocks):
        what = f'There is no code block "{number}".' if number else f"The last answer has {len(blocks)} code blocks."
        raise UsageError(what, f"Write /copy code and a number from 1 to {len(blocks)}.")
    return blocks[int(number) - 1]


@command(
    "/context",
    usage="[cache | prompt [TEXT] | usage]",
    example="/context cache",
    suggest=suggest_words("cache", "prompt", "usage"),
)
async def show_context(app: App, argument: str, emit: Emit) -> None:
    """Show context usage, prompt-cache statistics or token usage."""
    word, _, text = argument.partition(" ")
    if word == "prompt":
        messages = [Message("user", text.strip())] if text.strip() else []
        await emit(Page(escape_visibly(render_sent_prompt(app.chat, messages))))
        return
    if argument == "usage":
        await emit(_describe_usage(app.chat.usages, app.words))
        return
    if argument == "cache":
        await emit(describe_cache(app.chat.usages, app.words))
        if prefilled := app.chat.prefilled_tokens:
            await emit(Notice(app.words("cache.ahead", tokens=format_tokens(prefilled))))
        return
    if argument:
        raise UsageError(f'Unknown argument "{argument}".', "Write /context, or add cache, prompt or usage.")
    capacity = app.backend.context_tokens
    used, parts = count_tokens(app.chat), _measure_parts(app)
    rows = [
        (name, format_tokens(tokens), progress_bar(tokens, capacity, 20), f"{100 * tokens / capacity:.0f}%")
        for name, tokens in [*parts, (app.words("context.all"), used)]
    ]
    await emit(Table((), tuple(rows), spare_column=2))
    added = sum(tokens for _, tokens in parts)
    if abs(added - used) > max(_TEMPLATE_TOKENS, used * _MAX_TEMPLATE_FRACTION):
        await emit(Notice(app.words("context.estimated", added=f"{added:,}")))
    dropped = app.chat.first_shown - app.chat.retained_count
    if dropped:
        await emit(Notice(app.words("context.left_out", messages=dropped)))
    for line in _describe_next(app):
        await emit(Notice(line))


def _describe_next(app: App) -> list[str]:
    """Return lines about the prefill cost of the next message and the learned speed."""
    words, speed = app.words, app.prefill_speed
    estimate = estimate_cost(app.chat, "", speed)
    lines = [f"{words('context.next')}: {format_cost(estimate, words)}"]
    if estimate.cached_tokens is not None and (tokens_per_s := speed.tokens_per_s(estimate.cached_tokens)):
        held, count = f"{estimate.cached_tokens:,}", speed.sample_count
        lines.append(words("context.speed", tokens=format_rate(tokens_per_s), held=held, count=count))
    return lines


def _measure_parts(app: App) -> list[tuple[str, int]]:
    """Return the tokens per part of the prompt.

    Parts are counted separately; their sum differs from the whole by a few template tokens.
    """
    words, chat = app.words, app.chat

    def count(messages: Sequence[Message]) -> int:
        return app.backend.count_tokens(messages) if messages else 0

    visible = keep_visible_media(chat.visible_messages, chat.backend.media_kinds)
    parts = _measure_beginning(app)
    if schemas := [line for message in visible for line in (*message.tool_lines, message.call_request) if line]:
        parts.append((words("context.forms"), count_text_in_prompt(chat, "\n".join(schemas))))
    parts.append((words("context.said"), count([message for message in visible if message.role != "tool"])))
    results = [replace(message, role="user") for message in visible if message.role == "tool"]
    parts.append((words("context.results"), count(results)))
    return parts


def _measure_beginning(app: App) -> list[tuple[str, int]]:
    """Return the tokens of the system text and of the tools.

    Tools are listed per server if they are described in full, else as one catalogue, by the measure of /tools list.
    What the prompt says around them is a part of its own.
    """
    words, chat, catalogue = app.words, app.chat, select_catalogue(app.chat)
    prompt_words, system, call_format = chat.prompt_words, chat.settings.system, chat.call_format

    def count(catalogue: Catalogue) -> int:
        return app.backend.count_tokens(compose_prompt([], (), prompt_words, system, call_format, catalogue))

    def list_all(tools: Sequence[Tool]) -> Catalogue:
        return make_catalogue(tools, prompt_words, chat.list_format, 0, lambda _text: 0)

    plain = count(Catalogue())
    parts = [(words("context.system"), plain)]
    if tokens := count_instructions(chat):
        parts.append((words("context.instructions"), tokens))
    if not catalogue.is_full:
        instructions = render_prompt_instructions(chat, chat.get_instructions())
        listed = replace(
            catalogue, sections=tuple(section for section in catalogue.sections if section not in instructions)
        )
        costs = {words("context.catalogue"): catalogue.tokens}
    else:
        tools, costs = app.toolbox.tools, dict[str, int]()
        listed, signatures = list_all(tools), count_signatures(chat, tools)
        for name, tool in shown_names(tools).items():
            part = words("context.tools", server=tool.server) if tool.server else words("context.own_tools")
            costs[part] = costs.get(part, 0) + signatures[name]
    around = count(listed) - plain - sum(costs.values())
    return [*parts, *costs.items(), *([(words("context.around"), around)] if around > 0 else [])]


def describe_cache(usages: Sequence[Usage], words: Words) -> Event:
    """Return a table of recent requests to the model: the tokens of their prompts that were reused and new."""
    if not usages:
        return Notice(words("cache.none"))
    head = tuple(words(f"cache.{key}") for key in ("reply", "prompt", "reused", "new", "time"))
    counts = [(usage.prompt_tokens, usage.reused_tokens, usage.prefilled_tokens) for usage in usages]
    times = [format_seconds(usage.prefill_s) for usage in usages]
    rows = [(str(number), *map(format_tokens, counts[number - 1]), time) for number, time in enumerate(times, 1)]
    return Table(head, tuple(rows[-_MAX_PROMPTS:]))


def _describe_usage(usages: Sequence[Usage], words: Words) -> Table:
    """Return a table of the tokens and the times of this session."""
    prompt, reused, prefilled, generated = (
        sum(getattr(usage, key) for usage in usages)
        for key in ("prompt_tokens", "reused_tokens", "prefilled_tokens", "generated_tokens")
    )
    prefill_s, generate_s = (sum(getattr(usage, key) for usage in usages) for key in ("prefill_s", "generate_s"))
    rows = [
        (words("usage.replies"), str(len(usages)), ""),
        (words("usage.reused"), format_tokens(reused), f"{100 * reused / max(1, prompt):.0f}%"),
        (words("usage.prefilled"), format_tokens(prefilled), _describe_speed(prefilled, prefill_s, words)),
        (words("usage.generated"), format_tokens(generated), _describe_speed(generated, generate_s, words)),
    ]
    return Table((), tuple(rows))


def _describe_speed(tokens: int, time_s: float, words: Words) -> str:
    """Return a time and the speed in tokens per second, if the time is long enough; "" if it is 0."""
    rate = find_rate(tokens, time_s)
    speed = [words("status.speed", tokens=format_rate(rate))] if rate else []
    return ", ".join([format_seconds(time_s), *speed]) if time_s else ""


@command("/compact", usage="[preview]", example="/compact preview", suggest=suggest_words("preview"))
async def compact_history(app: App, argument: str, emit: Emit) -> None:
    """Summarize older turns to free context.

    The history is unchanged if that fails.
    """
    if argument not in ("", "preview"):
        raise UsageError(f'Unknown argument "{argument}".', "Write /compact or /compact preview.")
    older = find_older_messages(app.chat)
    if not older:
        await emit(Notice(app.words("compact.nothing")))
    elif argument == "preview":
        tokens = app.backend.count_tokens(keep_visible_media(older, app.backend.media_kinds))
        await emit(Notice(app.words("compact.preview", messages=len(older), tokens=tokens)))
        await emit(Page(write_transcript(app.chat, older)))
    else:
        await compact(app.chat, len(older), emit)
