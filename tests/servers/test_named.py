"""Whatever a server answers with becomes text for the model: what is no text is named, with its kind and its size."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.config import ServerConfig
from rkllm_chat.servers.toolbox import Toolbox

SERVER = '''
import json, sys
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, TextContent

server = MCPServer("gallery")

@server.tool()
def show() -> CallToolResult:
    """Shows what is in a file."""
    return CallToolResult.model_validate(json.load(open(sys.argv[1], encoding="utf-8")))

for number in range(120):
    server.resource(f"tide://{number}", name="tide", title=f"Tide {number}")(lambda: "low")

server.run("stdio")
'''
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n\0" + bytes(range(256)) * 8).decode()
SOUND = base64.b64encode(b"RIFF1234WAVE" + bytes(range(256))).decode()
DATA = base64.b64encode(bytes(300)).decode()


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


@pytest.fixture
def gallery(tmp_path: Path) -> ServerConfig:
    path = tmp_path / "gallery.py"
    path.write_text(SERVER, encoding="utf-8")
    return ServerConfig("gallery", command=sys.executable, args=(str(path), str(tmp_path / "answer")), timeout_s=10)


def test_what_is_no_text_is_named_with_its_kind_and_size(gallery: ServerConfig, tmp_path: Path) -> None:
    async def show_all() -> dict[str, str]:
        told = {}
        async with Toolbox([gallery], tmp_path / "logs") as box:
            (tool,) = (one for one in box.tools if one.name == "show")
            for name, (answer, _) in ANSWERS.items():
                (tmp_path / "answer").write_text(json.dumps(answer), encoding="utf-8")
                told[name] = (await box.call(tool, {}, lambda *_: None)).text
        return told

    assert asyncio.run(show_all()) == {name: wanted for name, (_, wanted) in ANSWERS.items()}


def test_all_resources_are_listed_since_the_window_decides_what_is_shown(gallery: ServerConfig, tmp_path: Path) -> None:
    async def list_them() -> str:
        async with Toolbox([gallery], tmp_path / "logs") as box:
            (tool,) = (one for one in box.tools if one.name == "list_resources")
            return (await box.call(tool, {}, lambda *_: None)).text

    assert asyncio.run(list_them()).splitlines() == [f"tide://{number}: Tide {number}" for number in range(120)]
