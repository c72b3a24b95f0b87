"""File rules: which files a question names or means, which tools read them, and what a call does with them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from ..calls.described_calls import find_takers, is_file_name, list_places, takes_only, takes_other_paths
from ..core.messages import Tool
from ..core.working_folder import find_working_folder
from ..prompt.tool_ranking import find_sure_tools, index_tools
from .argument_values import uses_name
from .evidence import Source, normalize, walk_leaves
from .file_values import (
    ADDS,
    EMPTIES,
    REPLACES,
    drops_lines,
    edits_nothing,
    fill_folder,
    find_files,
    keep_lines,
    names_file,
    read_text,
    write_full_paths,
)
from .meant_files import is_put_into
from .tool_traits import is_path_name, list_reading, may_write, names_verb, shares_term
from .turn_rules import TurnRules

__all__ = ["FileRules"]

_DRIVE = re.compile(r"^[A-Za-z]:(?=[\\/])")
"""How a path of Windows begins, which models make up."""
_DELETED_FILE = (
    r"\b(?:delete|remove|erase|get rid of|throw away|lösche?|entferne?|wirf)\s+"
    r"(?:(?:my|the|die|meine)\s+)?(?:(?:file|datei)\s+)?[\"'`“]?{file}",
    r"{file}[」』\"'”]?を?(?:削除|消|捨て)",
    r"(?:删除|删掉|刪除|扔掉|去掉)(?:掉|文件|这个文件)?\s*[“\"']?{file}|把[“\"']?{file}[”\"']?删",
)
"""How a request says that a file is to be deleted."""


class FileRules(TurnRules):
    """What the files of the last question of a conversation say of its calls."""

    def list_named_files(self) -> list[str]:
        """Return the files that a question names, also the list of "Add butter to my shopping list"."""
        question = self._evidence.question.original
        if files := [place for place in list_places(question) if is_file_name(place)]:
            return files
        meant = os.path.basename(self._meant_file)  # noqa: PTH119
        return [meant] if meant and is_put_into(question, meant) else []

    def find_takers(self, places: Sequence[str], tools: Sequence[Tool]) -> list[Tool]:
        """Return the tools that take one of these files, addresses and dates; a file, on the servers that have it.

        One in the working folder may be meant, too.
        """
        found = list[Tool]()
        for place in places:
            taking, owners = find_takers(place, tools), self._find_owners(place)
            is_here = bool(find_files([place], (), find_working_folder()))
            own = [tool for tool in taking if tool.server in owners and not is_here]
            found += [tool for tool in own or taking if tool not in found]
        return found

    def find_moving_tools(self) -> list[Tool]:
        """Return the tool that the question clearly means and that takes only files: "Rename a.txt to b.txt"."""
        question, counts = self._evidence.question.original, self._chat.tool_usage.counts
        files, own = self.list_named_files(), [tool for tool in self._tools if tool.server]
        sure = find_sure_tools(index_tools(own), question, counts) if files else []
        moving = [tool for tool in sure if may_write(tool) and takes_only(tool, files[0])]
        return self.find_takers(files, moving)

    def deletes_file(self) -> bool:
        """Return whether the question asks to delete a file, and not something in it: "Delete plan.txt"."""
        question = self._evidence.question.original
        return any(
            re.search(pattern.format(file=re.escape(file)), question, re.IGNORECASE)
            for file in self.list_named_files()
            for pattern in _DELETED_FILE
        )

    def names_new_file(self) -> bool:
        """Return whether the question names a file that is in no folder of a server, nor in the working folder."""
        files = self.list_named_files()
        return not all(find_files([file], self._folders, find_working_folder()) for file in files)

    def drop_new(self, places: Sequence[str]) -> list[str]:
        """Return files, addresses and dates without the files that are in no folder of the servers: to be made."""
        folders, working = self._folders, find_working_folder()
        return [
            place for place in places if not (folders and is_file_name(place)) or find_files([place], folders, working)
        ]

    def list_unread(self) -> list[str]:
        """Return the files of the question that are in the folder of a server, and that no call of the turn was about.

        Made to add a line to a list, a model writes that line in the place of the list.
        """
        evidence = self._evidence
        files = self.list_named_files()
        completed = (result for result in evidence.results if result.status == "completed")
        used = Source("\n".join(str(leaf) for result in completed for leaf in walk_leaves(result.arguments)))
        return [file for file in files if self._find_owners(file) and not used.has(file)]

    def find_readers(self) -> list[Tool]:
        """Return the tools that read the files of `list_unread`, of the servers that have them.

        A file that is only moved is not read.
        """
        if self.deletes_file() or self.find_moving_tools():
            return []
        reading = list_reading(self._tools)
        takers = [
            taker
            for file in self.list_unread()
            for taker in find_takers(file, reading)
            if taker.server in self._find_owners(file)
        ]
        # not what tells how large it is
        return [taker for taker in takers if names_verb(taker, Source("read"))] or takers

    def _find_owners(self, file: str) -> list[str]:
        """Return the servers that have a file in one of their folders."""
        return [
            server
            for server, folders in self._chat.get_folders().items()
            if any(os.path.exists(os.path.join(folder, file)) for folder in folders)  # noqa: PTH110, PTH118
        ]

    def find_readers_of_meant_file(self) -> list[Tool]:
        """Return the tools that read the file which the question has in words, of the servers that have it."""
        file, folders = self._meant_file, self._chat.get_folders()
        takers = find_takers(file, list_reading(self._tools)) if file else []
        takers = [taker for taker in takers if names_verb(taker, Source("read"))]  # not what tells how large it is
        return [
            taker for taker in takers if any(map(PurePosixPath(file).is_relative_to, folders.get(taker.server, ())))
        ]

    def find_readers_instead(self, tool: Tool, arguments: Mapping[str, Any]) -> list[Tool]:
        """Return the tools that read the file which the question has in words, for a look-up of what is not there.

        Asked for "my flight, it is in the trip folder", a model lists "trip/folder".
        """
        roots = (*self._get_folders(tool), find_working_folder())
        paths = _list_paths(arguments)
        is_there = any(os.path.exists(os.path.join(root, path)) for path in paths for root in roots)  # noqa: PTH110, PTH118
        if may_write(tool) or is_there or not paths or self._fill_file(tool, arguments) != arguments:
            return []
        return self.find_readers_of_meant_file()

    def reads_meant_file(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call only reads the file which the question has in words."""
        return not may_write(tool) and bool(self._meant_file) and self._meant_file in arguments.values()

    def writes_unread(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call changes what is in a file of the question that the turn has not read."""
        is_of_unread = may_write(tool) and not takes_only(tool, "a.txt") and names_file(arguments, self.list_unread())
        return is_of_unread and bool(self.find_readers())

    def drop_others(self, tools: Sequence[Tool]) -> list[Tool]:
        """Return tools without those that take files, of servers that have not what the question names."""
        files = self.list_named_files()
        own = self.find_takers(files, tools)
        others = [tool for file in files for tool in find_takers(file, tools) if tool not in own]
        return [tool for tool in tools if tool not in others]

    def list_read_files(self) -> list[str]:
        """Return the results that have the text of the files that a question names."""
        names = [os.path.basename(file) for file in self.list_named_files()]  # noqa: PTH119
        completed = (result for result in self._evidence.results if result.status == "completed")
        return [result.text for result in completed if names_file(result.arguments, names)]

    def find_owning_tools(self, tool: Tool, values: Sequence[str], others: Sequence[Tool]) -> list[Tool]:
        """Return the tools for a path of the question that stands in the folder of another server than the tool's."""
        for place in list_places(self._evidence.question.original):
            path = PurePosixPath(place)
            owners = [
                server
                for server, folders in self._chat.get_folders().items()
                if path.is_absolute() and any(map(path.is_relative_to, folders))
            ]
            if owners and tool.server not in owners and any(place in value for value in values):
                return find_takers(place, [other for other in others if other.server in owners])
        return []

    def overwrites(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call writes a file anew: unread, as it is, or without what is to stay in it.

        Allowed to write, a model put the line in the place of the list, and nothing in the place of what to delete. A
        person sees what is left out, and decides. To write is not to delete, either.
        """
        if not may_write(tool):
            return False
        if self.deletes_file() and not shares_term(tool.name, Source("delete")):
            return True
        question, is_decided = self._evidence.question.text, self._chat.can_ask
        if not is_decided and ADDS.search(question) and drops_lines(arguments, self._evidence):
            return True
        files = find_files(arguments, self._get_folders(tool), find_working_folder())
        texts = [text for file in files if (text := read_text(file))]
        if texts and all(edits_nothing(arguments, text) for text in texts):
            return True
        had = [text.strip() for text in texts if text.strip()] if "content" in arguments else []
        written = str(arguments.get("content", "")).strip()
        if not written and had:
            return not (is_decided or EMPTIES.search(question))
        is_unread = self.writes_unread(tool, arguments) and not REPLACES.search(question)
        return written in had or bool(had and is_unread)

    def rereads(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call only reads files that the turn has read, and not changed, by whichever tool."""
        folders, working = self._get_folders(tool), find_working_folder()
        files = find_files(arguments, folders, working)
        has_others = len(files) < len([*walk_leaves(arguments)])  # it asks for the first lines, or for the next ones
        if not files or has_others or may_write(tool) or self._has_changed(self._evidence):
            return False
        return names_verb(tool, Source("read")) and files <= find_files(self._list_read(), folders, working)

    def has_read_all(self) -> bool:
        """Return whether the turn has read all files that the question names, and there are some."""
        files, had = self.list_named_files(), self._list_read()
        return bool(files) and all(any(uses_name(read, [file]) for read in had) for file in files)

    def _list_read(self) -> list[Mapping[str, Any]]:
        """Return the arguments of the completed calls of tools that read what is in a file."""
        reading = [tool for tool in list_reading(self._tools) if names_verb(tool, Source("read"))]
        own = {(tool.server, tool.name) for tool in reading}
        completed = [result for result in self._evidence.results if result.status == "completed"]
        return [result.arguments for result in completed if (result.server, result.tool) in own]

    def makes_known_folder(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call makes a folder that is there and that the question does not name.

        It changes nothing, and models tell of it as of the change that was asked for.
        """
        if not (may_write(tool) and takes_other_paths(tool, "a.txt")):
            return False
        paths = _list_paths(arguments)
        roots = (*self._get_folders(tool), find_working_folder())
        question = self._evidence.question
        is_spoken_of = shares_term("folder directory", question)
        unnamed = [path for path in paths if not (is_spoken_of and question.has(PurePosixPath(path).name))]
        return any(os.path.isdir(os.path.join(root, path)) for path in unnamed for root in roots)  # noqa: PTH112, PTH118

    def find_missing_file(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        """Return the first path in the arguments that does not exist and was not mentioned before; "" for none.

        It is of a file, or out of the folders of the server.

        "Tell me a story about a fox." read fuchs.txt, and the error was the answer.
        """
        folders = self._get_folders(tool)
        paths = _list_paths(arguments)
        if not folders:
            return ""
        known, working = self._evidence.known.text, find_working_folder()
        # "/home/user/shoes" is in none of the folders that the server may read
        absolute = [path for path in paths if PurePosixPath(path).is_absolute() and normalize(path) not in known]
        outside = [path for path in absolute if not any(map(PurePosixPath(path).is_relative_to, (*folders, working)))]
        if meant := self._meant_file:
            known = known.replace(normalize(meant), "")  # that it is there was not said
        files = [path for path in paths if is_file_name(_DRIVE.sub("", path))]
        unknown = [file for file in files if normalize(PureWindowsPath(file).name) not in known]
        return next((path for path in (*unknown, *outside) if not find_files(path, folders, working)), "")

    def amend(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments with the files and folders that are meant, and the lines that a change must keep."""
        folders, working = self._get_folders(tool), find_working_folder()
        arguments = fill_folder(tool, arguments, self._evidence, folders, working)
        arguments = write_full_paths(arguments, folders, working, self._evidence.question.original)
        if not self._are_strict:
            return arguments
        arguments = self._name_destination(tool, self._fill_file(tool, arguments))
        return keep_lines(arguments, self._evidence, folders, working) if may_write(tool) else arguments

    def _name_destination(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of a tool that moves a file with its name behind the folder that it is moved into."""
        files = find_files(arguments, self._get_folders(tool), find_working_folder())
        if not (may_write(tool) and takes_only(tool, "a.txt")) or len(files) != 1:
            return arguments
        name, roots = next(iter(files)).name, (*self._get_folders(tool), find_working_folder())

        def complete(value: object) -> object:
            is_folder = isinstance(value, str) and any(os.path.isdir(os.path.join(root, value)) for root in roots)  # noqa: PTH112, PTH118
            return str(PurePosixPath(str(value), name)) if is_folder else value

        return {parameter: complete(value) for parameter, value in arguments.items()}

    def _fill_file(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments with the file that the question means in the place of one from nowhere.

        A change gets it only if the question says that something is to be put into it.
        """
        is_named = bool(self.list_named_files()) or not may_write(tool)
        missing = self.find_missing_file(tool, arguments) if is_named else ""
        meant = self._meant_file if missing else ""
        if not (meant and any(map(PurePosixPath(meant).is_relative_to, self._get_folders(tool)))):
            return arguments
        return {name: meant if value == missing else value for name, value in arguments.items()}

    def _get_folders(self, tool: Tool) -> Sequence[str]:
        return self._chat.get_folders().get(tool.server, ())


def _list_paths(arguments: Mapping[str, Any]) -> list[str]:
    """Return the values of the arguments that take a path."""
    return [value for name, value in arguments.items() if is_path_name(name) and isinstance(value, str)]
