"""Read off a chat template how its model writes calls: a call with known names and values is rendered and found again.

The literals around them give a layout of one of the kinds that there are, and so a row of FORMATS. A template of
another kind gives none: whatever is derived must read what the template has rendered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from ..core.events import CallFound, Text
from .formats import CONTROL_TOKENS, FORMATS, TURN_OPENERS, Format
from .formats.layout import Arguments, Layout, gemma_call, json_call, named_call, python_call
from .formats.tag_syntax import TagSyntax, tagged_call
from .scanner import Scanner

Render = Callable[[Mapping[str, Any]], str]
"""Renders a chat template with variables; "" if it rejects them."""

_NAME, _OTHER_NAME = "zqfirsttool", "zqothertool"
_QUESTION, _ANSWER, _RESULT = "zqquestion", "zqanswer", "zqresult"
_KEY, _TEXT, _OTHER_KEY, _NUMBER = "zqfirst", "zqtext", "zqsecond", 735142
_ARGUMENTS = {_KEY: _TEXT, _OTHER_KEY: _NUMBER}
_ID, _OTHER_ID = "000000000", "a1B2c3D4e"
"""Mistral's templates reject ids of another length."""

_SIGN = re.compile(r"<[^<>\s]{2,}>|\[[A-Z_]{3,}\]")
_OPENER = re.compile(r"<[^<>\s]{3,}|\[[A-Z_]{3,}\]")
"""What may begin a call: no text that an answer contains."""
_PYTHON = re.compile(rf"""{_NAME}\({_KEY}=(["']){_TEXT}\1, ?{_OTHER_KEY}={_NUMBER}\)""")
_GEMMA = re.compile(rf"call:{_NAME}\{{{_KEY}:(\S{{1,16}}?){_TEXT}\1,{_OTHER_KEY}:{_NUMBER}\}}")
_MAX_LENGTH = 2048
"""Maximum length of a reply that is looked at, in characters; the author of a template decides what it writes."""


def derive_format(template: str, render: Render, known: Sequence[Format], has_calls: bool) -> Format | None:
    """Return what a chat template tells about calls, results and the ends of turns; None if it tells nothing new.

    Its layout is empty if calls are of no kind that there is, or are known.

    Args:
        template: The text of the template, after which the format is named.
        render: Renders it.
        known: The formats that its models are known to write.
        has_calls: Whether how they write calls is known.
    """
    if "tool_calls" not in template:
        return None
    replies = _render_replies(render, _ARGUMENTS) or _render_replies(render, json.dumps(_ARGUMENTS))
    if not replies:
        return None
    controls = {*CONTROL_TOKENS, *(mark for call_format in known for mark in call_format.control_tokens)}
    openers = (*TURN_OPENERS, *(mark for call_format in known for mark in call_format.result_openers))
    ends = (sign for sign in _SIGN.findall(replies.end) if sign.startswith(("<|", "<｜")) and sign not in controls)
    call_format = Format(
        f"template-{sha256(template.encode()).hexdigest()[:8]}",
        (None if has_calls else _find_layout(replies)) or Layout("", Arguments()),
        control_tokens=tuple(dict.fromkeys(ends)),
        result_openers=tuple(sign for sign in replies.result_openers if not sign.startswith(openers)),
    )
    return call_format if call_format.layout.call or call_format.control_tokens or call_format.result_openers else None


@dataclass(frozen=True)
class _Replies:
    """What a template renders.

    Attributes:
        one: A reply with one call.
        two: A reply with two calls; "" if the template renders only one.
        end: What ends a turn.
        result_openers: What stands between a call and its result, and nowhere in a reply.
    """

    one: str
    two: str
    end: str
    result_openers: tuple[str, ...]


def _render_replies(render: Render, arguments: Any) -> _Replies | None:
    """Render calls with these arguments; None if they are not shown."""

    def converse(*messages: Mapping[str, Any], is_open: bool = False) -> str:
        functions = [{"name": name, "description": "", "parameters": _SCHEMA} for name in (_NAME, _OTHER_NAME)]
        tools = [{"type": "function", "function": function} for function in functions]
        said = [{"role": "user", "content": _QUESTION}, *messages]
        tokens = {"bos_token": "", "eos_token": ""}
        return render({"messages": said, "tools": tools, "add_generation_prompt": is_open, **tokens})

    def call(*names: str) -> Mapping[str, Any]:
        functions = [{"name": name, "arguments": arguments} for name in names]
        calls = [{"id": _ID, "type": "function", "function": function} for function in functions]
        return {"role": "assistant", "content": "", "tool_calls": calls}

    one = converse(call(_NAME))
    if _NAME not in one:
        return None
    prompt, two = converse(is_open=True), converse(call(_NAME, _OTHER_NAME))
    answered = converse({"role": "assistant", "content": _ANSWER})
    begun = len(_before_sign(_common_beginning(prompt or answered, one)))
    before_answer, _, after_answer = answered[begun:].rpartition(_ANSWER)
    if one.startswith(before_answer, begun):  # an empty thought
        begun += len(before_answer)
    behind_call = one.rpartition(str(_NUMBER))[2]
    end = _find_end(behind_call, after_answer)
    reply = one[begun : len(one) - len(end)]
    if _NAME not in reply or _TEXT not in reply or len(reply) > _MAX_LENGTH:
        return None
    result = {"role": "tool", "name": _NAME, "tool_call_id": _ID, "content": _RESULT}
    both, is_shown, _ = converse(call(_NAME), result).rpartition(_RESULT)
    between = both.rpartition(str(_NUMBER))[2].removeprefix(behind_call.removesuffix(end)) if is_shown else ""
    openers = [sign for sign in _SIGN.findall(between) if sign not in one and not sign.startswith("</")]
    second = two[begun : len(two) - len(end)] if _OTHER_NAME in two[begun:] else ""
    return _Replies(reply.strip(), second.strip(), end, tuple(dict.fromkeys(openers)))


_SCHEMA = {"type": "object", "properties": {_KEY: {"type": "string"}, _OTHER_KEY: {"type": "integer"}}}


def _common_beginning(first: str, second: str) -> str:
    differing = (at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other)
    return first[: next(differing, min(len(first), len(second)))]


def _before_sign(text: str) -> str:
    """Return a text without the sign that begins at its end."""
    for begin, end in ("<>", "[]"):
        at = text.rfind(begin)
        if at > text.rfind(end):
            text = text[:at]
    return text


def _common_end(first: str, second: str) -> str:
    """Return the common end of two texts, without the sign that ends at its beginning."""
    end = _common_beginning(first[::-1], second[::-1])[::-1]
    at = end.find("<")
    return end[at:] if 0 <= end.find(">") < at else end


def _find_end(behind_call: str, behind_answer: str) -> str:
    """Return what ends the turn behind a call: what it has in common with an answer, or what is known to end one."""
    common = _common_end(behind_call, behind_answer)
    ends = [behind_call.find(token) for token in _known_ends()]
    if _SIGN.match(common):
        ends.append(len(behind_call) - len(common))
    return behind_call[min((end for end in ends if end >= 0), default=len(behind_call)) :]


@cache
def _known_ends() -> tuple[str, ...]:
    further = (
        mark for call_format in FORMATS.values() for mark in (*call_format.control_tokens, *call_format.result_openers)
    )
    return (*CONTROL_TOKENS, *TURN_OPENERS, *(mark for mark in further if mark.startswith("<")))


def _find_layout(replies: _Replies) -> Layout | None:
    """Return the layout of the first kind that reads what was rendered."""
    for find in (_find_json, _find_named, _find_gemma, _find_python, _find_tagged):
        layout = None
        with suppress(ValueError):  # its marks are words
            layout = find(replies)
        if layout and _OPENER.match(layout.opener) and _reads(layout, replies):
            return layout
    return None


def _reads(layout: Layout, replies: _Replies) -> bool:
    """Tell whether a layout reads the rendered calls, and what it writes itself."""
    call_format = Format("", layout)
    texts = {replies.one: 1, replies.one.replace(_ID, _OTHER_ID): 1, replies.two: 2}
    texts[call_format.render_call(_NAME, _ARGUMENTS)] = 1
    for text, count in texts.items():
        scanner = Scanner([call_format], lambda name: name in (_NAME, _OTHER_NAME))
        events = [*scanner.feed(text), *scanner.close()]
        events = [event for event in events if not (isinstance(event, Text) and event.text.isspace())]
        calls = [event.call for event in events if isinstance(event, CallFound)]
        wanted = [(name, {key: str(value) for key, value in _ARGUMENTS.items()}) for name in (_NAME, _OTHER_NAME)]
        read = [(call.name, {key: str(value) for key, value in call.arguments.items()}) for call in calls]
        if text and (len(events) != len(calls) or read != wanted[:count] or any(call.repairs for call in calls)):
            return False
    return True


@dataclass(frozen=True)
class _Around:
    """What stands around the core of a call, which begins and ends with what differs between calls.

    Attributes:
        before: What precedes the first call of a group.
        begin: What begins each call.
        end: What ends each call.
        after: What follows the last call of a group.
    """

    before: str
    begin: str
    end: str
    after: str

    @property
    def whole(self) -> tuple[str, str]:
        """What stands around a call that has marks of its own, else around the group."""
        if _SIGN.search(self.begin):
            return self.begin, self.end
        return self.before + self.begin, self.end + self.after


def _look_around(replies: _Replies, core: str) -> _Around:
    """Compare one call with two, which shows what belongs to each and what to their group."""
    before, _, after = replies.one.partition(core)
    _, is_there, behind = replies.two.partition(core)
    between, is_second, _ = behind.partition(core.replace(_NAME, _OTHER_NAME))
    if not is_there or not is_second:
        return _Around("", before, after, "")
    begin = _common_end(before, between)
    end = _before_sign(_common_beginning(after, between[: len(between) - len(begin)]))
    return _Around(before[: len(before) - len(begin)], begin, end, after[len(end) :])


def _find_object(text: str, begin: int, is_wanted: Callable[[Any], bool]) -> str:
    """Return the first JSON object behind a place that is wanted; "" if there is none."""
    for match in re.finditer(r"\{", text):
        if match.start() >= begin:
            try:
                value, end = json.JSONDecoder().raw_decode(text, match.start())
            except ValueError:
                continue
            if is_wanted(value):
                return text[match.start() : end]
    return ""


def _find_json(replies: _Replies) -> Layout | None:
    """Read off calls that are one JSON object, name and all."""
    core = _find_object(replies.one, 0, lambda value: _NAME in (dumped := json.dumps(value)) and _TEXT in dumped)
    written = _find_object(core, 1, _ARGUMENTS.__eq__)
    if not written:
        return None
    keys = {value: key for key, value in json.loads(core).items() if isinstance(value, str)}
    arguments = next((key for key, value in json.loads(core).items() if value == _ARGUMENTS), "")
    call = core.replace(written, "ARGUMENTS").replace(json.dumps(_NAME), "NAME")
    if _NAME in keys and arguments:  # other members, such as an id, are left out
        call = f'{{"{keys[_NAME]}": NAME, "{arguments}": ARGUMENTS}}'
    return json_call(*_look_around(replies, core).whole, call)


def _find_named(replies: _Replies) -> Layout | None:
    """Read off calls that name the tool before the JSON of its arguments."""
    at = replies.one.find(_NAME)
    written = _find_object(replies.one, at, _ARGUMENTS.__eq__)
    if not written:
        return None
    between = replies.one[at + len(_NAME) :].partition(written)[0]
    around = _look_around(replies, f"{_NAME}{between}{written}")
    if not around.begin.strip():
        return None
    return named_call(f"{around.begin}NAME{between}ARGUMENTS{around.end}", around.before, around.after)


def _find_python(replies: _Replies) -> Layout | None:
    """Read off calls in Python."""
    found = _PYTHON.search(replies.one)
    return python_call(*_look_around(replies, found[0]).whole) if found else None


def _find_gemma(replies: _Replies) -> Layout | None:
    """Read off calls in Gemma's notation."""
    found = _GEMMA.search(replies.one)
    if not found:
        return None
    around = _look_around(replies, found[0])
    return gemma_call(around.begin, found[1], around.end)


def _find_tagged(replies: _Replies) -> Layout | None:
    """Read off calls with each value in a tag."""
    core, number, _ = replies.one[replies.one.find(_NAME) :].partition(str(_NUMBER))
    head, _, behind_key = core.removeprefix(_NAME).partition(_KEY)
    before_value, _, behind_text = behind_key.partition(_TEXT)
    between, _, is_whole = behind_text.partition(_OTHER_KEY)
    if not is_whole:
        return None
    around = _look_around(replies, core + number)
    opening = _common_end(head, between).lstrip()
    closing = between[: len(between) - len(opening)]
    ending = around.end.removeprefix(closing if around.end.startswith(closing) else closing.rstrip())
    wrapper, mark, begin = around.begin.rpartition("<")
    if not (mark and opening and closing.strip() and ending.strip()) or ending == around.end:
        return None
    call = _join_name(f"<{begin}", "NAME", head[: len(head) - len(opening)]).rstrip("\n")
    typed = re.sub('"string"', '"TYPE"', re.sub('"true"', '"IS_TEXT"', before_value))
    value = f"{_join_name(opening, 'KEY', typed)}VALUE{closing}"
    before = around.before or wrapper
    is_common = not before and begin.endswith('="')
    tags = TagSyntax(call, value, ending.strip(), is_trimmed="\nVALUE\n" in value, is_common=is_common)
    layout = tagged_call(tags, before, around.after)
    return layout if bool(layout.before) == bool(layout.after.strip()) else None


def _join_name(before: str, name: str, after: str) -> str:
    """Return a tag with the place of a name in it; the quotation marks of an attribute are part of the name."""
    return (
        f"{before[:-1]}{name}{after[1:]}" if before.endswith('="') and after.startswith('"') else before + name + after
    )


def find_equal_row(call_format: Format) -> Format:
    """Return the first row of FORMATS that writes calls as a derived one does, white space aside."""

    def write(call_format: Format) -> str:
        return "".join(call_format.render_call(_NAME, _ARGUMENTS).split())

    return next(row for row in FORMATS.values() if write(row) == write(call_format))
