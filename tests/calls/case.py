"""What a case is: a reply as an engine gives it, and what must be seen in it. It knows no reader of replies.

The rule of comparison is `comparable`: two lists of events mean the same when theirs are equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from rkllm_chat.core.events import CallFound, CallUnreadable, Fault, Text, Thought
from rkllm_chat.core.messages import ToolCall

Seen = Text | Thought | CallFound | CallUnreadable

TOOLS = frozenset(
    {
        "get_tide",
        "get_weather",
        "write_file",
        "set_light",
        "search",
        "run_query",
        "add_numbers",
        "board__get_time",
    }
)
"""The tools that are known in every case. Any other name is a call only behind an explicit marker."""


@dataclass(frozen=True)
class Case:
    """`format` is the form that the model is known to write, a row's name; "" where the model is unknown.

    `starts_in_thought`: the prompt has already opened <think>.
    """

    name: str
    text: str
    wanted: tuple[Seen, ...]
    format: str = ""
    starts_in_thought: bool = False


@dataclass(frozen=True)
class Row:
    """Writes cases of one format, whose name stands before theirs."""

    format: str

    def __call__(self, name: str, text: str, *wanted: Seen, starts_in_thought: bool = False) -> Case:
        return Case(f"{self.format or 'unknown model'}: {name}", text, wanted, self.format, starts_in_thought)

    def prose(self, name: str, text: str) -> Case:
        """A reply without any call, which is shown as it is."""
        return self(name, text, Text(text))


def call(name: str, /, *repairs: str, **arguments: object) -> CallFound:
    return CallFound(ToolCall(name, arguments, repairs))


def said(text: str) -> Text:
    return Text(text)


def thought(text: str) -> Thought:
    return Thought(text)


def garbled(fault: Fault) -> CallUnreadable:
    return CallUnreadable(fault, "", "")


TIDE = call("get_tide", harbour="Husum")
TIDE_JSON = '{"name": "get_tide", "arguments": {"harbour": "Husum"}}'
OSLO = call("get_weather", city="Oslo", days=3)
OSLO_JSON = '{"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}}'
CUT = garbled("truncated")
BAD_JSON = garbled("bad_json")


def tide(*repairs: str) -> CallFound:
    """The tide at Husum, read after these repairs."""
    return call("get_tide", *repairs, harbour="Husum")


def comparable(events: Iterable[object]) -> list[tuple[str, ...]]:
    """Events as what counts of them, each a kind and texts.

    Neighbouring Texts, and neighbouring Thoughts, are one; white space around them does not count, and a blank one is
    none. Of a call the name, the arguments by value and type, and the set of repairs count; of a garbled one the fault.
    """
    found: list[tuple[str, ...]] = []
    for kind, group in groupby(events, type):
        members = list(group)
        if kind in (Text, Thought):
            text = "".join(event.text for event in members if isinstance(event, Text | Thought)).strip()
            found += [(kind.__name__, text)] if text else []
        else:
            found += [of_call(event) for event in members if isinstance(event, CallFound | CallUnreadable)]
    return found


def of_call(event: CallFound | CallUnreadable) -> tuple[str, ...]:
    """What counts of a call. JSON text tells 1, 1.0 and true apart, which are equal in Python."""
    if isinstance(event, CallUnreadable):
        return ("CallGarbled", event.fault)
    call = event.call
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False, sort_keys=True)
    return ("CallFound", call.name, arguments, *sorted(set(call.repairs)))
