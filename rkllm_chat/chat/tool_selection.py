"""Select the tools described to the model: all in full, or a catalogue plus likely tools with each question.

Signatures shown with a question are stored with its message, so the prompt only grows. Tools whose signatures are
already visible in the conversation are only named again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ..calls.tool_names import find_tools, shown_names
from ..core.messages import Message, Tool
from ..prompt.budget import SIGNATURES_FRACTION
from ..prompt.compose import is_tool_description
from ..prompt.server_instructions import render_instructions
from ..prompt.tool_catalogue import LEVELS, Catalogue, make_catalogue
from ..prompt.tool_listing import describe_schemas, render_tool
from ..prompt.tool_ranking import ToolIndex, rank_tools, select_few_tools
from ..prompt.untrusted_text import neutralize_line
from .conversation import Conversation, ToolSelection

MAX_NAMED_AGAIN = 3
"""Maximum number of likely tools that are named with a question because their signatures are already visible."""


def select_tools(chat: Conversation) -> ToolSelection:
    """Return the tool list for the current tools."""
    tools = list(chat.toolbox.tools)
    instructions = dict(chat.get_instructions())
    skills = chat.skills.usable if chat.skills else {}
    inputs = [chat.backend, chat.profile, chat.prompt_words, chat.call_format, tools, instructions, skills]
    if chat.tool_selection.inputs != inputs:
        chat.tool_selection = _add_sections(chat, _make_selection(chat, tools, inputs), instructions)
    return chat.tool_selection


def _add_sections(chat: Conversation, selection: ToolSelection, instructions: Mapping[str, str]) -> ToolSelection:
    """Add the catalogue of skills and the instructions of servers."""
    words, context_tokens, count = chat.prompt_words, chat.backend.context_tokens, partial(count_text_in_prompt, chat)
    skills = chat.skills.render(words, compute_tool_budget(chat), count) if chat.skills else ()
    sections = (*render_instructions(instructions, words, context_tokens, count), *skills)
    return replace(selection, catalogue=replace(selection.catalogue, sections=sections))


def compute_tool_budget(chat: Conversation) -> int:
    """Return how many tokens complete descriptions of tools may take at the start of the prompt."""
    return int(chat.profile.tools_fraction * chat.backend.context_tokens)


def select_catalogue(chat: Conversation) -> Catalogue:
    """Return the catalogue for the current tools."""
    return select_tools(chat).catalogue


def _make_selection(chat: Conversation, tools: Sequence[Tool], inputs: object) -> ToolSelection:
    """Build the tool list.

    An engine with native tool support receives complete schemas, and these must fit the share.
    """
    limit = compute_tool_budget(chat)
    native = chat.backend.native_tools
    call_format = chat.list_format
    if native and (tokens := count_text_in_prompt(chat, "\n".join(describe_schemas(tools)))) <= limit:
        return ToolSelection(inputs, Catalogue(tokens=tokens))
    levels = LEVELS[1:] if native else LEVELS
    catalogue = make_catalogue(
        tools, chat.prompt_words, call_format, limit, lambda text: count_text_in_prompt(chat, text), levels
    )
    if catalogue.is_full:
        return ToolSelection(inputs, catalogue)
    named_tools = shown_names(tools)
    lines = {name: render_tool(name, tool, call_format) for name, tool in named_tools.items()}
    signatures = {tool.full_name: lines[name] for name, tool in named_tools.items()}
    return ToolSelection(inputs, catalogue, signatures, make_name_lines(lines), ToolIndex(tools))


def select_tool_signatures(chat: Conversation, question: str, free_tokens: int) -> tuple[str, ...]:
    """Return the signatures of tools that may help, best first.

    As many as fit their share of the context window; at least one if there is space for it.
    """
    selection = select_tools(chat)
    limit = int(chat.backend.context_tokens * SIGNATURES_FRACTION)
    order = select_few_tools if chat.profile.few_tools else rank_tools
    selected: list[str] = []
    for tool in order(selection.index, question, chat.tool_usage.counts):
        extended = [*selected, selection.signatures[tool.full_name]]
        tokens = count_text_in_prompt(chat, "\n".join(extended))
        if tokens > free_tokens or (tokens > limit and selected):
            break
        selected = extended
    return tuple(selected)


def make_name_lines(lines: Mapping[str, str]) -> dict[str, str]:
    """Return, for each signature line, a line with the tool's name only.

    Args:
        lines: Signature line by the name shown to the model.
    """
    return {line: f"- {neutralize_line(name)}" for name, line in lines.items()}


def skip_visible_signatures(lines: Iterable[str], shown: Collection[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the lines to show: signatures that are not visible yet, and only the names of a few that are."""
    result: list[str] = []
    named_count = 0
    for line in lines:
        if line not in shown:
            result.append(line)
        elif named_count < MAX_NAMED_AGAIN:
            result.append(names[line])
            named_count += 1
    return tuple(result)


def select_tool_lines(chat: Conversation, question: str, free_tokens: int) -> tuple[str, ...]:
    """Return the lines about tools to show with a question, if the system text has no signatures."""
    return skip_visible_signatures(
        select_tool_signatures(chat, question, free_tokens),
        _visible_signatures(chat.visible_messages),
        select_tools(chat).name_lines,
    )


def find_signatures(chat: Conversation, query: str) -> tuple[str, ...]:
    """Return the signature of a tool named in any spelling, or of tools that match the words."""
    selection = select_tools(chat)
    if tools_found := find_tools(query, chat.toolbox.tools):
        return tuple(selection.signatures[tool.full_name] for tool in tools_found)
    return select_tool_signatures(chat, query, int(chat.backend.context_tokens * SIGNATURES_FRACTION))


def _visible_signatures(history: Iterable[Message]) -> set[str]:
    """Return the signature lines that are visible in a history."""
    described = (
        line
        for message in history
        if message.result and is_tool_description(message)
        for line in message.text.splitlines()
    )
    return {*(line for message in history for line in message.tool_lines), *described}


def count_signatures(chat: Conversation, tools: Sequence[Tool]) -> dict[str, int]:
    """Return the tokens of each tool's full description in the prompt, by its displayed name."""
    return {
        name: count_text_in_prompt(chat, render_tool(name, tool, chat.list_format))
        for name, tool in shown_names(tools).items()
    }


def count_text_in_prompt(chat: Conversation, text: str) -> int:
    """Return the tokens that a text takes within a prompt."""
    return chat.count_text(text) - chat.count_text("") if text else 0
