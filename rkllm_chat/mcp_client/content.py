"""Convert MCP content to text for a model; binary data is replaced by its type and size. Pure.

Data that a server wrote into a text is replaced as well: models cannot read base64, and a picture of 1 MB would cost
half a million tokens. Detected are `data:` URIs and base64 that starts like a picture, a sound or an archive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from mcp_types import (
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from ..core.messages import Attachment

Item = TypeVar("Item")

_USUAL_PRIORITY = 0.5
_MIN_URI_CHARS, _MIN_FILE_CHARS = 64, 256
"""Minimum base64 characters that are replaced; less may be anything."""
_BASE64_CHARS = "[A-Za-z0-9+/_-]"
# Some servers escape "/" with a backslash in JSON, some break the lines.
_BASE64 = rf"{_BASE64_CHARS}+(?:\\/{_BASE64_CHARS}*|\r?\n{_BASE64_CHARS}{{40,}})*={{0,2}}"
# File signatures, in base64.
FILE_SIGNATURES = {
    "image/png": "iVBORw0KGg",
    "image/jpeg": r"\\?/9j\\?/",
    "image/gif": "R0lGOD(?:dh|lh)",
    "image/webp": "UklGR.{7}RUJQ",
    "audio/wav": "UklGR.{7}QVZF",
    "audio/mpeg": "SUQz",
    "audio/ogg": "T2dnU",
    "application/pdf": "JVBERi0",
    "application/zip": "UEsDB",
    "application/gzip": "H4sI",
}
DATA_URI = re.compile(rf"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[\w.+-]{{0,60}}){{0,4}};base64,({_BASE64})")
BASE64_FILE = re.compile(
    rf"(?<![A-Za-z0-9+/_=-])(?={'|'.join(f'({start})' for start in FILE_SIGNATURES.values())})\\?{_BASE64}"
)


def result_to_text(result: CallToolResult) -> str:
    """Return a tool result as text for a model; the structured content if there is no other content.

    Content that the server addresses to the user alone is left out (MCP 2025-06-18, annotations). Of content with
    priorities the most important comes first, so that a truncated result has it.
    """
    parts = [block_to_text(block) for block in sort_by_priority(filter(is_for_model, result.content))]
    if not result.content and result.structured_content is not None:
        return _replace_base64(json.dumps(result.structured_content, ensure_ascii=False))
    return "\n".join(parts) or ("(the content is shown to the user alone)" if result.content else "(no content)")


def result_for_user(result: CallToolResult) -> str:
    """Return the content of a tool result that the server addresses to the user alone, as text."""
    return "\n".join(block_to_text(block) for block in result.content if not is_for_model(block))


def is_for_model(item: Any) -> bool:
    """Return whether a content block or a resource is meant for the model (MCP, annotations: audience)."""
    return "assistant" in (_audience_of(item) or ("assistant",))


def is_for_user(item: Any) -> bool:
    """Return whether a content block or a resource is meant for the user (MCP, annotations: audience)."""
    return "user" in (_audience_of(item) or ("user",))


def sort_by_priority(items: Iterable[Item]) -> list[Item]:
    """Return items with the most important first, in their own order otherwise; 0.5 is the priority of the others."""
    return sorted(items, key=_priority_of, reverse=True)


def _audience_of(item: Any) -> Sequence[str]:
    annotations = getattr(item, "annotations", None)
    return (annotations.audience if annotations else None) or ()


def _priority_of(item: Any) -> float:
    annotations = getattr(item, "annotations", None)
    return _USUAL_PRIORITY if annotations is None or annotations.priority is None else annotations.priority


def resource_to_text(result: ReadResourceResult) -> str:
    """Return the contents of a resource as text."""
    return "\n".join(_read_contents(part) for part in result.contents) or "(no content)"


def block_to_text(block: Any) -> str:
    """Return one content block as text."""
    if isinstance(block, TextContent):
        return _replace_base64(block.text)
    if isinstance(block, ResourceLink):
        size = None if block.size is None else f"{block.size} bytes"
        parts = [f"resource {block.uri}", block.title or block.name, block.mime_type, size]
        return f"[{', '.join(' '.join(part.split()) for part in parts if part)}]"
    if isinstance(block, EmbeddedResource):
        return _read_contents(block.resource)
    return _data_placeholder(getattr(block, "mime_type", None) or type(block).__name__, getattr(block, "data", ""))


def read_embedded_text(block: Any) -> Attachment | None:
    """Return the text of an embedded resource with its URI and type; None for other content and for binary data."""
    if not isinstance(block, EmbeddedResource) or not isinstance(block.resource, TextResourceContents):
        return None
    text = _read_contents(block.resource)
    kind = block.resource.mime_type or "text/plain"
    return Attachment(str(block.resource.uri), kind, len(text.encode("utf-8", errors="replace")), text)


def _read_contents(part: TextResourceContents | BlobResourceContents) -> str:
    if isinstance(part, TextResourceContents):
        return _replace_base64(part.text)
    return _data_placeholder(", ".join(filter(None, [f"resource {part.uri}", part.mime_type])), part.blob)


def _data_placeholder(what: str, encoded: str) -> str:
    """Return a placeholder for base64 data with its type and size in bytes."""
    size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    return f"[{what}, {size} bytes, not shown]"


def _replace_base64(text: str) -> str:
    """Replace base64 files inside a text by placeholders."""
    return BASE64_FILE.sub(_replace_file, DATA_URI.sub(_replace_uri, text))


def _replace_uri(match: re.Match[str]) -> str:
    return (
        match[0]
        if len(match[2]) < _MIN_URI_CHARS
        else _data_placeholder(match[1] or "text/plain", normalize_base64(match[2]))
    )


def _replace_file(match: re.Match[str]) -> str:
    if len(match[0]) < _MIN_FILE_CHARS:
        return match[0]
    return _data_placeholder(
        next(kind for kind, start in zip(FILE_SIGNATURES, match.groups(), strict=True) if start),
        normalize_base64(match[0]),
    )


def normalize_base64(encoded: str) -> str:
    """Remove escapes and line breaks from base64."""
    return re.sub(r"[\\\s]", "", encoded)
