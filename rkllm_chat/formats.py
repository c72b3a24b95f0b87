"""FORMATS: what a tool call looks like in a model's text. It does not know what a call does.

A row says which literal opens a candidate, how the body is read, and how the form is taught: `sketch` lists a tool,
`show` writes a call, `example` stands in the prompt. What `show` writes, the reader of the row must read.

A body reader is a generator over a Reader, entered behind the opener. It returns a CallFound or CallGarbled, or None
when what follows is no call after all, so that prose about markers stays prose. A call ends by its own structure:
end markers inside JSON strings or inside argument values end nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import unescape
from math import isfinite
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from .events import CallFound, CallGarbled
from .messages import ToolCall
from .reader import EndOfTextError, Reader, Reading

DEEPEST = 64
LONGEST_NUMBER = 4000
LONGEST_HEAD = 256

Found = CallFound | CallGarbled | None


@dataclass(frozen=True)
class Format:
    """One way of writing a call. `opener` begins a candidate; `read` decides."""

    name: str
    opener: str
    read: Callable[[Reader], Reading[Found]]
    sketch: Callable[[str, Mapping[str, str]], str]
    show: Callable[[str, Mapping[str, Any]], str]
    example: str


# --- [TOOL_CALL] {json} [END_TOOL_CALL] ---

OPEN, CLOSE = "[TOOL_CALL]", "[END_TOOL_CALL]"
_EDGE_OUTSIDE = re.compile(r'["{}\[\]]')
_SURROGATE = re.compile("[\ud800-\udfff]")
_EDGE_INSIDE = re.compile(r'["\\\n]')


def read_json_call(reader: Reader) -> Reading[Found]:
    yield from reader.skip_space()
    if not (yield from reader.next_is("{")):
        return None
    body = yield from read_object(reader)
    if isinstance(body, CallGarbled):
        return body
    yield from reader.skip_space()
    closed = yield from reader.skip(CLOSE)
    return call_of_json(body, () if closed else ("missing end marker",))


def read_object(reader: Reader) -> Reading[str | CallGarbled]:
    """The text of a JSON object, ended by its own brace. A marker outside a string means it is broken."""
    parts: list[str] = []
    depth = 0
    while True:
        parts.append((yield from reader.up_to(_EDGE_OUTSIDE)))
        mark = yield from reader.peek()
        if mark == "[" and (fault := (yield from find_marker(reader))):
            return CallGarbled("bad_json", fault, "")
        parts.append(reader.take(1))
        if mark != '"':
            depth += 1 if mark in "{[" else -1
        elif not (yield from read_string(reader, parts)):
            return CallGarbled("bad_json", "A string is not closed before the end marker.", "")
        if depth > DEEPEST:
            return CallGarbled("too_large", f"The JSON is nested deeper than {DEEPEST} levels.", "")
        if depth == 0:
            return "".join(parts)


def find_marker(reader: Reader) -> Reading[str]:
    """What a marker in the middle of an object means; "" where there is none. An end marker is consumed."""
    if (yield from reader.next_is(OPEN)):
        return "A new call begins before this one has ended."
    if (yield from reader.skip(CLOSE)):
        return "The JSON object is not closed before the end marker."
    return ""


def read_string(reader: Reader, parts: list[str]) -> Reading[bool]:
    """The rest of a JSON string; False when the end marker stands on a line of its own inside it."""
    while True:
        parts.append((yield from reader.up_to(_EDGE_INSIDE)))
        mark = yield from reader.peek()
        parts.append(reader.take(1))
        if mark == '"':
            return True
        if mark == "\\":
            yield from reader.peek()
            parts.append(reader.take(1))
        elif (yield from reader.skip(CLOSE)):
            return False


def call_of_json(body: str, repairs: tuple[str, ...]) -> CallFound | CallGarbled:
    """The call in a JSON object with "name" and "arguments" (an object, or one written as a string)."""
    try:
        value = read_json(body)
        name, arguments = value["name"], value.get("arguments", {})
        if isinstance(arguments, str):
            arguments = read_json(arguments)
    except KeyError as error:
        return CallGarbled("bad_json", f"The JSON object has no {error}.", body)
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        return CallGarbled("bad_json", f"The JSON cannot be read: {error}.", body)
    if not isinstance(name, str) or not name.strip():
        return CallGarbled("bad_json", 'The "name" is not the name of a tool.', body)
    if not isinstance(arguments, dict):
        return CallGarbled("bad_json", 'The "arguments" are not an object.', body)
    return CallFound(ToolCall(name.strip(), arguments, repairs))


def read_json(text: str) -> Any:
    """JSON without what Python adds to it, and without what cannot be written back. Raises ValueError."""
    value = json.loads(
        text,
        parse_constant=refuse_constant,
        parse_float=read_float,
        parse_int=read_int,
        object_pairs_hook=refuse_duplicates,
    )
    if _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise ValueError("a text holds half of a surrogate pair")
    return value


def refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def read_float(text: str) -> float:
    if not isfinite(number := float(text)):
        raise ValueError(f"{text} is too large a number")
    return number


def read_int(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number has more than {LONGEST_NUMBER} digits")
    return int(text)


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return value


def show_json(name: str, arguments: Mapping[str, Any]) -> str:
    body = json.dumps({"name": name, "arguments": dict(arguments)}, ensure_ascii=False)
    return f"{OPEN}\n{body}\n{CLOSE}"


def sketch_json(name: str, parameters: Mapping[str, str]) -> str:
    inner = ", ".join(
        f'"{key[:-1]}"?: {kind}' if key.endswith("?") else f'"{key}": {kind}' for key, kind in parameters.items()
    )
    return f'{{"name": "{name}", "arguments": {{{inner}}}}}'


# --- <tool_call name="..."> <argument name="...">value</argument> </tool_call> ---

_ATTRIBUTE = re.compile(r"""\s([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
CDATA, END_CDATA = "<![CDATA[", "]]>"


def read_xml_call(reader: Reader) -> Reading[Found]:
    if (yield from reader.skip(">")):
        return (yield from read_hermes_call(reader))
    name = yield from read_name(reader)
    if name is None:
        return None
    arguments: dict[str, str] = {}
    while True:
        yield from reader.skip_space()
        if (yield from reader.skip("</tool_call>")):
            return CallFound(ToolCall(name, arguments))
        if not (yield from reader.skip("<argument")):
            yield from reader.until("</tool_call>")
            return CallGarbled("bad_xml", 'Only <argument name="..."> elements may stand inside the call.', "")
        key = yield from read_name(reader)
        if key is None or key in arguments:
            yield from reader.until("</tool_call>")
            fault = "An <argument> has no name." if key is None else f'The argument "{key}" stands twice.'
            return CallGarbled("bad_xml", fault, "")
        arguments[key] = yield from read_value(reader)


def read_hermes_call(reader: Reader) -> Reading[Found]:
    """`<tool_call>{json}</tool_call>`: how Qwen and Hermes write a call when their own template lists the tools."""
    yield from reader.skip_space()
    if not (yield from reader.next_is("{")):
        return None
    body = yield from read_object(reader)
    if isinstance(body, CallGarbled):
        return body
    yield from reader.skip_space()
    closed = yield from reader.skip("</tool_call>")
    return call_of_json(body, () if closed else ("missing end marker",))


def read_name(reader: Reader) -> Reading[str | None]:
    """The `name` attribute of a tag whose opener was just consumed; None where the tag has none."""
    if not (yield from reader.skip_space()):
        return None
    head = " "
    while not head.endswith(">"):
        try:
            yield from reader.peek()
        except EndOfTextError:
            if "=" in head:
                raise
            return None
        head += reader.take(1)
        if len(head) > LONGEST_HEAD or head.endswith("<"):
            return None
    attributes = {match[1]: unescape(match[2] or match[3] or "") for match in _ATTRIBUTE.finditer(head)}
    return attributes.get("name", "").strip() or None


def read_value(reader: Reader) -> Reading[str]:
    """The text of an argument. Its end tag counts only where another argument or the end of the call follows.

    CDATA sections end by their own mark: end tags inside them end nothing.
    """
    parts = [(yield from reader.skip_space())]
    sections: list[str] = []
    while (yield from reader.skip(CDATA)):
        sections.append((yield from reader.until(END_CDATA)))
        space = yield from reader.skip_space()
        parts += [CDATA, sections[-1], END_CDATA, space]
    if sections and (yield from reader.skip("</argument>")):
        return "".join(sections)
    while True:
        parts.append((yield from reader.until("</argument>")))
        space = yield from reader.skip_space()
        if (yield from reader.next_is("<argument")) or (yield from reader.next_is("</tool_call>")):
            break
        parts.append("</argument>" + space)
    return unescape("".join(parts).removeprefix("\n").removesuffix("\n"))


def show_xml(name: str, arguments: Mapping[str, Any]) -> str:
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in arguments.items()
    }
    lines = [f"<argument name={quoteattr(key)}>{show_value(text)}</argument>" for key, text in texts.items()]
    return "\n".join([f"<tool_call name={quoteattr(name)}>", *lines, "</tool_call>"])


def show_value(text: str) -> str:
    """The text escaped; one that begins or ends in a newline gets one more around, which the reader takes off."""
    return escape(text) if text.strip("\n") == text else f"\n{escape(text)}\n"


def sketch_xml(name: str, parameters: Mapping[str, str]) -> str:
    inner = "".join(
        f'<argument name="{key.rstrip("?")}">{kind}{" (optional)" if key.endswith("?") else ""}</argument>'
        for key, kind in parameters.items()
    )
    return f'<tool_call name="{name}">{inner}</tool_call>'


FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format(
            "json",
            OPEN,
            read_json_call,
            sketch_json,
            show_json,
            f'{OPEN}\n{{"name": "...", "arguments": {{...}}}}\n{CLOSE}',
        ),
        Format(
            "xml",
            "<tool_call",
            read_xml_call,
            sketch_xml,
            show_xml,
            '<tool_call name="...">\n<argument name="...">...</argument>\n</tool_call>',
        ),
    )
}
