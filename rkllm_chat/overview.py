"""What the status line and the completion look at: the desk once it is open, and what the last turns have shown."""

from __future__ import annotations

import time

from .bundled.board.gauges import read_npu, read_temperatures
from .chat import Chat
from .desk import Desk
from .events import Event, TurnEnded
from .forecast import Forecast
from .gauge import Status

READ_S = 2.0
"""How old a reading of the board may be."""


class Overview:
    """`desk` is None while everything is still being opened."""

    def __init__(self) -> None:
        self.desk: Desk | None = None
        self._used_tokens = 0
        self._seen: tuple[object, ...] = (0,)
        self._tokens_per_s = 0.0
        self._read_at = 0.0
        self._npu: int | None = None
        self._celsius: float | None = None

    def note(self, event: Event) -> None:
        """Learns the size of the context and the speed of the model from what a turn cost."""
        if isinstance(event, TurnEnded) and event.usage:
            last = event.usage[-1]
            if self.desk:
                self._seen = outline(self.desk.chat)
            self._used_tokens = last.prompt_tokens + last.generated_tokens
            tokens, time_s = (
                sum(getattr(one, key) for one in event.usage) for key in ("generated_tokens", "generate_s")
            )
            self._tokens_per_s = tokens / time_s if time_s else 0.0
            if self.desk:
                self.desk.learn_speed(event.usage)

    def settle(self) -> None:
        """Measures the context again where something else than a turn has changed the talk."""
        chat = self.desk.chat if self.desk else None
        if chat and self._seen != (seen := outline(chat)):
            self._seen, self._used_tokens = seen, chat.count_tokens() if chat.history else 0

    def status(self, price: Forecast | None = None) -> Status:
        """`price` is what the line that is typed would cost, where it is known."""
        desk = self.desk
        if desk is None:
            return Status()
        self._read_board()
        connections = desk.servers.connections.values() if desk.servers else ()
        return Status(
            desk.backend.name,
            sum(one.is_open for one in connections),
            len(connections),
            len(desk.toolbox.tools),
            self._used_tokens,
            desk.backend.context_tokens,
            self._tokens_per_s,
            self._npu,
            self._celsius,
            price,
        )

    def expect_s(self, new: int) -> float:
        """How long the engine may read so many new tokens of a prompt; 0.0 where nothing is known."""
        if self.desk is None:
            return 0.0
        return self.desk.speed.expect(new, max(0, self._used_tokens - new))

    def _read_board(self) -> None:
        """The NPU's load and the warmest sensor, where there is an NPU."""
        now = time.monotonic()
        if now - self._read_at < READ_S:
            return
        self._read_at = now
        npu = read_npu()
        self._npu = max(npu.load) if npu and npu.load else None
        degrees = read_temperatures() if npu else {}
        self._celsius = max(degrees.values()) if degrees else None


def outline(chat: Chat) -> tuple[object, ...]:
    """What differs between two states of a talk whose prompts differ in size."""
    shown = chat.shown
    return (len(shown), *shown[:1])
