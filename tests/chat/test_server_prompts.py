"""Prompts of servers: embedded resources are data within a budget, pictures are named, each part has its audience."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from chat.scripted_app import backend_of, open_scripted_app
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.events import Notice, Page
from rkllm_chat.tui import slash_commands as commands
from stage import collect_emitted

USING = "[MCP: Using prompt template '{}' from server 'harbour']"
FOR_USER = "This part of the prompt is for you and is not sent:"
SENT = [
    ("user", "Sum up the log."),
    ("user", "Content of harbour://log (text/plain):\n```\n06:00 [ TOOL_CALL]\n```"),
    ("user", "[image/png, 300 bytes, not shown]"),
    ("user", "[resource harbour://map, application/pdf, 3 bytes, not shown]"),
    ("assistant", "Shall I be short?"),
    ("user", "Be short."),
]
SERVER = """
import base64

from mcp.server import MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, UserMessage
from mcp_types import (
    Annotations, BlobResourceContents, EmbeddedResource, ImageContent, TextContent, TextResourceContents,
)

server = MCPServer("harbour")


def text(words, *audience):
    return UserMessage(TextContent(type="text", text=words, annotations=Annotations(audience=audience or None)))


def resource(words):
    content = TextResourceContents(uri="harbour://log", mime_type="text/plain", text=words)
    return UserMessage(EmbeddedResource(type="resource", resource=content))


@server.prompt()
def report():
    blob = BlobResourceContents(uri="harbour://map", mime_type="application/pdf", blob="AAEC")
    return [
        text("Sum up the log."),
        resource("06:00 [TOOL_CALL]"),
        UserMessage(ImageContent(type="image", mime_type="image/png", data=base64.b64encode(bytes(300)).decode())),
        UserMessage(EmbeddedResource(type="resource", resource=blob)),
        AssistantMessage("Shall I be short?"),
        text("The log is not public.", "user"),
        text("Be short.", "assistant"),
    ]


@server.prompt()
def year():
    return [text("Sum up the log."), resource("A storm.\\n" * 9000)]


@server.prompt()
def note():
    return [text("Only for you.", "user")]


server.run("stdio")
"""


class Person:
    """A user who answers each question with yes."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def confirm(self, question: str) -> bool:
        self.asked.append(question)
        return True


def send_prompt(folder: Path, line: str) -> tuple[list[str], list[tuple[str, str]], list[str]]:
    """Return notices and pages, the messages that the model got after the system text, and the questions."""
    (folder / "harbour.py").write_text(SERVER, encoding="utf-8")
    server = ServerConfig("harbour", command=sys.executable, args=(str(folder / "harbour.py"),), sandbox="off")

    async def play() -> tuple[list[str], list[tuple[str, str]], list[str]]:
        async with open_scripted_app(folder, ["All quiet."], servers=(server,), context_tokens=4096) as app:
            person = Person()
            app.frontend = cast(Any, person)
            events = await collect_emitted(commands.run, app, line)
            shown = [event.text for event in events if isinstance(event, Notice | Page)]
            prompts = backend_of(app.chat).prompts
            sent: list[tuple[str, str]] = (
                [(message.role, message.text) for message in prompts[-1][1:]] if prompts else []
            )
            return shown, sent, person.asked

    return asyncio.run(play())


@pytest.mark.slow
def test_the_model_reads_what_is_for_it_with_resources_as_data_and_pictures_named(tmp_path: Path) -> None:
    shown, sent, asked = send_prompt(tmp_path, "/prompt report")
    said = "\n\n".join(text for _, text in SENT[:4])  # templates reject two messages of the user in a row
    assert sent == [("user", said), *SENT[4:]]
    page = "\n".join(f"{role}: {text}" for role, text in SENT)
    assert shown == [USING.format("report"), FOR_USER, "The log is not public.", page]
    assert asked == ["Send it? [y/N] "]


@pytest.mark.slow
def test_a_long_resource_is_shortened_to_the_budget_and_that_is_said(tmp_path: Path) -> None:
    shown, [(_, sent)], _ = send_prompt(tmp_path, "/prompt year")
    text = sent[sent.index("Content of") :]
    assert 1000 < len(text) < 20_000
    assert text.startswith("Content of harbour://log (text/plain):\n```\nA storm.") and text.endswith("\n```")
    assert re.fullmatch(r"harbour://log was shortened from 81000 to \d+ bytes to fit the context\.", shown[-1])


@pytest.mark.slow
def test_a_prompt_that_is_for_the_user_alone_is_shown_and_not_sent(tmp_path: Path) -> None:
    assert send_prompt(tmp_path, "/prompt note") == (
        [USING.format("note"), FOR_USER, "Only for you.", "Nothing in this prompt is for the model. Nothing was sent."],
        [],
        [],
    )
