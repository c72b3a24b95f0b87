"""KEYS: the keys of the chat and what they do in each state, for `/help keys` and the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.events import Table
from ..core.i18n import Words

STATES = ("at_prompt", "at_work", "at_question", "in_list")


@dataclass(frozen=True)
class Key:
    """A key.

    Attributes:
        shown: The key as people read it; several with commas.
        at_prompt: Key in the catalogue, below `keys.`, of what it does while a line is typed; "" if nothing.
        at_work: The same while the model writes or a tool runs.
        at_question: The same while a question waits for a key.
        in_list: The same while a list is shown.
        bound: The bindings in prompt_toolkit's names; empty if they are its own.
    """

    shown: str
    at_prompt: str
    at_work: str
    at_question: str
    in_list: str
    bound: tuple[tuple[str, ...], ...] = ()


KEYS = (
    Key("Enter", "send", "queue", "default", "choose", (("enter",),)),
    Key("Ctrl+J", "newline", "newline", "", "", (("c-j",),)),
    Key("Alt+Enter", "newline", "newline", "cancel", "leave", (("escape", "enter"),)),
    Key("\\ Enter", "newline", "newline", "newline", "find"),
    Key("Tab", "complete", "queue", "", "", (("tab",),)),
    Key("Up, Down", "recall", "recall_queued", "", "move", (("up",),)),
    Key("Ctrl+R", "search", "search", "", "rename"),
    Key("Ctrl+X Ctrl+E", "editor", "editor", "", "", (("c-x", "c-e"),)),
    Key("Ctrl+O", "unfold", "unfold", "unfold", "", (("c-o",),)),
    Key("Shift+Tab", "mode", "mode", "", "", (("s-tab",),)),
    Key("Ctrl+C", "clear", "stop", "cancel", "leave", (("c-c",),)),
    Key("Esc", "close", "stop", "cancel", "leave", (("escape",),)),
    Key("Ctrl+D", "quit", "quit", "cancel", "delete", (("c-d",),)),
    Key("Ctrl+L", "redraw", "redraw", "redraw", "", (("c-l",),)),
    Key("Ctrl+Z", "suspend", "suspend", "suspend", "", (("c-z",),)),
    Key("y, u, a, e, n, q", "", "", "approve", "find"),
    Key("?", "keys", "", "", "find", (("?",),)),
    Key("@", "attach", "attach", "attach", "find"),
    Key("!", "shell", "shell", "shell", "find"),
    Key("//, /!, @@", "literal", "literal", "literal", "find"),
)


def make_key_table(words: Words, states: Sequence[str] = STATES[:-1]) -> Table:
    """Return the table of the keys; `-` where a key does nothing.

    Args:
        words: The language.
        states: The states to have, and the keys that do something in one; by default not those of a list, which are on
            the screen while it lasts.
    """
    head = (words("keys.key"), *(words(f"keys.{state}") for state in states))
    actions = [(key.shown, [getattr(key, state) for state in states]) for key in KEYS]
    rows = [(shown, *(words(f"keys.{key}") if key else "-" for key in row)) for shown, row in actions if any(row)]
    return Table(head, tuple(rows), is_matrix=True)
