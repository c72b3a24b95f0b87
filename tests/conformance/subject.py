"""A server with the tools, prompts and resources that the conformance suites ask for: `python subject.py`.

Its transport is that of the servers that ship (`mcp_servers.http`), so that all scenarios of servers test our HTTP, and
not only those that need no tool. The suites prescribe the names and the texts.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import anyio
from mcp.server.mcpserver import Audio, Context, Image, MCPServer, UserMessage
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import (
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field

from rkllm_chat.mcp_servers import http

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\0\0\0\0"
PAUSE_S = 0.05
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
MISSING_CAPABILITY = -32021
HOST = ""
Answer = InputRequiredResult | str

log_level = "debug"
ODD_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def take_anything() -> str:
    """Tool with JSON Schema 2020-12 features"""
    return "It is taken."


odd_tool = Tool.from_function(take_anything, name="json_schema_2020_12_tool")
odd_tool.parameters = ODD_SCHEMA
server = MCPServer("conformance-subject", version="1", tools=[odd_tool])


def embed(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=contents)


@server.tool()
def test_simple_text() -> str:
    """Answers with a text."""
    return "This is a simple text response for testing."


@server.tool(structured_output=False)
def test_image_content() -> Image:
    """Answers with a picture."""
    return Image(data=base64.b64decode(PNG), format="png")


@server.tool(structured_output=False)
def test_audio_content() -> Audio:
    """Answers with a sound."""
    return Audio(data=WAV, format="wav")


@server.tool(structured_output=False)
def test_embedded_resource() -> EmbeddedResource:
    """Answers with a resource."""
    return embed("test://embedded-resource", "This is an embedded resource content.")


@server.tool(structured_output=False)
def test_multiple_content_types() -> list[Any]:
    """Answers with a text, a picture and a resource."""
    resource = embed("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return ["Multiple content types test:", Image(data=base64.b64decode(PNG), format="png"), resource]


@server.tool()
async def test_tool_with_logging(context: Context) -> str:
    """Sends three log messages."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        if LEVELS.index("info") >= LEVELS.index(log_level):
            await context.log("info", text)
        await anyio.sleep(PAUSE_S)
    return "Three messages were sent."


@server.tool()
def test_error_handling() -> str:
    """Fails."""
    raise ValueError("This tool intentionally returns an error for testing")


@server.tool()
async def test_tool_with_progress(context: Context) -> str:
    """Reports its progress."""
    for done in (0, 50, 100):
        await context.report_progress(done, 100)
        await anyio.sleep(PAUSE_S)
    return "All of it is done."


@server.tool()
async def test_sampling(prompt: str, context: Context) -> str:
    """Asks the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    answer = await context.session.create_message([message], max_tokens=100, related_request_id=context.request_id)
    return f"LLM response: {getattr(answer.content, 'text', '')}"


class Person(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


@server.tool()
async def test_elicitation(message: str, context: Context) -> str:
    """Asks the user."""
    answer = await context.elicit(message, Person)
    content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return f"User response: action={answer.action}, content={content}"


async def fill_form(context: Context, properties: Mapping[str, Any]) -> str:
    form = {"type": "object", "properties": dict(properties)}
    # in the stream of this request: the one that a client opens for other messages may come too late
    answer = await context.session.elicit_form("Please fill in", form, context.request_id)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


@server.tool()
async def test_elicitation_sep1034_defaults(context: Context) -> str:
    """Asks by a form with defaults."""
    return await fill_form(
        context,
        {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    )


@server.tool()
async def test_elicitation_sep1330_enums(context: Context) -> str:
    """Asks by a form with choices."""
    values = [{"const": f"value{i}", "title": title} for i, title in enumerate(("First", "Second", "Third"), 1)]
    options = ["option1", "option2", "option3"]
    return await fill_form(
        context,
        {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": values},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": values}},
        },
    )


@server.tool()
def test_header_argument(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Takes an argument that a header repeats."""
    return region


@server.tool()
def test_missing_capability(context: Context) -> str:
    """Needs a client with a model."""
    capabilities = context.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(code=MISSING_CAPABILITY, message="The client has no model.", data=needed)
    return "The client has a model."


def ask_form(message: str, name: str, kind: Literal["string", "boolean"] = "string") -> ElicitRequest:
    schema: dict[str, Any] = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def ask_model(text: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def find_answers(context: Context, *names: str) -> list[Any] | None:
    """Return what the client answered under these names; None if an answer is missing or has nothing."""
    answers = [(context.input_responses or {}).get(name) for name in names]
    return answers if all(answers) else None


def require(state: str | None = None, /, **requests: Any) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


@server.tool()
def test_input_required_result_elicitation(context: Context) -> Answer:
    """Asks for a name."""
    answers = find_answers(context, "user_name")
    content = getattr(answers[0], "content", None) if answers else None
    if not content or "name" not in content:
        return require(user_name=ask_form("What is your name?", "name"))
    return f"Hello, {content['name']}!"


@server.tool()
def test_input_required_result_sampling(context: Context) -> Answer:
    """Asks the client's model for a capital."""
    answers = find_answers(context, "capital_question")
    if not answers:
        return require(capital_question=ask_model("What is the capital of France?"))
    return str(getattr(answers[0].content, "text", answers[0].content))


@server.tool()
def test_input_required_result_list_roots(context: Context) -> Answer:
    """Asks for the client's folders."""
    answers = find_answers(context, "client_roots")
    if not answers:
        return require(client_roots=ListRootsRequest())
    return ", ".join(f"{root.name} {root.uri}" for root in answers[0].roots)


def confirm(context: Context) -> Answer:
    if not find_answers(context, "confirm"):
        return require("asked", confirm=ask_form("Please confirm", "ok", "boolean"))
    return "state-ok" if context.request_state == "asked" else "The state is missing."


@server.tool()
def test_input_required_result_request_state(context: Context) -> Answer:
    """Asks, and remembers by the state that the client returns."""
    return confirm(context)


@server.tool()
def test_input_required_result_tampered_state(context: Context) -> Answer:
    """Asks, and notices another state than its own."""
    return confirm(context)


@server.tool()
def test_input_required_result_multiple_inputs(context: Context) -> Answer:
    """Asks for three things at once."""
    if not find_answers(context, "user_name", "greeting", "client_roots"):
        return require(
            "asked",
            user_name=ask_form("What is your name?", "name"),
            greeting=ask_model("Generate a greeting"),
            client_roots=ListRootsRequest(),
        )
    return "All three are answered."


@server.tool()
def test_input_required_result_multi_round(context: Context) -> Answer:
    """Asks twice, one after the other."""
    if context.request_state == "two" and find_answers(context, "step2"):
        return "Both are answered."
    if context.request_state == "one" and find_answers(context, "step1"):
        return require("two", step2=ask_form("Step 2: What is your favorite color?", "color"))
    return require("one", step1=ask_form("Step 1: What is your name?", "name"))


@server.tool()
def test_input_required_result_capabilities(context: Context) -> Answer:
    """Asks only for what the client has declared."""
    declared = context.client_capabilities
    requests = {
        "form": ask_form("What is your name?", "name") if declared and declared.elicitation else None,
        "model": ask_model("Generate a greeting") if declared and declared.sampling else None,
        "roots": ListRootsRequest() if declared and declared.roots else None,
    }
    supported = {name: request for name, request in requests.items() if request}
    return (
        require(None, **supported) if supported and not find_answers(context, *supported) else "Nothing more is needed."
    )


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A picture."""
    return base64.b64decode(PNG)


@server.resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """A text that may change."""
    return "It has not changed."


@server.resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> str:  # noqa: A002 - the suite's name
    """Data by number."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.prompt()
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 - the suite's name
    """A prompt with a resource."""
    resource = embed(resourceUri, "Embedded resource content for testing.")
    return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]


@server.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    """A prompt with a picture."""
    picture = ImageContent(type="image", data=PNG, mime_type="image/png")
    return [UserMessage(picture), UserMessage("Please analyze the image above.")]


@server.prompt()
def test_input_required_result_prompt(context: Context) -> InputRequiredResult | str:
    """A prompt that asks the user first."""
    answers = find_answers(context, "user_context")
    if not answers:
        return require(user_context=ask_form("What context should the prompt use?", "context"))
    return f"The context is {answers[0].content['context']}."


async def complete(_reference: Any, argument: Any, _context: Any) -> Completion:
    """Complete an argument by words that begin like it."""
    return Completion(values=[word for word in ("paris", "park", "party") if word.startswith(argument.value)])


async def set_log_level(_context: Any, params: SetLevelRequestParams) -> EmptyResult:
    global log_level
    log_level = params.level
    return EmptyResult()


async def accept_subscription(_context: Any, _params: Any) -> EmptyResult:
    return EmptyResult()


def add_handlers() -> None:
    """Add what the SDK's server has no decorator with types for."""
    server.completion()(complete)  # type: ignore[no-untyped-call]
    lower = server._lowlevel_server  # noqa: SLF001
    lower.add_request_handler("logging/setLevel", SetLevelRequestParams, set_log_level)
    lower.add_request_handler("resources/subscribe", SubscribeRequestParams, accept_subscription)
    lower.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, accept_subscription)


def main() -> None:
    """Serve over HTTP on a free port, whose URL is the last word of a line on standard error."""
    add_handlers()
    with http.open_listener(HOST, 0) as listener:
        print(f"subject listens at {http.find_url(listener, HOST)}", file=sys.stderr, flush=True)
        asyncio.run(http.serve(server, listener, HOST, ""))


if __name__ == "__main__":
    main()
