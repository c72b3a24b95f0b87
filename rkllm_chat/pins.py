"""The tools of a server as the user knows them: one that says something else later is held back. It asks nobody.

A tool is pinned with all that a model reads of it and that decides whether it is asked about: name, title, description,
schemas and annotations. First contact accepts what is there; what comes or changes later is for the user to accept.
"""

from __future__ import annotations

import json

from .errors import ProtocolError
from .trust import Accepted, describe_start, hash_of, is_believed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

    from .config import ServerConfig

    Told = dict[str, Any]
    """What a tool says of itself, in the words of tools/list."""
    Held = Literal["changed", "new"]

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "title")
LONGEST_TEXT = 64 * 1024
LONGEST_DESCRIPTION = 10_000


class Pins:
    """The tools of one server as the user knows them. A tool that has gone is remembered: it may come back."""

    def __init__(self, accepted: Accepted, server: ServerConfig) -> None:
        self._accepted, self._server = accepted, server

    def _read(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """What is known of the server, and its pins; None before the first contact with this very server."""
        record = self._accepted.read(self._server) if self._accepted.has_any() else {}
        is_same = record.get("pinned") == hash_of(describe_start(self._server))
        pins = record.get("tools") if is_same else None
        return record, pins if isinstance(pins, dict) else None

    def are_kept(self) -> bool:
        """Whether there is anything that its tools have to be as."""
        return not is_believed(self._server) and self._accepted.has_any() and self._read()[1] is not None

    def judge(self, tools: Mapping[str, Told]) -> dict[str, Held]:
        """The tools that are held back, and why; all are good where none is known yet. It keeps nothing."""
        if is_believed(self._server) or not self._accepted.has_any():
            return {}
        pins = self._read()[1]
        return {} if pins is None else compare(pins, tools)

    def greet(self, tools: Mapping[str, Told]) -> dict[str, Held]:
        """As `judge`; at first contact what is there is pinned, and pins of a trusted server follow what it says."""
        _, pins = self._read()
        if is_believed(self._server):
            if pins is not None and compare(pins, tools):
                self.accept(tools)
            return {}
        if pins is None and tools:
            self.accept(tools)
        return {} if pins is None else compare(pins, tools)

    def accept(self, tools: Mapping[str, Told]) -> None:
        """Pins the tools as they are now."""
        record, pins = self._read()
        pins = {**(pins or {}), **{name: make_pin(told) for name, told in tools.items()}}
        start = hash_of(describe_start(self._server))
        self._accepted.write(self._server, {**record, "pinned": start, "tools": pins})

    def text_of(self, name: str) -> str:
        """What was accepted of a tool; "" for one that is new."""
        pin = (self._read()[1] or {}).get(name)
        return str(pin.get("text", "")) if isinstance(pin, dict) else ""


def compare(pins: Mapping[str, Any], tools: Mapping[str, Told]) -> dict[str, Held]:
    held: dict[str, Held] = {}
    for name, told in tools.items():
        pin = pins.get(name)
        if pin is None:
            held[name] = "new"
        elif not isinstance(pin, dict) or pin.get("hash") != hash_of(told):
            held[name] = "changed"
    return held


def make_pin(told: Told) -> dict[str, str]:
    return {"hash": hash_of(told), "text": write_out(told)[:LONGEST_TEXT]}


def read_told(entry: Mapping[str, Any]) -> Told:
    """What an entry of tools/list says that a model or a person reads, or that decides whether it is asked about.

    It is the same whether the entry came whole or as the chat reads it: with a very long description cut, and without
    the regular expressions of its output schema.
    """
    told = {key: entry.get(key) for key in ("name", "title", "description", "inputSchema", "outputSchema")}
    if isinstance(told["description"], str):
        told["description"] = cut_description(told["description"])
    if told["outputSchema"]:
        from .arguments import without_patterns

        told["outputSchema"] = without_patterns(told["outputSchema"])
    hints = entry.get("annotations")
    hints = {key: hints.get(key) for key in HINTS} if isinstance(hints, dict) else {}
    told["annotations"] = {key: value for key, value in hints.items() if value is not None}
    return {key: value for key, value in told.items() if value not in (None, {}, "")}


def cut_description(text: str) -> str:
    """A description no longer than a model is given; cutting twice is cutting once."""
    return f"{text[:LONGEST_DESCRIPTION]}…" if len(text) > LONGEST_DESCRIPTION else text


def write_out(told: Told) -> str:
    """It for people: texts as they are, the rest as JSON, in lines that can be compared."""
    lines = []
    for key in ("title", "description"):
        lines += [f"{key}: {line}" for line in str(told.get(key, "")).splitlines()]
    for key in ("inputSchema", "outputSchema", "annotations"):
        if key in told:
            lines += [f"{key}:", *json.dumps(told[key], ensure_ascii=False, indent=1, sort_keys=True).splitlines()]
    return "\n".join(lines)


def show_change(before: str, told: Told) -> list[str]:
    """What is another thing now, line by line: - was accepted, + is said now."""
    from difflib import unified_diff

    lines = unified_diff(before.splitlines(), write_out(told).splitlines(), lineterm="", n=2)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def refuse_held(server: str, tool: str, why: Held) -> ProtocolError:
    """The error of a call to a tool that is held back."""
    what = "is new" if why == "new" else "has changed"
    return ProtocolError(
        f'The tool "{tool}" of server "{server}" {what} since you accepted its tools; it was not called.',
        f"/mcp review {server} in the chat, or rkllm-chat trust {server}, shows the difference and asks.",
        server=server,
        tool=tool,
        accept=f"rkllm-chat trust {server}",
    )
