"""Help: each command and key is explained, and the page about keys is made from the table of keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.keys import KEY_ALIASES, Keys

from rkllm_chat.core.i18n import load
from rkllm_chat.tui.input_line import InputLine
from rkllm_chat.tui.key_bindings import KeyHandler
from rkllm_chat.tui.key_table import KEYS, STATES, make_key_table
from rkllm_chat.tui.slash_commands import COMMANDS
from rkllm_chat.tui.slash_commands.basics import GROUPS, list_actions
from rkllm_chat.tui.slash_commands.servers import _ACTIONS as MCP_ACTIONS

KEYS_PAGE = Path(__file__).parents[2] / "docs" / "keys.md"
INTRODUCTION = """# Keys of the chat

This table is made from `rkllm_chat/tui/key_table.py`; `/help keys` shows it in the chat, and a list shows its own keys.
Other keys edit the line as in Emacs. Where a question wants a line, Enter answers it, and other keys edit. A pager and
an editor have their own keys.

"""
NO_KEYS = {(Keys.BracketedPaste,), (Keys.Any,), (Keys.SIGINT,)}
"""Bindings for what is not pressed: pasted text, the answer to a question, a signal."""


def test_every_key_is_in_the_table_and_every_row_is_bound() -> None:
    async def edit(text: str) -> str:
        return text

    line = InputLine(InMemoryHistory(), DummyCompleter(), lambda: None)
    handler = KeyHandler(line, lambda: None, edit, cast(Any, None))
    bound = {binding.keys for binding in handler.make_bindings().bindings}
    documented = {
        tuple(name if len(name) == 1 else Keys(KEY_ALIASES.get(name, name)) for name in keys)
        for key in KEYS
        for keys in key.bound
    }
    assert documented == bound - NO_KEYS


def test_the_page_about_keys_is_that_of_the_table() -> None:
    table = make_key_table(load(), STATES)
    rows = [table.head, ("---",) * len(table.head), *table.rows]
    assert KEYS_PAGE.read_text(encoding="utf-8") == INTRODUCTION + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_every_command_is_in_one_group_and_every_action_is_explained() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted({entry.names[0] for entry in COMMANDS.values()})
    assert {action.split()[0] for action in list_actions("/mcp", load())} - {"NAME"} == MCP_ACTIONS.keys()
    keys = {f"actions.{name} {action}" for name in grouped for action in list_actions(name, load())}
    assert keys == {key for key in load().sentences if key.startswith("actions.")}
