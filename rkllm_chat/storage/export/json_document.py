"""Export a conversation as one JSON document with members `session`, `title`, `setup` and `turns`."""

from __future__ import annotations

import json
from typing import Any

from ...core.events import CallUnreadable, Text, Thought
from ...core.i18n import Words
from ...core.messages import to_table
from ...core.sanitize import sanitize_json
from ..session_records import ContextTrimmed, LogEntry, write_entry
from .turns import CompactedHistory, ExportedCall, ExportedConversation, ExportedTurn, TurnPart

_PART_TYPES: dict[type[TurnPart], str] = {
    Text: "text",
    Thought: "thought",
    ExportedCall: "call",
    CallUnreadable: "unreadable_call",
    ContextTrimmed: "forgotten",
    CompactedHistory: "shortened",
}


def render_json(conversation: ExportedConversation, _words: Words) -> str:
    """Render the conversation as JSON."""
    setup = write_entry(LogEntry(0, conversation.setup))
    members = {key: value for key, value in setup.items() if key not in ("kind", "at")}
    turns = [_turn_to_json(turn, conversation) for turn in conversation.turns]
    document = {"session": conversation.name, "title": conversation.title, "setup": members, "turns": turns}
    return sanitize_json(json.dumps(document, ensure_ascii=False, indent=2, default=str)) + "\n"


def _turn_to_json(turn: ExportedTurn, conversation: ExportedConversation) -> dict[str, Any]:
    parts = [{"type": _PART_TYPES[type(part)], **to_table(part)} for part in turn.parts]
    return {**to_table(turn), "at": conversation.to_local_time(turn.at).isoformat(timespec="seconds"), "parts": parts}
