"""What a session makes of a response over its limit: what came of a result, or an error that says how large it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rkllm_chat.mcp_client.protocol.cut_result import CUT_KEY
from rkllm_chat.mcp_client.protocol.limits import MB
from rkllm_chat.mcp_client.protocol.session import JsonRpcSession

NOTE = "[The result was cut: it has 3 MB, the limit is 1 MB.]"
LONG = "x" * (3 * MB)
HEAD = {"jsonrpc": "2.0", "id": 7}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def receive(method: str, response: dict[str, Any]) -> dict[str, Any]:
    """What a session of 1 MB delivers of a response to request 7; its long texts as their first letters."""
    session = JsonRpcSession(MB)
    session.send({"jsonrpc": "2.0", "id": 7, "method": method, "params": {}})
    (event,) = session.receive_bytes(json.dumps(response).encode() + b"\n") or session.end()
    assert event.message["id"] == 7
    found: dict[str, Any] = json.loads(json.dumps(event.message), object_hook=shorten)
    return found


def shorten(value: dict[str, Any]) -> dict[str, Any]:
    for key in [key for key, found in value.items() if isinstance(found, str) and len(found) > 1000]:
        letters, _, rest = value[key].partition("\n")
        value[key] = letters[:9] + (f"\n{rest}" if rest else "")
    return value


PICTURE = {"type": "image", "mimeType": "image/png", "data": LONG}
CUTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "a text": ("tools/call", {"content": [text("a"), text(LONG)]}, {"content": [text("a"), text("xxxxxxxxx")]}),
    "a picture": ("tools/call", {"content": [PICTURE]}, {"content": [text("[image/png: cut, not shown]")]}),
    "an error": (
        "tools/call",
        {"content": [text(LONG)], "isError": True},
        {"content": [text("xxxxxxxxx")], "isError": True},
    ),
    "structured content beside a text": (
        "tools/call",
        {"content": [text("a")], "structuredContent": {"a": LONG}},
        {"content": [text("a")]},
    ),
    "structured content alone": (
        "tools/call",
        {"structuredContent": {"a": [1, 2, LONG]}},
        {"content": [text('{"a": [1,')]},
    ),
    "structured content before the text": (
        "tools/call",
        {"structuredContent": {"a": 1}, "content": [text(LONG)]},
        {"structuredContent": {"a": 1}, "content": [text("xxxxxxxxx")]},
    ),
    "the result of a task": ("tasks/result", {"content": [text(LONG)]}, {"content": [text("xxxxxxxxx")]}),
}


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("is_id_last", [False, True])
def test_the_beginning_of_a_result_is_used_and_its_size_is_said(name: str, is_id_last: bool) -> None:
    method, result, expected = CUTS[name]
    response = {"result": result, **HEAD} if is_id_last else {**HEAD, "result": result}
    found = receive(method, response)["result"]
    assert found.pop("_meta")[CUT_KEY] == len(json.dumps(response))
    assert found == {**expected, "content": [*expected["content"], text(NOTE)]}


@pytest.mark.parametrize(
    ("contents", "shown"),
    [({"text": LONG}, "xxxxxxxxx"), ({"blob": LONG}, "[file:///a: cut, not shown]")],
    ids=["text", "blob"],
)
def test_the_beginning_of_a_resource_is_used(contents: dict[str, str], shown: str) -> None:
    found = receive("resources/read", {**HEAD, "result": {"contents": [{"uri": "file:///a", **contents}]}})["result"]
    assert found["contents"] == [{"uri": "file:///a", "text": f"{shown}\n{NOTE}"}]


@pytest.mark.parametrize(
    ("method", "answer", "error"),
    [
        (
            "tools/list",
            {"result": {"tools": [{"name": "a", "description": LONG}]}},
            "result too large (3 MB), limit 1 MB",
        ),
        ("tools/call", {"error": {"code": -32000, "message": LONG}}, "xxxxxxxxx"),
    ],
    ids=["a list", "an error"],
)
def test_half_a_list_is_refused_and_an_error_stays_one(method: str, answer: dict[str, Any], error: str) -> None:
    assert receive(method, {**HEAD, **answer})["error"]["message"] == error
