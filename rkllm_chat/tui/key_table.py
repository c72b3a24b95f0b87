"""KEYS: the keys of the chat and what they do in each state, for `/help keys` and the documentation."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.events import Table
from ..core.i18n import Words

_STATES = ("at_prompt", "at_work", "at_question")


@dataclass(frozen=True)
class Key:
    """A key.

    Attributes:
        shown: The key as people read it; several with commas.
        at_prompt: Key in the catalogue, below `keys.`, of what it does while a line is typed; "" if nothing.
        at_work: The same while the model writes or a tool runs.
        at_question: The same while a question waits.
        bound: The bindings in prompt_toolkit's names; empty if they are its own.
    """

    shown: str
    at_prompt: str
    at_work: str
    at_question: str
    bound: tuple[tuple[str, ...], ...] = ()


KEYS = (
    Key("Enter", "send", "queue", "default", (("enter",),)),
    Key("Ctrl+J, Alt+Enter, \\ Enter", "newline", "newline", "", (("c-j",), ("escape", "enter"))),
    Key("Tab", "complete", "queue", "", (("tab",),)),
    Key("Up, Down", "recall", "recall", ""),
    Key("Ctrl+R", "search", "search", ""),
    Key("Ctrl+X Ctrl+E", "editor", "editor", "", (("c-x", "c-e"),)),
    Key("Ctrl+O", "unfold", "unfold", "unfold", (("c-o",),)),
    Key("Shift+Tab", "mode", "mode", "", (("s-tab",),)),
    Key("Ctrl+C", "clear", "stop", "cancel", (("c-c",),)),
    Key("Esc", "close", "stop", "cancel", (("escape",),)),
    Key("Ctrl+D", "quit", "quit", "cancel", (("c-d",),)),
    Key("Ctrl+L", "redraw", "redraw", "redraw", (("c-l",),)),
    Key("Ctrl+Z", "suspend", "suspend", "suspend", (("c-z",),)),
    Key("y, u, a, e, n, q", "", "", "approve"),
    Key("@", "attach", "attach", ""),
    Key("!", "shell", "shell", ""),
    Key("//, /!, @@", "literal", "literal", ""),
)


def make_key_table(words: Words) -> Table:
    """Return the table of all keys; `-` where a key does nothing."""
    head = (words("keys.key"), *(words(f"keys.{state}") for state in _STATES))
    actions = [(key.at_prompt, key.at_work, key.at_question) for key in KEYS]
    cells = [tuple(words(f"keys.{action}") if action else "-" for action in row) for row in actions]
    return Table(head, tuple((key.shown, *row) for key, row in zip(KEYS, cells, strict=True)))


def render_key_table(words: Words) -> str:
    """Return the table as Markdown, for the documentation."""
    table = make_key_table(words)
    rows = [table.head, ("---",) * len(table.head), *table.rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
