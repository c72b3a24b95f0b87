"""Build requests to OpenAI-compatible services: a rendered prompt or messages, and sampling parameters.

KINDS lists how the services differ. In text from users, tools and models control tokens are broken up, because
services recognize such tokens anywhere (see `neutralize_control_tokens`). Pictures and sounds are parts of messages
with data URLs, as OpenAI's chat completions take them (image_url, input_audio).
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from ...calls.formats import CLOSE, FORMATS, OPEN
from ...calls.scanner import Scanner, ScannerEvent, settle_thoughts
from ...calls.schema.simplify import simplify_schema
from ...calls.tool_names import shown_names
from ...config.settings import Generation
from ...core.errors import GenerationError
from ...core.events import CallFound, CallUnreadable, Text
from ...core.messages import Media, Message, Tool, ToolCall
from ...prompt.pieces import Template, find_reply_prefix, join_text, neutralize_control_tokens, neutralize_value

_LLAMA_OPTIONS = {"top_k": "top_k", "min_p": "min_p", "repeat_penalty": "repeat_penalty"}
_WIRE_NAME = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_LENGTH = 64
_PIXELS_PER_TOKEN, _MAX_MEDIA_TOKENS = 28 * 28, 1500
"""An assumption about the tokens of a picture, until the service has counted it."""
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
_MAX_ENCODED = 16
_NAME_IN_CALL = re.compile(r'"name": "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class ServiceKind:
    """A program that serves models.

    Attributes:
        owned_by: What it writes as `owned_by`.
        accepts_rendered_prompts: Whether /completions uses a prompt literally, without a template around it.
        sampling_names: Our names of sampling options that OpenAI does not have -> its names.
        tokenize_path: Path where it counts tokens; "" if it does not.
        supports_thinking_switch: Whether chat_template_kwargs switch thinking.
        supports_tool_choice: Whether `tool_choice` "none" keeps a model from calling the tools of the request.
    """

    owned_by: str = ""
    accepts_rendered_prompts: bool = False
    sampling_names: Mapping[str, str] = field(default_factory=dict[str, str])
    tokenize_path: str = ""
    supports_thinking_switch: bool = False
    supports_tool_choice: bool = False


SERVICE_KINDS: dict[str, ServiceKind] = {
    "llama.cpp": ServiceKind("llamacpp", True, _LLAMA_OPTIONS, "/tokenize", True, True),
    "vLLM": ServiceKind(
        "vllm", True, {**_LLAMA_OPTIONS, "repeat_penalty": "repetition_penalty"}, "/tokenize", True, True
    ),
    "rkllm-chat": ServiceKind("rkllm-chat", supports_tool_choice=True),
    "llama-cpp-python": ServiceKind("me", True, _LLAMA_OPTIONS, "/extras/tokenize/count", False, True),
    # both put their own template around a prompt for /completions
    "Ollama": ServiceKind("library"),
    "rkllama": ServiceKind("rkllama"),
    "unknown": ServiceKind(),
}


@dataclass(frozen=True)
class ServiceRequest:
    """A request.

    Attributes:
        path: Its path below /v1.
        body: Its body, without sampling parameters.
        text: The prompt, as far as it is rendered here, for counting.
        reply_prefix: The beginning of the reply that the prompt contains.
        stop_sequences: Stop sequences.
        tool_names: Names of tools on the wire -> names shown to the model.
        has_media: Whether it has pictures or sounds, for which `text` has a filler of about their length.
    """

    path: str
    body: Mapping[str, Any]
    text: str
    reply_prefix: str = ""
    stop_sequences: tuple[str, ...] = ()
    tool_names: Mapping[str, str] = field(default_factory=dict[str, str])
    has_media: bool = False


def make_completion_request(
    prompt: Sequence[Message], template: Template, bos: str, thinking: bool | None
) -> ServiceRequest:
    """Build a request with the rendered prompt.

    Args:
        prompt: The messages.
        template: The chat template.
        bos: The token that the service puts before a prompt by itself.
        thinking: Whether the model may think; None to leave it to the template.
    """
    pieces = template(prompt, thinking)
    text = join_text(pieces, template).removeprefix(bos)
    body = {"prompt": text, "stop": list(template.stop_sequences[:4])}  # OpenAI takes no more than four
    return ServiceRequest("/completions", body, text, find_reply_prefix(pieces), template.stop_sequences)


def make_chat_request(prompt: Sequence[Message], kind: ServiceKind, thinking: bool | None) -> ServiceRequest:
    """Build a request with messages; the service renders the prompt."""
    messages = [{"role": message.role, "content": _make_content(message)} for message in prompt]
    counted = [{"role": message.role, "content": _make_filler(message)} for message in prompt]
    switch = {"chat_template_kwargs": {"enable_thinking": thinking}}
    body = {"messages": messages, **(switch if kind.supports_thinking_switch and thinking is not None else {})}
    return ServiceRequest("/chat/completions", body, _count_text(counted), has_media=_has_media(prompt))


def make_native_request(
    prompt: Sequence[Message],
    tools: Sequence[Tool],
    kind: ServiceKind,
    thinking: bool | None,
    forbids_calls: bool = False,
) -> ServiceRequest:
    """Build a request with messages, tools, calls and results in the service's own form.

    Args:
        prompt: The messages.
        tools: The tools.
        kind: The program that serves the model.
        thinking: Whether the model may think; None to leave it to the template.
        forbids_calls: Ask the service to prevent calls, if it knows how. The tools stay: without them its prompt would
            begin differently.
    """
    shown = {_wire_name(name): (name, tool) for name, tool in shown_names(tools).items()}
    functions = [
        {
            "type": "function",
            "function": {
                "name": wire,
                "description": neutralize_control_tokens(tool.description),
                "parameters": {"type": "object", "properties": {}, **neutralize_value(simplify_schema(tool.schema))},
            },
        }
        for wire, (_, tool) in shown.items()
    ]
    messages = _native_messages(prompt, shown, _make_content)
    has_media = _has_media(prompt)
    counted = _native_messages(prompt, shown, _make_filler) if has_media else messages
    body = {
        **make_chat_request((), kind, thinking).body,
        "messages": messages,
        **({"tools": functions} if functions else {}),
        **({"tool_choice": "none"} if functions and forbids_calls and kind.supports_tool_choice else {}),
    }
    return ServiceRequest(
        "/chat/completions",
        body,
        _count_text([*functions, *counted]),
        tool_names={w: n for w, (n, _) in shown.items()},
        has_media=has_media,
    )


def _has_media(prompt: Sequence[Message]) -> bool:
    return any(message.media for message in prompt)


def _make_content(message: Message) -> str | list[dict[str, Any]]:
    """Return the content of a message: its text, or its parts if it has media that can be sent."""
    parts = [_make_part(part) for part in message.parts]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _make_part(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": neutralize_control_tokens(part)}
    if part.kind == "image":
        url = f"data:{part.media_type};base64,{_encode_file(part.path, part.sha256)}"
        return {"type": "image_url", "image_url": {"url": url}}
    if part.media_type in _AUDIO_FORMATS:
        sound = {"data": _encode_file(part.path, part.sha256), "format": _AUDIO_FORMATS[part.media_type]}
        return {"type": "input_audio", "input_audio": sound}
    return {"type": "text", "text": neutralize_control_tokens(part.placeholder)}


@lru_cache(_MAX_ENCODED)
def _encode_file(path: str, _sha256: str) -> str:
    """Return the content of a file in base64; the hash is part of the cache key. Raises GenerationError."""
    try:
        return b64encode(Path(path).read_bytes()).decode("ascii")
    except OSError as error:
        raise GenerationError(f"{path} cannot be read: {error.strerror}.", "Attach the picture again.") from None


def _make_filler(message: Message) -> str:
    """Return the text of a message, with a filler of about as many tokens for each picture."""
    return neutralize_control_tokens("".join(part if isinstance(part, str) else _fill(part) for part in message.parts))


def _fill(media: Media) -> str:
    tokens = min(_MAX_MEDIA_TOKENS, media.width * media.height // _PIXELS_PER_TOKEN + 1) if media.width else 300
    return f"[{media.sha256}{' ' * (3 * tokens)}]"


def _count_text(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return text of about the size of what the service renders, which grows only at its end with the conversation."""
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def _wire_name(name: str) -> str:
    return _WIRE_NAME.sub("_", name)[:_MAX_NAME_LENGTH]


def _native_messages(
    prompt: Sequence[Message], tool_names: Container[str], make_content: Callable[[Message], Any]
) -> list[dict[str, Any]]:
    """Convert replies, with their calls removed from the text, and results that name the call they answer.

    A call without a result stays in the text. An unreadable call is sent without arguments, since services reject
    arguments that are not JSON; its correction is its result.

    Args:
        prompt: The messages.
        tool_names: Names of the tools in the request.
        make_content: Returns the content of a message with media.
    """
    messages: list[dict[str, Any]] = []
    for position, message in enumerate(prompt):
        if message.role != "assistant":
            messages.append(_native_message(message, messages, tool_names, make_content))
            if position + 1 == len(prompt) or prompt[position + 1].role != "tool":
                messages += _list_result_media(prompt[: position + 1], make_content)
            continue
        scanner = Scanner()
        events = settle_thoughts([*scanner.feed(message.text), *scanner.close()])
        found = [event for event in events if isinstance(event, CallFound | CallUnreadable)]
        calls = [call for event in found if (call := _to_call(event))]
        if not calls or len(calls) < len(found) or len(calls) > _count_results(prompt[position + 1 :]):
            messages.append({"role": "assistant", "content": neutralize_control_tokens(message.text)})
            continue
        text = "".join(event.text for event in events if isinstance(event, Text)).strip()
        calls_on_wire = [
            {
                "id": f"call_{position}_{number}",
                "type": "function",
                "function": {
                    "name": _wire_name(call.name),
                    "arguments": json.dumps(neutralize_value(call.arguments), ensure_ascii=False),
                },
            }
            for number, call in enumerate(calls)
        ]
        messages.append({"role": "assistant", "content": neutralize_control_tokens(text), "tool_calls": calls_on_wire})
    return messages


def _to_call(event: ScannerEvent) -> ToolCall | None:
    """Return the call of an event; of an unreadable call its name, without arguments."""
    if isinstance(event, CallFound):
        return event.call
    name = _NAME_IN_CALL.search(event.raw) if isinstance(event, CallUnreadable) else None
    return ToolCall(name[1], {}) if name else None


def _list_result_media(prompt: Sequence[Message], make_content: Callable[[Message], Any]) -> list[dict[str, Any]]:
    """Return a message of the user with the media of the results at the end of a prompt: results are text alone."""
    results = takewhile(lambda message: message.role == "tool", reversed(prompt))
    media = [replace(media, position=0) for message in reversed([*results]) for media in message.media]
    return [{"role": "user", "content": make_content(Message("user", "", media=tuple(media)))}] if media else []


def _native_message(
    message: Message,
    before: Sequence[Mapping[str, Any]],
    tool_names: Container[str],
    make_content: Callable[[Message], Any],
) -> dict[str, Any]:
    text = neutralize_control_tokens(_to_native_correction(message.text, tool_names))
    if message.role != "tool":
        return {"role": message.role, "content": make_content(message) if message.media else text}
    answered = {entry.get("tool_call_id") for entry in before}
    last_calls: Sequence[Mapping[str, str]] = next(
        (entry["tool_calls"] for entry in reversed(before) if "tool_calls" in entry), []
    )
    open_calls = [call["id"] for call in last_calls if call["id"] not in answered]
    if not open_calls:
        return {"role": "user", "content": text}
    return {"role": "tool", "tool_call_id": open_calls[0], "content": text}


def _to_native_correction(text: str, tool_names: Container[str]) -> str:
    """Return a correction with the arguments to write in place of an example call in the form of text.

    Only our own corrections end in such a call: those in results of tools are broken up.
    """
    before, found, example = text.rpartition(f"\n{OPEN}\n")
    if not found or not text.endswith(CLOSE):
        return text
    scanner = Scanner()
    calls = [call for event in [*scanner.feed(found + example), *scanner.close()] if (call := _to_call(event))]
    if len(calls) == 1 and _wire_name(calls[0].name) in tool_names:
        return f"{before}\n{json.dumps(calls[0].arguments, ensure_ascii=False)}"
    if found.lstrip("\n") + example == FORMATS["json"].example:  # of no tool in particular
        return before.rpartition("\n")[0]
    return text


def _count_results(following: Sequence[Message]) -> int:
    """Count the results and corrections that directly follow a reply."""
    return next((index for index, message in enumerate(following) if message.role != "tool"), len(following))


def render_native_call(name: str, arguments: str) -> str:
    """Write a native call as the text that the scanner parses, so that it is validated like any other call."""
    arguments = "{}" if arguments.strip() in ("", "null") else arguments
    return f'{OPEN}\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments}}}\n{CLOSE}\n'


def make_sampling_parameters(generation: Generation, kind: ServiceKind) -> dict[str, Any]:
    """Return the sampling parameters under the service's names; an unset temperature is left to the service."""
    parameters: dict[str, Any] = {"top_p": generation.top_p, "max_tokens": generation.max_tokens}
    if generation.temperature is not None:
        parameters["temperature"] = generation.temperature
    if generation.seed is not None:
        parameters["seed"] = generation.seed
    return parameters | {
        name_on_wire: getattr(generation, our_name) for our_name, name_on_wire in kind.sampling_names.items()
    }
