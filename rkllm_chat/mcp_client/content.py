"""Convert MCP content to text for a model; binary data is replaced by its type and size. Pure.

Data that a server wrote into a text is replaced as well: models cannot read base64, and a picture of 1 MB would cost
half a million tokens. Detected are `data:` URIs and base64 that starts like a picture, a sound or an archive.

Two local tools let the model list and read resources.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.messages import Attachment, Tool

if TYPE_CHECKING:
    from mcp_types import (
        BlobResourceContents,
        CallToolResult,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        TextResourceContents,
    )

Item = TypeVar("Item")

_USUAL_PRIORITY = 0.5
_WITHHELD = "(its description is new or has changed, and the user has not reviewed it yet)"
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

_TEXT_TYPES = re.compile(r"|application/octet-stream|text/.*|application/(?:[\w.-]+\+)?(?:json|xml|yaml|toml)(?:;.*)?")
_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


@dataclass(frozen=True)
class BinaryContent:
    """A picture, sound or blob of a server.

    Attributes:
        data: Its bytes.
        media_type: Its type as the server declares it; "" if it does not.
        name: Its URI; "" if it has none.
        position: Index in the text of the whole content directly after its placeholder.
        user_only: The server addresses it to the user alone.
    """

    data: bytes
    media_type: str
    name: str
    position: int
    user_only: bool = False


def read_binary_content(result: CallToolResult) -> list[BinaryContent]:
    """Return the binary content of a tool result, with the positions in `result_to_text` or `result_for_user`."""
    for_model = sort_by_priority(filter(is_for_model, result.content))
    for_user = [block for block in result.content if not is_for_model(block)]
    return [*_find_binary(for_model), *_find_binary(for_user, user_only=True)]


def read_binary_contents(result: ReadResourceResult) -> list[BinaryContent]:
    """Return the binary contents of a resource, with the positions in `resource_to_text`."""
    return list(_find_binary(result.contents))


def read_binary_blocks(blocks: Iterable[Any]) -> list[BinaryContent]:
    """Return the binary content of blocks whose texts are joined line by line."""
    return list(_find_binary(blocks))


def _find_binary(blocks: Iterable[Any], *, user_only: bool = False) -> Iterator[BinaryContent]:
    position = -1
    for block in blocks:
        part = block.resource if _type_of(block) == "resource" else block
        is_contents = not _type_of(part)
        position += 1 + len(_read_contents(part) if is_contents else block_to_text(block))
        encoded = getattr(part, "blob", None) if is_contents else getattr(part, "data", None)
        if encoded is None or (is_contents and _find_text(part) is not None):
            continue
        try:
            data = b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):  # its placeholder says all that can be said
            continue
        name = str(part.uri) if is_contents else ""
        yield BinaryContent(data, part.mime_type or "", name, position, user_only)


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


def _type_of(block: Any) -> str:
    """Return the type of a content block; "" for the contents of a resource."""
    return str(getattr(block, "type", ""))


def resource_to_text(result: ReadResourceResult) -> str:
    """Return the contents of a resource as text."""
    return "\n".join(_read_contents(part) for part in result.contents) or "(no content)"


def block_to_text(block: Any) -> str:
    """Return one content block as text."""
    kind = _type_of(block)
    if kind == "text":
        return _replace_base64(block.text)
    if kind == "resource_link":
        size = None if block.size is None else f"{block.size} bytes"
        parts = [f"resource {block.uri}", block.title or block.name, block.mime_type, size]
        return f"[{', '.join(' '.join(part.split()) for part in parts if part)}]"
    if kind == "resource":
        return _read_contents(block.resource)
    return _data_placeholder(getattr(block, "mime_type", None) or type(block).__name__, getattr(block, "data", ""))


def read_embedded_text(block: Any) -> Attachment | None:
    """Return the text of an embedded resource with its URI and type; None for other content and for binary data."""
    if _type_of(block) != "resource" or _find_text(block.resource) is None:
        return None
    text = _read_contents(block.resource)
    kind = block.resource.mime_type or "text/plain"
    return Attachment(str(block.resource.uri), kind, len(text.encode("utf-8", errors="replace")), text)


def _find_text(part: TextResourceContents | BlobResourceContents) -> str | None:
    """Return the text of a resource, also of a blob that is one by its bytes and not something else by its type.

    Servers that do not know the type of a file send a text as a blob (the official filesystem server, read_media_file).
    """
    if hasattr(part, "text"):
        return part.text
    if not _TEXT_TYPES.fullmatch(part.mime_type or ""):
        return None
    try:
        text = b64decode(part.blob, validate=True).decode()
    except ValueError:  # binascii.Error is one, and UnicodeDecodeError
        return None
    return text if text and not _NO_TEXT.search(text) else None


def _read_contents(part: TextResourceContents | BlobResourceContents) -> str:
    if (text := _find_text(part)) is not None:
        return _replace_base64(text)
    return _data_placeholder(
        ", ".join(filter(None, [f"resource {part.uri}", part.mime_type])), getattr(part, "blob", "")
    )


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


@lru_cache
def resource_tools(trusted: bool) -> tuple[Tool, Tool]:
    """Return `list_resources` and `read_resource`; `trusted` if all servers with resources are."""
    uri = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
    return (
        Tool("list_resources", "List what the servers have to read", {}, "", True, trusted=trusted, destructive=False),
        Tool("read_resource", "Read a resource by its URI", uri, "", True, trusted=trusted, destructive=False),
    )


def describe_resources(
    resources: Sequence[tuple[str, Resource]],
    templates: Sequence[tuple[str, ResourceTemplate]],
    withheld: Container[tuple[str, str]] = (),
) -> str:
    """Return one line per resource and template for a model, the most important first: its URI and title.

    Args:
        resources: The resources, each with its server.
        templates: The templates, each with its server.
        withheld: Pairs of server and URI whose description the user has not accepted yet; only their URIs are listed.
    """
    hidden = {id(resource) for server, resource in resources if (server, str(resource.uri)) in withheld}
    hidden |= {id(template) for server, template in templates if (server, template.uri_template) in withheld}

    def describe(uri: str, entry: Resource | ResourceTemplate) -> str:
        return f"{uri}: {_WITHHELD if id(entry) in hidden else entry.title or entry.description or entry.name}"

    listed = sort_by_priority(resource for _, resource in resources if is_for_model(resource))
    listed_templates = sort_by_priority(template for _, template in templates if is_for_model(template))
    lines = [describe(str(resource.uri), resource) for resource in listed]
    lines += [describe(template.uri_template, template) for template in listed_templates]
    return "\n".join(lines) or "There are no resources."
