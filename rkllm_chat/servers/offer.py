"""What a server offers: its tools as they were listed last, but for those that the user has not accepted as they are.

It lists nothing and asks nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..config import ServerConfig
from ..messages import Tool
from ..pins import Pins
from ..trust import Accepted
from .listing import Listing

if TYPE_CHECKING:
    from ..pins import Held


class Offer:
    """`tools` are those of the last start. `hidden`: what the server has and nobody can call -> why, a key of the
    language table "hidden". `held` are the tools among them that wait for the user to accept what they say of
    themselves now, `why_held` whether they are new or changed; `pins` is what he has accepted.
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.tools: list[Tool] = []
        self.held: list[Tool] = []
        self.why_held: Mapping[str, Held] = {}
        self.hidden: Mapping[str, str] = {}
        self.pins = Pins(Accepted(None), config)
        self.listing = Listing([])
        self._as_tasks: frozenset[str] = frozenset()

    def take(self, listing: Listing) -> bool:
        """Goes on with what was listed now; whether there is something new for the user to look at."""
        self.listing, before = listing, self.held
        self.why_held = why = self.pins.greet(listing.told)
        self.tools = [tool for tool in listing.tools if tool.name not in why]
        self.held = [tool for tool in listing.tools if tool.name in why]
        self.hidden = {**listing.hidden, **{tool.name: why[tool.name] for tool in self.held}}
        self._as_tasks = listing.as_tasks
        return bool(self.held) and self.held != before

    def accept_tools(self) -> None:
        """The user has seen what the tools say of themselves now, and accepts it."""
        self.pins.accept(self.listing.told)
        self.take(self.listing)
