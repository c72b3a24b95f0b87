"""Render a format in prompts: the listing of a tool, a call, and the example."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from ..json_repair import RESERVED_WORDS
from ..python_parser import write_call


@dataclass(frozen=True)
class Renderer:
    """How a format is rendered. What `render_call` writes, the reader of the same row must read.

    Attributes:
        render_tool: Lists a tool: name and parameters (name to type; a trailing `?` marks an optional one) to text.
        render_call: Writes a call: tool name and arguments to text.
        example: Placeholder of a call for the prompt.
    """

    render_tool: Callable[[str, Mapping[str, str]], str]
    render_call: Callable[[str, Mapping[str, Any]], str]
    example: str


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _sketch_object(parameters: Mapping[str, str]) -> str:
    """Write `{"harbour": string, "days"?: integer}`."""
    inner = ", ".join(
        f'"{key[:-1]}"?: {kind}' if key.endswith("?") else f'"{key}": {kind}' for key, kind in parameters.items()
    )
    return f"{{{inner}}}"


def json_renderer(before: str, after: str, key: str = "arguments", name_key: str = "name") -> Renderer:
    """Render calls as one JSON object, or as an array if `before` ends in its bracket."""

    def sketch(name: str, parameters: Mapping[str, str]) -> str:
        return f'{{"{name_key}": "{name}", "{key}": {_sketch_object(parameters)}}}'

    def show(name: str, arguments: Mapping[str, Any]) -> str:
        return f"{before}{_dump({name_key: name, key: dict(arguments)})}{after}"

    return Renderer(sketch, show, f'{before}{{"{name_key}": "...", "{key}": {{...}}}}{after}')


def named_renderer(before: str, between: str, after: str) -> Renderer:
    """Render the tool's name, then its arguments as JSON."""

    def sketch(name: str, parameters: Mapping[str, str]) -> str:
        return f"{name} {_sketch_object(parameters)}"

    def show(name: str, arguments: Mapping[str, Any]) -> str:
        return f"{before}{name}{between}{_dump(dict(arguments))}{after}"

    return Renderer(sketch, show, f"{before}...{between}{{...}}{after}")


def python_renderer(before: str, after: str) -> Renderer:
    """Render calls as Python: `f(x='a')`."""

    def sketch(name: str, parameters: Mapping[str, str]) -> str:
        return f"{name}({', '.join(f'{key}: {kind}' for key, kind in parameters.items())})"

    def show(name: str, arguments: Mapping[str, Any]) -> str:
        return f"{before}{write_call(name, arguments)}{after}"

    return Renderer(sketch, show, f"{before}...(...=...){after}")


def chatglm_renderer() -> Renderer:
    """Render calls as ChatGLM3 does: the tool's name, then `tool_call(x='a')` in a code fence."""

    def show(name: str, arguments: Mapping[str, Any]) -> str:
        return f"{name}\n```python\n{write_call('tool_call', arguments)}\n```"

    return Renderer(python_renderer("", "").render_tool, show, "...\n```python\ntool_call(...=...)\n```")


def gemma_renderer(before: str, quote: str, after: str) -> Renderer:
    """Render calls as Gemma does: `call:f{k:<escape>text<escape>,n:42}`."""

    def write(value: Any) -> str:
        if isinstance(value, str):
            return f"{quote}{value}{quote}" if quote not in value else _dump(value)
        if isinstance(value, Mapping):
            return "{" + ",".join(f"{_write_key(key)}:{write(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + ",".join(map(write, value)) + "]"
        return _dump(value)

    def show(name: str, arguments: Mapping[str, Any]) -> str:
        return f"{before}call:{name}{write(arguments)}{after}"

    def sketch(name: str, parameters: Mapping[str, str]) -> str:
        return f"call:{name}{{{','.join(f'{key}:{kind}' for key, kind in parameters.items())}}}"

    return Renderer(sketch, show, f"{before}call:...{{...:{quote}...{quote}}}{after}")


def _write_key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() and key not in RESERVED_WORDS else _dump(key)


@dataclass(frozen=True)
class TagTemplates:
    """The tags of a format, with `{}` in place of a name.

    Attributes:
        call: Opening tag of a call.
        end_call: Closing tag of a call.
        value: Opening tag of an argument.
        end_value: Closing tag of an argument.
        is_raw: Whether names and values are written without escaping.
        is_padded: Whether a raw value stands on lines of its own.
    """

    call: str
    end_call: str
    value: str
    end_value: str
    is_raw: bool = False
    is_padded: bool = True


def tag_renderer(tags: TagTemplates) -> Renderer:
    """Render calls as tags with a value in each."""

    def write(key: str, value: Any) -> str:
        text = value if isinstance(value, str) else _dump(value)
        shown = (_lines(text) if tags.is_padded else text) if tags.is_raw else _show_value(text)
        return f"{opening(tags.value, key)}{shown}{tags.end_value}"

    def opening(tag: str, name: str) -> str:
        return tag.format(name if tags.is_raw else quoteattr(name))

    def show(name: str, arguments: Mapping[str, Any]) -> str:
        values = [write(key, value) for key, value in arguments.items()]
        return "\n".join([opening(tags.call, name), *values, tags.end_call])

    def sketch(name: str, parameters: Mapping[str, str]) -> str:
        inner = "".join(
            f"{opening(tags.value, key.rstrip('?'))}{kind}{' (optional)' if key.endswith('?') else ''}{tags.end_value}"
            for key, kind in parameters.items()
        )
        return f"{opening(tags.call, name)}{inner}{tags.end_call}".replace("\n", "")

    example = [opening(tags.call, "..."), f"{opening(tags.value, '...')}...{tags.end_value}", tags.end_call]
    return Renderer(sketch, show, "\n".join(example))


def _show_value(text: str) -> str:
    """Escape a text; one that begins or ends in a line end gets another one around it, which the reader removes."""
    return _lines(escape(text), always=False)


def _lines(text: str, always: bool = True) -> str:
    return f"\n{text}\n" if always or text.strip("\r\n") != text else text


def typed_tag_renderer(before: str, call: str, value: str, end_value: str, after: str) -> Renderer:
    """Render calls as tags with a raw value in each, whose opening may tell its type.

    Args:
        before: What precedes the call.
        call: Opening tag of the call; `{name}` becomes its quoted name.
        value: Opening tag of a value: `{name}`, `{type}` (of JSON Schema) and `{is_text}` ("true" or "false").
        end_value: Closing tag of a value.
        after: What follows the values.
    """

    def opening(name: str, type_name: str) -> str:
        is_text = "true" if type_name == "string" else "false"
        return value.format(name=quoteattr(name), type=type_name, is_text=is_text)

    def show(name: str, arguments: Mapping[str, Any]) -> str:
        values = [
            f"{opening(key, _name_type(item))}{item if isinstance(item, str) else _dump(item)}{end_value}"
            for key, item in arguments.items()
        ]
        return f"{before}{call.format(name=quoteattr(name))}{''.join(values)}{after}"

    def sketch(name: str, parameters: Mapping[str, str]) -> str:
        inner = "".join(
            f"{opening(key.rstrip('?'), kind)}{kind}{' (optional)' if key.endswith('?') else ''}{end_value}"
            for key, kind in parameters.items()
        )
        return f"{call.format(name=quoteattr(name))}{inner}"

    return Renderer(sketch, show, show("...", {"...": "..."}))


def _name_type(value: Any) -> str:
    """Return the name that JSON Schema has for the type of a value."""
    types = {str: "string", bool: "boolean", int: "number", float: "number", dict: "object", list: "array"}
    return types.get(type(value), "null")


def nested_tag_renderer(token: str) -> Renderer:
    """Render calls as MiniMax M3 does: an element for each value, at any depth, with a token before each tag."""

    def write(name: str, value: Any) -> str:
        if isinstance(value, Mapping):
            inner = "".join(write(key, item) for key, item in value.items())
        elif isinstance(value, list | tuple):
            inner = "".join(write("item", item) for item in value)
        else:
            inner = value if isinstance(value, str) else _dump(value)
        return f"{token}<{name}>{inner}{token}</{name}>"

    def show(name: str, arguments: Mapping[str, Any]) -> str:
        inner = "".join(write(key, value) for key, value in arguments.items())
        call = f"{token}<invoke name={quoteattr(name)}>{inner}{token}</invoke>"
        return f"{token}<tool_call>\n{call}\n{token}</tool_call>"

    def sketch(name: str, parameters: Mapping[str, str]) -> str:
        return f"{token}<invoke name={quoteattr(name)}>" + "".join(
            write(key.rstrip("?"), kind + (" (optional)" if key.endswith("?") else ""))
            for key, kind in parameters.items()
        )

    return Renderer(sketch, show, show("...", {"...": "..."}))


def keyed_renderer(before: str, after: str) -> Renderer:
    """Render calls as JSON objects whose only key is the tool: `{"f": {"x": "a"}}`."""

    def sketch(name: str, parameters: Mapping[str, str]) -> str:
        return f'{{"{name}": {_sketch_object(parameters)}}}'

    def show(name: str, arguments: Mapping[str, Any]) -> str:
        return f"{before}{_dump({name: dict(arguments)})}{after}"

    return Renderer(sketch, show, f'{before}{{"...": {{...}}}}{after}')
