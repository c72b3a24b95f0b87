"""What the rules on the calls, the replies and the open requests of a turn have in common.

The rules need no model: they look at whether words and numbers stand in the question, the conversation or the results,
and at a few forms of sentences.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from ..calls.described_calls import find_takers, is_file_name, list_places
from ..core.messages import Tool
from ..prompt.budget import find_last_turn
from ..prompt.tool_ranking import extract_terms
from .conversation import Conversation
from .evidence import Evidence, Source, walk_leaves
from .tool_traits import list_reading, may_write

__all__ = ["TurnRules"]

_INTO = r"\b(?:to|on|onto|in|into)\s+(?:(?:a|an|our|the|my|\w+['’]s)\s+)?"
"""The words before the name of a list, as in "Add butter to my shopping list"."""
_MAX_FILES = 500
"""Entries of a folder that are compared with the words of a question."""
_MIN_NAME_LENGTH = 4
"""Characters of the name of a file from which on a question may say it in words."""


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
        return [*self._folders, self.find_meant_file()]

    @property
    def _evidence(self) -> Evidence:
        return Evidence.collect(self._chat.visible_messages, "\n".join([self._chat.settings.system, *self._places]))

    def list_unread(self) -> list[str]:
        """Return the files of the question that are in the folder of a server, and that no call of the turn was about.

        Made to add a line to a list, a model writes that line in the place of the list.
        """
        evidence = self._evidence
        files = self.list_named_files()
        completed = (result for result in evidence.results if result.status == "completed")
        used = Source("\n".join(str(leaf) for result in completed for leaf in walk_leaves(result.arguments)))
        return [file for file in files if self._find_owners(file) and not used.has(file)]

    def _find_owners(self, file: str) -> list[str]:
        """Return the servers that have a file in one of their folders."""
        return [
            server
            for server, folders in self._chat.get_folders().items()
            if any(os.path.exists(os.path.join(folder, file)) for folder in folders)  # noqa: PTH110, PTH118
        ]

    def list_named_files(self) -> list[str]:
        """Return the files that a question names, also the list of "Add butter to my shopping list"."""
        question = self._evidence.question.original
        if files := [place for place in list_places(question) if is_file_name(place)]:
            return files
        meant = os.path.basename(self.find_meant_file())  # noqa: PTH119
        said = re.search(rf"{_INTO}{re.escape(_list_words(meant))}\b", question, re.IGNORECASE) if meant else None
        return [meant] if said else []

    def list_read_files(self) -> list[str]:
        """Return the results that have the text of the files that a question names."""
        files, evidence = self.list_named_files(), self._evidence
        completed = (result for result in evidence.results if result.status == "completed")
        return [result.text for result in completed if any(_names(result.arguments, file) for file in files)]

    def find_meant_file(self) -> str:
        """Return the full path of the only file of a server whose name a question has in words; "" for none.

        "What is on my shopping list?" is in shopping.txt, which a model does not know.
        """
        visible = self._chat.visible_messages
        question = visible[find_last_turn(visible)].question if visible and self._are_strict else ""
        folders = dict.fromkeys(folder for folders in self._chat.get_folders().values() for folder in folders)
        if not (question and folders) or list_places(question):
            return ""
        asked, plain = {*extract_terms(question)}, question.casefold()
        # the first letters alone rule out nearly all files of a large folder
        near = [file for folder in folders for file in _list_files(folder) if file[0][:3].casefold() in plain]
        found = [path for name, path in near if (terms := _extract_terms(name)) and terms <= asked]
        return found[0] if len(found) == 1 else ""

    def find_readers(self) -> list[Tool]:
        """Return the tools that read the files of `list_unread`, of the servers that have them."""
        reading = list_reading(self._tools)
        return [
            taker
            for file in self.list_unread()
            for taker in find_takers(file, reading)
            if taker.server in self._find_owners(file)
        ]

    def _list_writing(self) -> set[tuple[str, str]]:
        """Return server and name of each tool that may change something."""
        return {(tool.server, tool.name) for tool in self._tools if may_write(tool)}

    def _has_changed(self, evidence: Evidence) -> bool:
        """Return whether a call that may change something has completed in the turn."""
        made = {(result.server, result.tool) for result in evidence.results if result.status == "completed"}
        return not made.isdisjoint(self._list_writing())


@lru_cache(maxsize=1024)
def _extract_terms(name: str) -> frozenset[str]:
    return frozenset(extract_terms(name))


def _list_files(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the name, without its ending, and the full path of each file with a name in words, directly in a folder."""
    try:
        with os.scandir(folder) as entries:
            for entry in islice(entries, _MAX_FILES):
                name = _list_words(entry.name)
                is_named = len(name) >= _MIN_NAME_LENGTH and not name.startswith(".") and is_file_name(entry.name)
                if is_named and entry.is_file():
                    yield name, entry.path
    except OSError:
        return


def _names(arguments: Mapping[str, Any], file: str) -> bool:
    return any(os.path.basename(str(value)) == os.path.basename(file) for value in walk_leaves(arguments))  # noqa: PTH119


def _list_words(file: str) -> str:
    """Return the name of a file without its ending, in words."""
    return os.path.splitext(file)[0].replace("_", " ").replace("-", " ")  # noqa: PTH122
