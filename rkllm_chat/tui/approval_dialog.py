"""The dialogs about tool calls, the same for all front ends: run, edit or decline a call, and go on or stop."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from ..calls.arguments import validate_arguments
from ..core.errors import ChatError
from ..core.events import NoticeLevel
from ..core.i18n import Words
from ..core.messages import Tool
from ..core.protocols import CallPosition, Consent, Continuation, Decline, RunEdited
from ..core.sanitize import escape_line_visibly, truncate
from .approval_prompt import (
    CONSENT_KEYS,
    CONTINUE_KEYS,
    EDITED_KEYS,
    CallLine,
    describe_call,
    describe_limit,
    parse_continue_answer,
)
from .external_programs import has_desktop, open_page

_MAX_NAME_LENGTH = 40


class TerminalFrontend(ABC):
    """A front end on a terminal, in as far as it does not depend on how lines are read."""

    def __init__(self, words: Words) -> None:
        self._words = words

    @abstractmethod
    async def choose(self, lines: Sequence[CallLine], question: str, keys: Mapping[str, str], default: str) -> str:
        """Show a call and ask a question that one key answers; `default` for Enter, "stop" for Ctrl+C."""

    @abstractmethod
    async def ask_text(self, question: str, default: str) -> str | None:
        """Ask for a line, and wait until the user has seen what follows; None for Ctrl+C."""

    @abstractmethod
    def show_message(self, text: str, level: NoticeLevel = "info") -> None:
        """Show a line of the program."""

    async def approve(
        self, tool: Tool, arguments: Mapping[str, Any], position: CallPosition
    ) -> Consent | Decline | RunEdited:
        """Show a call and ask whether it may run."""
        return await _ask_approval(self, tool, arguments, position, self._words)

    async def ask_to_continue(self, rounds: int) -> Continuation:
        """Ask how to continue after the limit of tool rounds."""
        answer = await self.choose((), describe_limit(rounds, self._words), CONTINUE_KEYS, "answer")
        return parse_continue_answer(answer, rounds)

    @property
    def can_open_browser(self) -> bool:
        """Whether a browser can be opened on this machine."""
        return has_desktop()

    async def open_page(self, url: str) -> None:
        """Open a page in the user's browser."""
        await open_page(url)


async def _ask_approval(
    user: TerminalFrontend, tool: Tool, arguments: Mapping[str, Any], position: CallPosition, words: Words
) -> Consent | Decline | RunEdited:
    """Ask whether a call runs; what runs is what was shown last.

    Args:
        user: The front end.
        tool: The tool.
        arguments: Its validated arguments.
        position: Position of the call in the reply.
        words: The user's language.
    """
    shown = arguments
    while True:
        is_edited = shown is not arguments
        answer = await user.choose(
            describe_call(tool, shown, words),
            _write_question(tool, position, words, is_edited),
            EDITED_KEYS if is_edited else CONSENT_KEYS,
            "no",
        )
        match answer:
            case "edit":
                shown = await _edit_arguments(user, tool, shown, words)
            case "because":
                reason = await user.ask_text(words("question.reason"), "")
                return Decline(reason.strip()) if reason and reason.strip() else "no"
            case "once" if is_edited:
                return RunEdited(shown)
            case "once" | "session" | "always" | "stop":
                return answer
            case _:
                return "no"


def _write_question(tool: Tool, position: CallPosition, words: Words, is_edited: bool) -> str:
    name = truncate(escape_line_visibly(tool.name), _MAX_NAME_LENGTH)
    kind = "run_edited" if is_edited else "described" if position.is_described else "run"
    question = words(f"question.{kind}", tool=name)
    if position.count > 1:
        return words("question.position", number=position.number, count=position.count) + " " + question
    return question


async def _edit_arguments(
    user: TerminalFrontend, tool: Tool, arguments: Mapping[str, Any], words: Words
) -> Mapping[str, Any]:
    """Return the arguments as the user has edited them; unchanged if the user gives up."""
    text = json.dumps(arguments, ensure_ascii=False)
    while True:
        answer = await user.ask_text(words("question.edit"), text)
        if answer is None or not answer.strip():
            return arguments
        text = answer
        try:
            edited = validate_arguments(_parse_object(text), tool.schema).arguments
        except ChatError as error:
            user.show_message(str(error), "error")
        except ValueError as error:
            user.show_message(words("question.not_json", error=error), "error")
        else:
            return dict(edited)


def _parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object. Raises ValueError."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("too deeply nested") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value
