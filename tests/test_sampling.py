"""A server asks for a reply of the chat's own model: the price first, a fresh context, the talk untouched."""

from __future__ import annotations

import asyncio

from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ImageContent,
    SamplingMessage,
    TextContent,
    Tool,
    ToolResultContent,
    ToolUseContent,
)

from rkllm_chat import language
from rkllm_chat.backends.scripted import Scripted
from rkllm_chat.chat import Backend
from rkllm_chat.config import Settings
from rkllm_chat.families import Family
from rkllm_chat.formats import FORMATS
from rkllm_chat.sampling import Sampler
from stage import call_text

ASKED = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=TextContent(type="text", text="Name a harbour."))],
    system_prompt="You know harbours.",
    max_tokens=5,
)


def sample(backend: Scripted, params: CreateMessageRequestParams, agrees: bool = True) -> tuple[object, list[str]]:
    questions: list[str] = []

    async def ask(question: str) -> bool:
        questions.append(question)
        return agrees

    async def find_backend() -> Backend:
        return backend

    sampler = Sampler(find_backend, Settings(), language.load(), ask)
    return asyncio.run(sampler("harbour", params)), questions


def test_the_price_is_shown_before_anything_is_computed() -> None:
    backend = Scripted(["Husum."])
    reply, questions = sample(backend, ASKED, agrees=False)
    assert reply is None and backend.prompts == []
    assert questions == [
        "Server 'harbour' wants a reply of the model to: Name a harbour. "
        "(8 tokens to read, about ? s; at most 5 to write). Allow it? [y/N] "
    ]


def test_the_model_answers_in_a_context_of_its_own() -> None:
    backend = Scripted(["Husum."])
    reply, _ = sample(backend, ASKED)
    assert isinstance(reply, CreateMessageResult)
    assert (reply.content, reply.model, reply.stop_reason) == (
        TextContent(type="text", text="Husum."),
        "scripted",
        "endTurn",
    )
    assert [(message.role, message.text) for message in backend.prompts[0]] == [
        ("system", "You know harbours."),
        ("user", "Name a harbour."),
    ]


def test_a_reply_that_is_cut_says_so() -> None:
    reply, _ = sample(Scripted(["Husum, Hull, Hamburg, Harwich and others."]), ASKED)
    assert isinstance(reply, CreateMessageResult) and reply.stop_reason == "maxTokens"


def test_tools_of_the_server_are_offered_and_its_calls_given_back() -> None:
    backend = Scripted(["I look. " + call_text("get_tide", harbour="Husum")])
    tool = Tool(name="get_tide", description="Tide height.", input_schema={"type": "object"})
    reply, _ = sample(backend, ASKED.model_copy(update={"tools": [tool], "max_tokens": 100}))
    assert isinstance(reply, CreateMessageResultWithTools) and reply.stop_reason == "toolUse"
    assert reply.content == [
        TextContent(type="text", text="I look."),
        ToolUseContent(type="tool_use", id="call-0", name="get_tide", input={"harbour": "Husum"}),
    ]
    assert "get_tide" in backend.prompts[0][0].text


def test_tools_are_offered_in_the_form_of_the_family() -> None:
    call = '<tool_call name="get_tide">\n<argument name="harbour">Husum</argument>\n</tool_call>'
    backend = Scripted([call], family=Family("in-xml", asks="xml"))
    tool = Tool(name="get_tide", description="Tide height.", input_schema={"type": "object"})
    reply, _ = sample(backend, ASKED.model_copy(update={"tools": [tool], "max_tokens": 100}))
    assert isinstance(reply, CreateMessageResultWithTools)
    assert reply.content == [ToolUseContent(type="tool_use", id="call-0", name="get_tide", input={"harbour": "Husum"})]
    assert backend.prompts[0][0].text.endswith(FORMATS["xml"].example)


def test_what_the_model_cannot_see_is_named() -> None:
    backend = Scripted(["A boat."])
    picture = ImageContent(type="image", data="aGVsbG8=", mime_type="image/png")
    told = ToolResultContent(
        type="tool_result", tool_use_id="1", content=[TextContent(type="text", text="Low"), picture]
    )
    asked = SamplingMessage(role="user", content=[TextContent(type="text", text="What is this?"), picture, told])
    sample(backend, CreateMessageRequestParams(messages=[asked], max_tokens=5))
    named = "[image/png, 5 bytes, not shown]"
    assert backend.prompts[0][-1].text == f"What is this?\n{named}\nLow\n{named}"
