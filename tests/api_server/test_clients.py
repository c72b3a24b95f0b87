"""What clients rely on beside a reply: signs of life, schemas, thoughts, names, figures, origins."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import ollama
import openai
import pytest

from api_server.conftest import Connect, ConnectOllama, OpenScripted, StartApi, StartNpuApi
from api_server.test_chat_completions import CALCULATE
from mcp_servers.serving import Served
from rkllm_chat.api_server import Limits
from rkllm_chat.api_server.server import serve_api
from rkllm_chat.config.settings import Settings
from rkllm_chat.mcp_servers.http import open_listener
from stage import Script

MODEL = "replies.json"
HELLO: Any = [{"role": "user", "content": "Hello"}]
SCHEMA = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}},
    "required": ["sum"],
    "additionalProperties": False,
}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
PAGE = "https://page.example"


@asynccontextmanager
async def serve_here(model: str, limits: Limits) -> AsyncIterator[str]:
    """Serve in this process, whose limits have no option; yields the address."""
    with open_listener("127.0.0.1", 0) as listener:
        serving = asyncio.create_task(serve_api(Settings(model=model), limits, listener, ""))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            serving.cancel()
            await asyncio.wait([serving])


async def ask_ollama(url: str) -> str:
    """Ask with Ollama's package, which takes an empty line in a stream for damage."""
    client = ollama.AsyncClient(url)
    try:
        parts = await client.chat(MODEL, messages=HELLO, stream=True)
        return "".join([part.message.content or "" async for part in parts])
    finally:
        await client.close()  # type: ignore[no-untyped-call]


def test_a_stream_begins_at_once_and_says_that_it_is_alive(
    script: Script, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    model = script({"text": "", "wait": True}, "for the one that waited")

    async def go() -> None:
        async with serve_here(model, Limits(keep_alive_s=0.05)) as url, httpx.AsyncClient(base_url=url) as client:
            body = {"messages": HELLO, "stream": True}
            async with client.stream("POST", "/v1/chat/completions", json=body) as silent:
                assert (silent.status_code, silent.headers["x-queue-position"]) == (200, "0")
                parts = silent.aiter_raw()
                assert [await anext(parts) for _ in range(3)] == [b": alive\n\n"] * 3
                async with client.stream("POST", "/api/chat", json=body) as waiting:
                    assert (waiting.status_code, waiting.headers["x-queue-position"]) == (200, "1")
                    assert await anext(waiting.aiter_raw()) == b" "
                asking = asyncio.create_task(ask_ollama(url))
                # long enough for the server to find out that the second client has left, and not only stopped sending
                assert [await anext(parts) for _ in range(40)] == [b": alive\n\n"] * 40
            assert await asking == "for the one that waited"

    asyncio.run(asyncio.wait_for(go(), 30))


@pytest.mark.parametrize(("first_s", "status"), [(30.0, 500), (0.0, 200)])
def test_an_error_has_a_status_until_the_stream_begins(
    first_s: float, status: int, script: Script, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    model = script()

    async def go() -> None:
        async with serve_here(model, Limits(first_s=first_s)) as url, httpx.AsyncClient(base_url=url) as client:
            reply = await client.post("/v1/chat/completions", json={"messages": HELLO, "stream": True})
            assert (reply.status_code, reply.text.count("The model failed")) == (status, 1)

    asyncio.run(asyncio.wait_for(go(), 30))


@pytest.mark.slow
@pytest.mark.model
def test_reading_a_prompt_is_reported_on_request(shared_api: Served) -> None:
    def list_progress(first: str, **fields: Any) -> list[dict[str, int]]:
        messages = [{"role": "user", "content": f"{first} {'word ' * 700}"}]
        body = {"messages": messages, "stream": True, "max_tokens": 1, **fields}
        url = f"{shared_api.url}/chat/completions"
        reply = httpx.post(url, json=body, headers=shared_api.headers, timeout=60).raise_for_status()
        chunks = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
        assert chunks[-1]["choices"][0]["finish_reason"] == "length"
        return [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]

    told = list_progress("One", return_progress=True)
    assert told and {tuple(progress) for progress in told} == {("total", "cache", "processed", "time_ms")}
    total = told[0]["total"]
    assert [progress["processed"] for progress in told] == list(range(64, total + 1, 64)) and total > 700
    assert list_progress("Two") == []


@pytest.mark.slow
@pytest.mark.model
def test_the_progress_of_a_prompt_says_nothing_of_what_others_wrote(shared_api: Served) -> None:
    """The padding walks over two steps of 64 tokens: somewhere on it, one token more in the cache shows if any does."""
    secret = "The password of my diary is SWORDFISH and nobody else knows it, ever."

    def ask(text: str, **fields: Any) -> list[tuple[int, int]]:
        body = {"messages": [{"role": "user", "content": text}], "stream": True, "max_tokens": 1, **fields}
        reply = httpx.post(f"{shared_api.url}/chat/completions", json=body, headers=shared_api.headers, timeout=60)
        chunks = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
        told = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
        return [(progress["total"], progress["processed"]) for progress in told]

    def guess(word: str, padding: int) -> list[tuple[int, int]]:
        ask("unrelated text " * 30)
        ask(secret)
        return ask(f"The password of my diary is {word}{' x' * padding}", return_progress=True)

    for padding in range(180, 320, 10):
        assert guess("SWORDFISH", padding) == guess("SWARMFISH", padding) != []


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_reply_with_tools_and_a_schema_is_a_call_or_a_value(
    is_streamed: bool, shared_api: Served, connect: Connect
) -> None:
    client, kinds = connect(shared_api), set[str]()
    for question in ("What is 12 * 34?", "Hello", "What is 7 + 5?", "Tell me a story."):
        for seed in range(3):
            request: Any = {"tools": [CALCULATE], "response_format": FORMAT, "temperature": 1.0, "seed": seed}
            request["max_tokens"] = 200
            messages: Any = [{"role": "user", "content": question}]
            reply: Any = client.chat.completions.create(
                model="tiny-tools", messages=messages, stream=is_streamed, **request
            )
            choices = [chunk.choices[0] for chunk in reply] if is_streamed else [reply.choices[0]]
            parts = [choice.delta if is_streamed else choice.message for choice in choices]
            reason, text = choices[-1].finish_reason, "".join(part.content or "" for part in parts)
            calls = [call.function.name for part in parts for call in part.tool_calls or ()]
            kinds.add(reason)
            if reason == "stop":
                jsonschema.validate(json.loads(text), SCHEMA)
            if reason != "length":
                assert set(calls) == ({"calculate"} if reason == "tool_calls" else set())
    assert {"stop", "tool_calls"} <= kinds


def test_a_reply_that_never_fits_its_schema_is_an_error_that_names_the_problem(open_scripted: OpenScripted) -> None:
    replies = ["no", '{"sum": "one"}', "no", "no", "no", '{"sum": 6}']
    client = open_scripted(*replies)
    request: Any = {"model": MODEL, "messages": HELLO, "tools": [CALCULATE], "response_format": FORMAT}
    with pytest.raises(openai.UnprocessableEntityError, match="sum must be") as caught:
        client.chat.completions.create(**request)
    assert caught.value.code == "invalid_reply"
    with pytest.raises(openai.APIError, match="it is not JSON"):
        list(client.chat.completions.create(**request, stream=True))
    assert client.chat.completions.create(**request).choices[0].message.content == '{"sum": 6}'


@pytest.mark.slow
@pytest.mark.model
def test_a_client_switches_the_thoughts_of_a_model_on_the_npu(start_npu_api: StartNpuApi) -> None:
    served = start_npu_api("G")

    def count(path: str = "/v1/chat/completions", **fields: Any) -> int:
        url = served.url.removesuffix("/v1") + path
        body = {"messages": HELLO, "max_tokens": 1, "options": {"num_predict": 1}, "stream": False, **fields}
        reply = httpx.post(url, json=body, headers=served.headers, timeout=60).json()
        tokens: int = reply["usage"]["prompt_tokens"] if "usage" in reply else reply["prompt_eval_count"]
        return tokens

    usual = count()
    assert count(reasoning_effort="high") == count(chat_template_kwargs={"enable_thinking": True}) == usual
    without = count(reasoning_effort="none")  # the template closes the thought
    assert without > usual == count("/api/chat") == count("/api/chat", think=True)
    assert (
        without
        == count(enable_thinking=False)
        == count(chat_template_kwargs={"enable_thinking": False})
        == count("/api/chat", think=False)
    )
    assert count() == usual, "the next client has the setting of the server"


@pytest.mark.model
def test_what_a_model_is_stands_in_its_description(
    start_api: StartApi, connect_ollama: ConnectOllama, shipped_model: Path, folder: Path
) -> None:
    (folder / "Qwen3-0.6B-Q4_0.gguf").symlink_to(shipped_model)
    shown = connect_ollama(start_api("--model", "Qwen3-0.6B-Q4_0.gguf")).show("Qwen3-0.6B-Q4_0.gguf")
    assert shown.details and shown.modelinfo
    assert (shown.details.family, shown.details.quantization_level) == ("qwen3", "Q4_0")
    assert re.fullmatch(r"\d\.\dM", shown.details.parameter_size or "")
    architecture = shown.modelinfo["general.architecture"]
    assert shown.modelinfo[f"{architecture}.context_length"] >= 2048
    assert shown.capabilities == ["completion", "tools", "thinking"]


@pytest.mark.slow
@pytest.mark.model
def test_a_reply_that_the_client_began_is_continued(shared_api: Served, connect: Connect) -> None:
    client = connect(shared_api)
    request: Any = {"model": "tiny-tools", "temperature": 0, "max_tokens": 24}
    whole = client.chat.completions.create(messages=HELLO, **request).choices[0].message.content or ""
    begin = " ".join(whole.split()[:2])  # within a word, the model would not write the same tokens
    begun = [*HELLO, {"role": "assistant", "content": begin}]
    rest = client.chat.completions.create(messages=begun, **request).choices[0].message.content
    assert rest and begin + rest == whole


def test_requests_of_many_clients_are_understood(start_api: StartApi, script: Script) -> None:
    replies = [f"reply {number}" for number in range(5)]
    served = start_api("--model", script(*replies), "--allow-origin", PAGE)
    root = served.url.removesuffix("/v1")
    with httpx.Client(base_url=root, headers=served.headers, timeout=30) as client:

        def ask(path: str = "/v1/chat/completions", **fields: Any) -> httpx.Response:
            return client.post(path, json={"messages": HELLO, "stream": False, **fields}).raise_for_status()

        other = ask(model="gpt-5", frobnicate=1)
        assert (other.headers["x-model"], other.json()["model"]) == (MODEL, MODEL)
        assert "x-model" not in ask(model=MODEL, max_tokens=-1, frobnicate=2).headers
        assert ask("/chat/completions").json()["choices"][0]["message"]["content"] == "reply 2"
        result = {"role": "tool", "tool_call_id": "cut-off", "content": "42"}
        assert ask(messages=[result, *HELLO]).json()["choices"][0]["finish_reason"] == "stop"
        assert ask("/api/chat", model="llama9").json()["model"] == MODEL
        assert client.post("/api/show", json={"model": "llama9"}).status_code == 404
        assert tuple(map(int, client.get("/api/version").json()["version"].split("."))) >= (0, 6, 4)
        assert client.get("/props").json()["model_alias"] == MODEL
        metrics = client.get("/metrics").text
        assert "\nrkllm_chat_replies_total 5\n" in f"\n{metrics}" and "rkllm_chat_queue_size 0\n" in metrics
    assert httpx.get(f"{root}/health").json() == {"status": "ok"}, "it needs no token"
    refused = httpx.get(f"{root}/props")
    assert refused.status_code == 401 and "~/.local/state/rkllm-chat/tokens" in refused.text
    log = served.end()[1]
    assert log.count("frobnicate") == 1 and log.count(f'there is no model "gpt-5"; {MODEL} answers') == 1


def test_a_page_of_an_allowed_origin_may_ask_with_the_token(start_api: StartApi, script: Script) -> None:
    served = start_api("--model", script(), "--allow-origin", f"{PAGE}/")
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    url = f"{served.url}/models"
    for origin, status in ((PAGE, 200), ("https://other.example", 400)):
        before = httpx.options(f"{served.url}/chat/completions", headers={"Origin": origin, **asked})
        assert before.status_code == status
    allowed = httpx.get(url, headers={"Origin": PAGE, **served.headers})
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, PAGE)
    assert httpx.get(url, headers={"Origin": PAGE}).status_code == 401
    assert httpx.get(url, headers={"Origin": "https://other.example", **served.headers}).status_code == 403


@pytest.mark.model
def test_the_tokens_of_a_text_are_shown(shared_api: Served) -> None:
    url = f"{shared_api.url.removesuffix('/v1')}/tokenize"
    tokens = httpx.post(url, json={"content": "Hello there"}, headers=shared_api.headers, timeout=30).json()["tokens"]
    assert tokens and all(isinstance(token, int) for token in tokens)
