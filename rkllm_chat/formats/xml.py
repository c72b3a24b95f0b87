"""Calls written as tags: values as text between an opening and a closing tag. It knows no tool.

A value may hold anything, closing tags too: its own counts only where another value or the end of the call follows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape

from ..events import CallFound
from ..messages import ToolCall
from ..reader import EndOfTextError, Reader, Reading
from .found import WRONG_END, Found, garbled

CDATA, END_CDATA = "<![CDATA[", "]]>"
WRONG_ENDS = ("</function_invocation>", "</function_call>", "</tool_calls>", "</tool>", "</invoke>", "</call>")
VALUE_ENDS = ("</argument>", "</parameter>", "</param>")

_ATTRIBUTE = re.compile(r"""\s([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_BEGUN = re.compile(r"""\sname\s*=\s*["'][^"']""")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
_TAG = re.compile("<")
_END_OF_HEAD = re.compile("[><]")


@dataclass(frozen=True)
class Tags:
    """How a form writes its tags. `value`: the openings of a value, whose end is `end_value`; `ends`: of a call.

    `is_raw`: values are taken as they stand; else entities and CDATA are read. `in_attribute`: a value's name stands in
    a `name` attribute, else behind the opening, as in `<parameter=x>`.
    """

    value: tuple[str, ...]
    end_value: str
    ends: tuple[str, ...]
    is_raw: bool = False
    in_attribute: bool = True


SEED = Tags(("<argument", "<parameter", "<param"), "</argument>", ("</tool_call>",))
MINICPM5 = Tags(("<param", "<argument"), "</param>", ("</function>",))
QWEN = Tags(("<parameter=", "<param="), "</parameter>", ("</function>", "</tool_call>"), True, in_attribute=False)


@dataclass
class Values:
    """The values of a call as far as they are read, or what is wrong with them."""

    texts: dict[str, str]
    repairs: list[str]
    fault: str = ""


def read_named(reader: Reader, tags: Tags) -> Reading[Found]:
    """A call whose tag has a `name` attribute, from behind `<tool_call` or `<function`."""
    name = yield from read_name(reader)
    if name is None:
        return None
    reader.commit()
    return (yield from read_values(reader, name, tags))


def read_values(reader: Reader, name: str, tags: Tags) -> Reading[Found]:
    """The values of a call and its end. What does not belong there garbles it, up to its end marker."""
    values = Values({}, [])
    while True:
        yield from reader.skip_space()
        end = yield from reader.next_of((*tags.ends, *WRONG_ENDS))
        if end:
            if end == tags.ends[0] or end in WRONG_ENDS:
                reader.take(len(end))
            if end != tags.ends[0]:
                values.repairs.append(WRONG_END)
            break
        opening = yield from reader.next_of(tags.value)
        if not opening:
            own = f'{tags.value[0]} name="...">' if tags.in_attribute else f"{tags.value[0]}...>"
            values.fault = f"Only {own} elements may stand inside the call."
        else:
            reader.take(len(opening))
            yield from read_value(reader, values, tags)
        if values.fault:
            yield from reader.until(tags.ends[-1])
            return garbled("bad_xml", values.fault)
    return [CallFound(ToolCall(name, values.texts, tuple(dict.fromkeys(values.repairs))))]


def read_value(reader: Reader, values: Values, tags: Tags) -> Reading[None]:
    """One value, from behind its opening."""
    key = yield from (read_name(reader) if tags.in_attribute else read_key(reader))
    if key is None or key in values.texts:
        element = tags.value[0].rstrip("=")
        values.fault = f"An {element}> has no name." if key is None else f'The argument "{key}" stands twice.'
        return
    if tags.is_raw:
        text, end = yield from read_text(reader, [], key, tags)
    else:
        text, end = yield from read_escaped(reader, key, tags)
    values.texts[key] = text
    if end != tags.end_value:
        values.repairs.append(WRONG_END)


def read_escaped(reader: Reader, key: str, tags: Tags) -> Reading[tuple[str, str]]:
    """A value with its entities read, and the tag that ended it. CDATA sections end by their own mark."""
    parts = [(yield from reader.skip_space())]
    sections: list[str] = []
    while (yield from reader.skip(CDATA)):
        sections.append((yield from reader.until(END_CDATA)))
        parts += [CDATA, sections[-1], END_CDATA, (yield from reader.skip_space())]
    end = yield from reader.next_of(ends_of(key, tags))
    if sections and end:
        reader.take(len(end))
        return "".join(sections), end
    text, end = yield from read_text(reader, parts, key, tags)
    return _ENTITY.sub(lambda found: unescape(found[0]), text), end


def read_text(reader: Reader, parts: list[str], key: str, tags: Tags) -> Reading[tuple[str, str]]:
    """A value as it stands, without one line end at each side, and the tag that ended it."""
    ends = ends_of(key, tags)
    while True:
        parts.append((yield from reader.up_to(_TAG)))
        end = yield from reader.next_of(ends)
        if not end:
            parts.append(reader.take(1))
            continue
        reader.take(len(end))
        space = yield from reader.skip_space()
        if (yield from reader.next_of((*tags.value, *tags.ends, *WRONG_ENDS))):
            return trim("".join(parts)), end
        parts += [end, space]


def ends_of(key: str, tags: Tags) -> tuple[str, ...]:
    return (tags.end_value, *(end for end in VALUE_ENDS if end != tags.end_value), f"</{key}>")


def trim(text: str) -> str:
    """The text without one line end at its beginning and one at its end."""
    text = text[1:] if text.startswith("\n") else text.removeprefix("\r\n")
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def read_name(reader: Reader) -> Reading[str | None]:
    """The `name` attribute of a tag whose opening was just consumed; None where the tag has none."""
    if not (yield from reader.skip_space()):
        return None
    try:
        head = " " + (yield from reader.up_to(_END_OF_HEAD))
    except EndOfTextError:
        if _BEGUN.search(reader.recorded):
            reader.commit()
        raise
    if reader.take(1) == "<":
        return None
    attributes = {match[1]: unescape(match[2] or match[3] or "") for match in _ATTRIBUTE.finditer(head)}
    return attributes.get("name", "").strip() or None


def read_key(reader: Reader) -> Reading[str | None]:
    """The name in `<parameter=name>`, from behind the `=`."""
    head = yield from reader.up_to(_END_OF_HEAD)
    return (head.strip().strip("\"'") or None) if reader.take(1) == ">" else None


def read_keys_and_values(reader: Reader, name: str) -> Reading[Found]:
    """GLM 4.5: `<arg_key>k</arg_key><arg_value>v</arg_value>`, up to `</tool_call>`."""
    texts: dict[str, str] = {}
    while True:
        yield from reader.skip_space()
        if (yield from reader.skip("</tool_call>")):
            return [CallFound(ToolCall(name, texts))]
        if not (yield from reader.skip("<arg_key>")):
            break
        key = (yield from reader.until("</arg_key>")).strip()
        yield from reader.skip_space()
        if not (yield from reader.skip("<arg_value>")) or not key or key in texts:
            break
        texts[key] = yield from read_pair_value(reader)
    yield from reader.until("</tool_call>")
    return garbled("bad_xml", "Only <arg_key> and <arg_value> pairs may stand inside the call, each key once.")


def read_pair_value(reader: Reader) -> Reading[str]:
    parts: list[str] = []
    while True:
        parts.append((yield from reader.until("</arg_value>")))
        space = yield from reader.skip_space()
        if (yield from reader.next_of(("<arg_key>", "</tool_call>"))):
            return trim("".join(parts))
        parts += ["</arg_value>", space]
