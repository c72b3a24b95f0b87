"""List the pictures, sounds and other files of a conversation, and save them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ..core.errors import UsageError
from ..core.events import Event, Notice, ToolFinished
from ..core.i18n import Words
from ..core.messages import Media, Message
from ..core.numbered_files import write_numbered_file
from ..core.sanitize import sanitize_line
from .event_stream import Emit


def list_media(history: Iterable[Message]) -> list[Media]:
    """Return the media of messages and of results, in their order."""
    return [media for message in history for media in (message.result or message).media]


def read_media(media: Media) -> bytes:
    """Return the content of a medium. Raises UsageError if its file is gone."""
    try:
        return Path(media.path).read_bytes()
    except OSError:
        raise UsageError(f"{media.name} is not stored any more.") from None


def save_media(media: Media, folder: str) -> str:
    """Write a medium to a new file in a folder and return its path. Raises UsageError."""
    return write_numbered_file(folder, Path(media.name).stem, media.media_type, read_media(media))


def save_results(emit: Emit, folder: str, words: Words) -> Emit:
    """Return what passes events on and saves the media of results; a notice says where.

    The media of the results that are passed on have the paths of the saved files.

    Args:
        emit: Takes the events.
        folder: Where media are saved; "" to save nothing.
        words: Sentences of the user's language.
    """

    async def emit_saved(event: Event) -> None:
        if not isinstance(event, ToolFinished):
            await emit(event)
            return
        saved = tuple(replace(media, path=save_media(media, folder)) for media in event.result.media)
        await emit(replace(event, result=replace(event.result, media=saved)))
        for media in saved:
            await emit(Notice(words("attach.saved", path=sanitize_line(media.path))))

    return emit_saved if folder else emit
