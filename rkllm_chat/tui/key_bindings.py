"""Keys of the screen: what each key does, and its binding. Unbound keys edit the line as in Emacs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition, FilterOrBool, is_searching, vi_insert_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from .input_line import InputLine, Question, has_visible_text, replace_surrogates
from .slash_commands import leaves, needs_no_turn

_MIN_ANSWER_DELAY_S = 0.5
"""A key that follows another one sooner answers no question: it was typed before the user saw the question."""
_LONE_KEY_S = 0.25
"""A key that another one follows sooner is the beginning of a text, and answers no question."""
_SAME_INTERRUPT_S = 0.2
"""A Ctrl+C within this time after a program that Ctrl+C ended is the same one."""
_BURST_S = 0.05
"""Keys that follow each other within this time are a paste of a terminal without bracketed paste (tmux paste-buffer,
screen, serial consoles): an Enter with more behind it is a line break."""


_ANSWER_WORDS = dict.fromkeys(("no", "nope", "いいえ", "だめ", "不", "否", "不要"), "n")
_ANSWER_WORDS |= dict.fromkeys(("yes", "ok", "okay", "はい", "是", "好", "好的"), "y")
"""Lines at a question that are no message for later, by the key that they mean."""
_Act = Callable[[KeyPressEvent], Any]


@dataclass(frozen=True)
class _PendingAnswer:
    """A key that answers a question, once it is certain that it is not the beginning of a text.

    Its answer is None if it may have been typed before the question was visible: it is dropped then.
    """

    key: str
    question: Question
    answer: str | None
    timer: asyncio.TimerHandle


class KeyActions(Protocol):
    """What keys do outside the input line."""

    async def unfold(self) -> None:
        """Show the newest shortened result in full (Ctrl+O)."""

    def show_help(self, line: str) -> Coroutine[Any, Any, None]:
        """Answer a line with /help while something else runs (Enter)."""

    def switch_mode(self) -> None:
        """Switch the approval mode (Shift+Tab)."""

    def send_now(self) -> None:
        """Send a message that waits for servers (Enter on an empty line)."""

    def show_keys(self) -> None:
        """Show the table of the keys (? on an empty line)."""

    def hint_leaving(self) -> None:
        """Say how to leave (Ctrl+C on an empty line)."""


class KeyHandler:
    """Runs the actions of keys.

    Args:
        line: The input line.
        close: Ends the session.
        edit_text: Returns a text as edited in the user's editor.
        actions: What keys do outside the input line.

    Attributes:
        stop: Called by Ctrl+C and Esc; None while nothing runs.
        was_pressed: Whether any key was pressed.
        is_typed_ahead: Whether the keys that are handled now were typed before the screen was drawn: all at once, but
            no paste.
    """

    def __init__(
        self,
        line: InputLine,
        close: Callable[[], None],
        edit_text: Callable[[str], Awaitable[str]],
        actions: KeyActions,
    ) -> None:
        self.stop: Callable[[], None] | None = None
        self.was_pressed = self.is_typed_ahead = False
        self._enter_timer: asyncio.TimerHandle | None = None
        self._pending: _PendingAnswer | None = None
        self._pressed_at = 0.0
        self._burst_start = 0  # in the text of the line
        self._is_paste = False
        self._actions = actions
        self._line, self._close, self._edit_text = line, close, edit_text
        self._is_hinted = False
        self._has_foreground_program = False
        self._last_key_at = self._answered_at = self._program_interrupted_at = 0.0
        self._consent_key = ""

    def make_bindings(self) -> KeyBindings:
        """Return all key bindings."""
        line, actions = self._line, self._actions
        wants_key = Condition(lambda: line.waits_for_key)
        asks = Condition(lambda: line.reads_answer)
        is_empty = Condition(lambda: not line.buffer.text)
        has_menu = Condition(lambda: bool(line.buffer.complete_state))
        is_busy = Condition(lambda: self.stop is not None) & ~asks & ~has_menu
        is_enter_open = Condition(lambda: self._enter_timer is not None)
        bindings = KeyBindings()

        def bind(keys: Sequence[str], condition: FilterOrBool, act: _Act, eager: bool = False) -> None:
            bindings.add(*keys, filter=condition, eager=eager)(act)

        bind(["enter"], ~is_searching & ~wants_key, lambda _: self._enter())
        bind(["tab"], is_busy & ~is_empty & ~wants_key, lambda _: self._enter())
        has_queued = Condition(lambda: bool(line.queued))
        bind(["up"], has_queued & is_empty & ~asks & ~is_searching, lambda _: line.take_back(), eager=True)
        bind(["?"], is_empty & ~is_busy & ~asks, lambda _: actions.show_keys())
        for keys in (["c-j"], ["escape", "enter"]):
            bind(keys, ~wants_key, lambda event: event.current_buffer.insert_text("\n"))
        bind(["c-x", "c-e"], ~wants_key, lambda _: self._edit())
        bind([Keys.Any], is_enter_open, self._follow_enter, eager=True)
        is_paste = Condition(lambda: self._is_paste)
        bind(["tab"], is_paste & ~is_enter_open, lambda event: event.current_buffer.insert_text("\t"), eager=True)
        bind([Keys.BracketedPaste], True, self._paste, eager=True)
        bind([Keys.Any], wants_key, self._answer_key, eager=True)
        bind(["c-c"], ~is_searching, lambda _: self._interrupt(), eager=True)
        bind(["<sigint>"], True, lambda _: self._interrupt(), eager=True)
        bind(["escape"], ~is_searching & ~(vi_insert_mode & ~has_menu), lambda _: self._escape())
        bind(["c-d"], is_empty, lambda _: self._end_of_input())
        bind(["c-l"], True, lambda event: event.app.renderer.clear(), eager=True)
        bind(["s-tab"], ~is_searching & ~has_menu, lambda _: actions.switch_mode())
        bind(["c-o"], True, lambda _: None if self._has_foreground_program else actions.unfold(), eager=True)
        bind(["c-z"], True, lambda event: event.app.suspend_to_background(), eager=True)
        return bindings

    def record_key_time(self) -> None:
        """Record the time of a key press, and where a burst of them begins; called before every key."""
        now = time.monotonic()
        if now - self._pressed_at > _BURST_S and self._enter_timer is None:
            self._mark_paste()
            self._is_paste, self._burst_start = False, self._line.buffer.cursor_position
        self._pressed_at = now
        self.was_pressed, self._line.example = True, ""
        if not self._line.waits_for_key:
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
        """Handle Enter: at once for a question, else once it is certain that it is no line break of a paste."""
        is_certain = self._line.reads_answer or self.is_typed_ahead or not has_visible_text(self._line.buffer.text)
        if is_certain or self._enter_timer:
            self._finish_enter()
        else:
            self._enter_timer = asyncio.get_running_loop().call_later(_BURST_S, self._end_wait)

    def _follow_enter(self, event: KeyPressEvent) -> None:
        """Handle a key right behind an Enter: text makes that a line break, another key lets it send the line."""
        (press,) = event.key_sequence
        is_text = press.key in (Keys.ControlM, Keys.ControlJ, Keys.ControlI) or press.data.isprintable()
        if is_text and len(press.data) == 1 and not self._line.reads_answer:
            self._cancel_enter()
            self._is_paste = True
            self._line.buffer.insert_text("\n")
            self._mark_paste()
        else:
            self._end_wait()
        event.key_processor.feed(press, first=True)

    def _end_wait(self) -> None:
        """Handle an Enter that is no line break; if a question has appeared since, the text is a draft behind it."""
        self._cancel_enter()
        if not self._line.reads_answer:
            self._finish_enter()

    def _cancel_enter(self) -> None:
        if self._enter_timer:
            self._enter_timer.cancel()
            self._enter_timer = None

    def _mark_paste(self) -> None:
        """Count what the burst of keys has inserted as pasted, if it has line breaks."""
        if self._is_paste:
            self._line.mark_pasted(self._burst_start)

    def _paste(self, event: KeyPressEvent) -> None:
        """Handle a bracketed paste."""
        if self._enter_timer:
            self._end_wait()
        self._end_pending(is_text=True)
        self._line.paste(_unify_newlines(event.data))

    def _finish_enter(self) -> None:
        r"""Answer the question, continue a line that ends in `\`, quit, help, or submit the line."""
        self._cancel_enter()
        self._mark_paste()
        was_paste, self._is_paste, self._burst_start = self._is_paste, False, 0
        line, buffer = self._line, self._line.buffer
        text = replace_surrogates(buffer.text)
        has_just_answered = time.monotonic() - self._answered_at < _MIN_ANSWER_DELAY_S
        self._last_key_at = self._answered_at = 0.0
        if line.question and line.question.keys:
            self.require_pause()  # what follows a line that is queued may belong to a text, too
        if not has_visible_text(text) and (has_just_answered or self._is_early_for_none()):
            return
        if line.reads_answer:
            line.answer(text)
        elif self._take_answer_word(text):
            pass
        elif text.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor(1)
            buffer.insert_text("\n")
        elif (self.stop or line.question) and leaves(text):
            if self.stop:
                self.stop()
            self._close()
        elif (self.stop or line.question) and needs_no_turn(text) and not (self._has_foreground_program or was_paste):
            get_app().create_background_task(self._actions.show_help(line.take()))
        elif has_visible_text(text):
            line.submit()
        else:
            self._actions.send_now()

    def _is_early_for_none(self) -> bool:
        """Whether an empty line is no answer yet, as the user may not have read that it would be one."""
        question = self._line.question if self._line.reads_answer else None
        return question is not None and time.monotonic() - question.asked_at < question.min_empty_s

    def _take_answer_word(self, text: str) -> bool:
        """Take "no" as the key n, and leave out "yes": consent is a key alone, as a text may be the next message."""
        question, word = self._line.question, _ANSWER_WORDS.get(text.strip(" .!。！").casefold())
        if question is None or word is None:
            return False
        self._line.take()
        get_app().invalidate()
        if word == "n" and "n" in question.keys:
            self._line.answer(question.keys["n"])
        return True

    def _interrupt(self) -> None:
        """Handle Ctrl+C: cancel a question, stop the work, clear the line, hint, or leave; the first that applies."""
        is_for_program = time.monotonic() - self._program_interrupted_at < _SAME_INTERRUPT_S
        if self._has_foreground_program or is_for_program:
            return
        if self._enter_timer:
            self._end_wait()
        self._end_pending(is_text=False)
        if self._line.question:
            self._line.leave("Ctrl+C")
        elif self.stop:
            self.stop()
        elif self._line.buffer.text:
            self._line.buffer.reset()
            self._is_hinted = False
        elif self._is_hinted:
            self._close()
        else:
            self._is_hinted = True
            self._actions.hint_leaving()

    def _end_of_input(self) -> None:
        """Handle Ctrl+D on an empty line: cancel a question, or stop the work and leave."""
        if self._line.question:
            self._line.leave("Ctrl+D")
            return
        if self.stop:
            self.stop()
        self._close()

    def _escape(self) -> None:
        """Handle Esc: close the completion menu, cancel a question, or stop the work."""
        if self._line.buffer.complete_state:
            self._line.buffer.cancel_completion()
        elif self._line.question:
            self._line.leave("Esc")
        elif self.stop:
            self.stop()

    def _answer_key(self, event: KeyPressEvent) -> None:
        """Handle a key while a question waits for one, beside an empty line.

        What begins with a key that is no answer, or with one that further keys follow at once, is text of the line. A
        key that may have been typed before the question was visible is no answer, and one that has just consented to a
        question consents to no second one; it is dropped while it repeats.
        """
        key, question = event.data, self._line.question
        assert question
        now, pending = time.monotonic(), self._pending
        if key in ("\x1b", "\x04"):
            self._end_pending(is_text=False)
            self._line.leave("Esc" if key == "\x1b" else "Ctrl+D")
        elif pending:
            if key == "\r":
                self._finish_answer(pending)
            elif key.isprintable() and key != pending.key:
                self._end_pending(is_text=True)
                self._line.buffer.insert_text(key)
        elif key == "\r":
            if now - max(self._last_key_at, self._answered_at) >= _MIN_ANSWER_DELAY_S:
                self._answered_at, self._consent_key = now, ""
                self._line.answer(question.keys[key])
        elif has_visible_text(key) and key.isprintable():
            self._take_printable(key, question, event)

    def _take_printable(self, key: str, question: Question, event: KeyPressEvent) -> None:
        """Handle a letter while a question waits for a key: it answers, or it is text."""
        now, last_key_at = time.monotonic(), self._last_key_at
        answer = question.keys.get(key.lower())
        is_consent = answer is not None and answer not in (question.keys["\r"], "stop")
        if is_consent and self._consent_key:
            last_key_at = max(last_key_at, self._answered_at)
        read_with_it = {press.data for press in event.key_processor.input_queue if press.data} - {key}
        if answer is None or any(map(str.isprintable, read_with_it)) or question.answer.done():
            self._line.buffer.insert_text(key)
            return
        if now - last_key_at < _MIN_ANSWER_DELAY_S:
            self._last_key_at, answer = now, None
            if key == self._consent_key:
                return
        timer = asyncio.get_running_loop().call_later(_LONE_KEY_S, self._finish_pending)
        self._pending = _PendingAnswer(key, question, answer, timer)

    def _finish_pending(self) -> None:
        if self._pending:
            self._finish_answer(self._pending)

    def _finish_answer(self, pending: _PendingAnswer) -> None:
        """Answer the question that a key was for, if it still waits."""
        self._end_pending(is_text=False)
        if pending.answer is not None and self._line.question is pending.question:
            is_consent = pending.answer not in (pending.question.keys["\r"], "stop")
            self._answered_at, self._consent_key = time.monotonic(), pending.key if is_consent else ""
            self._line.answer(pending.answer)

    def _end_pending(self, is_text: bool) -> None:
        """Let a key that waits answer no question; it may be the beginning of a text."""
        pending, self._pending = self._pending, None
        if pending:
            pending.timer.cancel()
            if is_text:
                self._line.buffer.insert_text(pending.key)

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


def _unify_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
