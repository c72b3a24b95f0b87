"""Records of a session file and the reconstruction of a conversation from them. Opens no file.

A session is a UTF-8 text file with one JSON object per line. Every line has `kind` and `at`, the time in UTC
(`2026-11-20T17:30:32.123Z`). The file only grows: undone messages stay in it and a later record marks them. Readers
skip lines that they cannot parse and members that they do not know. FORMAT is the `format` of a setup. Media are files
beside the session, named by their hash (`session_files`).

| kind    | members | written |
|---------|---------|---------|
| setup   | `format`, `program` (its version), `model`, `backend`, `template`, `context_tokens`, `folder` (the working folder), `prompt` (hash of the system message), `settings` (chat, generation, policy; nothing of servers), `tools` (list of `name`, `server`, `description`, `schema`, `read_only`, `idempotent`, `trusted`, `hash`), `copy_of` (a session, or ""), `family`, `asks` (the tool-call format requested in the prompt), `accepts` (the formats of the family) | before the first message, and before a user message if any of it changed |
| message | `role` (user, assistant, tool), `text`, `result` (null, or `server`, `tool`, `arguments`, `status`, `text`, `seconds`, `structured`, `user_text`, `media`, and `decline_reason` of a declined call), `more` (null, or the arguments of the call that returns more of the result), `tools` (tool signatures shown to the model before it), `hint` (the sentence shown behind it; left out if there is none), `media` (list of `kind`, `media_type`, `sha256`, `size_bytes`, `width`, `height`, `name`, `position`, `user_only`; left out if there is none) | when it is added to the history; `text` is what the model reads |
| usage   | `prompt_tokens`, `reused_tokens`, `prefilled_tokens`, `generated_tokens`, `prefill_s`, `generate_s`, `first_token_s`, `hit_limit`, `was_repeating` | after each reply of the model; all zero if it was stopped or failed |
| turn    | `reason` (answered, steps, stopped, length, repetition, failed), `error` | at the end of a turn; then the file is synced |
| forgot  | `first_shown`, `turns`, `kept` | from here on the model sees the first `kept` messages and those from `first_shown` on: `turns` turns fewer than before |
| title   | `title` (a line, or "" for the first user message) | when the user renames the session |
| edit    | `start`, `stop`, `messages` (as in message) | messages `start` to `stop` of the history were replaced by these: by none for undo, by a summary for compaction |
"""  # noqa: E501

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ..core.events import Reason, Usage
from ..core.messages import Media, Message, Tool, ToolResult, to_table

FORMAT = 1
"""Version of the file format."""
_MAX_NUMBER = 1e9

End = Literal[Reason, "failed"]
"""How a turn ended."""


@dataclass(frozen=True)
class Setup:
    """The configuration under which the conversation continues.

    Attributes:
        program: Version of the program.
        model: Path or URL of the model.
        backend: Name of the backend.
        template: Name of the chat template.
        context_tokens: Size of the context window.
        folder: Working directory.
        prompt: Hash of the system message.
        settings: Chat, generation and policy settings; no servers.
        tools: Tools available to the model.
        copy_of: Session that this one was copied from, or "".
        family: Family of the model.
        asks: Tool-call format requested in the prompt.
        accepts: Tool-call formats of the family.
        format: Version of the file format.
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
class TurnFinished:
    """A turn ended; `error` says why it failed."""

    reason: End
    error: str = ""


@dataclass(frozen=True)
class ContextTrimmed:
    """The visible history was trimmed to fit the context window.

    From here on the model sees the first `retained_count` messages and the history from `first_shown` on, `turns` turns
    fewer than before.
    """

    first_shown: int
    turns: int
    retained_count: int = 0


@dataclass(frozen=True)
class HistoryEdited:
    """Messages `start` to `stop` of the history were replaced by `messages`."""

    start: int
    stop: int
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True)
class SessionTitle:
    """The user named the session; "" stands for its first user message again."""

    title: str


Record = Setup | Message | Usage | TurnFinished | ContextTrimmed | HistoryEdited | SessionTitle
OnRecord = Callable[[Record], None]

RECORD_TYPES: dict[str, type[Record]] = {
    "setup": Setup,
    "message": Message,
    "usage": Usage,
    "turn": TurnFinished,
    "forgot": ContextTrimmed,
    "edit": HistoryEdited,
    "title": SessionTitle,
}
"""Value of member `kind` -> record class."""
_TYPE_HINTS = {kind: get_type_hints(kind) for kind in (*RECORD_TYPES.values(), Tool, ToolResult, Media)}
_FORMER_NAMES: dict[type[Any], dict[str, str]] = {
    ContextTrimmed: {"retained_count": "kept"},
    Message: {"tool_lines": "tools", "call_request": "hint"},
}
"""Members of records -> what earlier builds called them."""
_KIND_OF = {kind: name for name, kind in RECORD_TYPES.items()}


@dataclass(frozen=True)
class LogEntry:
    """A record and its time in seconds since 1970."""

    at: float
    record: Record


@dataclass(frozen=True)
class RestoredConversation:
    """A conversation rebuilt from a session.

    The model sees the first `retained_count` messages of the history and those from `first_shown` on.

    Attributes:
        history: The whole history.
        first_shown: Index of the first visible message after the retained beginning.
        setup: The newest setup; None if there is none.
        retained_count: Number of messages retained at the beginning.
    """

    history: tuple[Message, ...] = ()
    first_shown: int = 0
    setup: Setup | None = None
    retained_count: int = 0


def discard_record(_record: Record) -> None:
    """Discard a record; the default where no session is saved."""


def rebuild_conversation(entries: Iterable[LogEntry]) -> RestoredConversation:
    """Rebuild the conversation from its records: apply edits and trims, find the newest setup."""
    history: list[Message] = []
    setup: Setup | None = None
    first_shown = retained_count = 0
    for entry in entries:
        match entry.record:
            case Setup() as newer:
                setup = newer
            case Message() as message:
                history.append(message)
            case HistoryEdited(start, stop, messages):
                history[start:stop] = messages
                if start < first_shown + (not messages):  # taken back: what was left out may fit again
                    first_shown = retained_count = 0
            case ContextTrimmed(first, _, retained):
                first_shown = min(first, len(history))
                retained_count = min(retained, first_shown)
            case _:
                pass
    return RestoredConversation(tuple(history), first_shown, setup, retained_count)


def find_undone_records(records: Sequence[Record]) -> set[int]:
    """Return the indices of records of undone messages and of their costs."""
    places: list[int | None] = []
    undone: set[int] = set()
    for index, record in enumerate(records):
        if isinstance(record, Message):
            places.append(index)
        elif isinstance(record, HistoryEdited):
            if not record.messages:
                undone |= {place for place in places[record.start : record.stop] if place is not None}
            places[record.start : record.stop] = [None] * len(record.messages)
    end_records = {i for i, record in enumerate(records) if isinstance(record, Usage | TurnFinished)}
    for index in range(1, len(records)):  # a cost is undone with its reply, the end of a turn with the record before it
        if index in end_records and index - 1 in undone:
            undone.add(index)
    return undone


def write_entry(entry: LogEntry) -> dict[str, Any]:
    """Convert an entry to the JSON object of its line."""
    moment = datetime.fromtimestamp(entry.at, timezone.utc).isoformat(timespec="milliseconds")
    body = to_table(entry.record)
    if isinstance(entry.record, Setup):
        body["tools"] = [{**asdict(tool), "hash": hash_tool(tool)} for tool in entry.record.tools]
    return {"kind": _KIND_OF[type(entry.record)], "at": moment.replace("+00:00", "Z"), **body}


def map_media(entry: LogEntry, change: Callable[[Media], Media]) -> LogEntry:
    """Return an entry with a function applied to each medium in it; the entry itself if it has none."""

    def map_message(message: Message) -> Message:
        if not message.media and not (message.result and message.result.media):
            return message
        result = message.result and replace(message.result, media=tuple(map(change, message.result.media)))
        return replace(message, media=tuple(map(change, message.media)), result=result)

    match entry.record:
        case Message() as message:
            changed: Record = map_message(message)
        case HistoryEdited(_, _, messages) as edited:
            mapped = tuple(map(map_message, messages))
            changed = edited if all(map(operator.is_, mapped, messages)) else replace(edited, messages=mapped)
        case _:
            return entry
    return entry if changed is entry.record else replace(entry, record=changed)


def read_entry(table: Any) -> LogEntry:
    """Parse the JSON object of a line.

    Raises:
        ValueError: The object is not a record, or a member has the wrong type.
    """
    kind = table.get("kind") if isinstance(table, dict) else None
    if not isinstance(kind, str) or kind not in RECORD_TYPES:
        raise ValueError("not a record")
    at = datetime.fromisoformat(_decode(str, table.get("at")).replace("Z", "+00:00"))
    if not 1 < at.year < 9999:  # in another time zone it could be the year 0 or 10000, which no date can have
        raise ValueError("no time of a session")
    return LogEntry(at.timestamp(), _build(RECORD_TYPES[kind], table))


def _build(kind: type[Any], table: Any) -> Any:
    """Build a dataclass from a JSON object; unknown members are ignored.

    Raises:
        ValueError: A member is missing or has the wrong type.
    """
    if not isinstance(table, dict):
        raise ValueError(f"not a {kind.__name__}")
    former = _FORMER_NAMES.get(kind, {})
    table = {**{name: table[old] for name, old in former.items() if old in table}, **table}
    values = {name: _decode(hint, table[name]) for name, hint in _TYPE_HINTS[kind].items() if name in table}
    try:
        return kind(**values)
    except TypeError as error:  # a required member is missing
        raise ValueError(str(error)) from None


def _decode(kind: Any, value: Any) -> Any:
    """Convert a JSON value to the type of a record's field.

    Args:
        kind: Scalar, literal, mapping, tuple of one type, dataclass, `Any`, or one of these or None.
        value: The value.

    Raises:
        ValueError: The value does not have that type.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is UnionType:
        return None if value is None else _decode(arguments[0], value)
    if origin is tuple and isinstance(value, list):
        return tuple(_decode(arguments[0], item) for item in value)
    if origin is Mapping and isinstance(value, dict):
        return value
    if origin is Literal and value in arguments:
        return value
    if kind in _TYPE_HINTS:
        return _build(kind, value)
    if kind in _SCALARS and _SCALARS[kind](value):
        return kind(value)
    raise ValueError(f"not a {kind}: {value!r:.80}")


_SCALARS: dict[Any, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: lambda value: type(value) is int and value >= 0,
    float: lambda value: type(value) in (int, float) and 0 <= value < _MAX_NUMBER,
}
"""Type -> whether a JSON value is one; all numbers of a session are counts or durations."""


def hash_tool(tool: Tool) -> str:
    """Return a hash of what the model reads about a tool."""
    return hash_text(json.dumps([tool.full_name, tool.description, tool.schema], sort_keys=True, default=str))


def hash_text(text: str) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()[:16]
