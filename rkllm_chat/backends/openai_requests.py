"""What an OpenAI-compatible service is sent: a prompt of ours, or messages, and how it is to sample. It sends nothing.

KINDS says what the services differ in. Texts that users, tools and models wrote have their control tokens broken, for
a service reads such tokens wherever they stand (see `harmless`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..config import Generation
from ..events import CallFound, Text
from ..formats import CLOSE, OPEN
from ..messages import Message, Tool
from ..names import shown_names
from ..scanner import Scanner
from ..slim import slim
from ..templates import Template, harmless, harmless_value, join_text, opened_thought

LLAMA_OPTIONS = {"top_k": "top_k", "min_p": "min_p", "repeat_penalty": "repeat_penalty"}
WIRE_NAME = re.compile(r"[^A-Za-z0-9_-]")
LONGEST_NAME = 64


@dataclass(frozen=True)
class Kind:
    """A program that serves models. `owner`: what it writes as `owned_by`; `takes_prompts`: /completions takes a prompt
    as it is, and does not put a template around it; `options`: our names of sampling options that OpenAI does not have
    and its own; `counts_at`: where it counts tokens; `switches_thinking`: by chat_template_kwargs."""

    owner: str = ""
    takes_prompts: bool = False
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    counts_at: str = ""
    switches_thinking: bool = False


KINDS: dict[str, Kind] = {
    "llama.cpp": Kind("llamacpp", True, LLAMA_OPTIONS, "/tokenize", True),
    "vLLM": Kind("vllm", True, {**LLAMA_OPTIONS, "repeat_penalty": "repetition_penalty"}, "/tokenize", True),
    "llama-cpp-python": Kind("me", True, LLAMA_OPTIONS, "/extras/tokenize/count"),
    # both put their own template around a prompt for /completions
    "Ollama": Kind("library"),
    "rkllama": Kind("rkllama"),
    "unknown": Kind(),
}


@dataclass(frozen=True)
class Request:
    """What is sent, and where below /v1. `text` is the prompt as far as it is ours, to be counted.

    `thought` is what the prompt's end has written of the reply; `ends` what ends it; `tools` the names on the wire.
    """

    path: str
    body: Mapping[str, Any]
    text: str
    thought: str = ""
    ends: tuple[str, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict[str, str])


def write_completion(prompt: Sequence[Message], template: Template, bos: str, thinking: bool | None) -> Request:
    """The prompt as one text. `bos`: what the service puts before it by itself."""
    pieces = template(prompt, thinking)
    text = join_text(pieces, template).removeprefix(bos)
    body = {"prompt": text, "stop": list(template.ends[:4])}  # OpenAI takes no more than four
    return Request("/completions", body, text, opened_thought(pieces), template.ends)


def write_chat(prompt: Sequence[Message], kind: Kind, thinking: bool | None) -> Request:
    """The messages; the service writes the prompt."""
    messages = [{"role": message.role, "content": harmless(message.text)} for message in prompt]
    switch = {"chat_template_kwargs": {"enable_thinking": thinking}}
    body = {"messages": messages, **(switch if kind.switches_thinking and thinking is not None else {})}
    return Request("/chat/completions", body, count_text(messages))


def write_native(prompt: Sequence[Message], tools: Sequence[Tool], kind: Kind, thinking: bool | None) -> Request:
    """The messages with the tools, calls and results in the service's own form."""
    shown = {wire_name(name): (name, tool) for name, tool in shown_names(tools).items()}
    functions = [
        {
            "type": "function",
            "function": {
                "name": wire,
                "description": harmless(tool.description),
                "parameters": {"type": "object", "properties": {}, **harmless_value(slim(tool.schema))},
            },
        }
        for wire, (_, tool) in shown.items()
    ]
    messages = native_messages(prompt)
    body = {**write_chat((), kind, thinking).body, "messages": messages, **({"tools": functions} if functions else {})}
    return Request(
        "/chat/completions", body, count_text([*functions, *messages]), tools={w: n for w, (n, _) in shown.items()}
    )


def count_text(entries: Sequence[Mapping[str, Any]]) -> str:
    """A text of about the size of what the service makes of it, which grows at its end as the talk does."""
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def wire_name(name: str) -> str:
    return WIRE_NAME.sub("_", name)[:LONGEST_NAME]


def native_messages(prompt: Sequence[Message]) -> list[dict[str, Any]]:
    """Replies with their calls cut out of the text, and results that name the call they answer.

    A call without a result is left in the text, and a remark on one that could not be read comes as the user's words.
    """
    messages: list[dict[str, Any]] = []
    for place, message in enumerate(prompt):
        if message.role != "assistant":
            messages.append(native_message(message, messages))
            continue
        results = count_results(prompt[place + 1 :])
        scanner = Scanner()
        seen = [*scanner.feed(message.text), *scanner.close()]
        calls = [event.call for event in seen if isinstance(event, CallFound)]
        if not calls or len(calls) != results:
            messages.append({"role": "assistant", "content": harmless(message.text)})
            continue
        text = "".join(event.text for event in seen if isinstance(event, Text)).strip()
        written = [
            {
                "id": f"call_{place}_{number}",
                "type": "function",
                "function": {
                    "name": wire_name(call.name),
                    "arguments": json.dumps(harmless_value(call.arguments), ensure_ascii=False),
                },
            }
            for number, call in enumerate(calls)
        ]
        messages.append({"role": "assistant", "content": harmless(text), "tool_calls": written})
    return messages


def native_message(message: Message, before: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    text = harmless(message.text)
    if message.role != "tool":
        return {"role": message.role, "content": text}
    answered = {entry.get("tool_call_id") for entry in before}
    asked: Sequence[Mapping[str, str]] = next(
        (entry["tool_calls"] for entry in reversed(before) if "tool_calls" in entry), []
    )
    open_calls = [call["id"] for call in asked if call["id"] not in answered]
    if message.result is None or not open_calls:
        return {"role": "user", "content": text}
    return {"role": "tool", "tool_call_id": open_calls[0], "content": text}


def count_results(following: Sequence[Message]) -> int:
    """How many results stand right behind a reply."""
    count = 0
    for message in following:
        if message.role != "tool":
            break
        count += message.result is not None
    return count


def show_call(name: str, arguments: str) -> str:
    """A native call as the text that the scanner finds, which judges what it holds like that of any other call."""
    arguments = "{}" if arguments.strip() in ("", "null") else arguments
    return f'{OPEN}\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments}}}\n{CLOSE}\n'


def sampling_of(generation: Generation, kind: Kind) -> dict[str, Any]:
    """Our settings in the service's names. A temperature that nobody set is left to the service."""
    written: dict[str, Any] = {"top_p": generation.top_p, "max_tokens": generation.max_tokens}
    if generation.temperature is not None:
        written["temperature"] = generation.temperature
    if generation.seed is not None:
        written["seed"] = generation.seed
    return written | {theirs: getattr(generation, ours) for ours, theirs in kind.options.items()}
