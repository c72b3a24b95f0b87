"""A chat at a terminal and a server with one of everything, as the tests of the terminal have them."""

from tui.conftest import harbour, open_chat

__all__ = ["harbour", "open_chat"]
