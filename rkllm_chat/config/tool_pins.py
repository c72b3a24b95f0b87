"""Pin the tool descriptions of a server: tools that change later are quarantined until the user accepts them.

A pin covers everything that a model reads about a tool and that affects approval: name, title, description, schemas and
annotations. The first contact pins the current tools (trust on first use).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ..core.errors import ProtocolError
from .project_trust import TrustStore, describe_start, hash_value, may_change_tools
from .servers import ServerConfig

if TYPE_CHECKING:
    Told = dict[str, Any]
    """Pinned fields of a tool, with the keys of a tools/list entry."""
    Held = Literal["changed", "new"]

_ANNOTATION_KEYS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "title")
_MAX_TEXT_LENGTH = 64 * 1024
_MAX_DESCRIPTION_LENGTH = 10_000


class ToolPins:
    """Pinned tools of one server. Pins of tools that disappear are retained, since they may return."""

    def __init__(self, trust_store: TrustStore, server: ServerConfig) -> None:
        self._trust_store, self._server = trust_store, server

    def _read(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the server's record and its pins.

        The pins are None before the first contact with this configuration of the server.
        """
        record = self._trust_store.read_record(self._server) if self._trust_store.has_records() else {}
        is_same_start = record.get("pinned") == hash_value(describe_start(self._server))
        pins = record.get("tools") if is_same_start else None
        return record, pins if isinstance(pins, dict) else None

    def has_pins(self) -> bool:
        """Return whether tools of this server are checked against stored pins."""
        return not may_change_tools(self._server) and self._trust_store.has_records() and self._read()[1] is not None

    def find_changes(self, tools: Mapping[str, Told]) -> dict[str, Held]:
        """Compare tools with the pins without changing anything.

        Args:
            tools: Pinned fields by tool name, from `extract_pinned_fields`.

        Returns:
            The quarantined tools and why; empty if nothing is pinned yet.
        """
        if may_change_tools(self._server) or not self._trust_store.has_records():
            return {}
        pins = self._read()[1]
        return {} if pins is None else _compare(pins, tools)

    def pin_on_first_use(self, tools: Mapping[str, Told]) -> dict[str, Held]:
        """Trust on first use: pin all tools if none are pinned yet, else return the new or changed tools.

        For trusted servers, update the pins silently and return nothing.
        """
        _, pins = self._read()
        if may_change_tools(self._server):
            if pins is not None and _compare(pins, tools):
                self.pin_tools(tools)
            return {}
        if pins is None and tools:
            self.pin_tools(tools)
        return {} if pins is None else _compare(pins, tools)

    def pin_tools(self, tools: Mapping[str, Told]) -> None:
        """Pin the tools as they are now."""
        record, pins = self._read()
        pins = {**(pins or {}), **{name: _make_pin(fields) for name, fields in tools.items()}}
        start = hash_value(describe_start(self._server))
        self._trust_store.write_record(self._server, {**record, "pinned": start, "tools": pins})

    def accepted_text(self, name: str) -> str:
        """Return the accepted description of a tool; "" if it is new."""
        pin = (self._read()[1] or {}).get(name)
        return str(pin.get("text", "")) if isinstance(pin, dict) else ""


def _compare(pins: Mapping[str, Any], tools: Mapping[str, Told]) -> dict[str, Held]:
    quarantined: dict[str, Held] = {}
    for name, fields in tools.items():
        pin = pins.get(name)
        if pin is None:
            quarantined[name] = "new"
        elif not isinstance(pin, dict) or pin.get("hash") != hash_value(fields):
            quarantined[name] = "changed"
    return quarantined


def _make_pin(fields: Told) -> dict[str, str]:
    return {"hash": hash_value(fields), "text": _render(fields)[:_MAX_TEXT_LENGTH]}


def extract_pinned_fields(entry: Mapping[str, Any]) -> Told:
    """Extract the pinned fields from a tools/list entry.

    The result is the same for a complete entry and for one as the chat reads it: with an overlong description truncated
    and without the regular expressions of its output schema.
    """
    pinned = {key: entry.get(key) for key in ("name", "title", "description", "inputSchema", "outputSchema")}
    if isinstance(pinned["description"], str):
        pinned["description"] = truncate_description(pinned["description"])
    if pinned["outputSchema"]:
        from ..calls.schema.resolve import remove_patterns

        pinned["outputSchema"] = remove_patterns(pinned["outputSchema"])
    hints = entry.get("annotations")
    hints = {key: hints.get(key) for key in _ANNOTATION_KEYS} if isinstance(hints, dict) else {}
    pinned["annotations"] = {key: value for key, value in hints.items() if value is not None}
    return {key: value for key, value in pinned.items() if value not in (None, {}, "")}


def truncate_description(text: str) -> str:
    """Truncate a description to the length that a model receives; idempotent."""
    return f"{text[:_MAX_DESCRIPTION_LENGTH]}…" if len(text) > _MAX_DESCRIPTION_LENGTH else text


def _render(fields: Told) -> str:
    """Render pinned fields as lines for people and for diffs."""
    lines = []
    for key in ("title", "description"):
        lines += [f"{key}: {line}" for line in str(fields.get(key, "")).splitlines()]
    for key in ("inputSchema", "outputSchema", "annotations"):
        if key in fields:
            lines += [f"{key}:", *json.dumps(fields[key], ensure_ascii=False, indent=1, sort_keys=True).splitlines()]
    return "\n".join(lines)


def diff_accepted_text(before: str, fields: Told) -> list[str]:
    """Return the diff between the accepted description and the current one, without file headers."""
    from difflib import unified_diff

    lines = unified_diff(before.splitlines(), _render(fields).splitlines(), lineterm="", n=2)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def quarantine_error(server: str, tool: str, why: Held) -> ProtocolError:
    """Build the error for a call to a quarantined tool."""
    what = "is new" if why == "new" else "has changed"
    return ProtocolError(
        f'The tool "{tool}" of server "{server}" {what} since you accepted its tools, so it was not called.',
        f"/mcp review {server} in the chat, or rkllm-chat mcp trust {server}, shows the change and asks you.",
        server=server,
        tool=tool,
        accept=f"rkllm-chat mcp trust {server}",
    )
