"""Every feature of the protocol up to 2025-11-25, against the reference server of those who write the specification."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp_types import ElicitRequestURLParams, ElicitResult

from many_tools import read_servers
from rkllm_chat.config.value_checks import LogLevel
from rkllm_chat.core.errors import ChatError
from rkllm_chat.mcp_client.handlers import ChangeKind
from rkllm_chat.mcp_client.toolbox import Toolbox

from .servers import RecordingFrontend, call, everything_on, read_data, with_toolbox

pytestmark = pytest.mark.real

T = TypeVar("T")
Look = Callable[[Callable[[Toolbox], Awaitable[Any]], RecordingFrontend], Any]

STATIC = "demo://resource/static/document/"
DOCUMENTS = ("architecture", "extension", "features", "how-it-works", "instructions", "startup", "structure")
WHEN_ASKED = {"get-roots-list", "trigger-elicitation-request", "trigger-url-elicitation", "trigger-sampling-request"}
FORM: dict[str, str | int | float | bool | list[str] | None] = {
    "name": "Ada",
    "check": True,
    "firstLine": "Call me Ishmael.",
    "email": "ada@example.org",
    "homepage": "https://example.org/ada",
    "birthdate": "1815-12-10",
    "integer": 7,
    "number": 2.5,
    "untitledSingleSelectEnum": "Phoebe",
    "untitledMultipleSelectEnum": ["Piano", "Bass"],
    "titledSingleSelectEnum": "hero-3",
    "titledMultipleSelectEnum": ["fish-1", "fish-3"],
    "legacyTitledEnum": "pet-2",
}


RESEARCH = ["Gathering sources...", "Analyzing content...", "Synthesizing findings...", "Generating report..."]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Opens the server over stdio, runs a coroutine function on its toolbox, gives what it gives."""

    def open_and_run(then: Callable[[Toolbox], Awaitable[Any]], frontend: RecordingFrontend) -> Any:
        with everything_on("stdio") as config:
            return with_toolbox(config, tmp_path, frontend, then)

    return open_and_run


def test_tools_that_ask_the_client_are_listed_where_it_answers(look: Look, tmp_path: Path) -> None:
    """What is listed where it does not is in test_listed.py."""

    async def list_names(toolbox: Toolbox) -> set[str]:
        return {tool.name for tool in await toolbox.list_tools("everything")}

    always = {tool["name"] for tool in read_servers()["everything"]}
    assert look(list_names, RecordingFrontend(roots=(tmp_path,))) == always | WHEN_ASKED


def test_every_kind_of_content_becomes_text_for_the_model(look: Look) -> None:
    async def ask(toolbox: Toolbox) -> list[str]:
        annotated = await call(toolbox, "get-annotated-message", messageType="error", includeImage=True)
        return [
            annotated.text,
            annotated.user_text,  # the server marks its image as content for the user alone
            (await call(toolbox, "get-resource-links", count=2)).text,
            (await call(toolbox, "get-resource-reference", resourceType="Blob", resourceId=3)).text,
            (await call(toolbox, "get-resource-reference", resourceType="Text", resourceId=4)).text,
        ]

    told = [re.sub(r" created at .*", " created", text) for text in look(ask, RecordingFrontend())]
    assert told == [
        "Error: Operation failed",
        "[image/png, 4033 bytes, not shown]",
        "Here are 2 resource links to resources available in this server:\n"
        "[resource demo://resource/dynamic/blob/1, Blob Resource 1, text/plain]\n"
        "[resource demo://resource/dynamic/text/2, Text Resource 2, text/plain]",
        "Returning resource reference for Resource 3:\nResource 3: This is a base64 blob created\n"
        "You can access this resource using the URI: demo://resource/dynamic/blob/3",
        "Returning resource reference for Resource 4:\nResource 4: This is a plaintext resource created\n"
        "You can access this resource using the URI: demo://resource/dynamic/text/4",
    ]


def test_invalid_arguments_give_a_failed_result_and_the_server_lives(look: Look) -> None:
    async def ask(toolbox: Toolbox) -> list[tuple[str, str]]:
        results = [await call(toolbox, "get-sum", a="one", b=2), await call(toolbox, "get-sum", a=1, b=2)]
        return [(result.status, result.text.partition(" at ")[0]) for result in results]

    assert look(ask, RecordingFrontend()) == [
        (
            "failed",
            "MCP error -32602: Input validation error: Invalid arguments for tool get-sum: "
            "Invalid input: expected number, received string",
        ),
        ("completed", "The sum of 1 and 2 is 3."),
    ]


def test_a_new_resource_is_announced_and_can_be_read(look: Look) -> None:
    frontend = RecordingFrontend()

    async def zip_hello(toolbox: Toolbox) -> tuple[str, bytes, list[str]]:
        data = "data:text/plain;base64,aGVsbG8="
        text = (
            await call(toolbox, "gzip-file-as-resource", name="hello.gz", data=data, outputType="resourceLink")
        ).text
        await frontend.until(lambda: ChangeKind.RESOURCES in {change.kind for change in frontend.changes})
        uris = [resource.uri for _, resource in await toolbox.list_resources("everything")]
        return text, (await read_data(toolbox, "demo://resource/session/hello.gz"))[:2], uris

    text, magic, uris = look(zip_hello, frontend)
    assert text == "[resource demo://resource/session/hello.gz, hello.gz, application/gzip]"
    assert magic == b"\x1f\x8b"
    assert uris == [*(f"{STATIC}{name}.md" for name in DOCUMENTS), "demo://resource/session/hello.gz"]


def test_a_resource_that_is_subscribed_to_says_when_it_changes(look: Look) -> None:
    frontend, uri = RecordingFrontend(), f"{STATIC}features.md"

    async def subscribe(toolbox: Toolbox) -> None:
        await toolbox.subscribe("everything", uri)
        await call(toolbox, "toggle-subscriber-updates")
        await frontend.until(lambda: uri in frontend.updated)

    look(subscribe, frontend)
    assert frontend.updated == [uri]


def test_prompts_are_listed_with_their_arguments_and_may_hold_resources(look: Look) -> None:
    async def get(toolbox: Toolbox) -> Any:
        prompts = [
            (prompt.name, prompt.title, [(argument.name, argument.required) for argument in prompt.arguments or ()])
            for _, prompt in await toolbox.list_prompts("everything")
        ]
        filled = await toolbox.get_prompt("everything", "resource-prompt", {"resourceType": "Text", "resourceId": "5"})
        return prompts, [message.content.type for message in filled.messages]

    assert look(get, RecordingFrontend()) == (
        [
            ("simple-prompt", "Simple Prompt", []),
            ("args-prompt", "Arguments Prompt", [("city", True), ("state", False)]),
            ("completable-prompt", "Team Management", [("department", True), ("name", True)]),
            ("resource-prompt", "Resource Prompt", [("resourceType", True), ("resourceId", True)]),
        ],
        ["text", "resource"],
    )


def test_an_unknown_resource_and_a_missing_argument_of_a_prompt_are_errors(look: Look) -> None:
    async def ask(toolbox: Toolbox) -> tuple[str, str]:
        with pytest.raises(ChatError) as unknown:
            await toolbox.read_resource("demo://resource/nothing", "everything")
        with pytest.raises(ChatError) as missing:
            await toolbox.get_prompt("everything", "args-prompt", {})
        return unknown.value.message, missing.value.message

    unknown, missing = look(ask, RecordingFrontend())
    assert "demo://resource/nothing not found" in unknown and "city" in missing


def test_a_server_may_use_the_model_of_the_client(look: Look) -> None:
    frontend = RecordingFrontend(reply="Fine, thank you.")
    text = look(lambda toolbox: ask_model(toolbox), frontend)
    (params,) = frontend.sampled
    assert [(message.role, message.content.text) for message in params.messages] == [
        ("user", "Resource trigger-sampling-request context: How are you?")
    ]
    assert (params.system_prompt, params.max_tokens, params.temperature) == ("You are a helpful test server.", 30, 0.7)
    assert json.loads(text.partition("\n")[2]) == {
        "role": "assistant",
        "model": "tiny",
        "stopReason": "endTurn",
        "content": {"type": "text", "text": "Fine, thank you."},
    }


def test_a_declined_sampling_request_fails_the_call(look: Look) -> None:
    assert look(ask_model, RecordingFrontend(reply=None)) == "MCP error -1: The user declined."


async def ask_model(toolbox: Toolbox) -> str:
    return (await call(toolbox, "trigger-sampling-request", prompt="How are you?", maxTokens=30)).text


def test_a_form_with_every_kind_of_field_arrives_whole_and_is_filled_in(look: Look) -> None:
    frontend = RecordingFrontend(answer=ElicitResult(action="accept", content=FORM))
    text = look(fill_form, frontend)
    assert json.loads(text.partition("Raw result: ")[2]) == {"action": "accept", "content": FORM}
    (params,) = frontend.elicited
    fields = params.requested_schema["properties"]
    assert {name: field["type"] for name, field in fields.items()} == {
        **dict.fromkeys(FORM, "string"),
        "check": "boolean",
        "integer": "integer",
        "number": "number",
        "untitledMultipleSelectEnum": "array",
        "titledMultipleSelectEnum": "array",
    }
    assert {name: field["default"] for name, field in fields.items() if "default" in field} == {
        "firstLine": "It was a dark and stormy night.",
        "integer": 42,
        "number": 3.14,
        "untitledSingleSelectEnum": "Monica",
        "untitledMultipleSelectEnum": ["Guitar"],
        "titledSingleSelectEnum": "hero-1",
        "titledMultipleSelectEnum": ["fish-1"],
        "legacyTitledEnum": "pet-1",
    }
    assert fields["titledSingleSelectEnum"]["oneOf"][2] == {"const": "hero-3", "title": "Wonder Woman"}
    assert params.requested_schema["required"] == ["name"]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("decline", "❌ User declined to provide the requested information."),
        ("cancel", "⚠️ User cancelled the elicitation dialog."),
    ],
)
def test_a_form_may_be_declined_or_cancelled(action: Any, said: str, look: Look) -> None:
    text = look(fill_form, RecordingFrontend(answer=ElicitResult(action=action)))
    assert text.splitlines()[0] == said


async def fill_form(toolbox: Toolbox) -> str:
    return (await call(toolbox, "trigger-elicitation-request")).text


def test_a_url_is_shown_to_the_user(look: Look) -> None:
    frontend = RecordingFrontend(answer=ElicitResult(action="accept"))

    async def ask(toolbox: Toolbox) -> str:
        arguments = {"url": "https://example.org/a", "message": "Please sign.", "elicitationId": "e1"}
        return (await call(toolbox, "trigger-url-elicitation", **arguments)).text

    assert look(ask, frontend).startswith("✅ User completed the URL elicitation flow.\nElicitation ID: e1\n")
    assert frontend.elicited == [
        ElicitRequestURLParams(message="Please sign.", url="https://example.org/a", elicitation_id="e1")
    ]


def test_a_call_that_needs_a_url_first_is_made_again_or_fails(look: Look) -> None:
    frontend = RecordingFrontend(answer=ElicitResult(action="accept"))
    assert look(ask_with_url_first, frontend)[0] == "completed"
    assert [params.url for params in frontend.elicited] == ["https://modelcontextprotocol.io", "https://example.org/b"]
    frontend = RecordingFrontend(answer=ElicitResult(action="decline"))
    status, text = look(ask_with_url_first, frontend)
    assert status == "failed" and "https://modelcontextprotocol.io" in text
    assert [params.url for params in frontend.elicited] == ["https://modelcontextprotocol.io"]


async def ask_with_url_first(toolbox: Toolbox) -> tuple[str, str]:
    result = await call(toolbox, "trigger-url-elicitation", url="https://example.org/b", errorPath=True)
    return result.status, result.text


@pytest.mark.parametrize("level", ["info", "warning"])
def test_its_log_is_kept_from_the_level_that_is_set(level: LogLevel, tmp_path: Path) -> None:
    frontend = RecordingFrontend(roots=(tmp_path,))
    log = tmp_path / "logs/everything.log"

    async def listen(toolbox: Toolbox) -> None:
        await toolbox.subscribe("everything", f"{STATIC}features.md")
        await call(toolbox, "get-roots-list")

    with everything_on("stdio") as config:
        with_toolbox(replace(config, log_level=level), tmp_path, frontend, listen)
    lines = [line for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("[info] Received")]
    said = f"[info] Received Subscribe Resource request for URI: {STATIC}features.md"
    assert lines == ([said] if level == "info" else [])
    assert frontend.logs == []


def test_a_tool_that_runs_as_a_task_gives_its_result_and_progress(look: Look) -> None:
    """The state that the server answers with is told, and then each one that a poll meets: it may miss some."""
    reports: list[Any] = []

    async def research(toolbox: Toolbox) -> str:
        return (await call(toolbox, "simulate-research-query", reports.append, topic="tides")).text

    assert "# Research Report: tides" in look(research, RecordingFrontend())
    assert [number for number, *_ in reports] == [*range(1, len(reports) + 1)]
    told = [message for *_, message in reports]
    assert told[0] == RESEARCH[0] and told == [stage for stage in RESEARCH if stage in told]


def test_a_task_may_ask_the_user(look: Look) -> None:
    frontend = RecordingFrontend(answer=ElicitResult(action="accept", content={"interpretation": "snake"}))

    async def research(toolbox: Toolbox) -> str:
        return (await call(toolbox, "simulate-research-query", topic="python", ambiguous=True)).text

    assert 'After receiving clarification ("snake")' in look(research, frontend)
    assert "multiple interpretations" in frontend.elicited[0].message
