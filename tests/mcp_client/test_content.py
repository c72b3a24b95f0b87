"""Every result becomes text for the model: what is no text is named, and what is malformed costs that place alone."""

from __future__ import annotations

import asyncio
import base64
import json
import textwrap
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult

from rkllm_chat.core.errors import ProtocolError
from rkllm_chat.mcp_client.sdk_types import read_entries, read_result
from rkllm_chat.mcp_client.toolbox import Toolbox

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n\0" + bytes(range(256)) * 8).decode()
SOUND = base64.b64encode(b"RIFF1234WAVE" + bytes(range(256))).decode()
DATA = base64.b64encode(bytes(300)).decode()
TEXT = base64.b64encode("Grüße, 3\n".encode()).decode()


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def embedded(**resource: Any) -> dict[str, Any]:
    return {"content": [{"type": "resource", "resource": resource}]}


LIKE = "data:image/png;base64,AAAA and /9j/4AAQ and H4sIAAAA"
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes([255]) * 300).decode()
LINK = {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt"}
ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "a picture": (
        {"content": [{"type": "image", "data": PICTURE, "mimeType": "image/png"}]},
        "[image/png, 2057 bytes, not shown]",
    ),
    "a sound": (
        {"content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}]},
        "[audio/wav, 268 bytes, not shown]",
    ),
    "a link": ({"content": [LINK]}, "[resource file:///a.txt, a.txt]"),
    "a link with all it may say": (
        {"content": [{**LINK, "title": "The\nfirst", "mimeType": "text/plain", "size": 12, "description": "One."}]},
        "[resource file:///a.txt, The first, text/plain, 12 bytes]",
    ),
    "data in a resource": (
        embedded(uri="data://blob", mimeType="application/pdf", blob="AAEC"),
        "[resource data://blob, application/pdf, 3 bytes, not shown]",
    ),
    "data of no kind": (embedded(uri="data://blob", blob="AAEC"), "[resource data://blob, 3 bytes, not shown]"),
    "a text as data": (
        embedded(uri="file:///a.csv", mimeType="application/octet-stream", blob=TEXT),
        "Grüße, 3\n",
    ),
    "a text as data of no kind": (embedded(uri="file:///a.csv", blob=TEXT), "Grüße, 3\n"),
    "a text as data of another kind": (
        embedded(uri="file:///a.pdf", mimeType="application/pdf", blob=TEXT),
        "[resource file:///a.pdf, application/pdf, 11 bytes, not shown]",
    ),
    "the text of a resource": (embedded(uri="note://a", text="Mow."), "Mow."),
    "a picture as a URI in a text": (
        text(f'<img src="data:image/png;base64,{PICTURE}"> there'),
        '<img src="[image/png, 2057 bytes, not shown]"> there',
    ),
    "a URI with parameters": (
        text(f"data:application/x;charset=utf-8;base64,{DATA}"),
        "[application/x, 300 bytes, not shown]",
    ),
    "a picture in JSON": (
        text(json.dumps({"png": PICTURE, "wide": 3})),
        '{"png": "[image/png, 2057 bytes, not shown]", "wide": 3}',
    ),
    "a picture in JSON that escapes": (
        text(json.dumps({"jpg": JPEG}).replace("/", "\\/")),
        '{"jpg": "[image/jpeg, 304 bytes, not shown]"}',
    ),
    "a sound in lines": (
        text(f"Here:\n{textwrap.fill(SOUND, 90)}\nThere."),
        "Here:\n[audio/wav, 268 bytes, not shown]\nThere.",
    ),
    "structured data alone": (
        {"content": [], "structuredContent": {"png": PICTURE}},
        '{"png": "[image/png, 2057 bytes, not shown]"}',
    ),
    "words that look like it": (text(LIKE), LIKE),
    "a long word": (text("a" * 1000), "a" * 1000),
}


def addressed(words: str, audience: list[str] | None = None, priority: float | None = None) -> dict[str, Any]:
    annotations = {"audience": audience, "priority": priority}
    return {"type": "text", "text": words, "annotations": {key: value for key, value in annotations.items() if value}}


ADDRESSED: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "one for each": (
        [
            addressed("to both", ["user", "assistant"]),
            addressed("to the user", ["user"]),
            addressed("to the model", ["assistant"]),
        ],
        "to both\nto the model",
        "to the user",
    ),
    "the user alone": ([addressed("secret", ["user"])], "(the content is shown to the user alone)", "secret"),
    "priorities": (
        [addressed("trifle", priority=0.1), addressed("usual"), addressed("vital", priority=1.0), addressed("second")],
        "vital\nusual\nsecond\ntrifle",
        "",
    ),
}


def make_gallery(answer: dict[str, Any]) -> MCPServer:
    """A server whose tool gives what is in `answer`, with 120 resources."""
    server = MCPServer("gallery")

    @server.tool()
    def show() -> CallToolResult:
        """Shows the answer."""
        return CallToolResult.model_validate(answer)

    for number in range(120):
        server.resource(f"tide://{number}", name="tide", title=f"Tide {number}")(lambda: "low")
    return server


def test_content_that_is_no_text_is_named_with_its_kind_and_size() -> None:
    shown: dict[str, Any] = {}

    async def show_all() -> dict[str, str]:
        told = {}
        async with Toolbox.from_servers({"gallery": make_gallery(shown)}) as toolbox:
            (tool,) = (tool for tool in toolbox.tools if tool.name == "show")
            for name, (answer, _) in ANSWERS.items():
                shown.clear()
                shown.update(answer)
                told[name] = (await toolbox.call(tool, {}, lambda *_: None)).text
        return told

    assert asyncio.run(show_all()) == {name: wanted for name, (_, wanted) in ANSWERS.items()}


def test_content_for_the_user_alone_is_not_read_by_the_model_and_the_most_important_comes_first() -> None:
    shown: dict[str, Any] = {}

    async def show_all() -> dict[str, tuple[str, str]]:
        told = {}
        async with Toolbox.from_servers({"gallery": make_gallery(shown)}) as toolbox:
            (tool,) = (tool for tool in toolbox.tools if tool.name == "show")
            for name, (content, _, _) in ADDRESSED.items():
                shown.clear()
                shown.update(content=content)
                result = await toolbox.call(tool, {}, lambda *_: None)
                told[name] = (result.text, result.user_text)
        return told

    assert asyncio.run(show_all()) == {name: (model, user) for name, (_, model, user) in ADDRESSED.items()}


def test_all_resources_are_listed() -> None:
    """How many of them the model reads, the context window decides."""

    async def list_them() -> str:
        async with Toolbox.from_servers({"gallery": make_gallery({})}) as toolbox:
            (tool,) = (tool for tool in toolbox.tools if tool.name == "list_resources")
            return (await toolbox.call(tool, {}, lambda *_: None)).text

    assert asyncio.run(list_them()).splitlines() == [f"tide://{number}: Tide {number}" for number in range(120)]


GOOD: dict[str, Any] = {"name": "notes", "uri": "notes://all"}


def read_content(content: Any) -> list[str]:
    return [block.text for block in read_result("small", "CallToolResult", {"content": content}).content]


def test_malformed_entries_are_left_out_and_the_others_stay() -> None:
    malformed: list[Any] = [{**GOOD, "name": 7}, {"name": "no address"}, {**GOOD, "annotations": "many"}]
    assert [entry.name for entry in read_entries("Resource", [*malformed, GOOD])] == ["notes"]


@pytest.mark.parametrize(
    ("content", "mended"),
    [
        ("hello", ["hello"]),
        (None, []),
        ([{"type": "text", "text": "a"}], ["a"]),
        ([{"type": "hologram"}], ["[content of an unknown kind: hologram]"]),
        ([{"type": "text", "text": 7}, "b"], ["[content of an unknown kind: text]", "b"]),
    ],
)
def test_content_becomes_a_list_of_known_blocks(content: Any, mended: list[str]) -> None:
    assert read_content(content) == mended


def test_more_than_a_thousand_blocks_are_joined() -> None:
    block = {"type": "text", "text": "x"}
    assert len(read_content([block] * 1000)) == 1000
    joined = read_content([*[block] * 1001, {"type": "hologram"}, block])
    assert [text[:9] for text in joined] == ["x\nx\nx\nx\nx", "[content ", "x"]


def test_a_result_of_another_form_names_the_server_and_the_place() -> None:
    with pytest.raises(ProtocolError, match=r'Server "small" violated the protocol: messages'):
        read_result("small", "GetPromptResult", {"messages": 7, "ttlMs": -1})
