"""The board server's tools as they are listed, and the fingerprint of the shipped model's prompt."""

import asyncio
import hashlib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from catalogued import catalogue_at, lines_of
from rkllm_chat.core.messages import Message, Tool
from rkllm_chat.mcp_servers.board.server import build_server
from rkllm_chat.prompt.compose import compose_prompt

# Of the prompt for the whole board list that the shipped model was trained with; export.py stores it in the GGUF.
PROMPT_SHA256 = "d5d64251dd886261130e45388fb2617e69f53ff1b351db8cdd915e0833c9738b"


@cache
def board_tools() -> tuple[Tool, ...]:
    """The tools of the board server as it lists them on a board, with that of the NPU."""
    with TemporaryDirectory() as root:
        load = Path(root, "proc/rknpu/load")
        load.parent.mkdir(parents=True)
        load.write_text("NPU load:  Core0:  0%,\n", encoding="ascii")
        listed = asyncio.run(build_server(Path(), Path(root)).list_tools())
    return tuple(Tool(tool.name, tool.description or "", tool.input_schema, "board") for tool in listed)


def board_prompt_sha256() -> str:
    """The fingerprint of what the chat says of the board's tools now: in its system text, and before a question."""
    tools = board_tools()
    asked = Message("user", "", tool_lines=tuple(lines_of(tools, "json").values()))
    prompt = compose_prompt([asked], (), catalogue=catalogue_at("servers", tools, "json"))
    return hashlib.sha256("\n".join(message.text for message in prompt).encode()).hexdigest()
