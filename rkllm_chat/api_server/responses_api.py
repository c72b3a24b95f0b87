"""OpenAI's Responses API: read its requests, and write replies as responses, whole or as a stream of events.

Nothing is stored, so `previous_response_id` and references to items are refused; `store` is ignored.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Field
from pydantic import Tag as Variant

from ..core.events import Thought, Usage
from ..core.messages import Tool
from .chat_request import CLIENT, ChatRequest, ClientCall, ClientMessage, make_request
from .errors import ApiError
from .generation import ReplyCall, ReplyEnded, ReplyEvent, ReplyText
from .openai_api import SSE_COMMENT, write_event
from .openai_schema import (
    ANY_OBJECT,
    MAX_TOOLS,
    THINKING,
    Content,
    Limit,
    RequestBody,
    SamplingParameters,
    check_schema,
    dump_json,
    read_arguments,
    read_content,
)


class _MessageItem(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: Content = None


class _CallItem(BaseModel):
    call_id: str
    name: str
    arguments: str = "{}"


class _ResultItem(BaseModel):
    call_id: str
    output: Content = None


class _OtherItem(BaseModel):
    type: str


def _kind_of_item(item: Any) -> str:
    kind = item.get("type") or "message" if isinstance(item, dict) else "message"
    return kind if kind in ("message", "function_call", "function_call_output") else "other"


_Item = Annotated[
    Annotated[_MessageItem, Variant("message")]
    | Annotated[_CallItem, Variant("function_call")]
    | Annotated[_ResultItem, Variant("function_call_output")]
    | Annotated[_OtherItem, Variant("other")],
    Discriminator(_kind_of_item),
]


class _Tool(BaseModel):
    type: Literal["function"]
    name: str = Field(min_length=1, max_length=128)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _ToolChoice(BaseModel):
    type: Literal["function"]
    name: str


class _Format(BaseModel):
    type: Literal["text", "json_object", "json_schema"]
    schema_: dict[str, Any] = Field(default_factory=lambda: dict(ANY_OBJECT), alias="schema")


class _TextOptions(BaseModel):
    format: _Format | None = None


class _Reasoning(BaseModel):
    effort: str | None = None


class ResponseBody(RequestBody, SamplingParameters):
    """Body of `POST /v1/responses`."""

    input: str | list[_Item] = Field(min_length=1)
    instructions: str | None = None
    tools: list[_Tool] | None = Field(default=None, max_length=MAX_TOOLS)
    tool_choice: Literal["auto", "none", "required"] | _ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    text: _TextOptions | None = None
    reasoning: _Reasoning | None = None
    max_output_tokens: Limit = None
    previous_response_id: str | None = None

    def read_request(self) -> ChatRequest:
        """Return the request. Raises ApiError."""
        if self.previous_response_id:
            text = "Responses are not stored; send the whole conversation as input."
            raise ApiError(400, text, param="previous_response_id")
        instructions = [ClientMessage("system", self.instructions)] if self.instructions else []
        choice = self.tool_choice or "auto"
        return make_request(
            [*instructions, *self._read_input()],
            [Tool(tool.name, tool.description or "", tool.parameters or {}, CLIENT) for tool in self.tools or ()],
            *(("auto", choice.name) if isinstance(choice, _ToolChoice) else (choice, "")),
            allows_parallel=self.parallel_tool_calls is not False,
            reply_schema=self._read_reply_schema(),
            stop_sequences=self.read_stop_sequences(),
            generation=self.read_generation(self.max_output_tokens),
            thinking=THINKING.get(self.reasoning.effort if self.reasoning else None),
        )

    def _read_input(self) -> Iterator[ClientMessage]:
        if isinstance(self.input, str):
            yield ClientMessage("user", self.input)
            return
        for index, item in enumerate(self.input):
            place = f"input.{index}"
            if isinstance(item, _MessageItem):
                role = "system" if item.role == "developer" else item.role
                text, media = read_content(item.content, role, f"{place}.content")
                yield ClientMessage(role, text, sent_media=media)
            elif isinstance(item, _CallItem):
                arguments = read_arguments(item.arguments, place)
                yield ClientMessage("assistant", "", (ClientCall(item.call_id, item.name, arguments),))
            elif isinstance(item, _ResultItem):
                text, media = read_content(item.output, "tool", f"{place}.output")
                yield ClientMessage("tool", text, call_identity=item.call_id, sent_media=media)
            elif item.type != "reasoning":
                raise ApiError(400, f"An item of the type {item.type[:40]!r} is not supported.", param=place)

    def _read_reply_schema(self) -> Mapping[str, Any] | None:
        reply_format = self.text.format if self.text else None
        if reply_format is None or reply_format.type == "text":
            return None
        return (
            check_schema(reply_format.schema_, "text.format.schema")
            if reply_format.type == "json_schema"
            else ANY_OBJECT
        )


class ResponseWriter:
    """Collects and writes one response."""

    media_type, keep_alive = "text/event-stream", SSE_COMMENT

    def __init__(self, model: str, body: ResponseBody) -> None:
        """Start a response to a request, under the name of the model for the client."""
        choice = body.tool_choice
        self._head: dict[str, Any] = {
            "id": f"resp_{secrets.token_hex(12)}",
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            "instructions": body.instructions,
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "tool_choice": choice.model_dump() if isinstance(choice, _ToolChoice) else choice or "auto",
            "tools": [{**tool.model_dump(), "strict": False} for tool in body.tools or ()],
            "temperature": body.temperature,
            "top_p": body.top_p,
        }
        self._output: list[dict[str, Any]] = []
        self._is_open = False
        self._number = 0

    async def collect(self, events: AsyncIterator[ReplyEvent]) -> dict[str, Any]:
        """Return the whole response."""
        end = ReplyEnded("stop", Usage())
        async for event in events:
            for _ in self._add(event):
                pass
            end = event if isinstance(event, ReplyEnded) else end
        return self._describe(end)

    async def stream(self, events: AsyncIterator[ReplyEvent]) -> AsyncIterator[bytes]:
        """Yield the response as server-sent events."""
        has_begun = False
        async for event in events:
            if not has_begun:
                has_begun = True
                yield self._write("response.created", response=self._describe(None))
                yield self._write("response.in_progress", response=self._describe(None))
            for part in self._add(event):
                yield part

    def write_error(self, error: ApiError) -> bytes:
        """Return an error within a stream."""
        details = {"code": error.code or error.kind, "message": error.message, "param": error.param or None}
        return self._write("error", **details)

    def _add(self, event: ReplyEvent) -> Iterator[bytes]:
        """Add an event to the output and yield what a stream says of it."""
        match event:
            case ReplyText(part):
                yield from self._add_text(part)
            case Thought(part):
                yield from self._add_thought(part)
            case ReplyCall(call):
                yield from self._close()
                yield from self._add_call(call)
            case ReplyEnded(reason, _):
                yield from self._close()
                kind = "response.incomplete" if reason == "length" else "response.completed"
                yield self._write(kind, response=self._describe(event))

    def _add_text(self, text: str) -> Iterator[bytes]:
        if not self._is_open or self._output[-1]["type"] != "message":
            yield from self._close()
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            yield from self._open({"type": "message", "role": "assistant", "content": [part]}, {"content": []})
            yield self._write("response.content_part.added", **self._place(0), part=dict(part))
        self._output[-1]["content"][0]["text"] += text
        yield self._write("response.output_text.delta", **self._place(0), delta=text, logprobs=[])

    def _add_thought(self, text: str) -> Iterator[bytes]:
        if not self._is_open or self._output[-1]["type"] != "reasoning":
            yield from self._close()
            content = [{"type": "reasoning_text", "text": ""}]
            yield from self._open({"type": "reasoning", "summary": [], "content": content}, {"content": []})
        self._output[-1]["content"][0]["text"] += text
        yield self._write("response.reasoning_text.delta", **self._place(0), delta=text)

    def _add_call(self, call: ClientCall) -> Iterator[bytes]:
        arguments = dump_json(dict(call.arguments)).decode()
        item = {"type": "function_call", "call_id": call.identity, "name": call.name, "arguments": arguments}
        yield from self._open(item, {"arguments": ""})
        yield self._write("response.function_call_arguments.delta", **self._place(), delta=arguments)
        yield self._write("response.function_call_arguments.done", **self._place(), name=call.name, arguments=arguments)
        yield from self._close()

    def _open(self, item: dict[str, Any], at_first: dict[str, Any]) -> Iterator[bytes]:
        """Begin an item of the output. `at_first`: how it is described before its content comes."""
        identity = f"{item['type'][:2]}_{secrets.token_hex(8)}"
        self._output.append({"id": identity, "status": "in_progress", **item})
        self._is_open = True
        shown = {**self._output[-1], **at_first}
        yield self._write("response.output_item.added", output_index=len(self._output) - 1, item=shown)

    def _close(self) -> Iterator[bytes]:
        """End the open item of the output."""
        if not self._is_open:
            return
        item = self._output[-1]
        if item["type"] == "message":
            part = item["content"][0]
            yield self._write("response.output_text.done", **self._place(0), text=part["text"], logprobs=[])
            yield self._write("response.content_part.done", **self._place(0), part=dict(part))
        item["status"] = "completed"
        self._is_open = False
        yield self._write("response.output_item.done", output_index=len(self._output) - 1, item=dict(item))

    def _place(self, content_index: int | None = None) -> dict[str, Any]:
        place: dict[str, Any] = {"item_id": self._output[-1]["id"], "output_index": len(self._output) - 1}
        return place if content_index is None else {**place, "content_index": content_index}

    def _describe(self, end: ReplyEnded | None) -> dict[str, Any]:
        """Return the response as it is now; `end` is None while it is generated."""
        is_cut = end is not None and end.reason == "length"
        status = "in_progress" if end is None else "incomplete" if is_cut else "completed"
        return {
            **self._head,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "output": list(self._output),
            "usage": _describe_usage(end.usage) if end else None,
        }

    def _write(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        return write_event({"type": kind, "sequence_number": self._number - 1, **fields}, kind)


def _describe_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.reused_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.generated_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.generated_tokens,
    }
