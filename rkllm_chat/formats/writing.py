"""How a form is asked for: a tool as it is listed, a call as it is written, and the example in the prompt."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from .damaged import NO_KEYS
from .pycalls import write_call


@dataclass(frozen=True)
class Writing:
    """`sketch` lists a tool by its parameters (name -> type, a trailing `?` marks an optional one), `show` writes a
    call, `example` stands in the prompt. What `show` writes, the reader of the row must read."""

    sketch: Callable[[str, Mapping[str, str]], str]
    show: Callable[[str, Mapping[str, Any]], str]
    example: str


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def sketch_object(parameters: Mapping[str, str]) -> str:
    """`{"harbour": string, "days"?: integer}`."""
    inner = ", ".join(
        f'"{key[:-1]}"?: {kind}' if key.endswith("?") else f'"{key}": {kind}' for key, kind in parameters.items()
    )
    return f"{{{inner}}}"


def in_json(before: str, after: str, key: str = "arguments", name_key: str = "name") -> Writing:
    """One object, or an array where `before` ends in its bracket."""

    def sketch(name: str, parameters: Mapping[str, str]) -> str:
        return f'{{"{name_key}": "{name}", "{key}": {sketch_object(parameters)}}}'

    def show(name: str, arguments: Mapping[str, Any]) -> str:
        return f"{before}{dump({name_key: name, key: dict(arguments)})}{after}"

    return Writing(sketch, show, f'{before}{{"{name_key}": "...", "{key}": {{...}}}}{after}')


def named(before: str, between: str, after: str) -> Writing:
    """The tool's name, then its arguments in JSON."""

    def sketch(name: str, parameters: Mapping[str, str]) -> str:
        return f"{name} {sketch_object(parameters)}"

    def show(name: str, arguments: Mapping[str, Any]) -> str:
        return f"{before}{name}{between}{dump(dict(arguments))}{after}"

    return Writing(sketch, show, f"{before}...{between}{{...}}{after}")


def in_python(before: str, after: str) -> Writing:
    def sketch(name: str, parameters: Mapping[str, str]) -> str:
        return f"{name}({', '.join(f'{key}: {kind}' for key, kind in parameters.items())})"

    def show(name: str, arguments: Mapping[str, Any]) -> str:
        return f"{before}{write_call(name, arguments)}{after}"

    return Writing(sketch, show, f"{before}...(...=...){after}")


def in_chatglm() -> Writing:
    def show(name: str, arguments: Mapping[str, Any]) -> str:
        return f"{name}\n```python\n{write_call('tool_call', arguments)}\n```"

    return Writing(in_python("", "").sketch, show, "...\n```python\ntool_call(...=...)\n```")


def in_gemma(before: str, quote: str, after: str) -> Writing:
    """`call:f{k:<escape>text<escape>,n:42}`."""

    def write(value: Any) -> str:
        if isinstance(value, str):
            return f"{quote}{value}{quote}" if quote not in value else dump(value)
        if isinstance(value, Mapping):
            return "{" + ",".join(f"{write_key(key)}:{write(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + ",".join(map(write, value)) + "]"
        return dump(value)

    def show(name: str, arguments: Mapping[str, Any]) -> str:
        return f"{before}call:{name}{write(arguments)}{after}"

    def sketch(name: str, parameters: Mapping[str, str]) -> str:
        return f"call:{name}{{{','.join(f'{key}:{kind}' for key, kind in parameters.items())}}}"

    return Writing(sketch, show, f"{before}call:...{{...:{quote}...{quote}}}{after}")


def write_key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() and key not in NO_KEYS else dump(key)


@dataclass(frozen=True)
class Elements:
    """The tags of a form: of a call and of a value, with `{}` for a name."""

    call: str
    end_call: str
    value: str
    end_value: str
    is_raw: bool = False


def in_tags(tags: Elements) -> Writing:
    def write(key: str, value: Any) -> str:
        text = value if isinstance(value, str) else dump(value)
        shown = lines(text) if tags.is_raw else show_value(text)
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
    return Writing(sketch, show, "\n".join(example))


def show_value(text: str) -> str:
    """The text escaped; one that begins or ends in a line end gets one more around, which the reader takes off."""
    return lines(escape(text), always=False)


def lines(text: str, always: bool = True) -> str:
    return f"\n{text}\n" if always or text.strip("\r\n") != text else text
