"""Read the body of `POST /v1/chat/completions`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from ..calls.schema.faults import find_schema_fault
from ..config.settings import Thinking
from ..core.messages import Tool
from ..core.strict_json import parse_strict_json
from .body_limits import check_arguments, check_bytes, check_values
from .chat_request import CLIENT, ChatRequest, ClientCall, ClientMedia, ClientMessage, make_request
from .client_media import read_base64, read_data_url
from .errors import ApiError

MAX_TOOLS, MAX_REPLIES, MAX_SCORES = 512, 4, 20
_MAX_STOP_SEQUENCES, _MAX_STOP_LENGTH, _MAX_NAME_LENGTH = 16, 1000, 128
ANY_OBJECT = {"type": "object"}
THINKING: Mapping[bool | str | None, Thinking] = {
    **dict.fromkeys((False, "none", "minimal"), "off"),
    **dict.fromkeys((True, "low", "medium", "high", "xhigh", "max"), "on"),
}
"""Whether a model is to reason, by a switch or the name of an effort."""
Limit = Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(lambda value: None if value == -1 else value)]
"""Limit of a reply in tokens; -1 for that of the server."""


class _ImageUrl(BaseModel):
    url: str


class _Sound(BaseModel):
    data: str


class _Part(BaseModel):
    type: str
    text: str | None = None
    image_url: _ImageUrl | str | None = None
    input_audio: _Sound | None = None


Content = str | list[_Part] | None


class _Function(BaseModel):
    name: str = Field(min_length=1, max_length=_MAX_NAME_LENGTH)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class FunctionTool(BaseModel):
    """A function that the client runs."""

    type: Literal["function"] = "function"
    function: _Function


class _CalledFunction(BaseModel):
    name: str
    arguments: str = "{}"


class _Call(BaseModel):
    id: str | None = None
    function: _CalledFunction


class _Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class _ChosenFunction(BaseModel):
    name: str


class _ToolChoice(BaseModel):
    type: Literal["function"]
    function: _ChosenFunction


class _JsonSchema(BaseModel):
    name: str = ""
    schema_: dict[str, Any] = Field(default_factory=lambda: dict(ANY_OBJECT), alias="schema")


class _ResponseFormat(BaseModel):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _JsonSchema | None = None


class _StreamOptions(BaseModel):
    include_usage: bool = False


class _TemplateOptions(BaseModel):
    enable_thinking: bool | None = None


class RequestBody(BaseModel):
    """What the bodies of all endpoints that generate text have in common; unknown fields are ignored."""

    model: str | None = None
    stream: bool | None = None

    @property
    def is_streamed(self) -> bool:
        return bool(self.stream)

    def read_request(self) -> ChatRequest:
        """Return the request. Raises ApiError."""
        raise NotImplementedError


class SamplingParameters(BaseModel):
    """Sampling parameters that several endpoints share."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=0)
    min_p: float | None = Field(default=None, ge=0, le=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stop: str | list[str] | None = None

    def read_generation(self, max_tokens: int | None) -> dict[str, Any]:
        """Return the parameters that the request sets, as fields of `Generation`."""
        names = ("temperature", "top_p", "top_k", "min_p")
        values = {name: getattr(self, name) for name in names}
        seed = None if self.seed is None else self.seed % 2**32
        return {
            key: value for key, value in {**values, "seed": seed, "max_tokens": max_tokens}.items() if value is not None
        }

    def read_stop_sequences(self) -> tuple[str, ...]:
        """Return the texts that end the reply. Raises ApiError."""
        texts = [self.stop] if isinstance(self.stop, str) else self.stop or []
        if len(texts) > _MAX_STOP_SEQUENCES:
            raise ApiError(400, f"At most {_MAX_STOP_SEQUENCES} stop sequences are possible.", param="stop")
        if any(len(text) > _MAX_STOP_LENGTH for text in texts):  # the search for one takes memory by its length squared
            raise ApiError(400, f"A stop sequence has at most {_MAX_STOP_LENGTH} characters.", param="stop")
        return tuple(filter(None, texts))


class ChatCompletionBody(RequestBody, SamplingParameters):
    """Body of a chat completion."""

    messages: list[_Message] = Field(min_length=1)
    tools: list[FunctionTool] | None = Field(default=None, max_length=MAX_TOOLS)
    tool_choice: Literal["auto", "none", "required"] | _ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: _ResponseFormat | None = None
    json_schema: dict[str, Any] | None = None
    enable_thinking: bool | None = None
    reasoning_effort: str | None = None
    chat_template_kwargs: _TemplateOptions | None = None
    return_progress: bool = False
    stream_options: _StreamOptions | None = None
    max_tokens: Limit = None
    max_completion_tokens: Limit = None
    n: int | None = Field(default=None, ge=1, le=MAX_REPLIES)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_SCORES)

    @property
    def includes_usage(self) -> bool:
        """Whether the last chunk of a stream has the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def read_request(self) -> ChatRequest:
        """Return the request. Raises ApiError."""
        choice = self.tool_choice or "auto"
        switch = self.chat_template_kwargs.enable_thinking if self.chat_template_kwargs else None
        switch = self.enable_thinking if switch is None else switch  # at the root as RKLLM's own server takes it
        return make_request(
            [_read_message(message, i) for i, message in enumerate(self.messages)],
            [read_tool(tool) for tool in self.tools or ()],
            *(("auto", choice.function.name) if isinstance(choice, _ToolChoice) else (choice, "")),
            allows_parallel=self.parallel_tool_calls is not False,
            reply_schema=self._read_reply_schema(),
            stop_sequences=self.read_stop_sequences(),
            generation=self.read_generation(self.max_completion_tokens or self.max_tokens),
            thinking=THINKING.get(self.reasoning_effort if switch is None else switch),
            returns_progress=self.return_progress,
            replies=self.n or 1,
            scores=read_scores(self.logprobs, self.top_logprobs),
        )

    def _read_reply_schema(self) -> Mapping[str, Any] | None:
        wanted = self.response_format
        if self.json_schema is not None:  # as llama.cpp's server takes it
            if wanted and wanted.type == "json_schema":
                raise ApiError(400, "json_schema and response_format exclude each other.", param="json_schema")
            return check_schema(self.json_schema, "json_schema")
        if wanted is None or wanted.type == "text":
            return None
        if wanted.type == "json_object":
            return ANY_OBJECT
        place = "response_format.json_schema"
        if wanted.json_schema is None:
            raise ApiError(400, "The schema is missing.", param=place)
        return check_schema(wanted.json_schema.schema_, f"{place}.schema")


def check_schema(schema: Mapping[str, Any], param: str) -> Mapping[str, Any]:
    """Return the schema of a reply. Raises ApiError if it is invalid."""
    if fault := find_schema_fault(schema):
        raise ApiError(400, f"The schema is invalid: {fault}.", param=param)
    return schema


def read_scores(logprobs: bool | None, top_logprobs: int | None) -> int | None:
    """Return how many of the likeliest tokens each token names; None for no probabilities. Raises ApiError."""
    if top_logprobs and not logprobs:
        raise ApiError(400, "top_logprobs needs logprobs.", param="top_logprobs")
    return top_logprobs or 0 if logprobs else None


Body = TypeVar("Body", bound=BaseModel)


def read_body(
    data: bytearray, kind: type[Body], max_characters: int, report_ignored: Callable[[str], None] = lambda _: None
) -> Body:
    """Parse and validate the body of a request, once its size is checked.

    Args:
        data: The body; it is emptied, since it may be large.
        kind: What it must be.
        max_characters: Limit of the texts in a field.
        report_ignored: Called with each field that means nothing here.

    Raises:
        ApiError: It is too large, not JSON or not of that kind; the message names the first wrong field.
    """
    check_bytes(data)
    try:
        text = data.decode("utf-8-sig")
        data.clear()
        value = parse_strict_json(text)
        del text
    except UnicodeDecodeError:
        raise ApiError(400, "The body is not UTF-8.") from None
    except ValueError as error:
        raise ApiError(400, f"The body is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ApiError(400, "The body is not a JSON object.")
    check_values(value, max_characters)
    _drop_other_tools(value, report_ignored)
    try:
        body = kind.model_validate(value)
        for name in _list_ignored(body, value):
            report_ignored(ascii(name[:_MAX_NAME_LENGTH]))  # a name may be any text
        return body
    except ValidationError as error:
        first = min(error.errors(include_url=False, include_input=False), key=lambda fault: -len(fault["loc"]))
        place = ".".join(str(part) for part in first["loc"] if not str(part).startswith(("_", "list[", "function-")))
        message = f"{place}: {first['msg']}." if place else f"{first['msg']}."
        raise ApiError(400, message, param=place) from None


def _drop_other_tools(value: dict[str, Any], report_ignored: Callable[[str], None]) -> None:
    """Leave out tools that are no functions, such as those that a service runs itself: agents always send them."""
    if not isinstance(tools := value.get("tools"), list):
        return
    kinds = [tool.get("type", "function") if isinstance(tool, dict) else "function" for tool in tools]
    others = [kind for kind in kinds if isinstance(kind, str) and kind != "function"]
    value["tools"] = [tool for tool, kind in zip(tools, kinds, strict=True) if kind not in others]
    for kind in dict.fromkeys(others):
        report_ignored(f"tools of the type {kind[:_MAX_NAME_LENGTH]!a}")


def _list_ignored(body: BaseModel, value: Mapping[str, Any]) -> list[str]:
    """Return the fields of a body, and of the objects in it, that it does not have."""
    known = {field.alias or name: getattr(body, name) for name, field in type(body).model_fields.items()}
    inner = [(name, member) for name, member in known.items() if isinstance(member, BaseModel)]
    nested = [f"{name}.{field}" for name, member in inner for field in _list_ignored(member, value[name])]
    return [*(value.keys() - known.keys()), *nested]


def _read_message(message: _Message, index: int) -> ClientMessage:
    role = "system" if message.role == "developer" else message.role
    text, media = read_content(message.content, role, f"messages.{index}.content")
    calls = tuple(_read_call(call, index) for call in message.tool_calls or ())
    return ClientMessage(role, text, calls if role == "assistant" else (), message.tool_call_id or "", sent_media=media)


def read_content(content: Content, role: str, param: str) -> tuple[str, tuple[ClientMedia, ...]]:
    """Return the text and the media of a content.

    Args:
        content: The content.
        role: Author of the message; pictures and sounds are from users and tools.
        param: The field of the request.

    Raises:
        ApiError: It has something else, or a picture that is no data URL.
    """
    if content is None or isinstance(content, str):
        return content or "", ()
    text, media = "", list[ClientMedia]()
    for part in content:
        if part.type in ("text", "input_text", "output_text", "refusal"):
            text += part.text or ""
            continue
        data = _read_media(part, param) if role in ("user", "tool") else None
        if data is None:
            what = f"Content of the type {part.type[:40]!r} is not supported in a message of the {role}."
            raise ApiError(400, what, param=param)
        media.append(ClientMedia(data, len(text), param))
    return text, tuple(media)


def _read_media(part: _Part, param: str) -> bytes | None:
    """Return the content of a picture or sound; None if the part is none. Raises ApiError."""
    if part.type in ("image_url", "input_image") and part.image_url is not None:
        url = part.image_url.url if isinstance(part.image_url, _ImageUrl) else part.image_url
        return read_data_url(url, "image_url", param)
    if part.type == "input_audio" and part.input_audio:
        return read_base64(part.input_audio.data, "input_audio", param)
    return None


def _read_call(call: _Call, index: int) -> ClientCall:
    return ClientCall(
        call.id or "", call.function.name, read_arguments(call.function.arguments, f"messages.{index}.tool_calls")
    )


def read_arguments(text: str, param: str) -> dict[str, Any]:
    """Return the arguments of a call in the history. Raises ApiError."""
    check_arguments(text, param)
    try:
        arguments = parse_strict_json(text or "{}")
    except ValueError as error:
        raise ApiError(400, f"{param}: the arguments are not JSON: {error}.", param=param) from None
    if not isinstance(arguments, dict):
        raise ApiError(400, f"{param}: the arguments are not an object.", param=param)
    return arguments


def read_tool(tool: FunctionTool) -> Tool:
    """Return a function of the client as a tool."""
    function = tool.function
    return Tool(function.name, function.description or "", function.parameters or {}, CLIENT)


def dump_json(value: Any) -> bytes:
    """Return a value as JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")
