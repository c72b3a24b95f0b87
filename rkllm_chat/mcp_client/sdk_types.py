"""Results of servers as objects of the SDK's types (`mcp_types`), for what asks for them. Imported on first use.

A malformed entry or content block costs itself and not the rest.
"""

from __future__ import annotations

import logging
from functools import cache
from itertools import groupby
from typing import Any

import mcp_types
from pydantic import BaseModel, TypeAdapter, ValidationError

from ..core.errors import ProtocolError
from ..core.sanitize import shorten_line
from .protocol.faults import INVALID_PARAMS
from .transports.driver import AnswerError

log = logging.getLogger(__name__)

_MAX_BLOCKS = 1000
_CACHE_MEMBERS = ("ttlMs", "cacheScope")
"""How long a result of MCP 2026-07-28 may be kept; nothing is, and servers get the numbers wrong."""


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(getattr(mcp_types, kind))


def read_result(server: str, kind: str, result: dict[str, Any]) -> Any:
    """Return a result as an object of one of the SDK's types. Raises ProtocolError."""
    members = {key: value for key, value in result.items() if key not in _CACHE_MEMBERS}
    if kind == "CallToolResult":
        members["content"] = _repair_content(result.get("content"))
    try:
        return _adapter(kind).validate_python(members, by_name=False)
    except (ValidationError, RecursionError) as error:
        text = f'Server "{server}" violated the protocol: {_summarize(error)}'
        raise ProtocolError(text, server=server) from error


def read_entries(kind: str, entries: list[dict[str, Any]]) -> list[Any]:
    """Return the valid entries of a list as objects."""
    valid = []
    for entry in entries:
        try:
            valid.append(_adapter(kind).validate_python(entry, by_name=False))
        except (ValidationError, RecursionError):
            log.warning("an entry is malformed and ignored: %s", kind)
    return valid


def read_params(kind: str, params: Any) -> Any:
    """Return the parameters of a request of the server as an object. Raises AnswerError."""
    try:
        return _adapter(kind).validate_python(params, by_name=False)
    except (ValidationError, RecursionError) as error:
        raise AnswerError(INVALID_PARAMS, f"Invalid parameters: {_summarize(error)}") from error


def dump_model(value: BaseModel) -> dict[str, Any]:
    """Return an object of the SDK's types as JSON."""
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


def _summarize(error: Exception) -> str:
    """Return the location and the message of a failed validation."""
    if not isinstance(error, ValidationError):
        return "it is nested too deeply"
    first = error.errors()[0]
    return shorten_line(f"{'.'.join(str(part) for part in first['loc'][-2:])}: {first['msg']}")


def _repair_content(content: Any) -> list[Any]:
    """Return the content of a tool's result as a list of known blocks; text names the others."""
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    if len(blocks) > _MAX_BLOCKS:
        blocks = _join_texts(blocks)
    return [_repair_block(block) for block in blocks]


def _join_texts(blocks: list[Any]) -> list[Any]:
    """Join adjacent text blocks: each block costs half a kilobyte of memory, whatever its content."""
    joined: list[Any] = []
    for is_text, group in groupby(blocks, key=_is_plain_text):
        run = list(group)
        joined += [{"type": "text", "text": "\n".join(block["text"] for block in run)}] if is_text else run
    return joined


def _is_plain_text(block: Any) -> bool:
    return isinstance(block, dict) and block.keys() == {"type", "text"} and isinstance(block["text"], str)


def _repair_block(block: Any) -> Any:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    try:
        return _adapter("ContentBlock").validate_python(block, by_name=False)
    except (ValidationError, RecursionError):
        kind = block.get("type") if isinstance(block, dict) else type(block).__name__
        log.warning("content of an unknown kind: %r", kind)
        return {"type": "text", "text": f"[content of an unknown kind: {str(kind)[:40]}]"}
