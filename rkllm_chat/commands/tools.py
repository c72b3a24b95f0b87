"""Commands about the tools that the model may call."""

from __future__ import annotations

from .. import prompt
from ..desk import Desk
from ..events import Notice, Table
from ..names import shown_names
from . import Stream, command


@command("/tools")
async def show_tools(desk: Desk, _argument: str) -> Stream:
    tools = shown_names(desk.toolbox.tools)
    if not tools:
        yield Notice(desk.words("commands.no_tools"))
        return
    rows = [(tool.server, name, prompt.first_line(tool.description)) for name, tool in tools.items()]
    yield Table((), tuple(rows))
