"""Commands about the tools that the model may call: which there are, what they cost, and calling one by hand."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from ..arguments import check
from ..clean import clean_line
from ..desk import Desk
from ..errors import UsageError
from ..events import Notice, Page, Table, ToolStarted
from ..formats import FORMATS
from ..messages import Message, Tool, ToolCall
from ..names import find_tools, nearest_names, shown_names
from ..prompt import first_line, list_tool
from ..rounds import Run, run_side_by_side
from . import Stream, command


async def suggest_tools(desk: Desk, _typed: str) -> Sequence[str]:
    connections = desk.servers.connections if desk.servers else ()
    return ["on", "off", "all", "none", *connections, *shown_names(desk.toolbox.box.tools)]


@command("/tools", usage="[[on|off] all|none|1,3,5-8|SERVER|TOOL ...]", suggest=suggest_tools)
async def show_tools(desk: Desk, argument: str) -> Stream:
    """Without words the list; with words only those tools are on, or some are switched on or off."""
    tools = shown_names(desk.toolbox.box.tools)
    if not tools:
        yield Notice(desk.words("commands.no_tools"))
        return
    if argument:
        choose_tools(desk, tools, argument.replace(",", " ").split())
    prices = {name: price(desk, name, tool) for name, tool in tools.items()}
    rows = [
        (
            str(number),
            " " if tool.full_name in desk.toolbox.off else "x",
            tool.server,
            name,
            str(prices[name]),
            first_line(tool.description),
        )
        for number, (name, tool) in enumerate(tools.items(), 1)
    ]
    head = tuple(desk.words(f"tools.{key}") for key in ("number", "on", "server", "name", "tokens", "about"))
    yield Table(head, tuple(rows))
    on = [name for name, tool in tools.items() if tool.full_name not in desk.toolbox.off]
    tokens = sum(prices[name] for name in on)
    yield Notice(desk.words("tools.sum", on=len(on), all=len(tools), tokens=tokens))


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


def price(desk: Desk, name: str, tool: Tool) -> int:
    """How many tokens a tool costs in the prompt."""
    line = list_tool(name, tool, FORMATS[desk.settings.tool_format])
    return desk.backend.count_tokens([Message("user", line)]) - desk.backend.count_tokens([Message("user", "")])


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
    call = ToolCall(tool.full_name, check(read_arguments(rest.strip()), tool.schema))
    remarks = [Message("tool", "")]
    yield ToolStarted(tool.server, tool.name, call)
    async with aclosing(run_side_by_side([Run(0, tool, call)], desk.toolbox, remarks)) as happened:
        async for event in happened:
            yield event
    if remarks[0].text:
        yield Page(remarks[0].text)


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
