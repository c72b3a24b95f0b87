"""Commands about what was said: taking back, saying it again, what was called, what fills the context."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from ..catalogue import Catalogue
from ..choosing import catalogue_of, measure
from ..clean import clean_line
from ..compact import compact, older_messages, read_transcript
from ..desk import Desk
from ..errors import UsageError
from ..events import Copied, Draft, Event, Notice, Page, Table
from ..forecast import survey
from ..gauge import bar, price_forms, rate, seconds, thousands
from ..language import Words
from ..messages import Message, Tool, ToolResult
from ..prefix import Read, find_loss
from ..prompt import compose
from ..terminal import sketch_arguments
from . import Stream, command

LONGEST_LINE = 60
MOST_READS = 20


@command("/history", usage="[NUMBER]")
async def show_calls(desk: Desk, argument: str) -> Stream:
    """The calls of this talk with their times; with a number, one call whole."""
    results = [message.result for message in desk.chat.history if message.result]
    if not results:
        yield Notice(desk.words("history.none"))
    elif argument:
        yield Page(describe_result(results[read_number(argument, len(results)) - 1], desk.words))
    else:
        yield Table((), tuple(row_of(number, result, desk.words) for number, result in enumerate(results, 1)))


def row_of(number: int, result: ToolResult, words: Words) -> tuple[str, ...]:
    arguments, status, time_s = (
        sketch_arguments(result.arguments),
        words(f"export.{result.status}"),
        seconds(result.seconds),
    )
    return (str(number), result.tool, arguments, status, time_s, shorten(result.text))


def read_number(text: str, most: int) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise UsageError(f'"{text}" is none of 1 to {most}.')
    return int(text)


def describe_result(result: ToolResult, words: Words) -> str:
    name = f"{result.server}__{result.tool}" if result.server else result.tool
    arguments, status = sketch_arguments(result.arguments), words(f"export.{result.status}")
    return f"{name} {arguments} {status} {seconds(result.seconds)}\n{result.text}"


def shorten(text: str) -> str:
    line = clean_line(text[: 4 * LONGEST_LINE])
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + "…"


@command("/undo")
async def undo(desk: Desk, _argument: str) -> Stream:
    """Takes the last turn back; what stays is still in the engine's cache."""
    yield Notice(desk.words("history.undone", text=shorten(take_back(desk))))


@command("/retry")
async def retry(desk: Desk, _argument: str) -> Stream:
    async with aclosing(desk.chat.send(take_back(desk))) as turn:
        async for event in turn:
            yield event


@command("/edit")
async def edit(desk: Desk, _argument: str) -> Stream:
    """Takes the last turn back and opens what was asked in the editor, to be sent again."""
    yield Draft(take_back(desk), in_editor=True)


def take_back(desk: Desk) -> str:
    """What the user said last; it and all that came of it leave the history. Raises UsageError."""
    history = desk.chat.history
    last = next((i for i in reversed(range(len(history))) if history[i].role == "user"), None)
    if last is None:
        raise UsageError("Nothing has been said yet.")
    text = history[last].text
    del history[last:]
    if last <= desk.chat.first_shown:  # what was left out may fit again
        desk.chat.first_shown = desk.chat.kept = 0
    return text


@command("/copy")
async def copy(desk: Desk, _argument: str) -> Stream:
    """The last answer into the clipboard of the terminal."""
    answer = next((one.text for one in reversed(desk.chat.history) if one.role == "assistant"), None)
    if answer is None:
        raise UsageError("Nothing has been answered yet.")
    yield Copied(answer)
    yield Notice(desk.words("history.copied", size=len(answer)))


async def suggest_context(_desk: Desk, _typed: str) -> Sequence[str]:
    return ["cache"]


@command("/context", usage="[cache]", suggest=suggest_context)
async def show_context(desk: Desk, argument: str) -> Stream:
    """What fills the window: system text, the tools of each server, what was said, results; or what was read anew."""
    if argument == "cache":
        yield describe_cache(desk.chat.prefix.reads, desk.words)
        if ahead := desk.chat.prefix.ahead:
            yield Notice(desk.words("cache.ahead", tokens=thousands(ahead)))
        return
    if argument:
        raise UsageError(f'"{argument}" is not cache.', "/context shows what fills the context.")
    whole = desk.backend.context_tokens
    used = desk.chat.count_tokens()
    rows = [
        (name, thousands(tokens), bar(tokens, whole, 20), f"{100 * tokens / whole:.0f}%")
        for name, tokens in [*measure_parts(desk), (desk.words("context.all"), used)]
    ]
    yield Table((), tuple(rows))
    left_out = desk.chat.first_shown - desk.chat.kept
    if left_out:
        yield Notice(desk.words("context.left_out", messages=left_out))
    for line in describe_next(desk):
        yield Notice(line)


def describe_next(desk: Desk) -> list[str]:
    """What the next message costs beside its own text, and how fast this machine reads there."""
    words, speed, ground = desk.words, desk.speed, survey(desk.chat)
    forecast = ground.foresee(ground.frame, speed)
    lines = [f"{words('context.next')}: {price_forms(forecast, words)[0]}"]
    if forecast.cached is not None and (tokens_per_s := speed.tokens_per_s(forecast.cached)):
        values = {"tokens": rate(tokens_per_s), "held": f"{forecast.cached:,}", "count": len(speed.samples)}
        lines.append(words("context.speed", **values))
    return lines


def measure_parts(desk: Desk) -> list[tuple[str, int]]:
    """Name -> tokens. Parts are measured by themselves, so their sum is the whole but for a few tokens of template."""
    words, chat = desk.words, desk.chat

    def count(messages: Sequence[Message]) -> int:
        return desk.backend.count_tokens(messages) if messages else 0

    shown = chat.shown
    parts = measure_beginning(desk)
    if told := [line for one in shown for line in one.tools]:
        parts.append((words("context.forms"), measure(chat, "\n".join(told))))
    parts.append((words("context.said"), count([one for one in shown if one.role != "tool"])))
    results = [Message("user", one.text) for one in shown if one.role == "tool"]
    parts.append((words("context.results"), count(results)))
    return parts


def measure_beginning(desk: Desk) -> list[tuple[str, int]]:
    """The system text and what it says of tools: of each server's where they are told in full, else of all."""
    words, chat, catalogue = desk.words, desk.chat, catalogue_of(desk.chat)
    asked, system, form = chat.prompt_words, chat.settings.system, chat.form

    def count(catalogue: Catalogue | None, tools: Sequence[Tool] = ()) -> int:
        return desk.backend.count_tokens(compose([], tools, asked, system, form, catalogue))

    plain = count(Catalogue())
    parts = [(words("context.system"), plain)]
    if not catalogue.is_full:
        return [*parts, (words("context.catalogue"), count(catalogue) - plain)]
    tools = desk.toolbox.tools
    for server in dict.fromkeys(tool.server for tool in tools):
        own = [tool for tool in tools if tool.server == server]
        parts.append((words("context.tools", server=server or "-"), count(None, own) - plain))
    return parts


def describe_cache(reads: Sequence[Read], words: Words) -> Event:
    """Of the newest prompts how much the engine had still read, and what kept it from more."""
    if not reads:
        return Notice(words("cache.none"))
    rows = [cache_row(reads, index, words) for index in range(max(0, len(reads) - MOST_READS), len(reads))]
    return Table(
        tuple(words(f"cache.{key}") for key in ("reply", "prompt", "reused", "new", "time", "why")), tuple(rows)
    )


def cache_row(reads: Sequence[Read], index: int, words: Words) -> tuple[str, ...]:
    usage, parting = reads[index].usage, reads[index].parting
    numbers = (usage.prompt_tokens, usage.reused_tokens, usage.prefilled_tokens)
    cells = (*map(thousands, numbers), seconds(usage.prefill_s)) if usage.prompt_tokens else ("-",) * 4
    why = ", ".join(words(f"cache.{cause}") for cause in find_loss(reads, index))
    if parting.was or parting.now:
        why += words("cache.place", was=shorten(parting.was), now=shorten(parting.now))
    return (str(index + 1), *cells, why)


@command("/usage")
async def show_usage(desk: Desk, _argument: str) -> Stream:
    """What this sitting has cost so far."""
    spent = desk.chat.spent
    prompt, reused, prefilled, generated = (
        sum(getattr(one, key) for one in spent)
        for key in ("prompt_tokens", "reused_tokens", "prefilled_tokens", "generated_tokens")
    )
    prefill_s, generate_s = (sum(getattr(one, key) for one in spent) for key in ("prefill_s", "generate_s"))
    rows = [
        (desk.words("usage.replies"), str(len(spent)), ""),
        (desk.words("usage.reused"), thousands(reused), f"{100 * reused / max(1, prompt):.0f}%"),
        (desk.words("usage.prefilled"), thousands(prefilled), describe_speed(prefilled, prefill_s, desk.words)),
        (desk.words("usage.generated"), thousands(generated), describe_speed(generated, generate_s, desk.words)),
    ]
    yield Table((), tuple(rows))


def describe_speed(tokens: int, time_s: float, words: Words) -> str:
    return f"{seconds(time_s)}, {words('status.speed', tokens=rate(tokens / time_s))}" if time_s else ""


async def suggest_compact(_desk: Desk, _typed: str) -> Sequence[str]:
    return ["preview"]


@command("/compact", usage="[preview]", suggest=suggest_compact)
async def make_compact(desk: Desk, argument: str) -> Stream:
    """Has the model summarise the older part; the history stays as it is when that fails."""
    older = older_messages(desk.chat)
    if not older:
        yield Notice(desk.words("compact.nothing"))
    elif argument == "preview":
        yield Notice(desk.words("compact.preview", messages=len(older), tokens=desk.backend.count_tokens(older)))
        yield Page(read_transcript(desk.chat, older))
    else:
        async with aclosing(compact(desk.chat, len(older))) as summing:
            async for event in summing:
                yield event
