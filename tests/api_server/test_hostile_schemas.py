"""Reply schemas that take forever to check, in this process, whose CPU time is limited."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from cpu_time import limit_cpu
from rkllm_chat.api_server import Limits
from rkllm_chat.api_server.server import ApiServer
from rkllm_chat.config.settings import Settings

MOST_CPU_S = 20
NODE = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/node"}}] * 2}
BRANCHES = {"$defs": {"node": NODE}, "$ref": "#/$defs/node"}
DEEP_REPLY = "[" * 40 + '"leaf"' + "]" * 40
PATTERNS = {"type": "array", "items": {"pattern": "^(a|a)*$"}}
LONG_REPLY = json.dumps(["a" * 60 + "b"])


@pytest.mark.parametrize(("schema", "reply"), [(BRANCHES, DEEP_REPLY), (PATTERNS, LONG_REPLY)], ids=["steps", "regex"])
def test_a_schema_that_takes_forever_blocks_nobody(
    schema: Any, reply: str, script: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    server = ApiServer(Settings(model=script(reply, reply)), Limits())
    reply_format = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    body = {"messages": [{"role": "user", "content": "hi"}], "response_format": reply_format}

    async def ask() -> Any:
        transport = httpx.ASGITransport(server.make_app())
        async with server.run(), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return (await client.post("/v1/chat/completions", json=body)).raise_for_status().json()

    with limit_cpu(MOST_CPU_S):
        assert asyncio.run(ask())["choices"][0]["message"]["content"] == reply
