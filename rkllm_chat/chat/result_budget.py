"""Token budget for the results of one reply: truncate those that exceed their share, and keep the rest for `more`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..calls.formats import FORMATS
from ..calls.tool_names import MORE
from ..core.i18n import Words
from ..core.messages import Message, ToolResult
from ..prompt.budget import MIN_RESULT_FRACTION, RESULTS_AFTER_TRIM_FRACTION, RESULTS_FRACTION, truncate_middle
from ..prompt.compose import explain_next_page
from ..prompt.result_pages import Fits, find_fair_limit, show_ends, split_result
from .builtin_tools import is_result_page

_EXAMPLE = Message("tool", "", more={"handle": "r10", "range": "1000-10000"})
_MAX_CHARACTERS_PER_TOKEN = 8
"""Maximum characters per available token; a longer text is treated as too long without counting its tokens."""


@dataclass(frozen=True)
class ResultBudget:
    """Token budget for the results of one reply, measured as the model sees them.

    Attributes:
        total_tokens: Tokens for all results.
        min_tokens: Minimum tokens per result.
        words: Model-facing sentences.
        count_tokens: Counts the tokens of a message.
    """

    total_tokens: int
    min_tokens: int
    words: Words
    count_tokens: Callable[[Message], int]

    def make_page_check(self, results: int) -> Fits:
        """Return a predicate for pages of `more`, given the number of results that share the budget."""
        limit = max(self.min_tokens, self.total_tokens // max(1, results))
        page = ToolResult("", MORE, {}, "completed", "")
        return lambda text: self._measure(Message("tool", text, page)) <= limit

    def truncate_results(self, messages: Sequence[Message], last_handle: int) -> list[Message]:
        """Truncate the messages that exceed their share.

        Args:
            messages: Messages for the model, one per call.
            last_handle: Number of the newest handle so far; new handles continue from it.
        """
        limit = max(self.min_tokens, find_fair_limit(list(map(self._measure, messages)), self.total_tokens))
        truncated: list[Message] = []
        for message in messages:
            shown = self._truncate(message, limit, f"r{last_handle + 1}")
            last_handle += shown.more is not None and not is_result_page(shown)
            truncated.append(shown)
        return truncated

    def _truncate(self, message: Message, limit: int, handle: str) -> Message:
        result = message.result
        if result and is_result_page(message):
            return replace(message, more=result.structured)
        if self._measure(message) <= limit:
            return message
        while message.media and self._measure(replace(message, text="")) > limit:  # placeholders stand for the others
            message = replace(message, media=message.media[:-1])
        if not result or result.text != message.text:  # feedback on an invalid call, not a result of a tool
            text = truncate_middle(message.text, limit, lambda text: self._measure(Message("tool", text)))
            return replace(message, text=text)
        parts = split_result(handle, message.text)
        page = show_ends(parts, lambda text: self._measure(replace(message, text=text)) <= limit, self.words)
        return replace(message, text=page.text, more=page.more)

    def _measure(self, message: Message) -> int:
        """Return the tokens of a message, or more than any limit if it is too long to be counted."""
        max_characters = _MAX_CHARACTERS_PER_TOKEN * max(self.total_tokens, self.min_tokens)
        return max_characters if len(message.text) > max_characters else self.count_tokens(message)


def make_result_budget(
    free_tokens: int,
    free_after_trim_tokens: int,
    context_tokens: int,
    count_tokens: Callable[[Message], int],
    words: Words,
    call_format: str,
) -> ResultBudget:
    """Build the budget for the results of a reply.

    Args:
        free_tokens: Tokens that are free now.
        free_after_trim_tokens: Tokens that would be free if older turns were dropped.
        context_tokens: Size of the context window.
        count_tokens: Counts the tokens of a result as the model sees it.
        words: Model-facing sentences.
        call_format: Row of FORMATS.
    """
    hint_tokens = count_tokens(Message("tool", "\n".join(explain_next_page([_EXAMPLE], words, FORMATS[call_format]))))
    available = int(max(free_tokens * RESULTS_FRACTION, free_after_trim_tokens * RESULTS_AFTER_TRIM_FRACTION))
    min_tokens = int(context_tokens * MIN_RESULT_FRACTION)
    return ResultBudget(max(0, available - hint_tokens), min_tokens, words, count_tokens)
