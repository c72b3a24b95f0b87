"""The content of results as text for a model: texts as they are, everything else named and not pasted. It is pure.

Data that a server wrote into a text is named as well: no model reads base64, and a picture of 1 MB is half a million
tokens of it. Looked for are `data:` URIs and what begins as a picture, a sound or an archive does.
"""

from __future__ import annotations

import json
import re
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

LEAST_URI, LEAST_FILE = 64, 256
"""Characters of base64; less may be anything."""
_SIGNS = "[A-Za-z0-9+/_-]"
# Some write "/" with a backslash in JSON, some break the lines.
_BASE64 = rf"{_SIGNS}+(?:\\/{_SIGNS}*|\r?\n{_SIGNS}{{40,}})*={{0,2}}"
# What files begin with, in base64.
KINDS = {
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
URI = re.compile(rf"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[\w.+-]{{0,60}}){{0,4}};base64,({_BASE64})")
FILE = re.compile(rf"(?<![A-Za-z0-9+/_=-])(?={'|'.join(f'({start})' for start in KINDS.values())})\\?{_BASE64}")


def read_result(answer: CallToolResult) -> str:
    """What the model reads of a tool's result; without content, its structured content."""
    parts = [read_block(block) for block in answer.content]
    if not parts and answer.structured_content is not None:
        return name_pasted(json.dumps(answer.structured_content, ensure_ascii=False))
    return "\n".join(parts) or "(no content)"


def read_resource_text(answer: ReadResourceResult) -> str:
    """What the model reads of a resource."""
    return "\n".join(read_contents(part) for part in answer.contents) or "(no content)"


def read_block(block: Any) -> str:
    if isinstance(block, TextContent):
        return name_pasted(block.text)
    if isinstance(block, ResourceLink):
        size = None if block.size is None else f"{block.size} bytes"
        told = [f"resource {block.uri}", block.title or block.name, block.mime_type, size]
        return f"[{', '.join(' '.join(part.split()) for part in told if part)}]"
    if isinstance(block, EmbeddedResource):
        return read_contents(block.resource)
    return name_data(getattr(block, "mime_type", None) or type(block).__name__, getattr(block, "data", ""))


def read_contents(part: TextResourceContents | BlobResourceContents) -> str:
    if isinstance(part, TextResourceContents):
        return name_pasted(part.text)
    return name_data(", ".join(filter(None, [f"resource {part.uri}", part.mime_type])), part.blob)


def name_data(what: str, encoded: str) -> str:
    """Data in base64 by its kind and size in bytes."""
    size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    return f"[{what}, {size} bytes, not shown]"


def name_pasted(text: str) -> str:
    """The text with the files that are written in it named."""
    return FILE.sub(name_file, URI.sub(name_uri, text))


def name_uri(found: re.Match[str]) -> str:
    return found[0] if len(found[2]) < LEAST_URI else name_data(found[1] or "text/plain", bare(found[2]))


def name_file(found: re.Match[str]) -> str:
    if len(found[0]) < LEAST_FILE:
        return found[0]
    return name_data(next(kind for kind, start in zip(KINDS, found.groups(), strict=True) if start), bare(found[0]))


def bare(encoded: str) -> str:
    return re.sub(r"[\\\s]", "", encoded)
