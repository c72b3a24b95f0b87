"""Which tools a message of the user asks for: those behind whose description the model finds it most probable.

Asked to choose among many tools, a small model tells nothing, and in a conversation it calls one whose arguments fit
what the message names. How probable a message is after "The user asks for this: list_classes ..." it knows well, in
every language that it was trained on (a noisy channel: https://arxiv.org/abs/2108.04106).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence

from ..backends.base import MessageScorer
from ..calls.described_calls import asks_for_change, asks_to_remember, list_places
from ..calls.schema.resolve import properties_of
from ..core.errors import GenerationError
from ..core.messages import Message, Tool
from ..prompt.tool_listing import first_line
from ..prompt.tool_ranking import find_sure_tools, index_tools, rank_tools
from ..prompt.untrusted_text import neutralize
from .call_choice import can_compare
from .conversation import Conversation
from .event_stream import Emit
from .evidence import NUMBER
from .open_requests import OpenRequests
from .reply_requests import ReplyRequests
from .tool_traits import may_write

__all__ = ["LikelyTools", "is_far_likelier", "is_said_by_words", "list_likely", "prepare_tools"]

_MAX_TOOLS, _MIN_TOOLS, _MAX_TOKENS = 48, 8, 1500
"""Of how many tools a message is asked: each costs the tokens of the message, which are at most as many for all."""
_MAX_LENGTH = 400
"""Characters of a message up to which it is asked."""
_MAX_DESCRIPTION = 240
"""Characters of what is said of a tool."""

_FAR_LIKELIER, _FAR_LIKELIER_PART = 4.0, 0.3
"""Logits, and part of its own, by which a tool must be likelier to be far likelier than another one: the names in a
message make all tools of their server likely."""
_MAX_LIKELY = 5
"""How many of the likeliest tools a model is made to choose from; the first is not far likelier than the last."""
_EXPRESSION = re.compile(r"(?:math_?)?expr(?:ession)?|formula", re.IGNORECASE)
"""Name of the argument of a calculator."""
_TOLD = 5.0
"""Logits by which tools of a server are likelier that told of what a message names: "How old is Otto?"."""
_NAMED = (2.0, 1.0, 1.0)
"""Those by which the first tools are that the words of a message mean: so the right one was the first for 59 of 79
questions (before for 55, by words alone for 47), and clearly for 48 (39)."""

_log = logging.getLogger(__name__)


class LikelyTools:
    """How likely each tool is for the messages of one turn."""

    def __init__(self, chat: Conversation, requests: ReplyRequests) -> None:
        self._chat, self._requests = chat, requests
        self._scores: dict[str, dict[str, float]] = {}  # by message and full name of the tool

    async def rank(self, message: str, tools: Sequence[Tool], emit: Emit) -> list[tuple[Tool, float]]:
        """Return tools with how much likelier a message is for who asks for one than for none, the likeliest first.

        Who asks for none is anybody, or asks for a sum of what was told, or for what they said before.

        Args:
            message: The message, or a part of it.
            tools: Some tools of the conversation.
            emit: Emits events.

        Returns:
            The tools, and the natural logarithm of the ratio; none where the engine does not tell, for a long message,
            and for one that says nothing alone ("and on Friday?").
        """
        if (
            not tools
            or len(message) > _MAX_LENGTH
            or not can_compare(self._chat)
            or OpenRequests(self._chat).is_follow_up()
        ):
            return []
        most = max(_MIN_TOOLS, min(_MAX_TOOLS, _MAX_TOKENS // max(1, self._chat.count_text(message))))
        meant = rank_tools(index_tools(tools), message, self._chat.tool_usage.counts)
        words_first = [*meant, *(tool for tool in tools if tool not in meant)][:most]
        # in the order of the conversation: what was evaluated of them is kept as it is
        asked = [tool for tool in self._chat.toolbox.tools if tool in words_first]
        scores = self._scores.setdefault(message, {})
        prompts: dict[str, Sequence[Message]] = {
            tool.full_name: _make_prompt(self._chat, tool, message) for tool in asked
        }
        without = _make_prompts_without_tool(self._chat, message)
        prompts |= without
        new = [name for name in prompts if name not in scores]
        try:
            found = await self._requests.score_messages([prompts[name] for name in new], emit)
        except GenerationError as error:  # a lack of memory for it must not cost the answer
            _log.warning("Tools could not be compared: %s", error)
            return []
        scores.update(zip(new, found, strict=True))
        none = max(scores[name] for name in without)
        is_for_one = any(scores[tool.full_name] > none for tool in asked)
        prior = self._find_prior(message, words_first, meant) if is_for_one else {}
        likely = [(tool, scores[tool.full_name] - none + prior.get(tool.full_name, 0)) for tool in words_first]
        return sorted(likely, key=lambda pair: -pair[1])

    def _find_prior(self, message: str, tools: Sequence[Tool], meant: Sequence[Tool]) -> Mapping[str, float]:
        """Return by how much tools are likelier for what was told before, and for the words of a message."""
        telling = OpenRequests(self._chat).find_telling_servers(message)
        named = {tool.full_name: value for tool, value in zip(meant, _NAMED, strict=False)}
        told = {tool.full_name: _TOLD for tool in tools if tool.server in telling}
        return {name: named.get(name, 0) + told.get(name, 0) for name in {*named, *told}}


def is_said_by_words(chat: Conversation, question: str) -> bool:
    """Return whether words say what a question asks for, as no likelihood does: what is in a file is like anything.

    It has a file, an address or a date, asks for a change, or clearly means a tool.
    """
    if list_places(question) or asks_for_change(question) or asks_to_remember(question):
        return True
    return bool(find_sure_tools(index_tools(chat.toolbox.tools), question, chat.tool_usage.counts))


def is_far_likelier(score: float, than: float) -> bool:
    """Return whether a tool with a score is far likelier than one with another, and than none."""
    return score > 0 and score - than > max(_FAR_LIKELIER, _FAR_LIKELIER_PART * score)


def list_likely(ranked: Sequence[tuple[Tool, float]]) -> list[Tool]:
    """Return the tools of which the likeliest is not far likelier, if a message is likelier for them than for none."""
    likely = [tool for tool, score in ranked if score > 0 and not is_far_likelier(ranked[0][1], score)]
    return likely[:_MAX_LIKELY]


def _make_prompt(chat: Conversation, tool: Tool, message: str) -> Sequence[Message]:
    parameters = ", ".join(properties_of(tool.schema))
    described = f"{tool.server}: {tool.name}({parameters}) - {first_line(tool.description)}"[:_MAX_DESCRIPTION]
    text = chat.prompt_words("prompt.asked_tool", tool=neutralize(described))
    return [Message("system", text), Message("user", message)]


def _make_prompts_without_tool(chat: Conversation, message: str) -> Mapping[str, Sequence[Message]]:
    asked = Message("user", message)
    calculates = any(_EXPRESSION.fullmatch(name) for tool in chat.toolbox.tools for name in properties_of(tool.schema))
    # the message has the amounts of "820 + 120" itself, and a calculator adds more reliably than the model
    is_calculated = calculates or len(NUMBER.findall(message)) > 1
    names = ["asked_before"] if is_calculated else ["asked_before", "asked_sum"]
    if list_places(message) or asks_for_change(message) or asks_to_remember(message):
        names = []  # "Please remember that ..." is like what was said before, and asks for a tool
    said = {name: chat.prompt_words(f"prompt.{name}") for name in names}
    return {"": [asked], **{name: [Message("system", text), asked] for name, text in said.items()}}


async def prepare_tools(chat: Conversation) -> None:
    """Evaluate what is said of each tool, those that read first, while the engine is idle, if messages are compared.

    Raises:
        ChatError: The engine failed.
    """
    tools = sorted((tool for tool in chat.toolbox.tools if tool.server), key=may_write)[:_MAX_TOOLS]
    if tools and can_compare(chat) and isinstance(chat.backend, MessageScorer):
        prompts = [_make_prompt(chat, tool, "") for tool in tools]
        await chat.backend.prepare_scores([*prompts, *_make_prompts_without_tool(chat, "").values()])
