"""Parse a model reply while it is generated and emit its events; its calls may start meanwhile.

If the model continues after a call and invents the result, the reply ends there: the engine is stopped and the invented
text is discarded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import aclosing

from ..backends.base import ModelStream, TokenScore
from ..calls.scanner import InventedResult, Scanner, ScannerEvent
from ..core.events import (
    CallDescribed,
    CallFound,
    CallUnreadable,
    Event,
    Reading,
    Sentence,
    Text,
    TextWasThought,
    Thought,
    Usage,
    WritingCall,
)
from ..core.messages import EMPTY_REPLY
from .event_stream import Emit

_FENCES_AND_EMPHASIS = re.compile(r"```\w*|~~~\w*|[`*_~\s]+")


class ReplyStream:
    """One streamed reply; what was generated is kept when reading it is cancelled.

    Attributes:
        usage: Cost of the reply, once it has ended.
        calls: Its calls so far.
        described: Calls that it only describes; they do not run by themselves.
        has_text: Whether it has words for the user: more than fences, emphasis and white space, which are not shown
            alone.
        has_thought: Whether it has a thought.
        is_empty: Whether nothing was generated yet.
        has_ended: Whether it was read to its end.
    """

    def __init__(
        self,
        scanner: Scanner,
        on_call: Callable[[CallFound | CallUnreadable], None] = lambda _call: None,
        may_be_thought: bool = False,
        max_lead_length: int = 0,
    ) -> None:
        """Prepare to read a reply.

        Args:
            scanner: Parser of the reply.
            on_call: Called for each call when it is complete, so that it can start before the reply ends.
            may_be_thought: Its text may turn out to be a thought, and is shown when that is known.
            max_lead_length: It is stopped when it has more characters of text than this and no call; 0 for no limit.
        """
        self.usage = Usage()
        self.calls: list[CallFound | CallUnreadable] = []
        self.described: list[CallDescribed] = []
        self.has_text = self.has_thought = False
        self._may_be_thought, self._max_lead_length = may_be_thought, max_lead_length
        self._shown: list[str] = []
        self._held: list[Text] = []  # texts that are not shown yet
        self.is_empty, self.has_ended = True, False
        self._scanner, self._on_call = scanner, on_call
        self._chunks: list[str] = []
        self._has_invented_result = False

    @property
    def shown_text(self) -> str:
        """What it says to the user, without calls and thoughts."""
        return "".join(self._shown)

    @property
    def text(self) -> str:
        """The reply so far, as the model wrote it, without an invented result."""
        text = "".join(self._chunks)
        if self._has_invented_result:
            text = text[: self._scanner.retained_length].rstrip()
        return text or EMPTY_REPLY

    async def read(self, stream: ModelStream, emit: Emit, translate: Callable[[Sentence | Reading], Event]) -> None:
        """Emit the events of the reply and messages of the engine; close the stream at the end."""
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                if isinstance(piece, Usage):
                    self.usage = piece
                elif isinstance(piece, TokenScore):
                    continue  # read by the API server
                elif not isinstance(piece, str):
                    await emit(translate(piece) if isinstance(piece, Sentence) else piece)
                else:
                    self._chunks.append(piece)
                    self.is_empty = False
                    events = self._record(self._scanner.feed(piece)) or [WritingCall("", sum(map(len, self._chunks)))]
                    is_over = self._has_invented_result or self._is_no_call
                    if is_over:
                        # before the events are emitted, which waits for their reader: the engine would write on
                        self.usage = await stop_and_read_usage(pieces)
                    for event in events:
                        await emit(event)
                    if is_over:
                        break
        for event in self._record(self._scanner.close(is_complete=not self.usage.is_cut)):
            await emit(event)
        self._may_be_thought = False
        self.has_ended = True
        for event in self._release():
            await emit(event)

    @property
    def _is_no_call(self) -> bool:
        return 0 < self._max_lead_length < sum(map(len, self._shown)) and not self.calls

    def _record(self, seen: list[ScannerEvent]) -> list[Event]:
        """Record parser events and return those to show."""
        shown: list[Event] = []
        for event in seen:
            match event:
                case InventedResult():
                    self._has_invented_result = True
                    continue
                case CallFound() | CallUnreadable():
                    self.calls.append(event)
                    self._on_call(event)
                case CallDescribed():
                    self.described.append(event)
                case Text(text):
                    self._shown.append(text)
                    self._held.append(event)
                    self.has_text = self.has_text or bool(_FENCES_AND_EMPHASIS.sub("", self.shown_text))
                    shown += self._release()
                    continue
                case TextWasThought():
                    shown += [Thought(held.text) for held in self._held] if self._may_be_thought else [event]
                    self._shown.clear()
                    self._held.clear()
                    self.has_text, self.has_thought, self._may_be_thought = False, True, False
                    continue
                case Thought():
                    self.has_thought, self._may_be_thought = True, False
                    shown += self._release()
            shown.append(event)
        return shown

    def _release(self) -> list[Text]:
        """Return the texts that can be shown now."""
        if not self.has_text or self._may_be_thought:
            return []
        shown, self._held = self._held, []
        return shown


async def stop_and_read_usage(stream: ModelStream) -> Usage:
    """Stop an engine in the middle of a reply and return its usage."""
    stream.stop()
    async for item in stream:
        if isinstance(item, Usage):
            return item
    return Usage()
