"""Attach files and resources to a user message. Texts are presented to the model as data, within a token budget.

In a line, `@path` refers to a local file and `@URI` to a resource of a server; `/attach` attaches one explicitly. All
texts attached to a message share the budget that the results of one reply have. Pictures and sounds precede the text of
the message; to a model that does not understand them, nothing is sent without a question.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import ChatError, UsageError
from ..core.events import Draft, Event, Notice, ToolFinished, Usage
from ..core.i18n import Words
from ..core.messages import Attachment, Media, MediaKind, Message
from ..core.numbered_files import write_numbered_file
from ..core.sanitize import escape_line_visibly, sanitize_line
from ..core.user_paths import expand_home, path_exists
from ..core.working_folder import find_working_folder
from ..mcp_client.process.sandbox import SECRET_PATHS
from ..prompt.untrusted_text import choose_fence, neutralize, neutralize_line
from ..storage.media import MAX_MEDIA_BYTES, describe_media, recognize_media_type
from .context import compute_result_budget
from .event_stream import Emit, emit_all
from .turn import Turn

if TYPE_CHECKING:
    from ..mcp_client.toolbox import Toolbox
    from ..storage.media import MediaStore
    from .app import App


_MENTION = re.compile(r'(?<!\S)@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>\S+))')
_FILE_NAME = re.compile(r".*(?:[/\\]|\.[A-Za-z]\w{0,7}$)")
"""A mention that is meant as a file: a path, or a name with a suffix."""
_ESCAPED_MENTION = re.compile(r"(?<!\S)@(?=@\S)")
URI_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_MAX_FILE_BYTES = 4 << 20
_MAX_COUNTED_BYTES = 16 << 10
"""Maximum bytes of an attachment whose tokens are counted repeatedly while the user types."""
_ATTACHABLE = "Texts, pictures and sounds can be attached."
_TRAILING = ".,;:!?)\"'」。、"


async def send_message(app: App, line: str, emit: Emit) -> None:
    """Run a turn with a line and its attachments; if one is not attached, return the line as a draft."""
    try:
        fetched = [await read_attachment(app, name) for name in list_mentions(app, line)]
    except ChatError as error:
        await emit(Notice(app.words("attach.failed", reason=error)))
        await emit(Draft(line))
        return
    if (sent := await choose_media(app, fetched)) is None:
        await emit(Draft(line))
        return
    await send_attached(app, unescape_mentions(line), sent, emit)


async def choose_media(app: App, fetched: Sequence[Attachment]) -> list[Attachment] | None:
    """Return attachments without the media that the model does not understand, if the user sends the rest alone.

    Those that wait for the next message are included in the question, and changed in place.

    Returns:
        The attachments; None if nothing is to be sent.

    Raises:
        UsageError: No user can be asked.
    """
    attached = [*app.attachments, *fetched]
    kinds = app.backend.media_kinds
    unread = [attachment.name for attachment in attached if any(media.kind not in kinds for media in attachment.media)]
    if not unread:
        return list(fetched)
    listed = escape_line_visibly(", ".join(dict.fromkeys(unread)))
    if app.frontend is None:
        text = f"The model {app.backend.name} does not understand pictures or sounds: {listed}."
        raise UsageError(text, "Use a model that does, or leave them out; nothing was sent.")
    if not await app.frontend.confirm(app.words("attach.unread", model=app.backend.name, names=listed)):
        return None
    app.attachments = [reduced for attachment in app.attachments if (reduced := _without_media(attachment, kinds))]
    return [reduced for attachment in fetched if (reduced := _without_media(attachment, kinds))]


def _without_media(attachment: Attachment, kinds: frozenset[MediaKind]) -> Attachment | None:
    """Return an attachment without the media of other kinds; None if nothing is left of it."""
    media = tuple(medium for medium in attachment.media if medium.kind in kinds)
    return replace(attachment, media=media) if media or attachment.text or not attachment.media else None


async def send_attached(app: App, text: str, fetched: Sequence[Attachment], emit: Emit) -> None:
    """Run a turn with a text and attachments, and those that wait for the next message.

    Raises:
        GenerationError: As `Turn.run`; after a message that cannot fit, the attachments still wait.
    """
    attached = [*app.attachments, *fetched]
    await app.wait_for_servers(emit)
    message, notices = compose_message(app, text, attached)
    for notice in (*(Notice(describe_attachment(app, attachment)) for attachment in fetched), *notices):
        await emit(notice)
    turn = Turn(app.chat)
    turn.check_length([message])
    app.attachments = []
    await emit_all(turn.run([message]), emit)


def compose_message(app: App, text: str, attached: Sequence[Attachment]) -> tuple[Message, list[Notice]]:
    """Return the message of a text with attachments, and a notice about each attachment that was truncated."""
    texts, notices = fence_attachments(app, attached)
    media = tuple(media for attachment in attached for media in attachment.media)
    asked = drop_mentions(text).strip() if texts else ""
    return Message("user", "\n\n".join([text, *texts]), media=media, asked=asked), notices


def expand_message(app: App, line: str) -> str | None:
    """Return the text that `send_message` would send; None if its attachments are too large, remote or no text.

    Raises:
        UsageError: A file cannot be read.
    """
    names = find_mentions(line)
    are_small = all(attachment.size <= _MAX_COUNTED_BYTES for attachment in app.attachments)
    if not are_small or any(
        URI_PATTERN.fullmatch(name) or not _is_small(name) or _find_question(name)[0] for name in names
    ):
        return None
    contents = {name: _read_bytes(name) for name in names}
    if any(map(recognize_media_type, contents.values())) or any(attachment.media for attachment in app.attachments):
        return None
    attached = [*app.attachments, *(_read_text(name, data) for name, data in contents.items())]
    return "\n\n".join([line, *fence_attachments(app, attached)[0]])


def _is_small(name: str) -> bool:
    try:
        return expand_home(name).stat().st_size <= _MAX_COUNTED_BYTES
    except OSError:
        return False


def fence_attachments(app: App, attached: Sequence[Attachment]) -> tuple[list[str], list[Notice]]:
    """Fence the texts of attachments for the model, truncated to their common budget.

    Returns:
        The texts, and a notice about each attachment that was truncated.
    """
    attached = [attachment for attachment in attached if attachment.text or not attachment.media]
    budget = compute_result_budget(app.chat, Usage()) if attached else None
    messages = [Message("tool", attachment.text) for attachment in attached]
    texts = [message.text for message in budget.truncate_results(messages, 0)] if budget else []
    notices: list[Notice] = []
    for attachment, text in zip(attached, texts, strict=True):
        if text != attachment.text:
            kept = len(text.encode("utf-8", errors="replace"))
            notice = app.words("attach.shortened", name=attachment.name, kept=kept, size=attachment.size)
            notices.append(Notice(notice))
    return [_fence(app, attachment, text) for attachment, text in zip(attached, texts, strict=True)], notices


def find_mentions(line: str) -> list[str]:
    """Return the URIs and existing paths that a line mentions after @; a path with blanks is quoted.

    >>> find_mentions("mail me@example.org about @board://status, please")
    ['board://status']
    """
    return list(dict.fromkeys(filter(None, map(_read_mention, _MENTION.finditer(line)))))


def list_mentions(app: App, line: str) -> list[str]:
    """Return the URIs and paths that a line mentions after @.

    Raises:
        UsageError: A mention looks like a file, and there is none.
    """
    missing = (_name_of(match) for match in _MENTION.finditer(line) if not _read_mention(match))
    for name in missing:
        if _FILE_NAME.fullmatch(name) and not name.startswith("@"):
            raise UsageError(app.words("attach.missing", name=name), got=name)
    return find_mentions(line)


def escape_mentions(text: str, is_escaped: Callable[[int], bool]) -> str:
    """Double the @ of mentions, which then attach nothing; `is_escaped` is asked with the position of each."""
    return _MENTION.sub(lambda match: f"@{match[0]}" if is_escaped(match.start()) else match[0], text)


def drop_mentions(line: str) -> str:
    """Return a line without what it mentions after @."""
    return _MENTION.sub(lambda match: "" if _read_mention(match) else match[0], line)


def unescape_mentions(line: str) -> str:
    """Return a line with one @ where two stand for one that attaches nothing."""
    return _ESCAPED_MENTION.sub("", line)


def _read_mention(match: re.Match[str]) -> str:
    """Return the URI or the existing path of a mention, else ""."""
    name = _name_of(match)
    return name if URI_PATTERN.fullmatch(name) or path_exists(name) else ""


def _name_of(match: re.Match[str]) -> str:
    """Return what a mention names, without its quotes or the punctuation that follows it."""
    return match["quoted"] or match["plain"].rstrip(_TRAILING)


def _find_question(name: str) -> tuple[str, str]:
    """Return the key of the question to ask before a file is read, "" if none is needed, and the file's path."""
    path, home = expand_home(name).resolve(), Path.home()
    shown = escape_line_visibly(str(path))
    if any(path.is_relative_to((home / secret).resolve()) for secret in SECRET_PATHS):
        return "attach.secret", shown
    return "" if path.is_relative_to(find_working_folder()) else "attach.outside", shown


async def read_attachment(app: App, name: str) -> Attachment:
    """Read a resource by its URI, or a file; one outside the current folder or with secrets after a question.

    Raises:
        ChatError: It cannot be read, or the user declines.
    """
    if URI_PATTERN.fullmatch(name):
        servers, server = await find_owner(app, name)
        return await servers.read_attachment(name, server)
    try:
        key, path = _find_question(name)
    except OSError as error:  # the current folder was removed
        raise UsageError(f"{name} cannot be read: {error.strerror}.") from None
    if key and (app.frontend is None or not await app.frontend.confirm(app.words(key, path=path))):
        raise UsageError(app.words("attach.declined", path=path))
    return await asyncio.to_thread(_read_file, app.media, name)


async def find_owner(app: App, uri: str) -> tuple[Toolbox, str]:
    """Return the toolbox and the server that lists a resource or a matching template; no other server is asked for it.

    Raises:
        UsageError: No server lists it.
    """
    if not app.servers.connections:
        raise UsageError("No server is connected that could have the resource.", "/servers lists the servers.")
    for server, resource in await app.servers.list_resources():
        if str(resource.uri) == uri:
            return app.servers, server
    for server, template in await app.servers.list_templates():
        if uri.startswith(template.uri_template.partition("{")[0]):
            return app.servers, server
    raise UsageError(f"No server lists {uri}.", "/resources lists what the servers have.")


def _read_file(store: MediaStore, name: str) -> Attachment:
    """Read a text, a picture or a sound.

    Raises:
        UsageError: It is missing, too large, damaged, or something else.
        ConfigError: It is a picture, and Pillow is not installed.
    """
    data = _read_bytes(name)
    if not recognize_media_type(data):
        return _read_text(name, data)
    media = store.add(data, Path(name).name)
    return Attachment(name, media.media_type, media.size_bytes, "", (media,))


def read_picture(store: MediaStore, name: str) -> Attachment:
    """Read a picture or sound. Raises as `_read_file`, and UsageError for a text."""
    attachment = _read_file(store, name)
    if not attachment.media:
        raise UsageError(f"{name} is neither a picture nor a sound.", "Attach a text with @FILE in the message.")
    return attachment


def _read_bytes(name: str) -> bytes:
    """Read a file; raise UsageError if it is missing or too large."""
    path = expand_home(name)
    try:
        if not path.is_file():
            raise UsageError(f"{name} is not a file.")
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
            if recognize_media_type(data):
                data += file.read(MAX_MEDIA_BYTES + 1 - len(data))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}.") from None
    limit = MAX_MEDIA_BYTES if recognize_media_type(data) else _MAX_FILE_BYTES
    if len(data) > limit:
        size = max(len(data), path.stat().st_size)
        text = f"{name} has {size} bytes; the limit for an attachment is {limit}."
        raise UsageError(text, "Let a tool read the file.")
    return data


def _read_text(name: str, data: bytes) -> Attachment:
    """Return the content of a file as text; raise UsageError if it is none."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8 text.", _ATTACHABLE) from None
    if "\0" in text:
        raise UsageError(f"{name} contains NUL bytes and is not text.", _ATTACHABLE)
    return Attachment(name, "text/plain", len(data), text)


def describe_attachment(app: App, attachment: Attachment) -> str:
    """Describe an attachment to the user in one line."""
    if attachment.media and not attachment.text:
        about = "; ".join(describe_media(media, app.words) for media in attachment.media)
        return app.words("attach.media", name=attachment.name, about=about)
    if URI_PATTERN.fullmatch(attachment.name):
        return app.words("attach.resource", uri=attachment.name, kind=attachment.kind, size=attachment.size)
    return app.words("attach.file", name=attachment.name, size=attachment.size)


def _fence(app: App, attachment: Attachment, text: str) -> str:
    """Fence the text of an attachment for the model, with its name and type."""
    text = neutralize(text)
    backticks, name, kind = choose_fence(text), neutralize_line(attachment.name), neutralize_line(attachment.kind)
    return f"{app.chat.prompt_words('prompt.attached', name=name, kind=kind)}\n{backticks}\n{text}\n{backticks}"


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
