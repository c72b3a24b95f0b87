"""`more`, our own tool with which a model pages in a result that was too long for it, and the cutting of such results.

It is never listed among the tools: their list begins every prompt and must stay as it is, or an engine's cache is
lost. What was cut says how to call it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .budget import FLOOR_SHARE, FORGETTING_SHARE, ROUND_SHARE, cut_middle
from .formats import FORMATS
from .language import Words
from .messages import Message, Tool, ToolResult
from .names import MORE
from .paging import Fits, cut_ends, read_range, share_out, show_found, show_lines, split
from .prompt import teach, tool_text

TEXT = {"type": "string"}
TOOL = Tool(
    MORE,
    "Shows more of a result that was cut",
    {"type": "object", "properties": {"handle": TEXT, "range": TEXT, "search": TEXT}, "required": ["handle"]},
    read_only=True,
    idempotent=True,
    trusted=True,
    destructive=False,
    open_world=False,
)
CountText = Callable[[str], int]
EXAMPLE = Message("tool", "", more={"handle": "r10", "range": "1000-10000"})
MOST_PER_TOKEN = 8
"""Characters: a text with more of them for each token that is left is not counted, it is too long."""


def is_more(message: Message) -> bool:
    """Whether it is a result of `more`."""
    return message.result is not None and (message.result.server, message.result.tool) == ("", MORE)


def handles_of(history: Sequence[Message]) -> dict[str, str]:
    """Handle -> the whole text of the result that was cut."""
    cut = ((one.more, one.result) for one in history if not is_more(one))
    return {str(more["handle"]): result.text for more, result in cut if more and result}


def last_number(history: Sequence[Message]) -> int:
    """The number in the newest handle; 0 where nothing was cut."""
    return max((int(handle[1:]) for handle in handles_of(history) if handle[1:].isdecimal()), default=0)


@dataclass(frozen=True)
class Pager:
    """Answers calls of `more`, from the results that were cut in `history`."""

    history: Sequence[Message]
    words: Words
    fits: Fits

    def show(self, arguments: Mapping[str, Any]) -> ToolResult:
        """The page that is asked for; its `structured` are the arguments for the next one."""
        results = handles_of(self.history)
        handle = str(arguments["handle"]).strip().casefold()
        if handle not in results:
            there = self.words("prompt.handles", handles=", ".join(results)) if results else ""
            return self._fail(arguments, f"{self.words('prompt.gone', handle=handle)} {there}".strip())
        long = split(handle, results[handle])
        asked = str(arguments.get("range") or "1-")
        lines = read_range(asked, len(long.lines))
        if lines is None:
            told = self.words("prompt.no_range", range=asked, handle=handle, lines=len(long.lines))
            return self._fail(arguments, told)
        search = str(arguments.get("search") or "")
        page = (
            show_found(long, search, *lines, self.fits, self.words)
            if search
            else show_lines(long, *lines, self.fits, self.words)
        )
        return ToolResult("", MORE, dict(arguments), "completed", page.text, structured=page.more)

    def _fail(self, arguments: Mapping[str, Any], text: str) -> ToolResult:
        return ToolResult("", MORE, dict(arguments), "failed", text)


@dataclass(frozen=True)
class Share:
    """What the results of one reply may take: `total` tokens together, each at least `floor`, measured as the model
    is shown them."""

    total: int
    floor: int
    words: Words
    measure: Callable[[Message], int]

    def fits(self, among: int) -> Fits:
        """Whether a page of `more` fits, one of so many results."""
        limit = max(self.floor, self.total // max(1, among))
        shape = ToolResult("", MORE, {}, "completed", "")
        return lambda text: self._need(Message("tool", text, shape)) <= limit

    def fit(self, remarks: Sequence[Message], newest: int) -> list[Message]:
        """The remarks, those cut that take more than their share. Handles are numbered on from `newest`."""
        limit = max(self.floor, share_out([self._need(one) for one in remarks], self.total))
        shown: list[Message] = []
        for one in remarks:
            cut = self._cut(one, limit, f"r{newest + 1}")
            newest += cut.more is not None and not is_more(cut)
            shown.append(cut)
        return shown

    def _cut(self, remark: Message, limit: int, handle: str) -> Message:
        result = remark.result
        if result and is_more(remark):
            return replace(remark, more=result.structured)
        if self._need(remark) <= limit:
            return remark
        if not result or result.text != remark.text:  # ours, around what was wrong with a call
            return replace(remark, text=cut_middle(remark.text, limit, lambda text: self._need(Message("tool", text))))
        page = cut_ends(
            split(handle, remark.text), lambda text: self._need(replace(remark, text=text)) <= limit, self.words
        )
        return replace(remark, text=page.text, more=page.more)

    def _need(self, remark: Message) -> int:
        most = MOST_PER_TOKEN * max(self.total, self.floor)
        return most if len(remark.text) > most else self.measure(remark)


def make_share(free: int, freed: int, window: int, count_text: CountText, words: Words, form: str) -> Share:
    """The share of a reply's results where so many tokens are free now, and so many if older turns were forgotten."""
    taught = count_text("\n".join(teach([EXAMPLE], words, FORMATS[form])))
    total = max(0, max(free // ROUND_SHARE, freed // FORGETTING_SHARE) - taught)
    return Share(total, window // FLOOR_SHARE, words, lambda one: count_text(tool_text(one, words)))
