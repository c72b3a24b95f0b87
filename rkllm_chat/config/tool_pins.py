"""Pin what a server says about itself: what changes later is withheld until the user accepts it.

A pin of a tool covers everything that a model reads about it and that affects approval: name, title, description,
schemas and annotations. Instructions, prompts, resources and skills have pins too, as their texts reach the prompt. The
first contact pins what the server says now (trust on first use).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ..core.errors import ProtocolError
from .project_trust import TrustStore, describe_start, hash_value, may_change_tools
from .servers import ServerConfig

if TYPE_CHECKING:
    PinnedFields = dict[str, Any]
    """Pinned fields of a tool, with the keys of a tools/list entry."""
    QuarantineReason = Literal["changed", "new"]
    """Why a tool or a text is withheld until the user has reviewed it."""
    TextKey = tuple[str, str]
    """A section and the name of a text in it."""

_ANNOTATION_KEYS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "title")
_MAX_TEXT_LENGTH = 64 * 1024
_MAX_SECTION_LENGTH = 1024 * 1024
"""Limit of the stored texts of a section: a record that is too large to be read would count as no record."""
_MAX_DESCRIPTION_LENGTH = 10_000
INSTRUCTIONS = "instructions"
"""The section of a server's instructions, and the name of the only text in it."""
TEXT_SECTIONS = (INSTRUCTIONS, "prompts", "resources", "skills")
RESOURCE_FIELDS = ("name", "title", "description")
"""What is pinned of a resource and of a resource template, with the protocol's member names."""
_ARGUMENT_FIELDS = ("name", "title", "description", "required")
_SECTIONS = ("tools", *TEXT_SECTIONS)
CHAT_OFFERS = ("elicitation", "roots", "sampling")
"""What the chat offers to servers, with the names of MCP's client capabilities."""


class ToolPins:
    """Pinned tools of one server, or texts of another section. Pins of what disappears are retained: it may return.

    Args:
        trust_store: Where the pins are stored.
        server: The server.
        section: Which texts of it.
        offers: What the client offers to the server. It may list further tools to a client that offers more.
    """

    def __init__(
        self, trust_store: TrustStore, server: ServerConfig, section: str = "tools", offers: Collection[str] = ()
    ) -> None:
        self._trust_store, self._server, self._section, self._offers = trust_store, server, section, set(offers)

    def _read(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the server's record and its pins.

        The pins are None before the first contact with this configuration of the server.
        """
        record = self._trust_store.read_record(self._server)
        is_same_start = bool(record) and record.get("pinned") == hash_value(describe_start(self._server))
        if not is_same_start:
            record = {key: value for key, value in record.items() if key not in _SECTIONS}
        pins = record.get(self._section)
        return record, pins if isinstance(pins, dict) else None

    def has_pins(self) -> bool:
        """Return whether tools of this server are checked against stored pins."""
        return not may_change_tools(self._server) and self._read()[1] is not None

    def find_changes(self, tools: Mapping[str, PinnedFields]) -> dict[str, QuarantineReason]:
        """Compare tools with the pins without changing anything.

        Args:
            tools: Pinned fields by tool name, from `extract_pinned_fields`.

        Returns:
            The quarantined tools and why; empty if nothing is pinned yet.
        """
        if may_change_tools(self._server):
            return {}
        pins = self._read()[1]
        return {} if pins is None else _compare(pins, tools)

    def pin_on_first_use(self, tools: Mapping[str, PinnedFields]) -> dict[str, QuarantineReason]:
        """Trust on first use: pin all tools if none are pinned yet, else return the new or changed tools.

        The first time that the server is offered more, its new tools are pinned. For trusted servers, update the pins
        silently and return nothing.
        """
        unasked, withheld = self._review(tools)
        if unasked is not None:
            with self._trust_store.edit():
                unasked, withheld = self._review(tools)  # another chat may have met the server meanwhile
                if unasked is not None:
                    self._pin(unasked)
        return withheld

    def _review(
        self, tools: Mapping[str, PinnedFields]
    ) -> tuple[Mapping[str, PinnedFields] | None, dict[str, QuarantineReason]]:
        """Return the tools that are pinned without a question, None for no change, and those that are quarantined."""
        record, pins = self._read()
        if may_change_tools(self._server):
            return (tools if pins is not None and _compare(pins, tools) else None), {}
        if pins is None:
            return tools or None, {}
        withheld = _compare(pins, tools)
        if self._offers.issubset(record.get("offered", ())):
            return None, withheld
        new = {name: tools[name] for name, why in withheld.items() if why == "new"}
        return new, {name: why for name, why in withheld.items() if why == "changed"}

    def pin_tools(self, tools: Mapping[str, PinnedFields]) -> None:
        """Pin the tools as they are now."""
        with self._trust_store.edit():
            self._pin(tools)

    def _pin(self, tools: Mapping[str, PinnedFields]) -> None:
        record, pins = self._read()
        pins = {**(pins or {}), **{name: _make_pin(fields) for name, fields in tools.items()}}
        pins = _limit_texts({name: pin for name, pin in pins.items() if isinstance(pin, dict)})
        start = hash_value(describe_start(self._server))
        offered = sorted(self._offers.union(record.get("offered", ())))
        record = {**record, "pinned": start, "offered": offered, self._section: pins}
        self._trust_store.write_record(self._server, record)

    def accepted_text(self, name: str) -> str:
        """Return the accepted description of a tool; "" if it is new."""
        pin = (self._read()[1] or {}).get(name)
        return str(pin.get("text", "")) if isinstance(pin, dict) else ""


class TextPins:
    """What one server says besides its tools, and what of it is withheld.

    Attributes:
        withheld: Why each withheld text is: it is new, or it has changed.
        current: The texts as the server sent them last.
    """

    def __init__(self, trust_store: TrustStore, server: ServerConfig) -> None:
        self._trust_store = trust_store
        self._pins = {section: ToolPins(trust_store, server, section) for section in TEXT_SECTIONS}
        self.withheld: dict[TextKey, QuarantineReason] = {}
        self.current: dict[TextKey, PinnedFields] = {}

    def find_withheld(self, section: str, texts: Mapping[str, PinnedFields]) -> Mapping[str, QuarantineReason]:
        """Adopt the texts of a section and return which of them are withheld; pin them at the first contact.

        A text without content is compared with nothing: there is nothing to withhold.
        """
        withheld = self._pins[section].pin_on_first_use(texts)
        withheld = {name: why for name, why in withheld.items() if texts[name]}
        for known in (self.current, self.withheld):
            for key in [key for key in known if key[0] == section]:
                del known[key]
        self.current.update({(section, name): fields for name, fields in texts.items()})
        self.withheld.update({(section, name): why for name, why in withheld.items()})
        return withheld

    def diff_accepted(self, key: TextKey) -> list[str]:
        """Return the diff between the accepted text and the current one."""
        section, name = key
        return diff_accepted_text(self._pins[section].accepted_text(name), self.current[key])

    def accept(self) -> None:
        """Pin all texts as they are now."""
        with self._trust_store.edit():
            for section, pins in self._pins.items():
                texts = {name: fields for (of, name), fields in self.current.items() if of == section}
                if texts:
                    pins.pin_tools(texts)
        self.withheld.clear()


def _compare(pins: Mapping[str, Any], tools: Mapping[str, PinnedFields]) -> dict[str, QuarantineReason]:
    quarantined: dict[str, QuarantineReason] = {}
    for name, fields in tools.items():
        pin = pins.get(name)
        if pin is None:
            quarantined[name] = "new"
        elif not isinstance(pin, dict) or pin.get("hash") != hash_value(fields):
            quarantined[name] = "changed"
    return quarantined


def _limit_texts(pins: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the pins without the texts that exceed the limit of a section; their hashes stay."""
    limited, length = {}, 0
    for name, pin in pins.items():
        length += len(str(pin.get("text", "")))
        limited[name] = pin if length <= _MAX_SECTION_LENGTH else {**pin, "text": ""}
    return limited


def _make_pin(fields: PinnedFields) -> dict[str, str]:
    return {"hash": hash_value(fields), "text": _render(fields)[:_MAX_TEXT_LENGTH]}


def extract_pinned_fields(entry: Mapping[str, Any]) -> PinnedFields:
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


def extract_text(entry: Any, *keys: str) -> PinnedFields:
    """Return the pinned fields of an entry other than a tool's: those of `keys` that have a value, as JSON values.

    Args:
        entry: A JSON object, or an object with attributes of these names.
        keys: The fields; `name` is pinned as `label`.
    """
    values = entry if isinstance(entry, Mapping) else {key: getattr(entry, key, None) for key in keys}
    fields = {"label" if key == "name" else key: values.get(key) for key in keys}
    return {key: value for key, value in fields.items() if value not in (None, {}, [], "")}


def extract_prompt_fields(entry: Mapping[str, Any]) -> PinnedFields:
    """Extract the pinned fields from a prompts/list entry."""
    fields = extract_text(entry, "name", "title", "description")
    listed = entry.get("arguments")
    arguments = [
        {key: argument[key] for key in _ARGUMENT_FIELDS if argument.get(key) is not None}
        for argument in (listed if isinstance(listed, list) else ())
        if isinstance(argument, Mapping)
    ]
    return {**fields, "arguments": arguments} if arguments else fields


def truncate_description(text: str) -> str:
    """Truncate a description to the length that a model receives; idempotent."""
    return f"{text[:_MAX_DESCRIPTION_LENGTH]}…" if len(text) > _MAX_DESCRIPTION_LENGTH else text


def _render(fields: PinnedFields) -> str:
    """Render pinned fields as lines for people and for diffs."""
    lines = []
    for key in ("label", "title", "description"):
        lines += [f"{key}: {line}" for line in str(fields.get(key, "")).splitlines()]
    for key in ("inputSchema", "outputSchema", "annotations", "arguments", "frontmatter", "files"):
        if key in fields:
            lines += [f"{key}:", *json.dumps(fields[key], ensure_ascii=False, indent=1, sort_keys=True).splitlines()]
    return "\n".join(lines)


def diff_accepted_text(before: str, fields: PinnedFields) -> list[str]:
    """Return the diff between the accepted description and the current one, without file headers."""
    from difflib import unified_diff

    lines = unified_diff(before.splitlines(), _render(fields).splitlines(), lineterm="", n=2)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def quarantine_error(server: str, tool: str, why: QuarantineReason, what: str = "tool") -> ProtocolError:
    """Build the error for a call to a quarantined tool, or the use of something else that is withheld."""
    how = "is new" if why == "new" else "has changed"
    used = "called" if what == "tool" else "used"
    return ProtocolError(
        f'The {what} "{tool}" of server "{server}" {how} since you accepted its {what}s, so it was not {used}.',
        f"/mcp review {server} in the chat, or rkllm-chat mcp trust {server}, shows the change and asks you.",
        server=server,
        tool=tool,
        accept=f"rkllm-chat mcp trust {server}",
    )
