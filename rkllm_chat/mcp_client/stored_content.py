"""Store the pictures, sounds and blobs of servers, for models that understand them and for the user to see and save."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..core.errors import ChatError
from ..core.messages import Media
from ..storage.media import MediaStore
from .content import BinaryContent, read_binary_blocks

_MAX_STORED = 20
"""Maximum number of binary parts of one result that are stored; placeholders stand for the others."""


async def store_content(store: MediaStore | None, contents: Iterable[BinaryContent], name: str) -> list[Media]:
    """Store the binary content of a server; nothing without a store.

    A picture or sound that cannot be read, or not without Pillow, is stored as a file, which no model gets. Nothing is
    stored of what is too large, or if the disk is full: a placeholder in the text stands for it anyway.

    Args:
        store: Where it is stored.
        contents: The content.
        name: Name for what has no URI.
    """
    if store is None:
        return []
    stored: list[Media] = []
    for content in list(contents)[:_MAX_STORED]:
        with suppress(ChatError):
            media = await asyncio.to_thread(_store, store, content, content.name or name)
            stored.append(replace(media, position=content.position, user_only=content.user_only))
    return stored


def _store(store: MediaStore, content: BinaryContent, name: str) -> Media:
    try:
        return store.add(content.data, name)
    except ChatError:
        return store.add_file(content.data, content.media_type or "application/octet-stream", name)


async def read_block_media(store: MediaStore, block: Any) -> Media | None:
    """Return the picture or sound of a content block; None for other content and for what cannot be read."""
    stored = await store_content(store, read_binary_blocks([block]), getattr(block, "mime_type", None) or "")
    return replace(stored[0], position=0, name="") if stored and stored[0].kind != "file" else None
