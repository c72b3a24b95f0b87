"""The application in this process, whose CPU time is limited and where requests arrive in a known order."""

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
from rkllm_chat.api_server.request_queue import MAX_OVERTAKEN, RequestQueue
from rkllm_chat.api_server.server import ApiServer
from rkllm_chat.config.settings import Settings
from stage import Script

MOST_CPU_S = 20
CLIENTS = 20
NODE = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/node"}}] * 2}
BRANCHES = {"$defs": {"node": NODE}, "$ref": "#/$defs/node"}
DEEP_REPLY = "[" * 40 + '"leaf"' + "]" * 40
PATTERNS = {"type": "array", "items": {"pattern": "^(a|a)*$"}}
LONG_REPLY = json.dumps(["a" * 60 + "b"])


@pytest.fixture
def ask(script: Script, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Send the same request several times at once with written replies; return the answers, or codes of errors."""
    monkeypatch.chdir(folder)

    def run(replies: list[str], clients: int = 1, **fields: Any) -> list[str]:
        server = ApiServer(Settings(model=script(*replies)), Limits())
        body = {"messages": [{"role": "user", "content": "hi"}], **fields}

        async def ask_all() -> list[httpx.Response]:
            transport = httpx.ASGITransport(server.make_app())
            async with server.run(), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                requests = (client.post("/v1/chat/completions", json=body) for _ in range(clients))
                return list(await asyncio.gather(*requests))

        return [
            answer.json()["choices"][0]["message"]["content"] if answer.is_success else answer.json()["error"]["code"]
            for answer in asyncio.run(ask_all())
        ]

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "reply", "answer"),
    [(BRANCHES, DEEP_REPLY, "invalid_reply"), (PATTERNS, LONG_REPLY, LONG_REPLY)],  # no such pattern is checked
    ids=["steps", "regex"],
)
def test_a_schema_that_takes_forever_blocks_nobody(
    schema: Any, reply: str, answer: str, ask: Callable[..., list[str]]
) -> None:
    reply_format = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with limit_cpu(MOST_CPU_S):
        assert ask([reply, reply], response_format=reply_format) == [answer]


def test_waiting_clients_are_answered_in_the_order_of_their_arrival(ask: Callable[..., list[str]]) -> None:
    replies = [f"reply {number}" for number in range(CLIENTS)]
    assert ask(replies, CLIENTS) == replies


def test_requests_of_one_beginning_follow_each_other_but_overtake_others_a_few_times_only(
    script: Script, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    arrivals = ["letter", *["house"] * 7, "letter"]
    replies = [{"text": "the first", "wait": True}, *map(str, range(len(arrivals)))]
    server = ApiServer(Settings(model=script(*replies)), Limits())

    async def ask_all() -> list[str]:
        transport = httpx.ASGITransport(server.make_app())
        async with server.run(), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:

            async def ask(system: str) -> tuple[int, str]:
                messages = [{"role": "system", "content": system}, {"role": "user", "content": "hi"}]
                answer = await client.post("/v1/chat/completions", json={"messages": messages})
                return int(answer.json()["choices"][0]["message"]["content"]), system

            async def see_queued(count: int) -> None:
                wanted = f"\nrkllm_chat_queue_size {count}\n"
                while wanted not in (await client.get("/metrics")).text:  # noqa: ASYNC110 - nothing else says it
                    await asyncio.sleep(0.01)

            tasks: list[asyncio.Task[tuple[int, str]]] = []
            for system in ("house", *arrivals):  # each behind the one before it; the first has the model meanwhile
                tasks.append(asyncio.create_task(ask(system)))
                await asyncio.wait_for(see_queued(len(tasks)), 5)
            tasks[0].cancel()
            return [system for _, system in sorted(await asyncio.gather(*tasks[1:]))]

    assert MAX_OVERTAKEN == 4
    served = asyncio.run(ask_all())
    assert served == [*["house"] * 4, "letter", "letter", *["house"] * 3]


def test_clients_that_leave_at_the_same_moment_do_not_hold_up_the_next() -> None:
    async def leave_together() -> int:
        queue = RequestQueue(4)

        async def have_turn(seconds: float) -> None:
            async with queue.wait_turn():
                await asyncio.sleep(seconds)

        first, waiting, last = (asyncio.create_task(have_turn(seconds)) for seconds in (60, 60, 0))
        await asyncio.sleep(0)  # each has come to its wait
        first.cancel()
        waiting.cancel()
        await asyncio.wait_for(last, 5)
        assert first.cancelled() and waiting.cancelled()  # and no other error
        return queue.size

    assert asyncio.run(leave_together()) == 0
