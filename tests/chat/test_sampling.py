"""A server requests a reply of the model: the cost is shown first, and the conversation is unchanged."""

from __future__ import annotations

import asyncio
import sys
from base64 import b64encode
from typing import Any, Literal

import pytest
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ImageContent,
    SamplingMessage,
    TextContent,
    Tool,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)

from pictures import draw, encode
from rkllm_chat.backends.base import Backend
from rkllm_chat.backends.scripted import ScriptedBackend
from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.calls.grammar import CallGrammar
from rkllm_chat.calls.model_families import Family
from rkllm_chat.chat.sampling import Sampler
from rkllm_chat.config.settings import ServerConfig, Settings
from rkllm_chat.core.errors import GenerationError
from rkllm_chat.core.i18n import load
from rkllm_chat.core.messages import Media, Message
from rkllm_chat.mcp_client.handlers import ClientHandlers
from rkllm_chat.mcp_client.toolbox import Toolbox
from rkllm_chat.storage.media import MediaStore
from stage import call_text

ASKED = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=TextContent(type="text", text="Name a harbour."))],
    system_prompt="You know harbours.",
    max_tokens=5,
)


TOOL_USE = ToolUseContent(type="tool_use", id="call-0", name="get_tide", input={"harbour": "Husum"})
TOOL = Tool(name="get_tide", description="Tide height.", input_schema={"type": "object"})
ASKED_WITH_TOOL = ASKED.model_copy(update={"tools": [TOOL], "max_tokens": 100})


def sample(
    backend: ScriptedBackend,
    params: CreateMessageRequestParams,
    agrees: bool = True,
    store: MediaStore | None = None,
    speed: int = 0,
) -> tuple[object, list[str]]:
    """Answer a sampling request at a prefill speed in tokens per second; return the reply and the questions."""
    questions: list[str] = []

    async def ask(question: str) -> bool:
        questions.append(question)
        return agrees

    async def get_backend() -> Backend:
        return backend

    sampler = Sampler(get_backend, Settings, load(), ask, lambda tokens: tokens / speed if speed else 0.0, store)
    return asyncio.run(sampler("harbour", params)), questions


@pytest.mark.parametrize(("speed", "time"), [(0, ""), (2, ", about 4 s")])
def test_the_price_is_shown_before_anything_is_computed(speed: int, time: str) -> None:
    backend = ScriptedBackend(["Husum."])
    reply, questions = sample(backend, ASKED, agrees=False, speed=speed)
    assert reply is None and backend.prompts == []
    assert questions == [
        "Server 'harbour' requests a completion from your model: Name a harbour. "
        f"(prompt: 8 tokens{time}; output: at most 5 tokens)\nAllow? [y/N] "
    ]


def test_the_model_answers_in_a_context_of_its_own() -> None:
    backend = ScriptedBackend(["Husum."])
    reply, _ = sample(backend, ASKED)
    content = TextContent(type="text", text="Husum.")
    assert reply == CreateMessageResult(role="assistant", content=content, model="scripted", stop_reason="endTurn")
    assert backend.prompts[0] == [Message("system", "You know harbours."), Message("user", "Name a harbour.")]


def test_a_reply_that_is_cut_says_so() -> None:
    reply, _ = sample(ScriptedBackend(["Husum, Hull, Hamburg, Harwich and others."]), ASKED)
    assert isinstance(reply, CreateMessageResult) and reply.stop_reason == "maxTokens"


def test_tools_of_the_server_are_shown_to_the_model_and_its_calls_returned() -> None:
    backend = ScriptedBackend(["I look. " + call_text("get_tide", harbour="Husum")])
    reply, _ = sample(backend, ASKED_WITH_TOOL)
    assert isinstance(reply, CreateMessageResultWithTools) and reply.stop_reason == "toolUse"
    assert reply.content == [TextContent(type="text", text="I look."), TOOL_USE]
    assert "get_tide" in backend.prompts[0][0].text


def choose(mode: Literal["auto", "required", "none"], *tools: Tool) -> CreateMessageRequestParams:
    return ASKED_WITH_TOOL.model_copy(update={"tools": list(tools), "tool_choice": ToolChoice(mode=mode)})


def test_a_request_without_tools_to_choose_shows_none_and_returns_no_call() -> None:
    backend = ScriptedBackend([call_text("get_tide", harbour="Husum")])
    reply, _ = sample(backend, choose("none", TOOL))
    assert isinstance(reply, CreateMessageResult)
    assert reply.stop_reason == "endTurn"
    assert "get_tide" not in backend.prompts[0][0].text


def test_a_required_call_is_returned_or_the_request_fails() -> None:
    reply, _ = sample(ScriptedBackend([call_text("get_tide", harbour="Husum")]), choose("required", TOOL))
    assert isinstance(reply, CreateMessageResultWithTools)
    assert reply.content == [TOOL_USE]
    with pytest.raises(GenerationError, match="called no tool"):
        sample(ScriptedBackend(["Husum."]), choose("required", TOOL))
    with pytest.raises(GenerationError, match="offers no tools"):
        sample(ScriptedBackend(["Husum."]), choose("required"))


def test_a_required_call_constrains_an_engine_that_supports_it() -> None:
    class Engine(ScriptedBackend):
        supports_grammar = True
        grammar: CallGrammar | None = None

        def stream(self, prompt: Any, generation: Any, tools: Any = (), grammar: Any = None) -> Any:
            self.grammar = grammar
            return super().stream(prompt, generation, tools, grammar)

    engines = {mode: Engine([call_text("get_tide", harbour="Husum")]) for mode in ("auto", "required")}
    for mode, engine in engines.items():
        sample(engine, choose(mode, TOOL))  # type: ignore[arg-type]
    assert engines["auto"].grammar is None
    assert engines["required"].grammar
    assert engines["required"].grammar.opening


SERVER = """
import json, sys

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    number, method = message.get("id"), message.get("method")
    if method == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "harbour", "version": "1"}}
        send(id=number, result={"protocolVersion": "2025-11-25", **about})
    elif method == "tools/list":
        send(id=number, result={"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        called = number
        tools = [{"name": "get_tide", "inputSchema": {"type": "object"}}]
        wanted = {"tools": tools, "toolChoice": {"mode": "required"}}
        asked = {"messages": [{"role": "user", "content": {"type": "text", "text": "Ahoy"}}], "maxTokens": 5, **wanted}
        send(id="sample", method="sampling/createMessage", params=asked)
    elif number == "sample":
        send(id=called, result={"content": [{"type": "text", "text": message["error"]["message"]}]})
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "unknown"})
"""


def test_a_failed_request_is_an_error_for_its_server_which_goes_on() -> None:
    async def get_backend() -> Backend:
        return ScriptedBackend(["Husum.", "Husum."])

    async def agree(_question: str) -> bool:
        return True

    async def call() -> list[str]:
        handlers = ClientHandlers(sample=Sampler(get_backend, Settings, load(), agree))
        server = ServerConfig("harbour", command=sys.executable, args=("-c", SERVER), sandbox="off")
        async with Toolbox([server], None, handlers) as toolbox:
            return [(await toolbox.call(toolbox.tools[0], {}, lambda *_: None)).text for _ in range(2)]

    assert asyncio.run(call()) == ["The model called no tool, which the request requires."] * 2


def test_tools_are_shown_in_the_format_of_the_family() -> None:
    call = '<tool_call name="get_tide">\n<argument name="harbour">Husum</argument>\n</tool_call>'
    backend = ScriptedBackend([call], family=Family("in-xml", preferred_format="xml"))
    reply, _ = sample(backend, ASKED_WITH_TOOL)
    assert isinstance(reply, CreateMessageResultWithTools) and reply.content == [TOOL_USE]
    assert FORMATS["xml"].example in backend.prompts[0][0].text


def test_a_model_that_sees_gets_the_pictures_of_a_request() -> None:
    backend, text = ScriptedBackend(["A flag."]), TextContent(type="text", text="What is this?")
    backend.media_kinds = frozenset(["image"])
    picture = ImageContent(type="image", data=b64encode(encode(draw())).decode(), mime_type="image/png")
    damaged = ImageContent(type="image", data="aGVsbG8=", mime_type="image/png")
    message = SamplingMessage(role="user", content=[text, picture, damaged])
    with MediaStore() as store:
        _, questions = sample(backend, CreateMessageRequestParams(messages=[message], max_tokens=5), store=store)
        first, shown, last = backend.prompts[0][-1].parts
        assert isinstance(shown, Media) and shown.width == 64
    assert (first, last) == ("What is this?", "\n[image/png, 5 bytes, not shown]")
    assert "What is this?[image/png, " in questions[0]


def test_what_the_model_cannot_see_is_named() -> None:
    backend, text = ScriptedBackend(["A boat."]), TextContent(type="text", text="What is this?")
    picture = ImageContent(type="image", data="aGVsbG8=", mime_type="image/png")
    result = ToolResultContent(type="tool_result", tool_use_id="1", content=[text, picture])
    message = SamplingMessage(role="user", content=[text, picture, result])
    sample(backend, CreateMessageRequestParams(messages=[message], max_tokens=5))
    assert backend.prompts[0][-1].text == "\n".join(["What is this?", "[image/png, 5 bytes, not shown]"] * 2)
