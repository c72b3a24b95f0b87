"""What a server may get wrong in a result without losing the rest of it: one bad tool, an unknown kind of content.

The SDK turns a whole page down for one odd entry (mcp 2.3.0). It is pure: a result as JSON goes in and comes out.
"""

from __future__ import annotations

import logging
from functools import cache
from itertools import groupby
from typing import Any

from mcp_types import methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter, ValidationError

from ..arguments import without_patterns
from ..pins import cut_description

log = logging.getLogger(__name__)

LISTS = {
    "tools/list": ("tools", "Tool"),
    "resources/list": ("resources", "Resource"),
    "resources/templates/list": ("resourceTemplates", "ResourceTemplate"),
    "prompts/list": ("prompts", "Prompt"),
}
KINDS = ("complete", "input_required", "task")
LONGEST_NAME = 256
MOST_ENTRIES = 1000
MOST_BLOCKS = 1000
BARE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""What a list of 2026-07-28 must say, and some servers forget."""


def mend_result(method: str, result: Any, version: str = "") -> Any:
    """The result of a request without what would make the whole of it invalid."""
    if not isinstance(result, dict):
        return result
    if method in LISTS:
        return mend_list(result, method, version)
    if method in ("tools/call", "tasks/result") and result.get("resultType", "complete") == "complete":
        return mend_content(result)
    return result


def find_fault(result: Any) -> str:
    """Why a result must not be used at all, "" if it may be (MCP 2026-07-28: an unknown resultType is an error)."""
    kind = result.get("resultType", "complete") if isinstance(result, dict) else "complete"
    return "" if kind in KINDS else f"The result is of an unknown type: {str(kind)[:40]!r}"


@cache
def model(name: str) -> type[BaseModel]:
    import mcp_types

    found: type[BaseModel] = getattr(mcp_types, name)
    return found


def mend_list(result: dict[str, Any], method: str, version: str) -> dict[str, Any]:
    """The list without entries that are none; a list that is missing or null is empty."""
    key, kind = LISTS[method]
    entries = result.get(key)
    entries = entries[:MOST_ENTRIES] if isinstance(entries, list) else []
    mended = {**(BARE if version in MODERN_PROTOCOL_VERSIONS else {}), **result, key: []}
    if not isinstance(result.get("nextCursor", ""), str):
        del mended["nextCursor"]
    version = version if version and fits([], mended, method, version) else ""
    good = [tame(entry) for entry in entries if is_valid(entry, model(kind)) and fits([entry], mended, method, version)]
    if len(good) < len(entries):
        log.warning("%d of %d %s are malformed and left out", len(entries) - len(good), len(entries), key)
    return {**mended, key: good}


def is_valid(entry: Any, kind: type[BaseModel]) -> bool:
    name = entry.get("name", "") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        return False
    try:
        kind.model_validate(entry, by_name=False)
    except (ValidationError, RecursionError):
        return False
    return True


def fits(entries: list[Any], page: dict[str, Any], method: str, version: str) -> bool:
    """Whether the SDK will take these: it checks a whole page against the version that was agreed on."""
    if not version:
        return True
    try:
        methods.validate_server_result(method, version, {**page, LISTS[method][0]: entries})
    except KeyError:  # a version that has no such list
        return True
    except (ValidationError, RecursionError):
        return False
    return True


def tame(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with a description of sane length, and without regular expressions in its output schema.

    A hostile expression takes for ever; the SDK checks results against it.
    """
    tamed = dict(entry)
    if schema := entry.get("outputSchema"):
        tamed["outputSchema"] = without_patterns(schema)
    if description := entry.get("description"):
        tamed["description"] = cut_description(description)
    return tamed


def mend_content(result: dict[str, Any]) -> dict[str, Any]:
    """A tool's result whose content is a list of known blocks; others are named in their place."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    if len(blocks) > MOST_BLOCKS:
        blocks = join_texts(blocks)
    return {**result, "content": [mend_block(block) for block in blocks]}


def join_texts(blocks: list[Any]) -> list[Any]:
    """The blocks with neighbouring texts as one: each block costs half a kilobyte, whatever is in it."""
    joined: list[Any] = []
    for is_text, group in groupby(blocks, key=is_plain_text):
        run = list(group)
        joined += [{"type": "text", "text": "\n".join(block["text"] for block in run)}] if is_text else run
    return joined


def is_plain_text(block: Any) -> bool:
    return isinstance(block, dict) and block.keys() == {"type", "text"} and isinstance(block["text"], str)


def mend_block(block: Any) -> Any:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    try:
        blocks().validate_python(block, by_name=False)
    except (ValidationError, RecursionError):
        kind = block.get("type") if isinstance(block, dict) else type(block).__name__
        log.warning("content of an unknown kind: %r", kind)
        return {"type": "text", "text": f"[content of an unknown kind: {str(kind)[:40]}]"}
    return block


@cache
def blocks() -> TypeAdapter[Any]:
    import mcp_types

    return TypeAdapter(mcp_types.ContentBlock)
