"""The input line: the text being edited, submitted lines, and questions that temporarily replace it.

It draws nothing and knows no keys; `key_bindings` calls it and `screen_layout` displays it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, DynamicCompleter, FuzzyWordCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History

from ..core.sanitize import ZERO_WIDTH
from .pasted_text import PasteTracker, mention_dropped_files
from .slash_commands import is_command

PROMPT, _QUEUE_PROMPT = "> ", "+ "
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass
class Question:
    """A question that is answered by a line, which replaces the input line meanwhile, or by one key.

    A key answers while the input line is empty; what is typed there is text, which is no answer.

    Attributes:
        prompt: Shown in place of the input prompt: the last line of the question.
        lines: Shown above the prompt: the lines before the last one.
        keys: Answer per key, for questions answered by one key; empty if a line is read.
        hint: Shown below a question for a key while the input line has text.
        choices: Completions for a line.
        answer: Resolved with the answer, or with None if the user declines.
        shown_answer: What is printed behind the question once it is answered.
        left_by: The key that left the question without an answer; "" if it was answered.
        min_empty_s: An empty line does not answer sooner: its Enter may still belong to the key before.
        keeps_text: What was typed stays in the input line if a key leaves the question.
        asked_at: When it was asked, on the monotonic clock.
        draft: The unfinished input line, restored after the line that answers.
    """

    prompt: str
    lines: Sequence[str] = ()
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    hint: Sequence[str] = ()
    choices: Sequence[str] = ()
    answer: asyncio.Future[str | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    shown_answer: str = ""
    left_by: str = ""
    min_empty_s: float = 0.0
    keeps_text: bool = False
    asked_at: float = field(default_factory=time.monotonic)
    draft: Document = field(default_factory=Document)


class InputLine:
    """The input line of a session.

    Args:
        history: Input history.
        completer: Completes the line.
        refresh: Schedules a redraw.

    Attributes:
        buffer: The text being edited.
        question: The question that is being asked, one at a time; None for none.
        is_closed: The session has ended; no line is returned any more.
        example: What can be asked, shown in the empty line until the first key; "" for nothing.
    """

    def __init__(self, history: History, completer: Completer, refresh: Callable[[], None]) -> None:
        self._completer, self._refresh = completer, refresh
        self._lines: deque[str] = deque()
        self._line_ready = asyncio.Event()
        self._is_reading = False
        self.question: Question | None = None
        self.is_closed = False
        self.example = ""
        self.buffer = Buffer(
            multiline=True,
            history=history,
            completer=DynamicCompleter(self._select_completer),
            complete_while_typing=Condition(self._wants_menu),
            auto_suggest=AutoSuggestFromHistory(),
            enable_history_search=False,
        )
        self._pasted = PasteTracker()
        self.buffer.on_text_changed += lambda buffer: self._pasted.update(buffer.text)

    @property
    def queued(self) -> Sequence[str]:
        """The submitted lines that `read_line` has not returned yet."""
        return tuple(self._lines)

    @property
    def reads_answer(self) -> bool:
        """Whether the line is the answer of a question."""
        return self.question is not None and not self.question.keys

    @property
    def waits_for_key(self) -> bool:
        """Whether the next key answers a question: one that a key answers, beside an empty line."""
        return self.question is not None and not (self.reads_answer or has_visible_text(self.buffer.text))

    @property
    def prompt(self) -> str:
        """The text before the line: that of the question, or whether a submitted line is run at once or queued."""
        if self.question and (self.reads_answer or self.waits_for_key):
            return self.question.prompt
        return PROMPT if self._is_reading and not self.question else _QUEUE_PROMPT

    @property
    def question_lines(self) -> Sequence[str]:
        """The lines of the question above the line."""
        if self.question is None:
            return ()
        if self.reads_answer or self.waits_for_key:
            return self.question.lines
        return [*self.question.lines, self.question.prompt, *self.question.hint]

    @property
    def has_menu(self) -> bool:
        """Whether a completion menu is open or about to open."""
        return bool(self.buffer.complete_state) or (self._wants_menu() and not self.reads_answer)

    async def read_line(self) -> str | None:
        """Return the next submitted line, not before a question is answered; None when the user leaves."""
        self._is_reading = True
        self._refresh()
        while (self.question or not self._lines) and not self.is_closed:
            self._line_ready.clear()
            await self._line_ready.wait()
        self._is_reading = False
        return None if self.is_closed else self._lines.popleft()

    async def ask(self, question: Question, default: str = "") -> str | None:
        """Ask a question; where a line answers, restore the unfinished input line afterwards.

        Args:
            question: The question.
            default: The line to edit.

        Returns:
            The answer; None for Ctrl+C, Ctrl+D and Esc.
        """
        assert self.question is None
        if self.is_closed:
            return None
        self.question, question.draft = question, self.buffer.document
        reads_answer = self.reads_answer
        try:
            if reads_answer:
                self._reset(Document(default))
                if question.choices and not default:
                    self.buffer.start_completion()
            self._refresh()
            return await question.answer
        finally:
            self.question = None
            if reads_answer:
                typed = self.buffer.text if question.keeps_text and question.left_by else ""
                self._reset(question.draft)
                if typed:
                    self.insert_draft(typed)
            self._line_ready.set()
            self._refresh()

    def answer(self, text: str | None) -> None:
        """Answer the current question; None declines it."""
        if self.question and not self.question.answer.done():
            self.question.answer.set_result(text)

    def leave(self, key: str) -> None:
        """Decline the current question by a key that is none of its answers."""
        if self.question and not self.question.answer.done():
            self.question.left_by = key
            self.answer(None)

    def paste(self, text: str) -> None:
        """Insert pasted text into the line; the path of a dropped picture becomes a mention that attaches it."""
        if not self.reads_answer and (mention := mention_dropped_files(text)):
            self.buffer.insert_text(f"{mention} ")
            return
        self._pasted.record_paste(text)
        self.buffer.insert_text(text)

    def mark_pasted(self, start: int) -> None:
        """Count what stands between a position and the cursor as pasted."""
        self._pasted.update(self.buffer.text)
        self._pasted.mark(start, self.buffer.cursor_position)

    def submit(self) -> None:
        """Add the line to the queue of `read_line`."""
        self.queue(self.take())

    def take(self) -> str:
        """Empty the line, add it to the history and return it; what was pasted into it is escaped."""
        self._pasted.update(self.buffer.text)
        self.buffer.text = text = replace_surrogates(self._pasted.escape())
        self.buffer.append_to_history()
        self._reset()
        return text.strip()

    def queue(self, line: str) -> None:
        """Add a line to the queue of `read_line`."""
        self._lines.append(line)
        self._is_reading = False
        self._line_ready.set()

    def take_back(self) -> None:
        """Move the newest queued line back into the input line."""
        if self._lines:
            self.insert_draft(self._lines.pop())

    def insert_draft(self, text: str) -> None:
        """Insert text into the input line, before what it contains."""
        old = self._draft.text
        new = Document(f"{text}\n{old}" if old else text)
        if self.question and self.reads_answer:
            self.question.draft = new
        else:
            self._reset(new)
        self._refresh()

    @property
    def _draft(self) -> Document:
        """The unfinished input line."""
        return self.question.draft if self.question and self.reads_answer else self.buffer.document

    def _reset(self, document: Document | None = None) -> None:
        self.buffer.reset(document)
        self._pasted.update(self.buffer.text)  # the buffer does not report it

    def restore_queued(self) -> list[str]:
        """Move the queued messages back into the input line, and return the commands among them.

        A command is no line of a message; one that is alone moves back, too.
        """
        queued = list(self._lines)
        self._lines.clear()
        if len(queued) == 1 and not self._draft.text:
            self.insert_draft(queued[0])
            return []
        commands = [line for line in queued if is_command(line) or line.startswith("!")]
        if messages := [line for line in queued if line not in commands]:
            self.insert_draft("\n".join(messages))
        return commands

    def close(self) -> None:
        """End the session: `read_line` returns None, and the open question and later ones are declined."""
        self.is_closed = True
        self._line_ready.set()
        self.answer(None)

    def _select_completer(self) -> Completer:
        if self.question and self.reads_answer:
            return FuzzyWordCompleter(list(self.question.choices))
        return self._completer

    def _wants_menu(self) -> bool:
        if self.question and self.reads_answer:
            return bool(self.question.choices)
        before = self.buffer.document.text_before_cursor
        return before.startswith("/") or "@" in before.rpartition(" ")[2]


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which stand for bytes that are not UTF-8, by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def has_visible_text(text: str) -> bool:
    """Return whether the line has any visible character."""
    return bool(ZERO_WIDTH.sub("", text).strip())
