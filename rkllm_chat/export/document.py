"""A talk as one JSON document, for programs: `session`, `title`, `setup`, and `turns`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ..clean import clean_json
from ..language import Words
from ..records import Entry, write
from .turns import Called, Forgotten, Part, Said, Shortened, Thinking, Told, Turn, Unreadable

TYPE_WORDS: dict[type[Part], str] = {
    Said: "text",
    Thinking: "thought",
    Called: "call",
    Unreadable: "unreadable_call",
    Forgotten: "forgotten",
    Shortened: "shortened",
}


def write_json(told: Told, _words: Words) -> str:
    setup = write(Entry(0, told.setup))
    kept = {key: value for key, value in setup.items() if key not in ("kind", "at")}
    turns = [describe(turn, told) for turn in told.turns]
    document = {"session": told.name, "title": told.title, "setup": kept, "turns": turns}
    return clean_json(json.dumps(document, ensure_ascii=False, indent=2, default=str)) + "\n"


def describe(turn: Turn, told: Told) -> dict[str, Any]:
    parts = [{"type": TYPE_WORDS[type(part)], **asdict(part)} for part in turn.parts]
    return {**asdict(turn), "at": told.moment(turn.at).isoformat(timespec="seconds"), "parts": parts}
