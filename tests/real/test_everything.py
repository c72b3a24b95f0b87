"""Every feature of the protocol up to 2025-11-25, against the reference server of those who write the specification."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp_types import ElicitRequestURLParams, ElicitResult, PromptReference, ResourceTemplateReference

from rkllm_chat.errors import ChatError
from rkllm_chat.servers.toolbox import Toolbox

from .servers import Face, call, everything_on, kill_children, read_data, with_box

pytestmark = pytest.mark.real

T = TypeVar("T")
Look = Callable[[Callable[[Toolbox], Awaitable[Any]], Face], Any]

STATIC = "demo://resource/static/document/"
DOCUMENTS = ("architecture", "extension", "features", "how-it-works", "instructions", "startup", "structure")
ALWAYS = [
    "echo",
    "get-annotated-message",
    "get-env",
    "get-resource-links",
    "get-resource-reference",
    "get-structured-content",
    "get-sum",
    "get-tiny-image",
    "gzip-file-as-resource",
    "toggle-simulated-logging",
    "toggle-subscriber-updates",
    "trigger-long-running-operation",
]
AS_TASK = ["simulate-research-query"]
WHEN_ASKED = [
    "get-roots-list",
    "trigger-elicitation-request",
    "trigger-url-elicitation",
    "trigger-sampling-request",
]
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


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Opens the server over stdio, runs a coroutine function on the box, gives what it gives."""

    def open_and_run(then: Callable[[Toolbox], Awaitable[Any]], face: Face) -> Any:
        with everything_on("stdio") as config:
            return with_box(config, tmp_path, face, then)

    return open_and_run


def test_its_tools_are_all_there(look: Look, tmp_path: Path) -> None:
    async def list_names(box: Toolbox) -> list[str]:
        return [tool.name for tool in await box.list_tools("everything")]

    assert look(list_names, Face(roots=(tmp_path,))) == ALWAYS + WHEN_ASKED + AS_TASK


def test_what_its_tools_say_of_themselves_is_kept(look: Look) -> None:
    async def hints(box: Toolbox) -> dict[str, tuple[str, bool, bool]]:
        wanted = ("echo", "gzip-file-as-resource", "toggle-simulated-logging")
        tools = {tool.name: tool for tool in await box.list_tools("everything")}
        return {name: (tools[name].description, tools[name].read_only, tools[name].idempotent) for name in wanted}

    assert look(hints, Face()) == {
        "echo": ("Echoes back the input string", True, True),
        "gzip-file-as-resource": (
            "Compresses a single file using gzip compression. Depending upon the selected output type, returns either "
            "the compressed data as a gzipped resource or a resource link, allowing it to be downloaded in a "
            "subsequent request during the current session.",
            False,
            True,
        ),
        "toggle-simulated-logging": ("Toggles simulated, random-leveled logging on or off.", False, False),
    }


def test_structured_content_comes_beside_its_text(look: Look) -> None:
    async def ask(box: Toolbox) -> Any:
        result = await call(box, "get-structured-content", location="New York")
        return result.status, result.text, result.structured

    weather = {"temperature": 33, "conditions": "Cloudy", "humidity": 82}
    assert look(ask, Face()) == ("completed", json.dumps(weather, separators=(",", ":")), weather)


def test_every_kind_of_content_becomes_text_for_the_model(look: Look) -> None:
    async def ask(box: Toolbox) -> list[str]:
        return [
            (await call(box, "get-annotated-message", messageType="error", includeImage=True)).text,
            (await call(box, "get-resource-links", count=2)).text,
            (await call(box, "get-resource-reference", resourceType="Blob", resourceId=3)).text,
            re.sub(" at .*", "", (await call(box, "get-resource-reference", resourceType="Text", resourceId=4)).text),
        ]

    told = [re.sub(r"plain, 5[56] bytes", "plain, 5_ bytes", text) for text in look(ask, Face())]  # it holds the time
    assert told == [
        "Error: Operation failed\n[image/png, 4033 bytes, not shown]",
        "Here are 2 resource links to resources available in this server:\n"
        "[resource demo://resource/dynamic/blob/1, Blob Resource 1, text/plain]\n"
        "[resource demo://resource/dynamic/text/2, Text Resource 2, text/plain]",
        "Returning resource reference for Resource 3:\n"
        "[resource demo://resource/dynamic/blob/3, text/plain, 5_ bytes, not shown]\n"
        "You can access this resource using the URI: demo://resource/dynamic/blob/3",
        "Returning resource reference for Resource 4:\nResource 4: This is a plaintext resource created\n"
        "You can access this resource using the URI: demo://resource/dynamic/text/4",
    ]


def test_wrong_arguments_are_a_failed_result_and_the_server_lives(look: Look) -> None:
    async def ask(box: Toolbox) -> list[tuple[str, str]]:
        results = [await call(box, "get-sum", a="one", b=2), await call(box, "get-sum", a=1, b=2)]
        return [(result.status, result.text.partition(" at ")[0]) for result in results]

    assert look(ask, Face()) == [
        (
            "failed",
            "MCP error -32602: Input validation error: Invalid arguments for tool get-sum: "
            "Invalid input: expected number, received string",
        ),
        ("completed", "The sum of 1 and 2 is 3."),
    ]


def test_a_change_of_its_resources_is_heard_and_the_new_one_can_be_read(look: Look) -> None:
    face = Face()

    async def zip_hello(box: Toolbox) -> tuple[str, bytes, list[str]]:
        data = "data:text/plain;base64,aGVsbG8="
        text = (await call(box, "gzip-file-as-resource", name="hello.gz", data=data, outputType="resourceLink")).text
        await face.until(lambda: ("everything", "resources") in face.changes)
        uris = [resource.uri for _, resource in await box.list_resources("everything")]
        return text, (await read_data(box, "demo://resource/session/hello.gz"))[:2], uris

    text, magic, uris = look(zip_hello, face)
    assert text == "[resource demo://resource/session/hello.gz, hello.gz, application/gzip]"
    assert magic == b"\x1f\x8b"
    assert uris == [*(f"{STATIC}{name}.md" for name in DOCUMENTS), "demo://resource/session/hello.gz"]


def test_resources_are_listed_and_read_as_text_and_as_bytes(look: Look) -> None:
    async def read(box: Toolbox) -> Any:
        resources = [(one.uri, one.mime_type) for _, one in await box.list_resources("everything")]
        templates = [(one.uri_template, one.mime_type) for _, one in await box.list_templates("everything")]
        document = await read_data(box, f"{STATIC}instructions.md")
        text, blob = [await read_data(box, f"demo://resource/dynamic/{kind}/12") for kind in ("text", "blob")]
        return resources, templates, document.splitlines()[0].decode(), text[:33], blob[:35]

    assert look(read, Face()) == (
        [(f"{STATIC}{name}.md", "text/markdown") for name in DOCUMENTS],
        [
            ("demo://resource/dynamic/text/{resourceId}", "text/plain"),
            ("demo://resource/dynamic/blob/{resourceId}", "application/octet-stream"),
        ],
        "# Everything Server – Server Instructions",
        b"Resource 12: This is a plaintext ",
        b"Resource 12: This is a base64 blob ",
    )


def test_a_resource_that_is_not_there_says_so(look: Look) -> None:
    async def read(box: Toolbox) -> str:
        with pytest.raises(ChatError) as error:
            await box.read_resource("demo://resource/nothing", "everything")
        return error.value.message

    assert "demo://resource/nothing not found" in look(read, Face())


def test_a_resource_that_is_subscribed_to_says_when_it_changes(look: Look) -> None:
    face, uri = Face(), f"{STATIC}features.md"

    async def subscribe(box: Toolbox) -> None:
        await box.subscribe("everything", uri)
        await call(box, "toggle-subscriber-updates")
        await face.until(lambda: ("everything", uri) in face.changes)

    look(subscribe, face)
    assert [change for change in face.changes if change[1].startswith("demo:")] == [("everything", uri)]


def test_prompts_are_listed_with_their_arguments_and_filled_in(look: Look) -> None:
    async def get(box: Toolbox) -> Any:
        prompts = [
            (one.name, one.title, [(argument.name, argument.required) for argument in one.arguments or ()])
            for _, one in await box.list_prompts("everything")
        ]
        filled = await box.get_prompt("everything", "args-prompt", {"city": "Husum"})
        resource = await box.get_prompt("everything", "resource-prompt", {"resourceType": "Text", "resourceId": "5"})
        return (
            prompts,
            [(message.role, message.content.text) for message in filled.messages],  # type: ignore[union-attr]
            [message.content.type for message in resource.messages],
        )

    assert look(get, Face()) == (
        [
            ("simple-prompt", "Simple Prompt", []),
            ("args-prompt", "Arguments Prompt", [("city", True), ("state", False)]),
            ("completable-prompt", "Team Management", [("department", True), ("name", True)]),
            ("resource-prompt", "Resource Prompt", [("resourceType", True), ("resourceId", True)]),
        ],
        [("user", "What's weather in Husum?")],
        ["text", "resource"],
    )


def test_a_prompt_without_a_required_argument_is_refused(look: Look) -> None:
    async def get(box: Toolbox) -> str:
        with pytest.raises(ChatError) as error:
            await box.get_prompt("everything", "args-prompt", {})
        return error.value.message

    assert "city" in look(get, Face())


def test_arguments_are_completed_in_the_light_of_those_before(look: Look) -> None:
    prompt = PromptReference(name="completable-prompt")
    template = ResourceTemplateReference(uri="demo://resource/dynamic/text/{resourceId}")

    async def complete(box: Toolbox) -> list[list[str]]:
        asked: list[tuple[Any, str, str, dict[str, str]]] = [
            (prompt, "department", "", {}),
            (prompt, "department", "S", {}),
            (prompt, "name", "", {"department": "Marketing"}),
            (prompt, "name", "L", {"department": "Support"}),
            (template, "resourceId", "12", {}),
            (template, "resourceId", "x", {}),
        ]
        return [(await box.complete("everything", *one)).completion.values for one in asked]

    assert look(complete, Face()) == [
        ["Engineering", "Sales", "Marketing", "Support"],
        ["Sales", "Support"],
        ["Grace", "Henry", "Iris"],
        ["Lee"],
        ["12"],
        [],
    ]


def test_it_may_ask_the_clients_model(look: Look) -> None:
    face = Face(reply="Fine, thank you.")
    text = look(lambda box: ask_model(box), face)
    (params,) = face.sampled
    assert [(one.role, one.content.text) for one in params.messages] == [
        ("user", "Resource trigger-sampling-request context: How are you?")
    ]
    assert (params.system_prompt, params.max_tokens, params.temperature) == ("You are a helpful test server.", 30, 0.7)
    assert json.loads(text.partition("\n")[2]) == {
        "role": "assistant",
        "model": "tiny",
        "stopReason": "endTurn",
        "content": {"type": "text", "text": "Fine, thank you."},
    }


def test_when_the_user_declines_sampling_the_call_fails_and_says_why(look: Look) -> None:
    assert look(ask_model, Face(reply=None)) == "MCP error -1: The user declined."


async def ask_model(box: Toolbox) -> str:
    return (await call(box, "trigger-sampling-request", prompt="How are you?", maxTokens=30)).text


def test_a_form_with_every_kind_of_field_arrives_whole_and_is_filled_in(look: Look) -> None:
    face = Face(answer=ElicitResult(action="accept", content=FORM))
    text = look(fill_form, face)
    assert json.loads(text.partition("Raw result: ")[2]) == {"action": "accept", "content": FORM}
    (params,) = face.elicited
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
def test_a_form_may_be_declined_or_put_away(action: Any, said: str, look: Look) -> None:
    text = look(fill_form, Face(answer=ElicitResult(action=action)))
    assert text.splitlines()[0] == said


async def fill_form(box: Toolbox) -> str:
    return (await call(box, "trigger-elicitation-request")).text


def test_a_url_is_shown_to_the_user_and_never_opened_by_itself(look: Look) -> None:
    face = Face(answer=ElicitResult(action="accept"))

    async def ask(box: Toolbox) -> str:
        arguments = {"url": "https://example.org/a", "message": "Please sign.", "elicitationId": "e1"}
        return (await call(box, "trigger-url-elicitation", **arguments)).text

    assert look(ask, face).startswith("✅ User completed the URL elicitation flow.\nElicitation ID: e1\n")
    assert face.elicited == [
        ElicitRequestURLParams(message="Please sign.", url="https://example.org/a", elicitation_id="e1")
    ]


def test_a_call_that_needs_a_url_first_is_made_again_when_the_user_has_been_there(look: Look) -> None:
    face = Face(answer=ElicitResult(action="accept"))
    assert look(ask_with_url_first, face)[0] == "completed"
    assert [params.url for params in face.elicited] == ["https://modelcontextprotocol.io", "https://example.org/b"]


def test_a_call_that_needs_a_url_first_fails_when_the_user_will_not_go(look: Look) -> None:
    face = Face(answer=ElicitResult(action="decline"))
    status, text = look(ask_with_url_first, face)
    assert status == "failed" and "https://modelcontextprotocol.io" in text
    assert [params.url for params in face.elicited] == ["https://modelcontextprotocol.io"]


async def ask_with_url_first(box: Toolbox) -> tuple[str, str]:
    result = await call(box, "trigger-url-elicitation", url="https://example.org/b", errorPath=True)
    return result.status, result.text


def test_it_is_told_the_roots_and_no_more(look: Look, tmp_path: Path) -> None:
    folders = (tmp_path / "one", tmp_path / "the other")

    async def ask(box: Toolbox) -> str:
        return (await call(box, "get-roots-list")).text

    lines = look(ask, Face(roots=folders)).splitlines()
    assert [line.strip() for line in lines[:6]] == [
        "Current MCP Roots (2 total):",
        "",
        "1. one",
        f"URI: {folders[0].as_uri()}",
        "",
        "2. the other",
    ]


def test_what_nobody_would_answer_is_not_offered(tmp_path: Path) -> None:
    async def list_names(box: Toolbox) -> list[str]:
        return [tool.name for tool in await box.list_tools("everything")]

    with everything_on("stdio") as config:
        assert with_box(config, tmp_path, None, list_names) == ALWAYS + AS_TASK


def test_its_log_is_written_down_from_the_level_that_is_wished(look: Look, tmp_path: Path) -> None:
    face = Face(roots=(tmp_path,))
    log = tmp_path / "logs/everything.log"

    async def listen(box: Toolbox) -> None:
        await box.connections["everything"].set_log_level("info")
        await box.subscribe("everything", f"{STATIC}features.md")
        await call(box, "get-roots-list")
        await box.connections["everything"].set_log_level("warning")
        await box.subscribe("everything", f"{STATIC}structure.md")
        await call(box, "get-roots-list")

    look(listen, face)
    lines = [line for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("[info] Received")]
    assert lines == [f"[info] Received Subscribe Resource request for URI: {STATIC}features.md"]
    assert face.logs == []


def test_a_tool_that_only_runs_as_a_task_is_a_tool_like_others(look: Look) -> None:
    reports: list[Any] = []

    async def research(box: Toolbox) -> str:
        return (await call(box, "simulate-research-query", reports.append, topic="tides")).text

    assert "# Research Report: tides" in look(research, Face())
    assert {message for _, _, message in reports} >= {"Gathering sources...", "Generating report..."}


def test_a_task_that_is_not_clear_asks(look: Look) -> None:
    face = Face(answer=ElicitResult(action="accept", content={"interpretation": "snake"}))

    async def research(box: Toolbox) -> str:
        return (await call(box, "simulate-research-query", topic="python", ambiguous=True)).text

    assert 'After receiving clarification ("snake")' in look(research, face)
    assert "multiple interpretations" in face.elicited[0].message


def test_a_long_operation_reports_its_progress(look: Look) -> None:
    reports: list[Any] = []

    async def wait(box: Toolbox) -> str:
        return (await call(box, "trigger-long-running-operation", reports.append, duration=0.2, steps=4)).text

    assert look(wait, Face()) == "Long running operation completed. Duration: 0.2 seconds, Steps: 4."
    assert (reports[0], reports[-1]) == ((1, 4, ""), (4, 4, ""))


def test_a_server_that_was_killed_is_there_again_for_the_next_call(look: Look) -> None:
    face = Face()

    async def survive(box: Toolbox) -> tuple[bool, str]:
        kill_children("server-everything")
        await face.until(lambda: ("everything", "gone") in face.changes)
        return box.is_connected("everything"), (await call(box, "echo", message="again")).text

    assert look(survive, face) == (False, "Echo: again")
