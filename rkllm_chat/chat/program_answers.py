"""What the program itself says in an answer: what was called, what a call needs, and the last result.

Models say of a call what the question asked for: "shopping.txt was deleted" of `delete_observations`. So an answer
behind calls that may change something begins with one line about them, which no model writes or reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote

from ..calls.described_calls import asks_for_change
from ..config.policy import exact_pattern
from ..core import i18n
from ..core.i18n import Words, detect_text_language
from ..core.messages import Tool, ToolResult
from ..core.sanitize import shorten_line, summarize_arguments
from ..prompt.budget import find_last_turn
from ..prompt.untrusted_text import neutralize
from .conversation import Conversation
from .evidence import is_failed_query
from .tool_traits import may_write

_MAX_SAID_LENGTH = 120
_MAX_CALLS = 5
"""Most calls that the line names."""


def describe_changes(chat: Conversation, shown: ToolResult | None = None) -> str:
    """Return one line on the calls of this turn that may have changed something, or were refused; "" without any.

    It is in the language of the question, and without a result that is shown anyway.
    """
    parts = [*_list_changes(chat, shown)]
    left_out = parts[_MAX_CALLS:]
    return " ".join([*parts[:_MAX_CALLS], f"[+{len(left_out)}]"] if left_out else parts)


def _list_changes(chat: Conversation, shown: ToolResult | None) -> Iterator[str]:
    for result in _list_results(chat):
        if result is shown:
            continue
        tool = _find_tool(chat, result)
        if result.decline_reason == "permission":
            call, pattern = _summarize_call(tool, result), quote(exact_pattern(tool))
            yield _load_words(chat)("chat.not_permitted", call=call, pattern=pattern)
        elif result.decline_reason == "user" and result.status == "declined":
            yield _load_words(chat)("chat.not_allowed", call=_summarize_call(tool, result))
        elif result.server and may_write(tool) and result.status in ("completed", "failed"):
            yield _describe_call(chat, result)


def _describe_call(chat: Conversation, result: ToolResult) -> str:
    failed = "chat.call_cut" if result.decline_reason == "cut" else "chat.call_failed"
    key, call = (
        "chat.called" if result.status == "completed" and not is_failed_query(result) else failed,
        _summarize_call(_find_tool(chat, result), result),
    )
    return _load_words(chat)(key, call=call, text=shorten_line(result.text, _MAX_SAID_LENGTH))


def _find_tool(chat: Conversation, result: ToolResult) -> Tool:
    tools = {(tool.server, tool.name): tool for tool in chat.toolbox.tools}
    return tools.get((result.server, result.tool), Tool(result.tool, server=result.server))


def _summarize_call(tool: Tool, result: ToolResult) -> str:
    return f"{tool.full_name} {summarize_arguments(result.arguments)}".rstrip()


def describe_rest(
    chat: Conversation, results: Sequence[ToolResult], names: Sequence[str], is_change_open: bool = False
) -> str:
    """Return one line on what an answer leaves out, "" for nothing.

    Args:
        chat: The conversation.
        results: The results that it leaves out.
        names: What the question names, and nobody has looked up, or used for the change that the question asks for.
        is_change_open: No call has made the change that the question asks for.
    """
    lines = [_describe_call(chat, result) for result in results[:_MAX_CALLS]]
    if names or is_change_open:
        is_change = is_change_open or asks_for_change(chat.history[find_last_turn(chat.history)].question)
        unread = _load_words(chat)("chat.not_looked_up", names=", ".join(names))
        lines.append(f"[{describe_unmade(chat) if is_change else unread}]")
    return " ".join(lines)


def describe_unmade(chat: Conversation) -> str:
    """Return the sentence that nothing was changed, where the model says that it was, and which call was refused."""
    for result in reversed(_list_results(chat)):
        if result.decline_reason == "because":
            return _load_words(chat)("chat.not_allowed", call=_summarize_call(_find_tool(chat, result), result))
    return _load_words(chat)("chat.unmade")


def confirm_fact(chat: Conversation) -> str:
    """Return the answer to a message that only tells something, where the model refuses to answer."""
    return _load_words(chat)("chat.noted")


def tell_unknown(chat: Conversation) -> str:
    """Return the answer to a question about the user of which nothing is known."""
    return _load_words(chat)("chat.unknown")


def ask_for_values(chat: Conversation, names: Sequence[str]) -> str:
    """Return the question for what a call needs."""
    words = _load_words(chat)
    *others, last = dict.fromkeys(names)
    joined = words("chat.joined", names=", ".join(others), last=last) if others else last
    return words("chat.ask_back", names=joined.replace("_", " "))


def has_result(chat: Conversation) -> bool:
    """Return whether a call of this turn has completed."""
    return any(map(_is_completed, _list_results(chat)))


def list_said(chat: Conversation) -> list[str]:
    """Return what the user and the tools have said in this turn."""
    turn = chat.history[find_last_turn(chat.history) :]
    said = [message.result.text if message.result else message.text for message in turn if message.role != "assistant"]
    return [*said, *map(neutralize, said)]  # as the model sees them


def choose_last_result(chat: Conversation) -> ToolResult | None:
    """Return the result of this turn that is shown where the model wrote no answer; None if there is none."""
    results = _list_results(chat)
    return next(iter([*filter(_is_completed, results)][-1:] or results[-1:]), None)


def describe_last_result(chat: Conversation, result: ToolResult) -> str:
    """Return the heading of a result that is shown where the model wrote no answer."""
    return _load_words(chat)("chat.last_result" if _is_completed(result) else "chat.last_failure", tool=result.tool)


def _is_completed(result: ToolResult) -> bool:
    return result.status == "completed" and bool(result.server)


def _list_results(chat: Conversation) -> list[ToolResult]:
    return [message.result for message in chat.history[find_last_turn(chat.history) :] if message.result]


def _load_words(chat: Conversation) -> Words:
    """Return the sentences for users in the language of the question."""
    question = chat.history[find_last_turn(chat.history)].question
    return i18n.load(detect_text_language(question) or chat.words.code)
