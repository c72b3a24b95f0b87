"""Commands about tools: list, enable, cost, and manual calls."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence, Set
from contextlib import aclosing
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from ...calls.arguments import validate_arguments
from ...calls.tool_names import find_tools, shown_names, similar_names
from ...chat.app import App
from ...chat.event_stream import Emit
from ...chat.running_calls import PreparedCall, RunningCalls
from ...chat.tool_selection import compute_tool_budget, count_signatures, count_text_in_prompt, select_catalogue
from ...config.policy import find_deny_rules
from ...core.errors import ConfigError, UsageError
from ...core.events import Notice, Table, ToolFinished, ToolStarted
from ...core.messages import Tool, ToolCall
from ...core.private_files import explain_open_error
from ...prompt.tool_catalogue import render_summary
from ...prompt.tool_listing import first_line
from ..picker import MARKS, Choice, Picker, SwitchFrontend
from ..status_line import format_seconds
from .registry import command, parse_words

_MODES = ("on", "off", "only")


async def _suggest_tools(app: App, _typed: str) -> Sequence[str]:
    """Return completions for /tools."""
    return ["list", *_MODES, "all", "none", "forget", *app.servers.connections, *shown_names(app.toolbox.toolbox.tools)]


@command(
    "/tools",
    usage="[list | SERVER|TOOL ... | on|off|only SERVER|TOOL|1,5-8 ... | all | none | forget]",
    example="/tools off 2,4-6",
    suggest=_suggest_tools,
)
async def show_tools(app: App, argument: str, emit: Emit) -> None:
    """List tools with their token cost, or turn them on and off."""
    if argument == "forget":
        await emit(Notice(_reset_usage_counts(app)))
        return
    tools = shown_names(app.toolbox.toolbox.tools)
    if not tools:
        await emit(Notice(app.words("commands.no_tools")))
        return
    signature_tokens = count_signatures(app.chat, app.toolbox.toolbox.tools)
    if not argument and isinstance(app.frontend, SwitchFrontend):
        await _switch_tools(app, app.frontend, tools, signature_tokens, emit)
        return
    listed = set(tools) if argument in ("", "list") else _select_tools(app, tools, argument.replace(",", " ").split())
    costs = {name: _measure_cost(app, name, tool, signature_tokens[name]) for name, tool in tools.items()}
    rows = [
        (
            str(number),
            MARKS[tool.full_name not in app.toolbox.disabled],
            tool.server,
            name,
            *costs[name].values(),
            first_line(tool.description),
        )
        for number, (name, tool) in enumerate(tools.items(), 1)
        if name in listed
    ]
    columns = next(iter(costs.values()))
    head = tuple(app.words(f"tools.{key}") for key in ("number", "on", "server", "name", *columns, "about"))
    await emit(Table(head, tuple(rows)))
    await emit(_sum_up(app, tools, signature_tokens))


def _sum_up(app: App, tools: Mapping[str, Tool], signature_tokens: Mapping[str, int]) -> Notice:
    on = [name for name, tool in tools.items() if tool.full_name not in app.toolbox.disabled]
    cost = summarize_cost(app, len(on), len(tools), sum(signature_tokens[name] for name in on))
    own = sum(not tool.server for tool in tools.values())  # lists of servers do not count them
    return Notice(" ".join([cost, *([app.words("tools.own", count=own)] if own else [])]))


async def _switch_tools(
    app: App, frontend: SwitchFrontend, tools: Mapping[str, Tool], signature_tokens: Mapping[str, int], emit: Emit
) -> None:
    """Let the user switch tools in a list."""
    choices = [
        Choice(
            tool.full_name,
            (
                MARKS[tool.full_name not in app.toolbox.disabled],
                name,
                app.words("tools.tokens_of", count=signature_tokens[name]),
                first_line(tool.description),
            ),
        )
        for name, tool in tools.items()
    ]
    switched = await frontend.switch(Picker(app.words("picker.tools"), choices, app.words, can_switch=True))
    app.toolbox.disabled = app.toolbox.disabled ^ switched
    await emit(_sum_up(app, tools, signature_tokens))


def _measure_cost(app: App, name: str, tool: Tool, signature_tokens: int) -> dict[str, str]:
    """Return the cost columns of a tool.

    Returns:
        `tokens` of its full description, `time` to prefill them if the speed is known, and `listed`, the tokens in the
        catalogue if tools have a line of their own there.
    """
    time_s = app.prefill_speed.estimate_s(signature_tokens)
    listed = _count_catalogue_tokens(app, name, tool)
    return {
        "tokens": str(signature_tokens),
        **({"time": format_seconds(time_s)} if time_s else {}),
        **({} if listed is None else {"listed": str(listed)}),
    }


def _count_catalogue_tokens(app: App, name: str, tool: Tool) -> int | None:
    """Return the tokens of a tool in the catalogue; None if it has no line of its own there."""
    line = {"about": render_summary(name, tool), "names": f"{name}, "}.get(select_catalogue(app.chat).level)
    return count_text_in_prompt(app.chat, line) if line else None


def summarize_cost(app: App, on: int, every: int, signature_tokens: int) -> str:
    """Return a sentence about the tokens that the tools add to every prompt."""
    words, catalogue = app.words, select_catalogue(app.chat)
    tokens = signature_tokens if catalogue.is_full else catalogue.tokens
    time_s = app.prefill_speed.estimate_s(tokens)
    time = words("tools.paid", time=format_seconds(time_s)) if time_s else ""
    if catalogue.is_full:
        return words("tools.sum", on=on, all=every, tokens=tokens, time=time)
    budget, level = compute_tool_budget(app.chat), words(f"tools.levels_{catalogue.level}")
    limit = words("tools.limit" if budget else "tools.none_in_full", tokens=budget)
    costs = {"full": signature_tokens, "limit": limit, "tokens": tokens, "level": level}
    return words("tools.short", on=on, all=every, time=time, **costs)


def _reset_usage_counts(app: App) -> str:
    """Delete the usage counts of tools. Raises ConfigError if the file cannot be deleted."""
    try:
        return app.words("tools.forgotten", count=app.chat.tool_usage.clear())
    except OSError as error:
        raise ConfigError(f"The usage counts of the tools cannot be reset: {explain_open_error(error)}.") from None


def _select_tools(app: App, tools: Mapping[str, Tool], words: list[str]) -> Set[str]:
    """Enable or disable tools by words; names alone change nothing.

    Returns:
        The displayed names of the tools to list: those that the words name, or all if they name none.

    Raises:
        UsageError: A word matches no tool, or none follows `on`, `off` or `only`.
    """
    mode = words.pop(0) if words[0] in _MODES else ""
    if mode and not words:
        raise UsageError(f"/tools {mode} needs the tools.", f"For example: /tools {mode} {next(iter(tools))}")
    selected = {tool.full_name for word in words for tool in match_tools(tools, word)}
    if not mode and not all(word in ("all", "none") or word[0].isdecimal() for word in words):
        return {name for name, tool in tools.items() if tool.full_name in selected}
    everything = {tool.full_name for tool in tools.values()}
    off = app.toolbox.disabled & everything
    app.toolbox.disabled = {"on": off - selected, "off": off | selected}.get(mode, everything - selected)
    return {name for name, tool in tools.items() if tool.full_name in selected} or tools.keys()


def match_tools(tools: Mapping[str, Tool], word: str) -> list[Tool]:
    """Return the tools that a word selects. Raises UsageError.

    Args:
        tools: Tools by displayed name.
        word: `all`, `none`, a number, a range, a server or a tool.
    """
    listed = list(tools.values())
    if word in ("all", "none"):
        return listed if word == "all" else []
    first, dash, last = word.partition("-")
    if first.isdecimal() and (last.isdecimal() or not dash):
        begin, end = int(first), int(last or first)
        if 1 <= begin <= end <= len(listed):
            return listed[begin - 1 : end]
        raise UsageError(f"There is no tool {word}; the tools are numbered 1 to {len(listed)}.")
    matches = [tool for tool in listed if tool.server == word] or find_tools(word, listed)
    if not matches:
        servers = {tool.server for tool in listed if tool.server}
        near = ", ".join([*get_close_matches(word, servers), *similar_names(word, listed)])
        raise UsageError(f'There is no tool or server "{word}".', f"Did you mean {near}?" if near else "")
    return matches


async def _suggest_call(app: App, typed: str) -> Sequence[str]:
    """Return completions for tool names and argument names."""
    name, blank, _ = typed.partition(" ")
    tools = find_tools(name, app.toolbox.toolbox.tools)
    if not blank or len(tools) != 1:
        return list(shown_names(app.toolbox.toolbox.tools))
    return [f"{key}=" for key in tools[0].schema.get("properties", {})]


@command(
    "/call", usage="TOOL [JSON | name=value ...]", example='/call get_time {"place": "Tokyo"}', suggest=_suggest_call
)
async def call_tool(app: App, argument: str, emit: Emit) -> None:
    """Run a tool manually.

    The result is not added to the conversation.
    """
    name, _, rest = argument.partition(" ")
    listed = app.toolbox.toolbox.tools
    tools = find_tools(name, listed)
    if len(tools) != 1:
        what = f'Several servers have a tool "{name}".' if tools else f'There is no tool "{name}".'
        near = ", ".join(tool.full_name for tool in tools) or ", ".join(similar_names(name, listed))
        advice = f"Did you mean {near}?" if near else "/tools lists the tools."
        if not tools and (starting := ", ".join(app.starting_servers)):
            advice += f" Still starting: {starting}. The tools of a server are known once it has started."
        raise UsageError(what, advice)
    tool = tools[0]
    if rules := find_deny_rules(tool, app.chat.effective_policy):
        hint = f"/permissions forget {rules[0]} lifts it."
        raise UsageError(f'The rule deny = "{rules[0]}" refuses {tool.full_name}.', hint)
    call = ToolCall(tool.full_name, validate_arguments(parse_arguments(rest.strip()), tool.schema).arguments)
    await emit(ToolStarted(tool.server, tool.name, call))
    async with aclosing(RunningCalls()) as runs:
        runs.start(PreparedCall(0, tool, call), app.toolbox)
        async with aclosing(runs.stream_events()) as events:
            async for event in events:
                await emit(replace(event, is_asked=True) if isinstance(event, ToolFinished) else event)
    await app.sandbox_access.offer()


def parse_arguments(text: str) -> dict[str, Any]:
    """Parse arguments from a JSON object or from `name=value` words. Raises UsageError."""
    if not text.startswith("{"):
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"The arguments cannot be parsed: {error}.") from None
        return parse_words(words, 'Write name=value, or one JSON object such as {"name": "value"}.')
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The arguments are not valid JSON: {error}.") from None
    assert isinstance(value, dict)
    return value
