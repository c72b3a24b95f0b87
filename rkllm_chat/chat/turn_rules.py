"""What the rules on the calls, the replies and the open requests of a turn have in common.

The rules need no model: they look at whether words and numbers stand in the question, the conversation or the results,
and at a few forms of sentences.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.messages import Tool
from ..prompt.budget import find_last_turn
from .conversation import Conversation
from .evidence import Evidence
from .meant_files import find_meant_file
from .tool_traits import may_write

__all__ = ["TurnRules"]


class TurnRules:
    """Base of the rules on the last turn of a conversation; it keeps nothing of a turn."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat

    @property
    def _are_on(self) -> bool:
        """Whether the rules on values apply at all: with `approve = "all"` a user takes the calls as they come.

        The model of a service that has its own form of calls is larger than those that they were measured with.
        """
        return self._chat.settings.policy.approve != "all" and not self._chat.backend.native_tools

    @property
    def _are_strict(self) -> bool:
        """Whether those apply, too, that were measured with some model families only, the profiles that force calls."""
        return self._are_on and self._chat.profile.forces_calls

    @property
    def _tools(self) -> Sequence[Tool]:
        return self._chat.toolbox.tools

    @property
    def _folders(self) -> list[str]:
        """The folders that entries of servers name: a path in them is no made-up value."""
        return [folder for folders in self._chat.get_folders().values() for folder in folders]

    @property
    def _places(self) -> list[str]:
        """The paths that are known without being said: the folders of servers, and the file that a question means."""
        return [*self._folders, self._meant_file]

    @property
    def _meant_file(self) -> str:
        """The full path of the file that the question has in words; "" for none."""
        visible = self._chat.visible_messages
        question = visible[find_last_turn(visible)].question if visible and self._are_strict else ""
        return find_meant_file(question, [*dict.fromkeys(self._folders)])

    @property
    def _evidence(self) -> Evidence:
        return Evidence.collect(self._chat.visible_messages, "\n".join([self._chat.settings.system, *self._places]))

    def _list_writing(self) -> set[tuple[str, str]]:
        """Return server and name of each tool that may change something."""
        return {(tool.server, tool.name) for tool in self._tools if may_write(tool)}

    def _has_changed(self, evidence: Evidence) -> bool:
        """Return whether a call that may change something has completed in the turn."""
        made = {(result.server, result.tool) for result in evidence.results if result.status == "completed"}
        return not made.isdisjoint(self._list_writing())
