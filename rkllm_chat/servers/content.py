"""The content of results as text for a model: texts as they are, everything else named and not pasted. It is pure."""

from __future__ import annotations

import json
from typing import Any

from mcp_types import (
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)


def read_result(answer: CallToolResult) -> str:
    """What the model reads of a tool's result; without content, its structured content."""
    parts = [read_block(block) for block in answer.content]
    if not parts and answer.structured_content is not None:
        return json.dumps(answer.structured_content, ensure_ascii=False)
    return "\n".join(parts) or "(no content)"


def read_resource_text(answer: ReadResourceResult) -> str:
    """What the model reads of a resource."""
    return "\n".join(read_contents(part) for part in answer.contents) or "(no content)"


def read_block(block: Any) -> str:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ResourceLink):
        return f"[resource {block.uri}]"
    if isinstance(block, EmbeddedResource):
        return read_contents(block.resource)
    return name_data(getattr(block, "mime_type", None) or type(block).__name__, getattr(block, "data", ""))


def read_contents(part: TextResourceContents | BlobResourceContents) -> str:
    if isinstance(part, TextResourceContents):
        return part.text
    return name_data(f"resource {part.uri}", part.blob)


def name_data(what: str, encoded: str) -> str:
    """Data in base64 by its kind and size in bytes."""
    size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    return f"[{what}, {size} bytes, not shown]"
