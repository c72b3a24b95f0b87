"""What a client gets from the server; it is in the same process, so nothing is started."""

from __future__ import annotations

import asyncio

from mcp import Client
from mcp_types import TextContent, TextResourceContents
from server import server


def test_notes_are_found_by_a_word() -> None:
    async def ask() -> object:
        async with Client(server) as client:
            return (await client.call_tool("find_notes", {"word": "Tea"})).structured_content

    assert asyncio.run(ask()) == {"result": "shopping: Bread, tea, a new lamp for the hall."}


def test_all_notes_can_be_read() -> None:
    async def ask() -> str:
        async with Client(server) as client:
            (notes,) = (await client.read_resource("notes://all")).contents
            assert isinstance(notes, TextResourceContents)
            return notes.text

    assert [line.partition(":")[0] for line in asyncio.run(ask()).splitlines()] == ["shopping", "garden"]


def test_the_prompt_names_the_day() -> None:
    async def ask() -> str:
        async with Client(server) as client:
            (message,) = (await client.get_prompt("plan_day", {"day": "Monday"})).messages
            assert isinstance(message.content, TextContent)
            return message.content.text

    assert "on Monday" in asyncio.run(ask())
