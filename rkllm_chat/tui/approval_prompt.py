"""The dialogs about tool calls, the same for all front ends: a call is described, run, edited or declined."""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..calls.arguments import validate_arguments
from ..config.policy import DELETION_WORDS
from ..core.errors import ChatError
from ..core.events import NoticeLevel
from ..core.i18n import Words
from ..core.messages import Tool
from ..core.protocols import CallPosition, Consent, Continuation, Decline, RunEdited
from ..core.sanitize import MAX_LINE_LENGTH, escape_line_visibly, escape_visibly, find_lookalikes, truncate
from ..core.working_folder import find_working_folder
from .external_programs import has_desktop, open_page
from .file_changes import FileChange, find_change, find_existing_targets
from .slash_commands import is_command, remove_escape

EDITED_KEYS: Mapping[str, str] = {"y": "once", "e": "edit", "n": "because", "q": "stop"}
CONSENT_KEYS: Mapping[str, str] = {**EDITED_KEYS, "u": "session", "a": "always"}
CONTINUE_KEYS: Mapping[str, str] = {"c": "continue", "m": "more", "w": "answer", "s": "stop"}
MORE_ROUNDS_FACTOR = 4
_MAX_PATH_LENGTH = 4096
_MAX_BLANK_LINES, _MAX_SHORT_LINES, _MAX_SUMMARY_LENGTH = 2, 10, 60
_SCREEN_LINE = re.compile(r".{1,80}")
_BLANKS = re.compile(r"[^\S\n]{24,}")
PATH_PATTERN = re.compile(r"~?/|~$|\.\.(?:/|$)|[^\s:]*/\.\.(?:/|$)")
_BEFORE_KEY = re.compile(r" (?=\[\w\] )")
_MAX_NAME_LENGTH = 40


def split_answers(question: str) -> list[str]:
    """Split the line of a question before each of its answers, where it may break: "Run it? [y] once [n] no"."""
    return _BEFORE_KEY.split(question)


class CallLine(NamedTuple):
    """A line that describes a call, and what it means."""

    text: str
    kind: Literal["plain", "warning", "added", "removed"] = "plain"


def describe_call(
    tool: Tool,
    arguments: Mapping[str, Any],
    words: Words,
    folder: Path | None = None,
    made_up: Sequence[str] = (),
    bases: Sequence[Path] | None = None,
) -> list[CallLine]:
    """Return the lines that describe a call: server, tool, all arguments and warnings.

    A text that is to be written to a file that exists is shown as the change of that file. The lines of a text stand
    behind a gutter, so that none can be mistaken for an argument, and blank ones are folded. What is longer than a few
    lines of a screen, and how many arguments there are, is summarized at the end, beside the question.

    Args:
        tool: The tool to run.
        arguments: Its arguments, shown in full.
        words: The user's language.
        folder: Paths outside of it are flagged; the current folder by default.
        made_up: Names of arguments whose values nobody has said.
        bases: Folders to which a relative path of the server may belong; by default `folder`.
    """
    folder = folder or Path(find_working_folder())
    server = escape_line_visibly(tool.server)
    places = () if tool.read_only else [folder] if bases is None else bases
    change = None if tool.read_only else find_change(tool.name, arguments, places)
    key = "question.call" if server else "question.own_call"
    lines = [CallLine(words(key, tool=escape_line_visibly(tool.name), server=server))]
    summaries: list[CallLine] = []
    for name, value in arguments.items():
        shown = escape_line_visibly(name)
        if change and change.lines is not None and name == change.argument:
            lines += _describe_change(change, change.lines, words)
            summaries += _summarize(shown, change.lines, words)
        elif isinstance(value, str) and "\n" in escape_visibly(value):
            text = escape_visibly(value).splitlines()
            lines.append(CallLine(f"  {words('question.lines', argument=shown, count=len(text))}"))
            lines += (CallLine(f"    {line}") for line in _fold_blank_lines([f"| {line}" for line in text], words))
            summaries += _summarize(shown, text, words)
        else:
            line = _fold_blanks(format_value(value), words)
            lines.append(CallLine(f"  {shown} = {line}"))
            summaries += _summarize(shown, _SCREEN_LINE.findall(line), words)
    if len(arguments) > _MAX_SHORT_LINES:
        names = truncate(escape_line_visibly(", ".join(arguments)), MAX_LINE_LENGTH)
        summaries.append(CallLine(f"  {words('question.arguments', count=len(arguments), names=names)}", "warning"))
    warnings = _find_warnings(tool, arguments, words, folder)
    if change and change.lines is None:
        warnings += _say_what_is_replaced(change, words)
    existing = find_existing_targets(tool.name, arguments, places)
    warnings += [words("question.exists", path=escape_line_visibly(str(path))) for path in existing]
    if made_up:
        warnings.append(words("question.made_up", names=escape_line_visibly(", ".join(made_up))))
    return lines + [CallLine(f"  {line}", "warning") for line in warnings] + summaries


def _say_what_is_replaced(change: FileChange, words: Words) -> list[str]:
    """Return what a change replaces that cannot be shown as a diff."""
    if change.path:
        return [words("question.replaces", path=escape_line_visibly(str(change.path)))]
    possible = [escape_line_visibly(str(path)) for path in change.possible_paths]
    return [words("question.may_replace", path=path) for path in possible] or [words("question.unseen_file")]


def _describe_change(change: FileChange, lines: Sequence[str], words: Words) -> list[CallLine]:
    """Return the lines of a diff, hidden characters escaped."""
    values = {"argument": escape_line_visibly(change.argument), "added": change.added, "removed": change.removed}
    path = escape_line_visibly(str(change.path or ""))
    head = words("question.change", path=path, **values) if path else words("question.edits", **values)
    kinds: Mapping[str, Literal["added", "removed"]] = {"+": "added", "-": "removed"}
    # a CR is no end of a line
    shown = _fold_blank_lines([escape_visibly(line).replace("\n", "\\n") for line in lines], words)
    return [CallLine(f"  {head}"), *(CallLine(f"    {line}", kinds.get(line[:1], "plain")) for line in shown)]


def _fold_blank_lines(lines: Sequence[str], words: Words) -> list[str]:
    """Return lines with a mark in front of each, in which a run of blank ones with one mark is a line that counts them.

    It begins with `~`, which is the mark of no line.
    """
    folded: list[str] = []
    for mark, run in groupby(lines, key=lambda line: "" if line[1:].strip() else line[:1]):
        blank = list(run)
        if mark and len(blank) > _MAX_BLANK_LINES:
            folded.append(f"~ {words('question.blank_lines', mark=mark, count=len(blank))}")
        else:
            folded += (_fold_blanks(line, words) for line in blank)
    return folded


def _fold_blanks(line: str, words: Words) -> str:
    """Return a line in which a long run of blanks is its length: it could push the rest off the screen."""
    return _BLANKS.sub(lambda run: f" {words('question.blanks', count=len(run[0]))} ", line)


def _summarize(name: str, lines: Sequence[str], words: Words) -> list[CallLine]:
    """Return a line that says how long a text is, with its first and last line; none for a short one."""
    if len(lines) <= _MAX_SHORT_LINES:
        return []
    said = [truncate(escape_line_visibly(line), _MAX_SUMMARY_LENGTH) for line in lines if line.strip()] or [""]
    text = words("question.summary", argument=name, count=len(lines), first=said[0], last=said[-1])
    return [CallLine(f"  {text}", "warning")]


def _find_warnings(tool: Tool, arguments: Mapping[str, Any], words: Words, folder: Path) -> list[str]:
    """Return warnings: the call is not read-only, it deletes, has a path outside `folder`, or a name that deceives."""
    warnings = [] if tool.read_only else [words("question.not_read_only")]
    warnings += [
        words("question.lookalike", name=escape_line_visibly(name), letters=", ".join(letters))
        for name in (tool.server, tool.name)
        if (letters := find_lookalikes(name))
    ]
    if DELETION_WORDS.search(tool.name):
        warnings.append(words("question.deletes"))
    outside = dict.fromkeys(text for text in _texts_in(arguments) if is_outside(text, folder))
    return warnings + [words("question.outside", path=escape_line_visibly(path)) for path in outside]


def _texts_in(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value, at any depth.

    The schema check has bounded the depth.
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)


def is_outside(text: str, folder: Path) -> bool:
    """Whether the text is a path outside `folder`: absolute, in a home folder or with `..`."""
    if "\n" in text or len(text) > _MAX_PATH_LENGTH or not PATH_PATTERN.match(text):
        return False
    try:
        path = os.path.normpath(folder / Path(text).expanduser())
    except RuntimeError:  # the home of a user that does not exist
        return True
    return path != str(folder) and not path.startswith(f"{folder}{os.sep}".replace("//", "/"))


def format_value(value: Any) -> str:
    """Return the value as JSON, hidden characters escaped."""
    return escape_visibly(json.dumps(value, ensure_ascii=False, default=str))


class TerminalFrontend(ABC):
    """A front end on a terminal, in as far as it does not depend on how lines are read."""

    def __init__(self, words: Words, find_bases: Callable[[str], Sequence[Path]]) -> None:
        """Create the front end.

        Args:
            words: The language.
            find_bases: Returns the folders to which a relative path of a server may belong.
        """
        self._words, self._find_bases = words, find_bases

    @abstractmethod
    async def choose(self, lines: Sequence[CallLine], question: str, keys: Mapping[str, str], default: str) -> str:
        """Show a call and ask a question that one key answers; `default` for Enter, "stop" for Ctrl+C."""

    @abstractmethod
    async def ask_text(self, question: str, default: str) -> str | None:
        """Ask for a line, and wait until the user has seen what follows; None for Ctrl+C."""

    @abstractmethod
    async def run_later(self, line: str) -> None:
        """Run a command that was written in the place of an answer: at once if it only asks how something is done."""

    @abstractmethod
    def notify(self, text: str, level: NoticeLevel = "info") -> None:
        """Show a line of the program."""

    async def approve(
        self, tool: Tool, arguments: Mapping[str, Any], position: CallPosition
    ) -> Consent | Decline | RunEdited:
        """Show a call and ask whether it may run; what runs is what was shown last."""
        shown, words = arguments, self._words
        while True:
            is_edited = shown is not arguments
            kind = "run_edited" if is_edited else "described" if position.is_described else "run"
            question = words(f"question.{kind}", tool=truncate(escape_line_visibly(tool.name), _MAX_NAME_LENGTH))
            if position.count > 1:
                place = words("question.position", number=position.number, count=position.count)
                question = f"{place} {question}"
            keys = EDITED_KEYS if is_edited else CONSENT_KEYS
            made_up = [name for name in position.made_up if name in shown and shown[name] == arguments[name]]
            about = describe_call(tool, shown, words, made_up=made_up, bases=self._find_bases(tool.server))
            answer = await self.choose(about, question, keys, "no")
            match answer:
                case "edit":
                    shown = await self._edit_arguments(tool, shown)
                case "because":
                    reason = await self._ask_reason()
                    return Decline(reason) if reason else "no"
                case "once" if is_edited:
                    return RunEdited(shown)
                case "once" | "session" | "always" | "stop":
                    return answer
                case _:
                    return "no"

    async def _ask_reason(self) -> str:
        """Ask why a call is declined; a command is none, and two slashes begin a text as in a message.

        Nor is a question: who types the next one here has not seen that a reason is asked for.
        """
        while is_command(reason := (await self.ask_text(self._words("question.reason"), "") or "").strip()):
            await self.run_later(reason)
        if reason.endswith(("?", "？")):
            await self.run_later(reason)
            return ""
        return remove_escape(reason)

    async def _edit_arguments(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as the user has edited them; unchanged if the user gives up."""
        text = json.dumps(arguments, ensure_ascii=False)
        while True:
            answer = await self.ask_text(self._words("question.edit"), text)
            if answer is None or not answer.strip():
                return arguments
            text = answer
            try:
                edited = validate_arguments(_parse_object(text), tool.schema).arguments
            except ChatError as error:
                self.notify(str(error), "error")
            except ValueError as error:
                self.notify(self._words("question.not_json", error=error), "error")
            else:
                return dict(edited)

    async def ask_to_continue(self, rounds: int) -> Continuation:
        """Ask how to continue after the limit of tool rounds."""
        more = rounds * MORE_ROUNDS_FACTOR
        question = self._words("question.onward", rounds=rounds, more=more)
        answer = await self.choose((), question, CONTINUE_KEYS, "answer")
        choices: Mapping[str, Continuation] = {"continue": rounds, "more": more, "answer": "answer"}
        return choices.get(answer, "stop")

    @property
    def can_open_browser(self) -> bool:
        """Whether a browser can be opened on this machine."""
        return has_desktop()

    async def open_page(self, url: str) -> None:
        """Open a page in the user's browser."""
        await open_page(url)


def _parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object. Raises ValueError."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("too deeply nested") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value
