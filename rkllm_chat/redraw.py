"""When the screen is drawn anew: soon, but not for each character, and whatever the wall clock does."""

from __future__ import annotations

import time

from prompt_toolkit.application import Application

REDRAW_S = 0.03


class SteadyApplication(Application[None]):
    """prompt_toolkit (3.0.52) keeps `min_redraw_interval` by the wall clock: after one that was set back by an hour the
    screen would stand still for an hour.
    """

    def invalidate(self) -> None:
        self._last_redraw_time = min(self._last_redraw_time, time.time())
        super().invalidate()
