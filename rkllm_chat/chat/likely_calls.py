"""The calls of the tools that a message is by far likeliest for, of models that are too small to choose a call.

Of 79 messages for a tool, Qwen2.5-Coder-0.5B found the right one of 29 the likeliest for 59. Where it had more than
half of the probability, it was right for 48 of 52, and wrong for 2 of 31 that ask for none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..calls.described_calls import asks_what_was_said, drop_told, tells_only
from ..core.events import ReplyDiscarded
from ..core.messages import Tool
from .argument_values import uses_name
from .asked_calls import AskedCall, find_question, has_called, list_choosable_tools
from .call_choice import can_choose, can_compare
from .conversation import Conversation
from .event_stream import Emit
from .evidence import list_names
from .open_requests import OpenRequests
from .running_calls import PreparedCall
from .tool_likelihood import LikelyTools, is_said_by_words, list_likely
from .tool_traits import may_write

_LEAST = 1 / 2
"""Share of the likeliest tool in what a message may be for, from which on it is called before any reply."""
_TEMPERATURE = 2.0
"""By what the logarithms are divided: the words of a message are not independent of each other."""


class LikelyCalls:
    """The calls of one turn that a model is made to write before it replies.

    Attributes:
        is_for_none: The message is likelier for no tool than for any one.
    """

    def __init__(self, chat: Conversation, likely_tools: LikelyTools) -> None:
        self._chat, self._likely_tools = chat, likely_tools
        self.is_for_none = False
        self._asked = set[str]()

    async def find(self, emit: Emit) -> AskedCall | None:
        """Return the call that the message, or an open part of it, asks for by far likeliest; None for none.

        Args:
            emit: Emits events.
        """
        chat, question = self._chat, find_question(self._chat)
        if not self._may_compare or tells_only(question) or asks_what_was_said(question):
            return None
        parts, is_first = OpenRequests(chat).list_parts(), not has_called(chat)
        if is_first and len(parts) < 2:
            parts = [question]  # "Is it ready? The ticket is R-318."
        tools = [tool for tool in chat.toolbox.tools if tool.server]
        best = list[float]()
        for part in parts:
            if part in self._asked:
                continue
            self._asked.add(part)
            ranked = await self._likely_tools.rank(drop_told(part), tools, emit)
            best += [score for _, score in ranked[:1]]
            if (
                ranked
                and _compute_share([score for _, score in ranked]) > _LEAST
                and self._may_be_called(ranked[0][0], part)
            ):
                return AskedCall([ranked[0][0]], part if len(parts) > 1 else "", by_question=True)
        self.is_for_none = is_first and bool(best) and max(best) <= 0 and not is_said_by_words(chat, question)
        return None

    async def find_misplaced(self, prepared: Sequence[PreparedCall], emit: Emit) -> ReplyDiscarded | None:
        """Return why the first calls of a turn are discarded: the message is far likelier for other tools.

        Args:
            prepared: The calls.
            emit: Emits events.
        """
        chat, question = self._chat, find_question(self._chat)
        if not (prepared and self._may_compare) or has_called(chat) or any(may_write(run.tool) for run in prepared):
            return None
        numbers = [name for name in list_names(question) if name[0].isdigit()]
        is_sum = len(numbers) > 1 and any(
            all(uses_name(run.call.arguments, [number]) for number in numbers) for run in prepared
        )
        if is_sum or is_said_by_words(chat, question):  # "3 nights at 85 EUR"
            return None
        tools = [tool for tool in chat.toolbox.tools if tool.server]
        ranked = await self._likely_tools.rank(drop_told(question), tools, emit)
        likely = list_likely(ranked)
        requests = OpenRequests(chat)
        if not ranked or any(run.tool in likely or requests.was_called_before(run.tool) for run in prepared):
            return None
        return ReplyDiscarded(reason="misplaced" if likely else "unspoken", values=prepared[0].tool.name)

    def _may_be_called(self, tool: Tool, message: str) -> bool:
        """Return whether a message may ask for what a tool does: a change, or, if it asks for none, a look-up."""
        tools = list_choosable_tools(self._chat, message)
        return tool in tools and may_write(tool) == any(map(may_write, tools))

    @property
    def _may_compare(self) -> bool:
        chat = self._chat
        return can_compare(chat) and not can_choose(chat, find_question(chat)) and not chat.answers_json


def _compute_share(scores: Sequence[float]) -> float:
    """Return the probability of the likeliest tool, where the others, and none, are as probable before a message.

    >>> round(_compute_share([12.0, 3.0]), 2), round(_compute_share([4.0, 3.5, 3.0]), 2)
    (0.99, 0.4)
    """
    weights = [math.exp(score / _TEMPERATURE) for score in scores]
    return weights[0] / (sum(weights) + 1)
