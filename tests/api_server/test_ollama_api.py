"""Ollama's API through the official `ollama` package, with the model that ships or with written replies."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import httpx
import ollama
import pytest

from api_server.conftest import ConnectOllama, StartApi
from api_server.test_chat_completions import CALCULATE
from rkllm_chat.api_server.model_host import ModelHost
from rkllm_chat.api_server.request_queue import RequestQueue
from rkllm_chat.config.settings import Settings
from stage import Script, call_text


@pytest.mark.slow
@pytest.mark.model
def test_the_model_is_listed_loaded_and_calls_a_tool(start_api: StartApi, connect_ollama: ConnectOllama) -> None:
    client = connect_ollama(start_api())
    (listed,) = client.list().models
    assert (listed.model, client.ps().models) == ("tiny-tools.gguf", [])
    assert listed.size and listed.size > 1_000_000
    name = f"{listed.model}:latest"
    assert client.show(name).capabilities == ["completion", "tools"]
    assert client.chat(name, messages=[]).done_reason == "load"
    assert [model.model for model in client.ps().models] == ["tiny-tools.gguf"]
    messages: list[Any] = [{"role": "user", "content": "What is 12 * 34?"}]
    asked = client.chat(name, messages=messages, tools=[CALCULATE], options={"temperature": 0})
    assert asked.message.tool_calls and asked.prompt_eval_count and asked.eval_duration
    (call,) = asked.message.tool_calls
    assert (call.function.name, dict(call.function.arguments)) == ("calculate", {"expression": "12 * 34"})
    messages += [asked.message, {"role": "tool", "tool_name": "calculate", "content": "12 * 34 = 408"}]
    parts = list(client.chat(name, messages=messages, tools=[CALCULATE], options={"temperature": 0}, stream=True))
    assert "408" in "".join(part.message.content or "" for part in parts)
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    cut = client.chat(name, messages=messages[:1], options={"num_predict": 2})
    assert (cut.done_reason, cut.eval_count) == ("length", 2)


def test_calls_thoughts_and_a_reply_schema_are_streamed(
    start_api: StartApi, connect_ollama: ConnectOllama, script: Script
) -> None:
    calls = [call_text("calculate", expression=text) for text in ("1 + 1", "2 + 2")]
    replies = ["<think>Two sums.</think>" + "\n".join(calls), "no", '{"sum": 6}']
    client = connect_ollama(start_api("--model", script(*replies)))
    question: Any = {"model": "replies.json", "messages": [{"role": "user", "content": "Sums?"}], "stream": True}
    parts = [part.message for part in client.chat(tools=[CALCULATE], **question)]
    found = [dict(call.function.arguments) for part in parts for call in part.tool_calls or ()]
    assert found == [{"expression": "1 + 1"}, {"expression": "2 + 2"}]
    assert "".join(part.thinking or "" for part in parts) == "Two sums."
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    parts = [part.message for part in client.chat(format=schema, **question)]
    assert "".join(part.content or "" for part in parts) == '{"sum": 6}'


def test_a_prompt_without_history_is_answered(
    start_api: StartApi, connect_ollama: ConnectOllama, script: Script
) -> None:
    served = start_api("--model", script("<think>Hm.</think>one two three", "one two three", "for the other"))
    client = connect_ollama(served)
    whole = client.generate("replies.json", "Count.", system="You count.")
    assert (whole.response, whole.thinking, whole.done) == ("one two three", "Hm.", True)
    parts = list(client.generate("replies.json", "Count.", stream=True, options={"num_predict": 2}))
    assert "".join(part.response or "" for part in parts) == "one two" and parts[-1].done_reason == "length"
    assert client.generate("replies.json").done_reason == "load"
    for wrong in ({"images": [b"x"]}, {"raw": True}, {"suffix": "x"}):
        with pytest.raises(ollama.ResponseError) as caught:
            client.generate("replies.json", "x", **wrong)
        assert caught.value.status_code == 400
    with urlopen(
        Request(served.url.removesuffix("v1"), headers=served.headers), timeout=5
    ) as response:  # how programs look for a server
        assert "rkllm-chat" in response.read().decode()


def test_errors_have_ollamas_shape(start_api: StartApi, connect_ollama: ConnectOllama, script: Script) -> None:
    client = connect_ollama(start_api("--model", script()))
    hello: Any = [{"role": "user", "content": "Hello"}]
    wrong: list[tuple[dict[str, Any], int, str]] = [
        ({"model": "replies.json", "messages": [{"role": "user", "content": "x", "images": [b"x"]}]}, 400, "Images"),
        ({"model": "replies.json", "messages": hello, "options": {"temperature": 9}}, 400, "temperature"),
        ({"model": "replies.json", "messages": hello}, 500, "failed"),
    ]
    for request, status, words in wrong:
        with pytest.raises(ollama.ResponseError) as caught:
            client.chat(**request)
        assert caught.value.status_code == status and words in caught.value.error


def test_an_idle_model_is_unloaded_and_loaded_again(
    start_api: StartApi, connect_ollama: ConnectOllama, script: Script
) -> None:
    client = connect_ollama(start_api("--model", script("first of the script"), "--idle-s", "0.1"))
    for _ in range(2):  # the script begins again
        reply = client.chat("replies.json", messages=[{"role": "user", "content": "Hello"}])
        assert reply.message.content == "first of the script"
        assert any(not client.ps().models for _ in range(3000))


def test_a_load_that_nobody_waits_for_goes_on_and_the_model_is_unloaded_when_it_is_idle(folder: Path) -> None:
    """The model is read from a pipe, so it is loaded when the test writes it; a second load would never end."""
    os.mkfifo(folder / "replies.json")
    host = ModelHost(Settings(model=str(folder / "replies.json")), folder / "state", RequestQueue(0), idle_s=0.05)

    async def ask() -> None:
        async with host.acquire():
            pass

    async def leave_while_it_loads() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ask(), 0.2)

    async def go() -> None:
        await leave_while_it_loads()
        await asyncio.sleep(0.1)  # longer than idle_s without a request
        await leave_while_it_loads()
        assert [thread.name for thread in threading.enumerate()].count("load") == 1
        (folder / "replies.json").write_text("[]")
        for is_loaded in (True, False):
            while host.is_loaded != is_loaded:  # noqa: ASYNC110 - no event says this
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(go(), 5))


@pytest.mark.parametrize(("path", "shape"), [("/api/chat", str), ("/api/nothing", str), ("/v1/models", dict)])
def test_a_refusal_has_the_shape_of_its_api_and_tells_a_wrong_key_from_a_missing_one(
    path: str, shape: type, start_api: StartApi, script: Script
) -> None:
    served = start_api("--model", script("Hello."))
    url = served.url.replace("/v1", path)
    told: list[str] = []
    for headers in ({}, {"Authorization": "Bearer guess"}, {**served.headers, "Host": "attacker.example"}):
        answer = httpx.post(url, content=b"{}", headers=headers)
        error = answer.json()["error"]
        assert isinstance(error, shape) and answer.status_code in (401, 421)
        told.append(str(error["message"] if isinstance(error, dict) else error))
    assert [text.partition(".")[0] for text in told] == [
        "This server requires a bearer token",
        "The bearer token is wrong",
        "Invalid Host header",
    ]
