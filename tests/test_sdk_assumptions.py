"""What this program works around in the MCP SDK, or relies on: a test for each behaviour, below the code that needs it.

A failure means that a release of the SDK behaves differently: look at the named place, and simplify it if it can be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import httpx2
import mcp.client.session
import pytest
from mcp import Client
from mcp.client.auth.utils import handle_token_response_scopes
from mcp.server.mcpserver import MCPServer
from pydantic import ValidationError

LIMIT_S = 5.0

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, LIMIT_S))


# mcp_client/auth/login.py


def test_an_unreadable_token_response_is_in_the_error_and_its_log() -> None:
    response = httpx2.Response(200, content="access_token=secret-token&token_type=bearer")
    with pytest.raises(Exception, match="secret-token") as caught:
        run(handle_token_response_scopes(response))
    assert isinstance(caught.value.__cause__ or caught.value.__context__, ValidationError)
    assert mcp.client.auth.oauth2.logger.name.startswith("mcp.client.auth")


# cli/mcp_tool/output_formats.py


def test_a_value_that_is_no_object_is_wrapped_as_result() -> None:
    server = MCPServer("s")

    @server.tool()
    def count() -> int:
        return 3

    async def go() -> Any:
        async with Client(server) as client:
            return (await client.call_tool("count")).structured_content

    assert run(go()) == {"result": 3}
