"""A list below the conversation from which the user picks one row, or switches rows on and off.

`Picker` knows rows and keys only; `Screen.run_picker` shows it in place of the input line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys

from ..core.errors import ChatError
from ..core.i18n import Words
from ..core.sanitize import sanitize_line, shorten_line
from .markdown.cells import count_cells, cut_text, split_clusters
from .status_line import join_fitting

_MAX_ROWS, _FRAME_ROWS = 12, 4
_BETWEEN_KEYS = re.compile(" · |、|，")
_MAX_COLUMN_CELLS = 44
_GAP = "  "
_SLASHES = ("/", "／")
MARKS = {True: "x", False: "-"}
"""First column of rows that can be switched: on, off."""


@dataclass(frozen=True)
class Choice:
    """A row.

    Attributes:
        key: What the picker returns.
        columns: Texts of the row.
        name: Text that renaming starts from; "" for an empty one.
    """

    key: str
    columns: tuple[str, ...]
    name: str = ""


class Picker:
    """The state of a list and its keys.

    Args:
        title: Line above the list.
        choices: The rows.
        words: Sentences of the user's language.
        delete: Deletes a row; None if rows cannot be deleted. A ChatError is shown.
        rename: Renames a row and returns it; None if rows cannot be renamed. A ChatError is shown.
        can_switch: The first column is one of MARKS, which Space changes.

    Attributes:
        picked: Key of the row that was chosen; None if none was.
        switched: Keys of the rows whose mark has changed.
        index: Number of the current row among those that are shown, from 0.
        close: Called when the picker is done.
        is_command: Whether a line is a command; set by a front end that can run one.
        command: The command that was typed into the search and is to run instead; "" for none.
    """

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        words: Words,
        delete: Callable[[str], None] | None = None,
        rename: Callable[[str, str], Choice] | None = None,
        can_switch: bool = False,
    ) -> None:
        self.title, self.choices = title, list(choices)
        self.picked: str | None = None
        self.switched: set[str] = set()
        self.close: Callable[[], None] = lambda: None
        self.is_command: Callable[[str], bool] = lambda _line: False
        self.command = ""
        self._words, self._delete, self._rename, self._can_switch = words, delete, rename, can_switch
        self._mode: Literal["search", "delete", "rename"] = "search"
        self._query = self._name = self._error = ""
        self.index = 0

    @property
    def matches(self) -> list[Choice]:
        """The rows that contain each word of the search."""
        words = self._query.casefold().split()
        texts = [" ".join((choice.key, *choice.columns)).casefold() for choice in self.choices]
        return [choice for choice, text in zip(self.choices, texts, strict=True) if all(word in text for word in words)]

    @property
    def _current(self) -> Choice | None:
        matches = self.matches
        return matches[min(self.index, len(matches) - 1)] if matches else None

    @property
    def _runs_command(self) -> bool:
        """Whether the search is a command: one that there is, or one that no row contains."""
        is_search = self._mode == "search" and self._query.startswith(_SLASHES)
        return is_search and (self.is_command(self._query) or not self.matches)

    def render(self, width: int, rows: int) -> StyleAndTextTuples:
        """Return the lines for a window of `width` cells and `rows` rows; the current row is reversed."""
        matches, current = self.matches, self._current
        index = matches.index(current) if current else 0
        count = max(1, min(_MAX_ROWS, rows - _FRAME_ROWS))
        first = max(0, min(index - count // 2, len(matches) - count))
        widths = [
            min(_MAX_COLUMN_CELLS, max(map(_width, cells))) for cells in zip(*(c.columns for c in matches), strict=True)
        ]
        shown = [(choice, _format_row(choice.columns, widths)) for choice in matches[first : first + count]]
        counts = f"{index + 1 if matches else 0}/{len(matches)}"
        lines = [("", f"{self.title}  {counts}"), ("", self._describe_input())]
        lines += [("reverse", f"❯ {text}") if choice is current else ("", f"{_GAP}{text}") for choice, text in shown]
        lines.append(("", self._error or join_fitting(self._list_keys(), width - 1)))
        return [(style, f"{cut_text(text, max(2, width - 1))}\n") for style, text in lines]

    def _describe_input(self) -> str:
        words, current = self._words, self._current
        if self._mode == "rename":
            return words("picker.rename", name=self._name)
        if self._mode == "delete" and current:
            return words("picker.delete", name=shorten_line(current.name or current.key, _MAX_COLUMN_CELLS))
        return words("picker.search", query=self._query)

    def _list_keys(self) -> list[str]:
        """Return what the keys do, the most important ones first."""
        if self._runs_command:
            return _BETWEEN_KEYS.split(self._words("picker.run", line=self._query.strip()))
        more = {"picker.key_rename": self._rename, "picker.key_delete": self._delete}
        keys = ["picker.keys_switch" if self._can_switch else "picker.keys", *(key for key in more if more[key])]
        return [part for key in keys for part in _BETWEEN_KEYS.split(self._words(key))]

    def make_bindings(self) -> KeyBindings:
        keys = KeyBindings()
        is_search = Condition(lambda: self._mode == "search")
        moves = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "pageup": -_MAX_ROWS, "pagedown": _MAX_ROWS}
        for key, step in {**moves, "home": -len(self.choices), "end": len(self.choices)}.items():
            keys.add(key, filter=is_search)(lambda _event, step=step: self._move(step))

        if self._can_switch:
            may_switch = Condition(lambda: self._mode == "search" and not self._query.startswith(_SLASHES))
            keys.add(" ", filter=may_switch)(lambda _: self._change_current(self._switch_row))
        for key in ("c-d", "delete") if self._delete else ():
            keys.add(key, filter=is_search)(lambda _: self._start("delete"))
        if self._rename:
            keys.add("c-r", filter=is_search)(lambda _: self._start("rename"))
        for key in ("escape", "c-c", "c-g"):
            keys.add(key)(lambda _: self._leave())
        for typed in (Keys.BracketedPaste, Keys.Any):
            keys.add(typed)(lambda event: self._type(_read_text(event.data)))
        keys.add("enter")(lambda _: self._enter())
        keys.add("backspace")(lambda _: self._edit(lambda text: text[:-1]))
        keys.add("c-u")(lambda _: self._edit(lambda _text: ""))
        return keys

    def _move(self, step: int) -> None:
        self._error = ""
        last = max(0, len(self.matches) - 1)
        self.index = max(0, min(last, min(self.index, last) + step))

    def _start(self, mode: Literal["delete", "rename"]) -> None:
        if self._current:
            self._mode, self._name, self._error = mode, self._current.name, ""

    def _edit(self, change: Callable[[str], str]) -> None:
        self._error = ""
        if self._mode == "rename":
            self._name = change(self._name)
        elif self._mode == "search":
            self._query, self.index = change(self._query), 0

    def _type(self, text: str) -> None:
        """Handle printable keys: the answer to a question, or text of the search or of the name."""
        if self._mode == "delete":
            if text.casefold() == "y":
                self._change_current(self._delete_row)
            self._mode = "search"
        elif text:
            self._edit(lambda before: before + text)

    def _enter(self) -> None:
        if self._mode == "rename":
            self._change_current(self._rename_row)
        elif self._runs_command:
            self.command = self._query.strip()
            self.close()
        elif self._mode == "search" and self._current:
            self.picked = self._current.key
            self.close()
        self._mode = "search"

    def _leave(self) -> None:
        if self._mode == "search":
            self.close()
        self._mode = "search"

    def _change_current(self, change: Callable[[Choice], None]) -> None:
        """Change the current row; show why it cannot be."""
        if current := self._current:
            try:
                change(current)
            except ChatError as error:
                self._error = str(error)

    def _delete_row(self, row: Choice) -> None:
        if self._delete:
            self._delete(row.key)
            self.choices.remove(row)

    def _switch_row(self, row: Choice) -> None:
        self.switched ^= {row.key}
        columns = (MARKS[row.columns[0] != MARKS[True]], *row.columns[1:])
        self.choices[self.choices.index(row)] = replace(row, columns=columns)

    def _rename_row(self, row: Choice) -> None:
        if self._rename:
            self.choices[self.choices.index(row)] = self._rename(row.key, self._name.strip())


@runtime_checkable
class PickerFrontend(Protocol):
    """A front end that can show a picker, and run a program that takes over the terminal."""

    async def pick(self, picker: Picker) -> str | None:
        """Show a picker and return the key of the chosen row; None if the user leaves it."""
        ...

    async def run_command(self, command: str) -> int:
        """Run a shell command in the foreground and return its exit code."""
        ...


@runtime_checkable
class SwitchFrontend(Protocol):
    """A front end in which the user can switch the rows of a picker."""

    async def switch(self, picker: Picker) -> Set[str]:
        """Show a picker and return the keys of the rows to switch; none if the user leaves it."""
        ...


def _read_text(data: str) -> str:
    """Return what was typed or pasted as one line; "" for a control key."""
    text = data.lstrip("\r\n\t")
    is_text = text[:1].isprintable()
    return text if is_text and text.isspace() else sanitize_line(text) if is_text else ""


def _width(text: str) -> int:
    return count_cells(split_clusters([(sanitize_line(text), "")]))


def _format_row(columns: Sequence[str], widths: Sequence[int]) -> str:
    """Return the columns of a row, padded or cut to their widths."""
    cells: list[str] = []
    for text, width in zip(columns, widths, strict=True):
        cut = cut_text(sanitize_line(text), width)
        cells.append(cut + " " * (width - _width(cut)))
    return _GAP.join(cells).rstrip()
