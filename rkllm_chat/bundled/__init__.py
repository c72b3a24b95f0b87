"""BUNDLED: the MCP servers that ship. `rkllm-chat serve NAME` runs one; a row names its module and nothing more.

Each module has `serve(folder)`; none is imported before it is chosen, because the MCP SDK is heavy.
"""

BUNDLED: dict[str, str] = {
    "board": "rkllm_chat.bundled.board.server",
}
