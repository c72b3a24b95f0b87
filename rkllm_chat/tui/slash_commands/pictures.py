"""Commands for pictures, sounds and other files: attach them, list, open and save those of the conversation."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from ...chat import attachments as attach
from ...chat.app import App
from ...chat.attachments import list_media, read_media, save_media
from ...chat.event_stream import Emit
from ...core.errors import UsageError
from ...core.events import Notice, Picture, Table
from ...core.messages import Media
from ...core.user_paths import expand_home, path_exists
from ...storage.export import write_new_file
from ...storage.media import describe_media
from .registry import command
from .resources import suggest_resources


async def _suggest_attachments(app: App, typed: str) -> Sequence[str]:
    """Return the numbers of the pictures and files of the conversation, and the URIs of all resources."""
    numbers = [str(number) for number in range(1, len(list_media(app.chat.history)) + 1)]
    return [*numbers, *await suggest_resources(app, typed)]


@command(
    "/attach",
    "/resource",
    usage="[FILE | URI | NUMBER [FILE]]",
    example="/attach photo.jpg",
    suggest=_suggest_attachments,
)
async def attach_file(app: App, argument: str, emit: Emit) -> None:
    """Attach a file, a picture or a resource, or list those of the conversation."""
    if not argument or (argument.partition(" ")[0].isdecimal() and not path_exists(argument)):
        await _show_media(app, argument, emit)
        return
    attachment = await attach.read_attachment(app, _unquote(argument))
    app.attachments.append(attachment)
    await emit(Notice(attach.describe_attachment(app, attachment)))
    if any(media.kind not in app.backend.media_kinds for media in attachment.media):
        await emit(Notice(app.words("attach.not_understood", model=app.backend.name), "warning"))
    await emit(Notice(app.words("resources.next")))


async def _show_media(app: App, argument: str, emit: Emit) -> None:
    """List the pictures and files of the conversation, open one, or save it."""
    found = list_media(app.chat.history)
    if not found:
        await emit(Notice(app.words("images.none")))
        return
    number, _, target = argument.partition(" ")
    if not number:
        rows = ((str(index), media.name, describe_media(media, app.words)) for index, media in enumerate(found, 1))
        await emit(Table((), tuple(rows)))
        return
    if not 0 < int(number) <= len(found):
        raise UsageError(f'There is no picture "{number}".', f"They are numbered from 1 to {len(found)}.")
    media = found[int(number) - 1]
    if target.strip():
        await emit(Notice(app.words("attach.saved", path=_save(media, _unquote(target.strip())))))
    elif app.frontend and app.frontend.can_open_browser:
        read_media(media)
        await app.frontend.open_page(Path(media.path).as_uri())
        await emit(Notice(app.words("images.opened", name=media.name)))
    else:
        await emit(Notice(f"{media.name}: {describe_media(media, app.words)}"))
        await emit(Picture(media))


def _save(media: Media, target: str) -> str:
    """Save a medium to a new file, or in a folder, and return the path. Raises UsageError."""
    path = expand_home(target)
    if path.is_dir():
        return save_media(media, str(path))
    data = read_media(media)
    try:
        write_new_file(path, data)
    except FileExistsError:
        raise UsageError(f"{path} exists.", "Name a new file.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    return str(path)


def _unquote(argument: str) -> str:
    """Return a path as terminals paste it: in quotes, or with backslashes before blanks."""
    if path_exists(argument):
        return argument
    try:
        words = shlex.split(argument)
    except ValueError:
        return argument
    return words[0] if len(words) == 1 else argument
