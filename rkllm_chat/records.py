"""The records of a session: what its file holds line by line, and how a talk is rebuilt from them. It opens no file.

A session is a text file in UTF-8 with one JSON object a line. Every line has `kind` and `at`, the time in UTC
(`2026-11-20T17:30:32.123Z`). The file only grows: what was taken back stays in it, and a later record says so. Who
reads it skips lines he cannot read and members he does not know. FORMAT is the `format` of a setup.

| kind    | members | written |
|---------|---------|---------|
| setup   | `format`, `program` (its version), `model`, `backend`, `template`, `context_tokens`, `folder` (the working folder), `prompt` (hash of the system message), `settings` (chat, generation, policy; nothing of servers), `tools` (list of `name`, `server`, `description`, `schema`, `read_only`, `idempotent`, `trusted`, `hash`), `copy_of` (a session, or ""), `family`, `asks` (the form of calls that was asked for), `accepts` (the forms of the family) | before the first message, and before a user's message when something of it has changed |
| message | `role` (user, assistant, tool), `text`, `result` (null, or `server`, `tool`, `arguments`, `status`, `text`, `seconds`, `structured`), `more` (null, or the arguments of a call that shows more of the result), `tools` (lines on tools that the model was shown before it) | when it enters the history; `text` is what the model reads |
| usage   | `prompt_tokens`, `reused_tokens`, `prefilled_tokens`, `generated_tokens`, `prefill_s`, `generate_s`, `first_token_s`, `hit_limit` | behind each reply of the model; all zero when it was stopped or failed |
| turn    | `reason` (answered, steps, stopped, length, failed), `error` | when a turn has ended; then the file is synced |
| forgot  | `first_shown`, `turns`, `kept` | the model is shown the first `kept` messages and those from `first_shown` on: so many turns less than before |
| edit    | `start`, `stop`, `messages` (as in message) | messages `start` to `stop` of the history were replaced by these: none for what is undone, a summary for what is compacted |
"""  # noqa: E501

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from typing import Any, Literal, get_args

from .events import Reason, Usage
from .messages import Message, Role, Status, Tool, ToolResult

FORMAT = 1

End = Literal[Reason, "failed"]


@dataclass(frozen=True)
class Setup:
    """With what the talk goes on from here. `prompt` is a hash of the system message; `copy_of` names a session.

    `family` is that of the model, `asks` the form in which calls were asked for, `accepts` the forms of the family.
    """

    program: str = ""
    model: str = ""
    backend: str = ""
    template: str = ""
    context_tokens: int = 0
    folder: str = ""
    prompt: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tools: tuple[Tool, ...] = ()
    copy_of: str = ""
    family: str = ""
    asks: str = ""
    accepts: tuple[str, ...] = ()
    format: int = FORMAT


@dataclass(frozen=True)
class TurnDone:
    """A turn has ended; `error` says why it failed."""

    reason: End
    error: str = ""


@dataclass(frozen=True)
class Forgot:
    """The model is shown the first `kept` messages and the history from `first_shown` on, `turns` turns less than
    before."""

    first_shown: int
    turns: int
    kept: int = 0


@dataclass(frozen=True)
class Edit:
    """Messages `start` to `stop` of the history were replaced by `messages`."""

    start: int
    stop: int
    messages: tuple[Message, ...] = ()


Record = Setup | Message | Usage | TurnDone | Forgot | Edit
Keep = Callable[[Record], None]

KINDS: dict[str, type[Record]] = {
    "setup": Setup,
    "message": Message,
    "usage": Usage,
    "turn": TurnDone,
    "forgot": Forgot,
    "edit": Edit,
}
NAMES = {kind: name for name, kind in KINDS.items()}


@dataclass(frozen=True)
class Entry:
    """A record and when it was written, in seconds since 1970."""

    at: float
    record: Record


@dataclass(frozen=True)
class Talk:
    """A talk rebuilt. `history` is what the chat remembers; the model is shown the first `kept` messages of it and
    those from `first_shown` on."""

    history: tuple[Message, ...] = ()
    first_shown: int = 0
    setup: Setup | None = None
    kept: int = 0


def keep_nothing(_record: Record) -> None:
    """Where nobody keeps records."""


def rebuild(entries: Iterable[Entry]) -> Talk:
    """Plays the marks: what is left of the history, and the newest setup."""
    history: list[Message] = []
    setup: Setup | None = None
    first_shown = kept = 0
    for entry in entries:
        match entry.record:
            case Setup() as newer:
                setup = newer
            case Message() as message:
                history.append(message)
            case Edit(start, stop, messages):
                history[start:stop] = messages
                if start < first_shown + (not messages):  # taken back: what was left out may fit again
                    first_shown = kept = 0
            case Forgot(first, _, beginning):
                first_shown = min(first, len(history))
                kept = min(beginning, first_shown)
            case _:
                pass
    return Talk(tuple(history), first_shown, setup, kept)


def find_undone(records: Sequence[Record]) -> set[int]:
    """Which records are of messages that were taken back, and of what those cost."""
    places: list[int | None] = []
    undone: set[int] = set()
    for index, record in enumerate(records):
        if isinstance(record, Message):
            places.append(index)
        elif isinstance(record, Edit):
            if not record.messages:
                undone |= {place for place in places[record.start : record.stop] if place is not None}
            places[record.start : record.stop] = [None] * len(record.messages)
    ends = {i for i, record in enumerate(records) if isinstance(record, Usage | TurnDone)}
    for index in range(1, len(records)):  # a cost goes with its reply, the end of a turn with what is before it
        if index in ends and index - 1 in undone:
            undone.add(index)
    return undone


def write(entry: Entry) -> dict[str, Any]:
    """A record as the object of its line."""
    moment = datetime.fromtimestamp(entry.at, timezone.utc).isoformat(timespec="milliseconds")
    body = asdict(entry.record)
    if isinstance(entry.record, Setup):
        body["tools"] = [{**asdict(tool), "hash": hash_tool(tool)} for tool in entry.record.tools]
    return {"kind": NAMES[type(entry.record)], "at": moment.replace("+00:00", "Z"), **body}


def read(table: Any) -> Entry:
    """The record of a line. Raises ValueError where it is none, also for a value of a wrong type."""
    if not isinstance(table, dict) or table.get("kind") not in KINDS:
        raise ValueError("not a record")
    at = datetime.fromisoformat(read_value("str", table.get("at")).replace("Z", "+00:00"))
    return Entry(at.timestamp(), build(KINDS[table["kind"]], table))


def build(kind: type[Any], table: Any) -> Any:
    """A dataclass from an object: its members checked one by one, others left out. Raises ValueError."""
    if not isinstance(table, dict):
        raise ValueError(f"not a {kind.__name__}")
    values = {f.name: read_value(str(f.type), table[f.name]) for f in fields(kind) if f.name in table}
    try:
        return kind(**values)
    except TypeError as error:  # a member without a default is missing
        raise ValueError(str(error)) from None


def read_value(kind: str, value: Any) -> Any:
    fits, convert = READERS[kind]
    if not fits(value):
        raise ValueError(f"not a {kind}: {value!r:.80}")
    return convert(value)


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_list(value: Any) -> bool:
    return isinstance(value, list)


def is_texts(value: Any) -> bool:
    return is_list(value) and all(isinstance(item, str) for item in value)


READERS: dict[str, tuple[Callable[[Any], bool], Callable[[Any], Any]]] = {
    "str": (lambda value: isinstance(value, str), str),
    "int": (is_count, int),
    "float": (lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9, float),
    "bool": (lambda value: isinstance(value, bool), bool),
    "Any": (lambda _: True, lambda value: value),
    "Role": (lambda value: value in get_args(Role), str),
    "Status": (lambda value: value in get_args(Status), str),
    "End": (lambda value: value in get_args(End), str),
    "Mapping[str, Any]": (lambda value: isinstance(value, dict), dict),
    "Mapping[str, Any] | None": (lambda value: value is None or isinstance(value, dict), lambda value: value),
    "ToolResult | None": (lambda _: True, lambda value: None if value is None else build(ToolResult, value)),
    "tuple[str, ...]": (is_texts, tuple),
    "tuple[Message, ...]": (is_list, lambda value: tuple(build(Message, item) for item in value)),
    "tuple[Tool, ...]": (is_list, lambda value: tuple(build(Tool, item) for item in value)),
}


def hash_tool(tool: Tool) -> str:
    """A hash of what the model is told of a tool."""
    return hash_text(json.dumps([tool.full_name, tool.description, tool.schema], sort_keys=True, default=str))


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()[:16]
