"""Ollama's chat API: read its requests, and write replies as it does.

What Open WebUI and Home Assistant use of it. `num_ctx` is ignored: it is a setting of this server.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from pydantic import BaseModel, Field

from ..backends import ModelFacts, find_engine_of, identify_model
from ..backends.base import TokenScore
from ..backends.shared.model_files import read_parameter_count
from ..calls.model_families import Family, find_family
from ..config.settings import Settings
from ..core.errors import ModelError
from ..core.events import Thought
from ..core.messages import MediaKind
from .chat_request import ChatRequest, ClientCall, ClientMedia, ClientMessage, make_request
from .client_media import read_base64
from .errors import ApiError
from .generation import ReplyCall, ReplyEnded, ReplyEvent, ReplyText, collect_replies
from .openai_api import describe_scores
from .openai_schema import (
    ANY_OBJECT,
    MAX_SCORES,
    MAX_TOOLS,
    THINKING,
    FunctionTool,
    RequestBody,
    SamplingParameters,
    check_schema,
    dump_json,
    read_scores,
    read_tool,
)
from .text_completions import Continuation, ContinuationBody

API_VERSION = "0.12.0"
"""Version of Ollama whose API this is: editors refuse one that has no capabilities (0.6.4) or thoughts (0.9.0)."""
_NANOSECONDS = 1_000_000_000
_DURATION_PART = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|h|m|s|)")
_DURATION = re.compile(rf"(?P<sign>-?)(?:{_DURATION_PART.pattern})+")
_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "": 1.0}
_STAYS = timedelta(days=36500)
_SWITCHED = ("qwen3", "smollm3")
"""Families that reason by default. An NPU model file has no template that would show it."""
_QUANTIZATION = re.compile(r"(?<![a-z\d])(?:i?q\d\w*|bf16|f16|f32|mxfp4|w\da\d+(?:_g\d+)?)(?![a-z\d])", re.IGNORECASE)


class _CalledFunction(BaseModel):
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])


class _Call(BaseModel):
    function: _CalledFunction


class _Message(BaseModel):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    images: list[str] | None = None
    tool_calls: list[_Call] | None = None
    tool_name: str | None = None


class Options(SamplingParameters):
    """Options of a request."""

    num_predict: int | None = None
    repeat_penalty: float | None = Field(default=None, gt=0, le=10)

    def read_all(self) -> dict[str, Any]:
        """Return the parameters that the request sets, as fields of `Generation`."""
        most = self.num_predict or 0
        generation = self.read_generation(most if most > 0 else None)  # -1 and -2 are the limit of the server
        return generation if self.repeat_penalty is None else {**generation, "repeat_penalty": self.repeat_penalty}


class OllamaBody(RequestBody):
    """What the bodies of both endpoints have in common."""

    keep_alive: int | float | str | None = None
    format: Literal["", "json"] | dict[str, Any] | None = None
    options: Options | None = None
    think: bool | str | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_SCORES)

    @property
    def is_streamed(self) -> bool:
        """Whether the reply is a stream, as it is without the field."""
        return self.stream is not False

    @property
    def idle_s(self) -> float | None:
        """Seconds after which the model is unloaded; negative for never, None as the server does. Raises ApiError."""
        if self.keep_alive is None:
            return None
        written = str(self.keep_alive)
        parts = _DURATION.fullmatch(written)
        if not parts:
            raise ApiError(400, 'keep_alive is a number of seconds or a duration such as "10m".', param="keep_alive")
        seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _DURATION_PART.findall(written))
        return -1.0 if parts["sign"] else min(seconds, _STAYS.total_seconds())

    def make_request(self, messages: Iterable[ClientMessage], tools: Sequence[FunctionTool] = ()) -> ChatRequest:
        """Return the request. Raises ApiError."""
        options = self.options or Options()
        return make_request(
            messages,
            [read_tool(tool) for tool in tools],
            reply_schema=ANY_OBJECT if self.format == "json" else check_schema(self.format or {}, "format") or None,
            stop_sequences=options.read_stop_sequences(),
            generation=options.read_all(),
            thinking=THINKING.get(self.think),
            scores=read_scores(self.logprobs, self.top_logprobs),
        )


class OllamaChatBody(OllamaBody):
    """Body of `POST /api/chat`."""

    messages: list[_Message] | None = None
    tools: list[FunctionTool] | None = Field(default=None, max_length=MAX_TOOLS)

    def read_request(self) -> ChatRequest:
        """Return the request. Raises ApiError."""
        messages = (_read_message(message, i) for i, message in enumerate(self.messages or ()))
        return self.make_request(messages, self.tools or ())


class OllamaGenerateBody(OllamaBody, ContinuationBody):
    """Body of `POST /api/generate`: one message without history, or a text to continue or to fill."""

    prompt: str | None = None
    system: str | None = None
    images: list[str] | None = None
    suffix: str | None = None
    raw: bool | None = None

    def read_continuation(self) -> Continuation:
        """Return the request. Raises ApiError."""
        for name in ("system", "images", "format"):
            if getattr(self, name):
                raise ApiError(400, f"{name} is not possible with raw or suffix.", param=name)
        options = self.options or Options()
        return Continuation(
            [self.prompt or ""],
            self.suffix or None,
            stop_sequences=options.read_stop_sequences(),
            generation=options.read_all(),
            scores=read_scores(self.logprobs, self.top_logprobs),
        )

    def read_request(self) -> ChatRequest:
        """Return the request. Raises ApiError."""
        messages = [ClientMessage("system", self.system)] if self.system else []
        media = _read_images(self.images, "images")
        return self.make_request([*messages, ClientMessage("user", self.prompt or "", sent_media=media)])


class OllamaShowBody(BaseModel):
    """Body of `POST /api/show`, and of `/api/pull`, which is streamed unless `stream` is false."""

    model: str | None = None
    name: str | None = None
    stream: bool | None = None


def _read_message(message: _Message, index: int) -> ClientMessage:
    param = f"messages.{index}.images"
    if message.images and message.role not in ("user", "tool"):
        raise ApiError(400, f"Images are not supported in a message of the {message.role}.", param=param)
    media = _read_images(message.images, param)
    calls = tuple(ClientCall("", call.function.name, call.function.arguments) for call in message.tool_calls or ())
    return ClientMessage(message.role, message.content or "", calls, tool=message.tool_name or "", sent_media=media)


def _read_images(images: Sequence[str] | None, param: str) -> tuple[ClientMedia, ...]:
    """Return the pictures of a message, which precede its text. Raises ApiError."""
    return tuple(ClientMedia(read_base64(image, "Images", param), 0, param) for image in images or ())


class OllamaChat:
    """Collects and writes one reply, whole or as JSON lines."""

    media_type, keep_alive = "application/x-ndjson", b" "  # not a line, which the package `ollama` would parse

    def __init__(self, model: str) -> None:
        """Start a reply under the name of the model for the client."""
        self._model = model

    async def collect(self, events: AsyncIterator[ReplyEvent]) -> dict[str, Any]:
        """Return the whole reply."""
        (reply,) = await collect_replies(events)
        message: dict[str, Any] = {"role": "assistant", "content": reply.text}
        if reply.thought:
            message["thinking"] = reply.thought
        if reply.calls:
            message["tool_calls"] = list(map(_describe_call, reply.calls))
        return self._describe(message, _describe_end(reply.end), reply.scores)

    async def stream(self, events: AsyncIterator[ReplyEvent]) -> AsyncIterator[bytes]:
        """Yield the reply as JSON lines."""
        async for event in events:
            match event:
                case ReplyText(part, scores):
                    yield self._write({"content": part}, scores=scores)
                case Thought(part):
                    yield self._write({"content": "", "thinking": part})
                case ReplyCall(call):
                    yield self._write({"content": "", "tool_calls": [_describe_call(call)]})
                case ReplyEnded():
                    yield self._write({"content": ""}, _describe_end(event))

    def describe_loaded(self, is_unloaded: bool = False) -> dict[str, Any]:
        """Return the answer to a request without messages, which only loads the model, or unloads it."""
        reason = "unload" if is_unloaded else "load"
        return self._describe({"role": "assistant", "content": ""}, {"done_reason": reason})

    def write_error(self, error: ApiError) -> bytes:
        """Return an error within a stream."""
        return dump_json(describe_error(error)) + b"\n"

    def _write(
        self, message: dict[str, Any], end: Mapping[str, Any] | None = None, scores: Sequence[TokenScore] = ()
    ) -> bytes:
        return dump_json(self._describe({"role": "assistant", **message}, end, scores)) + b"\n"

    def _describe(
        self, message: dict[str, Any], end: Mapping[str, Any] | None, scores: Sequence[TokenScore] = ()
    ) -> dict[str, Any]:
        created_at = datetime.now(timezone.utc)
        head = {"model": self._model, "created_at": _write_time(created_at), **self._describe_reply(message)}
        logprobs = {"logprobs": describe_scores(scores)} if scores else {}
        return {**head, **logprobs, "done": end is not None, **(end or {})}

    def _describe_reply(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"message": message}


class OllamaGenerate(OllamaChat):
    """The same for `POST /api/generate`, whose replies are text and thoughts."""

    def _describe_reply(self, message: dict[str, Any]) -> dict[str, Any]:
        thoughts = {"thinking": message["thinking"]} if "thinking" in message else {}
        return {"response": message["content"], **thoughts}


def _describe_call(call: ClientCall) -> dict[str, Any]:
    return {"function": {"name": call.name, "arguments": dict(call.arguments)}}


def _describe_end(end: ReplyEnded) -> dict[str, Any]:
    """Return the fields of the last object; durations are nanoseconds."""
    usage = end.usage
    return {
        "done_reason": "length" if end.reason == "length" else "stop",
        "total_duration": int((usage.prefill_s + usage.generate_s) * _NANOSECONDS),
        "load_duration": 0,
        "prompt_eval_count": usage.prompt_tokens,
        "prompt_eval_duration": int(usage.prefill_s * _NANOSECONDS),
        "eval_count": usage.generated_tokens,
        "eval_duration": int(usage.generate_s * _NANOSECONDS),
    }


def describe_error(error: ApiError) -> dict[str, Any]:
    """Return an error in Ollama's shape."""
    return {"error": error.message}


def describe_model(settings: Settings, name: str) -> dict[str, Any]:
    """Return the row of a model in `GET /api/tags`. Its digest names the file, it does not check its content."""
    path = identify_model(settings).file
    try:
        status = path.stat() if path else None
    except OSError:
        status = None
    size, changed = (status.st_size, status.st_mtime) if status else (0, 0.0)
    return {
        "name": name,
        "model": name,
        "modified_at": _write_time(datetime.fromtimestamp(changed, timezone.utc)),
        "size": size,
        "digest": hashlib.sha256(f"{name} {size} {changed}".encode()).hexdigest(),
        "details": _describe_family(name, find_family([settings.family, name])),
    }


def describe_loaded_model(
    settings: Settings, name: str, context_tokens: int, unloads_in_s: float | None
) -> dict[str, Any]:
    """Return the row of the loaded model in `GET /api/ps`; a model that stays expires in a hundred years."""
    left = _STAYS if unloads_in_s is None else timedelta(seconds=unloads_in_s)
    expires_at = _write_time(datetime.now(timezone.utc) + left)
    row = describe_model(settings, name)
    return {**row, "expires_at": expires_at, "size_vram": 0, "context_length": context_tokens}


def _write_time(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def describe_model_details(
    settings: Settings, name: str, context_tokens: int, kinds: frozenset[MediaKind]
) -> dict[str, Any]:
    """Return the answer to `POST /api/show`; blocks while the model's file is read.

    Args:
        settings: Settings of the model.
        name: Name of the model for clients.
        context_tokens: Size of its context window; 0 if it is not loaded and the settings do not say it.
        kinds: The kinds of media that the loaded model understands.
    """
    facts = ModelFacts()
    with suppress(ModelError):
        facts = find_engine_of(settings).read_facts(settings)
    template, context_tokens = facts.template, context_tokens or facts.context_tokens
    family = find_family([settings.family, name, facts.name], template)
    parameters = facts.parameters or read_parameter_count(name)
    architecture = facts.architecture or family.name
    info = {"general.architecture": architecture, "general.basename": name, "general.parameter_count": parameters}
    capabilities = {
        "completion": True,
        "tools": True,
        "vision": "image" in kinds,
        "thinking": family.starts_in_thought or "enable_thinking" in template or family.name in _SWITCHED,
    }
    return {
        "modelfile": "",
        "parameters": "",
        "template": template,
        "details": {**_describe_family(name, family), "parameter_size": f"{parameters / 1e6:.1f}M"},
        "model_info": {**info, f"{architecture}.context_length": context_tokens},
        "capabilities": [name for name, has in capabilities.items() if has],
    }


def _describe_family(name: str, family: Family) -> dict[str, Any]:
    quantization = _QUANTIZATION.search(name)
    return {
        "parent_model": "",
        "format": name.rpartition(".")[2],
        "family": family.name,
        "families": [family.name],
        "parameter_size": "",
        "quantization_level": quantization[0].upper() if quantization else "",
    }
