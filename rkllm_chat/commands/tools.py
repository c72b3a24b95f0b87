"""Commands about the tools that the model may call: which there are, what they cost, and calling one by hand."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from ..arguments import check
from ..catalogue import line_about
from ..choosing import catalogue_of, measure
from ..clean import clean_line
from ..desk import Desk
from ..errors import ConfigError, UsageError
from ..events import Notice, Page, Table, ToolStarted
from ..formats import FORMATS
from ..gauge import seconds
from ..messages import Tool, ToolCall
from ..names import find_tools, nearest_names, shown_names
from ..private import explain
from ..rounds import Run, Runs
from ..sketch import first_line, list_tool
from ..speed import Speed
from . import Stream, command


async def suggest_tools(desk: Desk, _typed: str) -> Sequence[str]:
    connections = desk.servers.connections if desk.servers else ()
    return ["on", "off", "all", "none", "forget", *connections, *shown_names(desk.toolbox.box.tools)]


@command("/tools", usage="[[on|off] all|none|1,3,5-8|SERVER|TOOL ... | forget]", suggest=suggest_tools)
async def show_tools(desk: Desk, argument: str) -> Stream:
    """Without words the list; with words only those tools are on, or some are switched on or off."""
    if argument == "forget":
        yield Notice(forget_served(desk))
        return
    tools = shown_names(desk.toolbox.box.tools)
    if not tools:
        yield Notice(desk.words("commands.no_tools"))
        return
    if argument:
        choose_tools(desk, tools, argument.replace(",", " ").split())
    forms = {name: measure(desk.chat, list_tool(name, tool, FORMATS[desk.chat.form])) for name, tool in tools.items()}
    speed = desk.speed
    prices = {name: price_of(desk, name, tool, forms[name], speed) for name, tool in tools.items()}
    rows = [
        (
            str(number),
            " " if tool.full_name in desk.toolbox.off else "x",
            tool.server,
            name,
            *prices[name].values(),
            first_line(tool.description),
        )
        for number, (name, tool) in enumerate(tools.items(), 1)
    ]
    price = next(iter(prices.values()))
    head = tuple(desk.words(f"tools.{key}") for key in ("number", "on", "server", "name", *price, "about"))
    yield Table(head, tuple(rows))
    on = [name for name, tool in tools.items() if tool.full_name not in desk.toolbox.off]
    yield Notice(sum_up(desk, len(on), len(tools), sum(forms[name] for name in on), speed))


def price_of(desk: Desk, name: str, tool: Tool, form_tokens: int, speed: Speed) -> dict[str, str]:
    """What a tool costs in full, in tokens and, where the engine's speed is known, in seconds; and what in short, where
    it is only listed at the beginning."""
    time_s = speed.expect(form_tokens)
    listed = price_listed(desk, name, tool)
    return {
        "tokens": str(form_tokens),
        **({"time": seconds(time_s)} if time_s else {}),
        **({} if listed is None else {"listed": str(listed)}),
    }


def price_listed(desk: Desk, name: str, tool: Tool) -> int | None:
    """How many tokens of the catalogue are a tool's own; None where it is told in full."""
    match catalogue_of(desk.chat).level:
        case "full":
            return None
        case "about":
            return measure(desk.chat, line_about(name, tool))
        case "names":
            return measure(desk.chat, f"{name}, ")
        case "servers":
            return 0


def sum_up(desk: Desk, on: int, every: int, form_tokens: int, speed: Speed) -> str:
    """Which of the two prices is paid by every prompt, and which only by what a question needs."""
    words, catalogue = desk.words, catalogue_of(desk.chat)
    tokens = form_tokens if catalogue.is_full else catalogue.tokens
    time_s = speed.expect(tokens)
    time = words("tools.paid", time=seconds(time_s)) if time_s else ""
    if catalogue.is_full:
        return words("tools.sum", on=on, all=every, tokens=tokens, time=time)
    level = words(f"tools.levels_{catalogue.level}")
    return words("tools.short", on=on, all=every, full=form_tokens, level=level, tokens=tokens, time=time)


def forget_served(desk: Desk) -> str:
    """Forgets how often the tools have served. Raises ConfigError where that stays on the disk."""
    try:
        return desk.words("tools.forgotten", count=desk.chat.served.forget())
    except OSError as error:
        raise ConfigError(f"What was counted of the tools cannot be taken away: {explain(error)}.") from None


def choose_tools(desk: Desk, tools: Mapping[str, Tool], words: list[str]) -> None:
    """Switches tools on and off. Raises UsageError for a word that names none."""
    everything = {tool.full_name for tool in tools.values()}
    mode = words.pop(0) if words[0] in ("on", "off") else ""
    named = {tool.full_name for word in words for tool in select(tools, word)}
    off = desk.toolbox.off & everything
    desk.toolbox.off = {"on": off - named, "off": off | named}.get(mode, everything - named)


def select(tools: Mapping[str, Tool], word: str) -> list[Tool]:
    """The tools that a word means: `all`, `none`, a number, a range, a server, or a tool. Raises UsageError."""
    listed = list(tools.values())
    if word in ("all", "none"):
        return listed if word == "all" else []
    first, dash, last = word.partition("-")
    if first.isdecimal() and (last.isdecimal() or not dash):
        begin, end = int(first), int(last or first)
        if 1 <= begin <= end <= len(listed):
            return listed[begin - 1 : end]
        raise UsageError(f"There are tools 1 to {len(listed)}; {word} is none of them.")
    found = [tool for tool in listed if tool.server == word] or find_tools(word, listed)
    if not found:
        near = ", ".join(nearest_names(word, listed))
        raise UsageError(f'There is no tool or server "{word}".', f"Did you mean {near}?" if near else "")
    return found


async def suggest_call(desk: Desk, typed: str) -> Sequence[str]:
    name, blank, _ = typed.partition(" ")
    tools = find_tools(name, desk.toolbox.box.tools)
    if not blank or len(tools) != 1:
        return list(shown_names(desk.toolbox.box.tools))
    return [f"{key}=" for key in tools[0].schema.get("properties", {})]


@command("/call", usage="TOOL [JSON | name=value ...]", suggest=suggest_call)
async def call_tool(desk: Desk, argument: str) -> Stream:
    """Runs a tool for the user, who asked for it himself; the model is not told."""
    name, _, rest = argument.partition(" ")
    listed = desk.toolbox.box.tools
    tools = find_tools(name, listed)
    if len(tools) != 1:
        near = ", ".join(tool.full_name for tool in tools) or ", ".join(nearest_names(name, listed))
        raise UsageError(f'There is no tool "{name}".', f"Did you mean {near}?" if near else "/tools lists them.")
    tool = tools[0]
    call = ToolCall(tool.full_name, check(read_arguments(rest.strip()), tool.schema).arguments)
    yield ToolStarted(tool.server, tool.name, call)
    async with aclosing(Runs()) as runs:
        runs.start(Run(0, tool, call), desk.toolbox)
        async with aclosing(runs.watch()) as happened:
            async for event in happened:
                yield event
    if runs.done[0].text:
        yield Page(runs.done[0].text)


def read_arguments(text: str) -> dict[str, Any]:
    """Arguments as a JSON object, or as name=value words. Raises UsageError."""
    if not text.startswith("{"):
        try:
            words = [word.partition("=") for word in shlex.split(text)]
        except ValueError as error:
            raise UsageError(f"The arguments cannot be read: {error}.") from None
        if bad := [name for name, equals, _ in words if not equals]:
            hint = 'Write name=value, or one JSON object {"name": ...}.'
            raise UsageError(f'"{clean_line(bad[0])}" is no argument.', hint)
        names = [name for name, _, _ in words]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise UsageError(f"{clean_line(twice)} is given twice.", "Write it once.")
        return {name: value for name, _, value in words}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The arguments are not JSON: {error}.") from None
    assert isinstance(value, dict)
    return value
