"""Readers of calls written as tags, with each value as text between an opening and a closing tag.

A value may contain anything, closing tags too: a closing tag counts only if another value or the end of the call
follows it. A call whose values can be read in two ways is unreadable (see `tag_syntax`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import unescape
from typing import Any

from ...core.events import CallFound, CallUnreadable
from ...core.messages import ToolCall
from ..incremental_reader import EndOfTextError, Parsing, Reader, TooLongError
from ..json_repair import parse_lenient_json
from .common import (
    DOUBLED,
    NO_END,
    WRONG_END,
    Body,
    BodyReader,
    ParsedCalls,
    ReadContext,
    add_repairs,
    read_end_marker,
    unreadable_call,
)
from .json_calls import read_json_arguments, read_tool_name
from .tag_syntax import TagSyntax, find_damaged_tag, remove_doubled_opening

_CDATA, _END_CDATA = "<![CDATA[", "]]>"

_ATTRIBUTE = re.compile(r"""\s([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>/]+))""")
_HEAD = re.compile(r"""(?:\s+[\w-]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'<>/=]+))?)*\s*/?\s*""")
_BEGUN = re.compile(r"""\s\w+\s*=\s*["'][^"']""")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
_TAG = re.compile("<")
_END_OF_HEAD = re.compile("[><]")
_END_OF_NAME = re.compile(r"[>\n<{(]")


@dataclass
class _Values:
    """The values of a call that were read so far, or the error in them.

    Attributes:
        texts: The values by name.
        sources: Each name and the text of its value before decoding, without CDATA sections.
        repairs: What was wrong but readable.
        fault: The error.
    """

    texts: dict[str, Any] = field(default_factory=dict[str, Any])
    sources: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    repairs: list[str] = field(default_factory=list[str])
    fault: str = ""


def tag_reader(tags: TagSyntax) -> BodyReader:
    """Return a reader of calls with tags of this syntax, after the opening of the call."""

    def read(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
        read_head = read_named_tag if tags.call_name else read_equals
        return (yield from read_head(reader, context, tags))

    return read


def group_body(*openers: str) -> Body:
    """Return the body of a group of calls, each of which has one of these openers of its own."""

    def read(reader: Reader, _context: ReadContext, _closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
        yield from reader.skip_space()
        return [] if (yield from reader.peek_literal(openers)) else None

    return read


def block_body(call_opener: str, read_call: BodyReader) -> Body:
    """Return the body of one or more calls in a block.

    Args:
        call_opener: Opening of a call.
        read_call: Reads what follows it.
    """

    def read(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
        yield from reader.skip_space()
        calls: list[CallFound | CallUnreadable] = []
        try:
            size = reader.size
            while (yield from reader.skip(call_opener)):
                found = yield from read_call(reader, context)
                if found is None and not calls:
                    return None
                if found is None and not closers:  # a block without an end marker ends with its last call
                    reader.rewind(size)
                    return calls
                if found is None:
                    yield from reader.read_through(closers[-1])
                    return calls + unreadable_call("bad_xml", f"A call before {closers[-1]} cannot be read.")
                calls += found
                yield from reader.skip_space()
                size = reader.size
        except EndOfTextError:
            if not calls:
                raise
            return calls + unreadable_call("truncated", "The reply ended before the call did.")
        if not calls:
            return None
        end = yield from read_end_marker(reader, context, closers[-1:])
        return [add_repairs(call, *end) for call in calls]

    return read


def read_named_tag(reader: Reader, context: ReadContext, tags: TagSyntax) -> Parsing[ParsedCalls]:
    """Read a call whose tag has an attribute that names the tool, after `<tool_call` or `<function`."""
    if tags.is_common and (reader.is_mid_line or reader.is_in_markup):
        return None
    attributes = yield from _read_attributes(reader, tags)
    name = (attributes or {}).get(tags.call_name, "").strip()
    if attributes is None or not name or (tags.is_common and len(attributes) > 1):
        return None
    if "/" in attributes:
        return [CallFound(ToolCall(name, {}))]
    yield from reader.skip_space()
    if reader.is_mid_line and not (yield from reader.peek_literal(("<", "{", "["))):
        return None  # a sentence about the tag
    reader.commit()
    if not tags.is_escaped and (yield from reader.is_next("{")):
        return (yield from read_json_arguments(reader, context, name, tags.call_closers))
    return (yield from read_values(reader, context, name, tags))


def read_values(reader: Reader, context: ReadContext, name: str, tags: TagSyntax) -> Parsing[ParsedCalls]:
    """Read the values of a call and its end. Anything else makes the call unreadable, up to its end marker."""
    values = _Values()
    while True:
        yield from reader.skip_space()
        end = yield from reader.peek_literal((*tags.call_closers, *tags.wrong_ends))
        if end:
            if end == tags.call_closers[0] or end in tags.wrong_ends:
                reader.take(len(end))
            if end != tags.call_closers[0]:
                values.repairs.append(WRONG_END)
            break
        opening = yield from reader.peek_literal(tags.value_openers)
        if not opening:
            own = tags.open_value("...", "string").replace("\n", "")
            values.fault = f"Only {own} elements are allowed inside the call."
        else:
            reader.take(len(opening))
            yield from _read_value(reader, values, tags)
        if values.fault:
            yield from reader.read_through(tags.call_closers[-1])
            return unreadable_call("bad_xml", values.fault)
    is_ended = not {WRONG_END, NO_END}.intersection(values.repairs)
    if fault := find_damaged_tag(values.sources, name, context, tags, is_ended):
        return unreadable_call("bad_xml", fault)
    return [CallFound(ToolCall(name, values.texts, tuple(dict.fromkeys(values.repairs))))]


def _read_value(reader: Reader, values: _Values, tags: TagSyntax) -> Parsing[None]:
    """Read one value, after its opening."""
    attributes: dict[str, str] = {}
    if tags.value_name:
        attributes = (yield from _read_attributes(reader, tags)) or {}
        key: str | None = attributes.get(tags.value_name, "").strip()
    elif tags.key_end:
        key, attributes["type"] = yield from _read_key_element(reader, tags, values.repairs)
    else:
        key = yield from _read_key(reader)
    if not key or key in values.texts:
        element = tags.value_openers[0].rstrip("=>")
        missing = "name or no value" if tags.key_end else "name"
        values.fault = f'The argument "{key}" occurs twice.' if key else f"An {element}> has no {missing}."
        return
    if tags.is_escaped:
        source, text, end = yield from _read_escaped(reader, key, tags, values.repairs)
    else:
        text, end = yield from _read_text(reader, reader.size, key, tags, values.repairs)
        source = text
    values.sources.append((key, source))
    values.texts[key] = _read_typed(text, attributes)
    if end != tags.value_closer:
        values.repairs.append(WRONG_END if end else NO_END)
    while end and (yield from _skip_copy(reader, end)):
        values.repairs.append(DOUBLED)


def _skip_copy(reader: Reader, tag: str) -> Parsing[bool]:
    """Consume a tag, and what white space is before it, if it comes once more."""
    size = reader.size
    yield from reader.skip_space()
    if (yield from reader.skip(tag)):
        return True
    reader.rewind(size)
    return False


def _read_typed(text: str, attributes: dict[str, str]) -> Any:
    """Return a value whose tag says that it is no text: `string="false"` (DeepSeek), `type="integer"` (Kimi)."""
    if attributes.get("string", "true") == "true" and attributes.get("type", "string") == "string":
        return text
    try:
        return parse_lenient_json(text)[0]
    except ValueError:
        return text


def _read_escaped(reader: Reader, key: str, tags: TagSyntax, repairs: list[str]) -> Parsing[tuple[str, str, str]]:
    """Read a value with entities. CDATA sections end by their own mark.

    Returns:
        The value as it is written, without CDATA sections; the decoded value; and the tag that ended it.
    """
    begun = reader.size
    yield from reader.skip_space()
    sections: list[str] = []
    while (yield from reader.skip(_CDATA)):
        sections.append((yield from reader.read_through(_END_CDATA)))
        yield from reader.skip_space()
    end = yield from reader.peek_literal(_ends_of(key, tags))
    if sections and end:
        reader.take(len(end))
        return "", "".join(sections), end
    text, end = yield from _read_text(reader, begun, key, tags, repairs)
    return text, _ENTITY.sub(lambda match: unescape(match[0]), text), end


def _read_text(reader: Reader, begun: int, key: str, tags: TagSyntax, repairs: list[str]) -> Parsing[tuple[str, str]]:
    """Read a literal value without one line end at each side, and the tag that ended it.

    Behind an element with its name, the last line end does not belong to a value that also begins with one.
    """
    written, end = yield from _read_until(reader, begun, _ends_of(key, tags), tags)
    text = remove_doubled_opening(written, key, tags)
    repairs += [DOUBLED] * (text != written)
    is_trimmed = tags.is_trimmed and (not tags.key_end or text.startswith(("\n", "\r\n")))
    return _trim(text) if is_trimmed else text, end


def _read_until(reader: Reader, begun: int, ends: tuple[str, ...], tags: TagSyntax) -> Parsing[tuple[str, str]]:
    """Read a value up to an end tag that another tag of the call follows.

    A whole call of the same format in the value is an example. If its end is not found, the first end tag that could be
    the end of the value counts.

    Args:
        reader: What to read.
        begun: How much was read before the value.
        ends: The end tags of the value.
        tags: The tags of the call.
    """
    seen = _ValueEnds()
    try:
        end, mark = yield from _find_value_end(reader, ends, tags, seen)
        return reader.recorded(begun)[: end - begun], mark
    except (EndOfTextError, TooLongError) as error:
        text = reader.recorded(begun)
        if seen.first is None and isinstance(error, EndOfTextError):
            reader.without[ends] = max(len(text), reader.without.get(ends, 0))
        if isinstance(error, EndOfTextError) and (yield from _ends_call(reader, seen.closed, tags)):
            return text[: seen.closed - begun].rstrip("\r\n"), ""
        if seen.first is None:
            reader.take_to(reader.at if seen.closed else len(reader.text))
            raise
    size, end, mark = seen.first
    reader.rewind(size)
    yield from reader.skip_space()
    return text[: end - begun], mark


def _find_value_end(
    reader: Reader, ends: tuple[str, ...], tags: TagSyntax, seen: _ValueEnds
) -> Parsing[tuple[int, str]]:
    """Return where a value ends, in characters read before, and its end tag; note in `seen` where it may have ended."""
    call_opener, call_closer = tags.call_opener, tags.call_closers[0]
    marks = (*ends, call_opener, call_closer)
    is_endless = reader.ended and len(reader.text) - reader.at <= reader.without.get(ends, 0)
    while True:
        yield from reader.read_up_to(_TAG)
        end = reader.size
        mark = yield from reader.peek_literal(marks)
        reader.take(len(mark) or 1)
        if mark in (call_opener, call_closer):
            seen.pass_call_tag(mark == call_opener, end, is_endless)
        elif mark and (seen.first is None or not seen.depth):
            size = reader.size
            while (yield from _skip_copy(reader, mark)):
                pass
            yield from reader.skip_space()
            tag = yield from reader.peek_literal(tags.following)
            if not tag or (mark != ends[0] and (yield from _is_followed_by_end(reader, tag, ends))):
                continue
            if not seen.depth:
                reader.rewind(size)
                return end, mark
            seen.first = size, end, mark


@dataclass
class _ValueEnds:
    """Where a value may have ended, in characters read before.

    Attributes:
        first: The first place behind an end tag inside an example of a call, the place before it, and the end tag.
        closed: The first end tag of the call, which may lack the end tag of the value before it.
        depth: How many calls in the value are open.
        has_opener: Whether the value contains the opening of a call.
    """

    first: tuple[int, int, str] | None = None
    closed: int = 0
    depth: int = 0
    has_opener: bool = False

    def pass_call_tag(self, is_opener: bool, place: int, is_last: bool) -> None:
        """Count a tag of a call; raise EndOfTextError if none that follows matters."""
        if not (is_opener or self.has_opener):
            self.closed = self.closed or place
        self.has_opener = self.has_opener or is_opener
        self.depth = self.depth + 1 if is_opener else max(0, self.depth - 1)
        if is_last:
            raise EndOfTextError


def _ends_call(reader: Reader, size: int, tags: TagSyntax) -> Parsing[bool]:
    """Tell whether a call whose last value lacks its end tag ends behind `size` characters; go back to there.

    It does if another call follows its end tags, or the end of a reply that was not cut off. 0 stands for no place.
    """
    if not size:
        return False
    reader.rewind(size)
    while (end := (yield from reader.peek_literal(tags.following))).startswith("</"):
        reader.take(len(end))
        yield from reader.skip_space()
    ends = (yield from reader.is_at_end()) and reader.is_complete
    follows = yield from reader.peek_literal((tags.call_opener, "<tool_call"))
    reader.rewind(size)
    return ends or bool(follows)


def _is_followed_by_end(reader: Reader, tag: str, ends: tuple[str, ...]) -> Parsing[bool]:
    """Tell whether the end of a value comes behind a tag, which then is part of the value; consumes nothing."""
    size = reader.size
    reader.take(len(tag))
    yield from reader.skip_space()
    end = yield from reader.peek_literal(ends)
    reader.rewind(size)
    return bool(end)


def _ends_of(key: str, tags: TagSyntax) -> tuple[str, ...]:
    return tags.value_ends if tags.key_end else (*tags.value_ends, f"</{key}>")


def _trim(text: str) -> str:
    """Remove one line end at the beginning and one at the end."""
    text = text[1:] if text.startswith("\n") else text.removeprefix("\r\n")
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def _read_attributes(reader: Reader, tags: TagSyntax) -> Parsing[dict[str, str] | None]:
    """Read the attributes of a tag whose opening was just consumed, up to its end.

    Returns:
        The attributes; "/" among them if the tag closes itself. None if this is no tag.
    """
    if not (yield from reader.skip_space()):
        return None
    try:
        head = " " + (yield from reader.read_up_to(_END_OF_HEAD))
    except EndOfTextError:
        if _BEGUN.search(reader.recorded()):
            reader.commit()
        raise
    if not _HEAD.fullmatch(head) or not (yield from reader.skip(tags.tag_end)):
        return None
    attributes = {match[1]: unescape(match[2] or match[3] or match[4] or "") for match in _ATTRIBUTE.finditer(head)}
    return {**attributes, "/": ""} if head.endswith("/") else attributes


def _read_key(reader: Reader) -> Parsing[str | None]:
    """Read the name in `<parameter=name>`, after the `=`."""
    head = yield from reader.read_up_to(_END_OF_HEAD)
    return (head.strip().strip("\"'") or None) if reader.take(1) == ">" else None


def _read_key_element(reader: Reader, tags: TagSyntax, repairs: list[str]) -> Parsing[tuple[str, str]]:
    """Read the element that names a value, and the element after it that gives its type.

    The name is "" if no value follows.
    """
    key = (yield from reader.read_through(tags.key_end)).strip()
    while key.startswith(tags.value_openers[0]):
        key = key.removeprefix(tags.value_openers[0]).lstrip()
        repairs.append(DOUBLED)
    while (yield from _skip_copy(reader, tags.key_end)):
        repairs.append(DOUBLED)
    if "<" in key or "\n" in key:
        return "", ""
    yield from reader.skip_space()
    type_name, type_tag = "string", tags.tag_end.replace("value", "type")
    if type_tag != tags.tag_end and (yield from reader.skip(type_tag)):
        type_name = (yield from reader.read_through(f"</{type_tag[1:]}")).strip()
        yield from reader.skip_space()
    return (key if (yield from reader.skip(tags.tag_end)) else ""), type_name


def read_equals(
    reader: Reader, context: ReadContext, tags: TagSyntax, closers: tuple[str, ...] = ("</function>",)
) -> Parsing[ParsedCalls]:
    """Read what follows `<function=`: the name, and JSON or values."""
    name = (yield from reader.read_up_to(_END_OF_NAME)).strip("\"': \t")
    is_cut = context.is_known(name) and (yield from reader.is_next("{"))
    name = name.removeprefix("call:") if is_cut else name
    if not name or not (is_cut or (yield from reader.skip(">"))):
        return None
    yield from reader.skip_space()
    if (yield from reader.is_next("{")):
        return (yield from read_json_arguments(reader, context, name, closers))
    if not (yield from reader.peek_literal((*tags.value_openers, *closers))):
        return None
    reader.commit()
    return (yield from read_values(reader, context, name, tags))


def read_pair_call(reader: Reader, context: ReadContext, tags: TagSyntax) -> Parsing[ParsedCalls]:
    """Read the name of a tool and pairs of keys and values."""
    name = yield from read_tool_name(reader)
    yield from reader.skip_space()
    following = yield from reader.peek_literal((*tags.value_openers, *tags.call_closers, *tags.name_ends))
    if not name or not following:
        return None
    if following in tags.call_closers and reader.is_mid_line and not context.is_known(name):
        return None  # a sentence about the tags
    reader.commit()
    reader.take(len((yield from reader.peek_literal(tags.name_ends))))
    return (yield from read_values(reader, context, name, tags))


def pair_body(tags: TagSyntax) -> Body:
    """Return the body that is the name of a tool and pairs of keys and values."""

    def read(reader: Reader, context: ReadContext, _closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
        yield from reader.skip_space()
        return (yield from read_pair_call(reader, context, tags))

    return read
