"""When the screen is drawn anew: soon, but not for each character, whatever the wall clock does, and not for nobody."""

from __future__ import annotations

import errno
import time
from asyncio import AbstractEventLoop
from typing import Any

from prompt_toolkit.application import Application

REDRAW_S = 0.03


class SteadyApplication(Application[None]):
    """prompt_toolkit (3.0.52) keeps `min_redraw_interval` by the wall clock: after one that was set back by an hour the
    screen would stand still for an hour.
    """

    def invalidate(self) -> None:
        self._last_redraw_time = min(self._last_redraw_time, time.time())
        super().invalidate()

    def _handle_exception(self, loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        """Leaves a terminal that has gone: nobody is there for the Enter that prompt_toolkit would wait for."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno != errno.EIO:
            super()._handle_exception(loop, context)
        elif self.is_running and not self.is_done:
            self.exit()
