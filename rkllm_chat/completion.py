"""What the line that is typed may go on with: commands and their arguments, files and resources behind @."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, FuzzyWordCompleter
from prompt_toolkit.document import Document

from .commands import COMMANDS
from .overview import Overview


class LineCompleter(Completer):
    """Completes a line for what is open at the desk."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.startswith("/") and " " not in before:
            yield from FuzzyWordCompleter(list(COMMANDS), WORD=True).get_completions(document, complete_event)
