"""Which key does what on the screen; the rest of the keys edit the line as in Emacs. It draws nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyBindingsBase, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from .screen import Screen

Event = KeyPressEvent


def make_bindings(screen: Screen) -> KeyBindingsBase:
    return merge_key_bindings([bind_writing(screen), bind_leaving(screen)])


def bind_writing(screen: Screen) -> KeyBindings:
    """Enter, new lines, the editor, and the answers to questions."""
    keys = KeyBindings()
    wants_key = Condition(lambda: bool(screen.question and screen.question.keys))
    is_empty = Condition(lambda: not screen.buffer.text)
    is_busy = Condition(lambda: screen.stop is not None and not screen.question and not screen.buffer.complete_state)

    @keys.add("enter", filter=~is_searching & ~wants_key)
    def _(_event: Event) -> None:
        screen.enter()

    @keys.add("tab", filter=is_busy & ~is_empty & ~wants_key)
    def _(_event: Event) -> None:
        screen.enter()

    @keys.add("c-j", filter=~wants_key)
    @keys.add("escape", "enter", filter=~wants_key)
    def _(event: Event) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-x", "c-e", filter=~wants_key)
    def _(event: Event) -> None:
        event.app.create_background_task(edit_line(screen))

    @keys.add(Keys.Any, filter=wants_key, eager=True)
    def _(event: Event) -> None:
        screen.press(event.data)

    return keys


def bind_leaving(screen: Screen) -> KeyBindings:
    """Stopping, leaving, and what concerns the terminal itself."""
    keys = KeyBindings()
    is_empty = Condition(lambda: not screen.buffer.text)

    @keys.add("c-c", eager=True)
    @keys.add("<sigint>", eager=True)
    def _(_event: Event) -> None:
        screen.interrupt()

    @keys.add("escape", filter=~is_searching)
    def _(_event: Event) -> None:
        screen.escape()

    @keys.add("c-d", filter=is_empty)
    def _(_event: Event) -> None:
        screen.end_of_input()

    @keys.add("c-l")
    def _(event: Event) -> None:
        event.app.renderer.clear()

    @keys.add("c-z")
    def _(event: Event) -> None:
        event.app.suspend_to_background()

    return keys


async def edit_line(screen: Screen) -> None:
    """Opens the line in the editor, and takes back what it makes of it."""
    text = screen.buffer.text
    screen.buffer.reset()
    screen.draft(await asyncio.shield(screen.edit(text)))
