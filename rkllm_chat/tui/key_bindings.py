"""Keys of the screen: what each key does, and its binding. Unbound keys edit the line as in Emacs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from prompt_toolkit.filters import Condition, is_searching, vi_insert_mode
from prompt_toolkit.key_binding import KeyBindings, KeyBindingsBase, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys

from .input_line import InputLine, has_visible_text, replace_surrogates

_MIN_ANSWER_DELAY_S = 0.5
"""A key that follows another one sooner answers no question: it was typed before the user saw the question."""
_SAME_INTERRUPT_S = 0.2
"""A Ctrl+C within this time after a program that Ctrl+C ended is the same one."""


class KeyHandler:
    """Runs the actions of keys.

    Args:
        line: The input line.
        close: Ends the session.
        edit_text: Returns a text as edited in the user's editor.

    Attributes:
        stop: Called by Ctrl+C and Esc; None while nothing runs.
        on_hint: Called for Ctrl+C on an empty line.
        switch_mode: Switches the approval mode; called by Shift+Tab.
        unfold: Shows the newest shortened result in full; called by Ctrl+O.
        on_empty: Called for Enter on an empty line.
        show_keys: Shows the table of the keys; called for ? on an empty line.
        is_quit: Whether a line ends the session, also while something runs.
    """

    def __init__(self, line: InputLine, close: Callable[[], None], edit_text: Callable[[str], Awaitable[str]]) -> None:
        self.stop: Callable[[], None] | None = None
        self.on_hint: Callable[[], None] = lambda: None
        self.on_empty: Callable[[], None] = lambda: None
        self.show_keys: Callable[[], None] = lambda: None
        self.switch_mode: Callable[[], None] = lambda: None
        self.unfold: Callable[[], Coroutine[Any, Any, None]] = _do_nothing
        self.is_quit: Callable[[str], bool] = lambda _line: False
        self._line, self._close, self._edit_text = line, close, edit_text
        self._is_hinted = False
        self._has_foreground_program = False
        self._last_key_at = self._answered_at = self._program_interrupted_at = 0.0
        self._consent_key = ""

    def make_bindings(self) -> KeyBindingsBase:
        """Return all key bindings."""
        return merge_key_bindings([self._bind_editing(), self._bind_control()])

    def record_key_time(self) -> None:
        """Record the time of a key press; called before every key."""
        if not (self._line.question and self._line.question.keys):
            self._last_key_at = time.monotonic()
            self._consent_key = ""

    def require_pause(self) -> None:
        """Let no key answer a question that follows another key at once."""
        self._last_key_at = time.monotonic()

    def forget_hint(self) -> None:
        """Let the next Ctrl+C on an empty line show the hint again."""
        self._is_hinted = False

    @contextmanager
    def foreground_program(self) -> Iterator[Callable[[], None]]:
        """Ignore Ctrl+C while another program has the terminal; keys typed right behind it answer no question.

        Yields a function to call if Ctrl+C has ended the program: the terminal signals this program too, and the signal
        may be read only after the other one has ended.
        """
        self._has_foreground_program = True
        try:
            yield self._record_interrupted_program
        finally:
            self._has_foreground_program = False
            self.require_pause()

    def _record_interrupted_program(self) -> None:
        self._program_interrupted_at = time.monotonic()

    def _enter(self) -> None:
        r"""Handle Enter: answer the question, continue a line that ends in `\`, quit, or submit the line."""
        line, buffer = self._line, self._line.buffer
        text = replace_surrogates(buffer.text)
        has_just_answered = time.monotonic() - self._answered_at < _MIN_ANSWER_DELAY_S
        self._last_key_at = self._answered_at = 0.0
        if has_just_answered and not text:
            return
        if line.question:
            line.answer(text)
        elif text.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor(1)
            buffer.insert_text("\n")
        elif self.stop and self.is_quit(text):
            self.stop()
            self._close()
        elif has_visible_text(text):
            line.submit()
        else:
            self.on_empty()

    def _interrupt(self) -> None:
        """Handle Ctrl+C: cancel a question, stop the work, clear the line, hint, or leave; the first that applies."""
        is_for_program = time.monotonic() - self._program_interrupted_at < _SAME_INTERRUPT_S
        if self._has_foreground_program or is_for_program:
            return
        if self._line.question:
            self._line.answer(None)
        elif self.stop:
            self.stop()
        elif self._line.buffer.text:
            self._line.buffer.reset()
            self._is_hinted = False
        elif self._is_hinted:
            self._close()
        else:
            self._is_hinted = True
            self.on_hint()

    def _end_of_input(self) -> None:
        """Handle Ctrl+D on an empty line: cancel a question, or stop the work and leave."""
        if self._line.question:
            self._line.answer(None)
            return
        if self.stop:
            self.stop()
        self._close()

    def _escape(self) -> None:
        """Handle Esc: close the completion menu, cancel a question, or stop the work."""
        if self._line.buffer.complete_state:
            self._line.buffer.cancel_completion()
        elif self._line.question:
            self._line.answer(None)
        elif self.stop:
            self.stop()

    def _answer_key(self, key: str) -> None:
        """Handle a key while a question waits for one.

        Keys typed before the question was visible go into the unfinished input line instead. A key that has just
        consented to one question consents to no second one, and is dropped while it repeats.
        """
        question = self._line.question
        assert question
        now, last_key_at = time.monotonic(), self._last_key_at
        answer = question.keys.get(key.lower())
        is_consent = answer is not None and answer not in (question.keys["\r"], "stop")
        if is_consent and self._consent_key:
            last_key_at = max(last_key_at, self._answered_at)
        if key in ("\x1b", "\x04"):
            self._line.answer(None)
        elif key.startswith("\x1b"):
            return  # an arrow or a function key
        elif now - last_key_at < _MIN_ANSWER_DELAY_S or len(key) > 1 or question.answer.done():
            self._last_key_at = now
            if key != self._consent_key:
                self._line.append_draft(key.replace("\r", ""))
        elif answer is not None and (key != "\r" or now - self._answered_at >= _MIN_ANSWER_DELAY_S):
            self._answered_at, self._consent_key = now, key if is_consent else ""
            self._line.answer(answer)

    async def _edit(self) -> None:
        """Edit the input line in the user's editor and put the result back."""
        text = self._line.buffer.text
        self._line.buffer.reset()
        question = self._line.question
        edited = await asyncio.shield(self._edit_text(text))
        if question and question is self._line.question:
            self._line.buffer.insert_text(edited)
        else:
            self._line.insert_draft(edited)

    def _bind_editing(self) -> KeyBindings:
        """Return the bindings for Enter, new lines, the editor and answers to questions."""
        keys, line = KeyBindings(), self._line
        wants_key = Condition(lambda: bool(line.question and line.question.keys))
        is_empty = Condition(lambda: not line.buffer.text)
        is_busy = Condition(lambda: self.stop is not None and not line.question and not line.buffer.complete_state)

        @keys.add("enter", filter=~is_searching & ~wants_key)
        @keys.add("tab", filter=is_busy & ~is_empty & ~wants_key)
        def _(_event: KeyPressEvent) -> None:
            self._enter()

        @keys.add("?", filter=is_empty & ~is_busy & Condition(lambda: not line.question))
        def _(_event: KeyPressEvent) -> None:
            self.show_keys()

        @keys.add("c-j", filter=~wants_key)
        @keys.add("escape", "enter", filter=~wants_key)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-x", "c-e", filter=~wants_key)
        def _(event: KeyPressEvent) -> None:
            event.app.create_background_task(self._edit())

        @keys.add(Keys.BracketedPaste, eager=True)
        def _(event: KeyPressEvent) -> None:
            line.paste(event.data.replace("\r\n", "\n").replace("\r", "\n"))

        @keys.add(Keys.Any, filter=wants_key, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._answer_key(event.data)

        return keys

    def _bind_control(self) -> KeyBindings:
        """Return the bindings for stopping, leaving and the terminal itself."""
        keys = KeyBindings()
        is_empty = Condition(lambda: not self._line.buffer.text)
        has_no_menu = Condition(lambda: not self._line.buffer.complete_state)

        @keys.add("c-c", filter=~is_searching, eager=True)
        @keys.add("<sigint>", eager=True)
        def _(_event: KeyPressEvent) -> None:
            self._interrupt()

        @keys.add("escape", filter=~is_searching & ~(vi_insert_mode & has_no_menu))
        def _(_event: KeyPressEvent) -> None:
            self._escape()

        @keys.add("c-d", filter=is_empty)
        def _(_event: KeyPressEvent) -> None:
            self._end_of_input()

        @keys.add("c-l", eager=True)
        def _(event: KeyPressEvent) -> None:
            event.app.renderer.clear()

        @keys.add("s-tab", filter=~is_searching & has_no_menu)
        def _(_event: KeyPressEvent) -> None:
            self.switch_mode()

        @keys.add("c-o", eager=True)
        def _(event: KeyPressEvent) -> None:
            if not self._has_foreground_program:
                event.app.create_background_task(self.unfold())

        @keys.add("c-z", eager=True)
        def _(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        return keys


async def _do_nothing() -> None:
    """Show nothing."""
