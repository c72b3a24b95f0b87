"""Which requests the API server accepts, and what clients that leave, wait or misbehave cost others."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from api_server.conftest import Connect, StartApi
from mcp_servers.serving import END_S, LIMIT_S, Served
from stage import Script

TOKEN = "correct-horse-battery-staple"
SCRIPT = "replies.json"
WAITING = {"text": "I begin and ", "wait": True}
HELLO: Any = [{"role": "user", "content": "Hello"}]
CLIENTS = 50
BREAKS = 10


@contextmanager
def post(
    served: Served, path: str = "/v1/chat/completions", body: Any = None, **headers: str
) -> Iterator[http.client.HTTPConnection]:
    """A request that has been sent, with the token that is shown; headers are written with _ for -."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=END_S)
    data = json.dumps({"messages": HELLO} if body is None else body)
    given = {**served.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
    with closing(connection):
        connection.request("POST", path, data, {"content-type": "application/json", **given})
        yield connection


def read_key(served: Served) -> str:
    """Return the token that the server shows."""
    return served.headers["Authorization"].removeprefix("Bearer ")


def status_of(served: Served, **options: Any) -> int:
    with post(served, **options) as connection:
        return connection.getresponse().status


@pytest.mark.parametrize(
    ("path", "is_streamed"), [("/v1/chat/completions", True), ("/v1/chat/completions", False), ("/api/chat", True)]
)
def test_a_client_that_leaves_frees_the_model(
    start_api: StartApi, script: Script, path: str, is_streamed: bool
) -> None:
    served = start_api("--model", script("loaded", WAITING, "for the other"), "--max-waiting", "0")
    assert status_of(served) == 200
    with post(served, path, {"messages": HELLO, "stream": is_streamed}) as connection:
        assert [status_of(served) for _ in range(5)] == [429] * 5  # by then the reply has begun
        connection.close()
        assert 200 in (status_of(served) for _ in range(300))
    assert served.end()[1] == ""


@pytest.mark.parametrize(
    ("path", "is_streamed"), [("/v1/chat/completions", True), ("/v1/chat/completions", False), ("/api/chat", True)]
)
def test_a_client_that_closes_its_sending_half_gets_its_answer(
    start_api: StartApi, script: Script, path: str, is_streamed: bool
) -> None:
    """As `nc -N` does; what it gets while it waits means nothing in HTTP."""
    served = start_api("--model", script("first", WAITING, "second"), "--max-waiting", "1")
    assert status_of(served) == 200
    with post(served, path, {"messages": HELLO, "stream": True}) as running:
        assert running.getresponse().readline()
        with post(served, path, {"messages": HELLO, "stream": is_streamed}) as waiting:
            assert waiting.sock
            waiting.sock.shutdown(socket.SHUT_WR)
            assert 429 in (status_of(served) for _ in range(50))
            running.close()
            answer = waiting.getresponse()
            assert answer.status == 200 and b"seco" in answer.read()  # in pieces, where it is streamed
            assert waiting.sock is None or waiting.sock.recv(1) == b""
    assert served.end()[1] == ""


@pytest.mark.slow
@pytest.mark.model
def test_a_client_that_leaves_ends_the_evaluation_of_its_prompt(start_api: StartApi, connect: Connect) -> None:
    """The evaluation had begun, since others were refused; the model is free as soon as the client has left."""
    served = start_api("--max-waiting", "0")
    client = connect(served).with_options(max_retries=100)  # while the model is not free
    hello = {"messages": HELLO, "max_tokens": 1}
    client.chat.completions.create(model="tiny-tools", messages=HELLO, max_tokens=1)
    long: Any = [{"role": "user", "content": " ".join(str(number) for number in range(500))}]
    with post(served, body={"messages": long, "max_tokens": 1}):
        assert 429 in (status_of(served, body=hello) for _ in range(50))
    assert client.chat.completions.create(model="tiny-tools", messages=HELLO, max_tokens=1).usage


def test_a_full_queue_is_told_and_the_next_in_it_is_answered(
    start_api: StartApi, connect: Connect, script: Script
) -> None:
    served = start_api("--model", script(WAITING, "second", "third"), "--max-waiting", "1")
    client = connect(served)
    with post(served, body={"messages": HELLO, "stream": True}) as first:
        assert b"assistant" in first.getresponse().readline()
        with post(served) as second:
            with pytest.raises(openai.RateLimitError) as caught:
                for _ in range(100):  # until the second one has arrived
                    client.with_options(timeout=0.5).chat.completions.create(model=SCRIPT, messages=HELLO)
            assert caught.value.code == "queue_full"
            assert int(caught.value.response.headers["retry-after"]) >= 1
            first.close()
            answered = json.loads(second.getresponse().read())
    assert answered["choices"][0]["message"]["content"] == "second"


_LARGE = 24 * 1024 * 1024 - 1000
_CALL = '{"function":{"name":"act"}}'
_ASSISTANT = '{"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[%s]},%s]}'
_USER = '{"role":"user","content":"x"}'
_REPLY_SCHEMA = '{"messages":[%s],"response_format":{"type":"json_schema","json_schema":{"schema":{"enum":[%s]}}}}'


def fill(item: str, size: int = _LARGE) -> str:
    """Repeat an item of a list up to a size."""
    return ",".join([item] * (size // (len(item) + 1)))


OVERSIZED: dict[str, Callable[[], str]] = {
    "calls": lambda: _ASSISTANT % (fill(_CALL), _USER),
    "1 MB of calls": lambda: _ASSISTANT % (fill(_CALL, 2**20), _USER),
    "escaped arguments": lambda: (
        _ASSISTANT
        % ('{"function":{"name":"act","arguments":"[' + "\\u005b\\u005d\\u002c" * (_LARGE // 19) + '1]"}}', _USER)
    ),
    "a reply schema": lambda: _REPLY_SCHEMA % (_USER, ",".join(f'"w{number}"' for number in range(2_300_000))),
    "messages": lambda: '{"messages":[' + fill(_USER) + "]}",
    "objects": lambda: '{"messages":[' + fill("{}") + "]}",
    "tool descriptions": lambda: json.dumps(
        {
            "messages": HELLO,
            "tools": [
                {"type": "function", "function": {"name": f"t{i}", "description": "x" * 45_000}} for i in range(500)
            ],
        }
    ),
    "text": lambda: '{"messages":[{"role":"user","content":"' + "x" * (_LARGE - 100) + '\U0001f600"}]}',
    "no picture": lambda: json.dumps(
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x" * (_LARGE - 200)}}]}]}
    ),
}


def read_costs(pid: int) -> tuple[float, float]:
    """Return the CPU seconds of a process, and its largest memory so far in MB."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"), int(peak) / 1024


@pytest.mark.proc
@pytest.mark.parametrize("kind", OVERSIZED)
def test_what_cannot_fit_is_refused_on_its_size(kind: str, start_api: StartApi, script: Script) -> None:
    served = start_api("--model", script("yes", "and yes"))
    assert status_of(served) == 200
    body = OVERSIZED[kind]().encode()
    cpu_s, peak_mb = read_costs(served.process.pid)
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=LIMIT_S)) as connection:
        headers = {"content-type": "application/json", **served.headers}
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        assert answer.status in (400, 413) and json.loads(answer.read())["error"]["message"]
    now_s, now_mb = read_costs(served.process.pid)
    assert now_s - cpu_s < 1 and now_mb - peak_mb < 200
    assert status_of(served) == 200


def test_a_long_conversation_with_many_tools_is_no_such_thing(start_api: StartApi, script: Script) -> None:
    """The control: 1,000 calls, 2,000 messages and 100 tools are answered."""
    served = start_api("--model", script("yes"), "--context", "32768")
    messages = [{"role": ("user", "assistant")[number % 2], "content": "x"} for number in range(2000)]
    messages += [{"role": "assistant", "tool_calls": json.loads(f"[{fill(_CALL, 28 * 1000)}]")}, *HELLO]
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string", "enum": ["a", "b"]} for i in range(8)}}
    tools = [{"type": "function", "function": {"name": f"t{i}", "parameters": schema}} for i in range(100)]
    assert status_of(served, body={"messages": messages, "tools": tools}) == 200


def test_a_host_may_be_allowed_and_a_wrong_token_has_the_shape_of_the_api(
    start_api: StartApi, connect: Connect, script: Script
) -> None:
    served = start_api("--model", script("yes"), "--token-env", "KEY", "--allow-host", "board.lan", KEY=TOKEN)
    with pytest.raises(openai.AuthenticationError) as caught:
        connect(served).chat.completions.create(model=SCRIPT, messages=HELLO)
    assert caught.value.type == "authentication_error"
    allowed = {"Host": "board.lan", "Origin": "http://board.lan", "Authorization": f"Bearer {TOKEN}"}
    assert status_of(served, **allowed) == 200


def test_bodies_are_limited_and_read_strictly(start_api: StartApi, script: Script) -> None:
    served = start_api("--model", script("yes"))
    large = {"messages": [{"role": "user", "content": "x" * (24 * 1024 * 1024)}]}
    assert status_of(served, body=large) == 413
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    with post(served, body={"messages": deep}) as connection:
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["error"]["type"]) == (400, "invalid_request_error")
    with post(served, body=[]) as connection:
        assert "not a JSON object" in connection.getresponse().read().decode()
    with post(served, path="/v1/completion") as connection:
        answer = connection.getresponse()
        message = json.loads(answer.read())["error"]["message"]
        assert (answer.status, message) == (404, "There is no path /v1/completion. Did you mean /v1/completions?")
    with post(served, path="/v1/models") as connection:
        answer = connection.getresponse()
        assert (answer.status, "POST is not allowed at /v1/models. Use GET" in answer.read().decode()) == (405, True)
    assert status_of(served) == 200
    assert served.end()[1] == ""


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/api/generate"])
def test_a_long_stop_sequence_is_refused(start_api: StartApi, script: Script, path: str) -> None:
    served = start_api("--model", script("yes"))
    hello: dict[str, Any] = {"messages": HELLO, "prompt": "Hello", "input": "Hello"}
    for length, is_refused in ((1000, False), (10_000, True)):
        stop = ["x" * length]
        with post(served, path, {**hello, "stop": stop, "options": {"stop": stop}}) as connection:
            answer = connection.getresponse().read().decode()
            assert ("stop sequence" in answer) == is_refused


@pytest.mark.model
def test_a_prompt_far_longer_than_the_context_is_refused_before_its_tokens_are_counted(start_api: StartApi) -> None:
    served = start_api()
    for path in ("/v1/chat/completions", "/v1/completions"):
        body = {"messages": [{"role": "user", "content": "x" * 1_000_000}], "prompt": "x" * 1_000_000}
        with post(served, path, body) as connection:
            error = json.loads(connection.getresponse().read())["error"]
        assert error["code"] == "context_length_exceeded" and " 10000" in error["message"]


def test_the_time_of_a_reply_is_limited(start_api: StartApi, connect: Connect, script: Script) -> None:
    served = start_api("--model", script(WAITING, WAITING, "fast"), "--max-reply-s", "0.2")
    client = connect(served)
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model=SCRIPT, messages=HELLO)
    assert (caught.value.status_code, caught.value.code) == (504, "timeout")
    with pytest.raises(openai.APIError, match=r"0\.2 s"):
        list(client.chat.completions.create(model=SCRIPT, messages=HELLO, stream=True))
    assert client.chat.completions.create(model=SCRIPT, messages=HELLO).choices[0].message.content == "fast"


@pytest.mark.slow
def test_a_client_that_does_not_read_keeps_the_model_from_nobody(
    start_api: StartApi, connect: Connect, script: Script
) -> None:
    served = start_api("--model", script(" ".join(map(str, range(30_000))), "for the other"))
    body = {"messages": HELLO, "stream": True, "max_tokens": 1_000_000}
    with post(served, body=body):  # its reply has 8 MB of events, more than the 4 MB that a socket holds
        reply = connect(served).chat.completions.create(model=SCRIPT, messages=HELLO)
    assert reply.choices[0].message.content == "for the other"


@pytest.mark.slow
def test_half_open_connections_and_clients_that_break_off_cost_others_nothing(
    start_api: StartApi, script: Script
) -> None:
    served = start_api("--model", script(*[WAITING] * BREAKS, *["yes"] * 3))
    address = ("127.0.0.1", served.port)
    begun = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"
    with ExitStack() as stack:
        for data in (b"", begun, b"POST /v1"):
            for _ in range(100):
                stack.enter_context(socket.create_connection(address)).sendall(data)
        for _ in range(BREAKS):
            with post(served, body={"messages": HELLO, "stream": True}) as connection:
                assert b"assistant" in connection.getresponse().readline() and connection.sock
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        for _ in range(100):
            stack.enter_context(socket.create_connection(address)).sendall(b"\x16\x03\x01\r\n\r\n")
        assert [status_of(served) for _ in range(3)] == [200] * 3
    assert served.end()[1].count("\n") <= 30, "the log grows with each request that is no HTTP"


@pytest.mark.slow
@pytest.mark.model
def test_fifty_clients_at_once_are_all_answered(start_api: StartApi) -> None:
    served = start_api()

    async def ask(client: openai.AsyncOpenAI, number: int) -> str:
        message: Any = {"role": "user", "content": f"What is {number} + 1?"}
        reply = await client.chat.completions.create(
            model="tiny-tools", messages=[message], temperature=0, max_tokens=4
        )
        return reply.choices[0].finish_reason

    async def go() -> list[str]:
        async with openai.AsyncOpenAI(
            base_url=served.url, api_key=read_key(served), max_retries=0, timeout=50
        ) as client:
            return list(await asyncio.gather(*(ask(client, number) for number in range(CLIENTS))))

    assert asyncio.run(go()) == ["length"] * CLIENTS
