"""Pictures and sounds in requests of clients: read them from data URLs and base64, and store them.

Addresses are not fetched: a client could have this server read what only this server can reach.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace

from ..core.errors import ConfigError, UsageError
from ..core.messages import Media, MediaKind
from ..storage.media import MediaStore
from .chat_request import ChatRequest, ClientMessage
from .errors import ApiError

MAX_STORED_BYTES = 256 << 20
_DATA_URL = re.compile(r"data:[\w.+/-]*(?:;[\w.+=-]+)*;base64,", re.ASCII)
_MAX_MEDIA = 64


def read_data_url(url: str, name: str, param: str) -> bytes:
    """Return the content of a data URL.

    Args:
        url: The URL.
        name: What the API calls it.
        param: The field of the request that has it.

    Raises:
        ApiError: It is an address, or no valid data URL.
    """
    found = _DATA_URL.match(url)
    if not found:
        what = "addresses are not fetched" if re.match("https?:", url, re.IGNORECASE) else "it is no such URL"
        raise ApiError(400, f"{name} must be a data URL with base64; {what}.", param=param)
    return read_base64(url[found.end() :], name, param)


def read_base64(text: str, name: str, param: str) -> bytes:
    """Return the content of base64. Raises ApiError."""
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(400, f"{name} is not valid base64.", param=param) from None


def store_media(request: ChatRequest, store: MediaStore) -> ChatRequest:
    """Return a request whose media are checked and stored; blocks while pictures are decoded.

    Raises:
        ApiError: A picture or sound cannot be read, or there are too many.
    """
    if sum(len(message.sent_media) for message in request.messages) > _MAX_MEDIA:
        raise ApiError(400, f"At most {_MAX_MEDIA} pictures are possible.", param="messages")
    return replace(request, messages=tuple(_store_message(message, store) for message in request.messages))


def _store_message(message: ClientMessage, store: MediaStore) -> ClientMessage:
    media: list[Media] = []
    for sent in message.sent_media:
        try:
            media.append(replace(store.add(sent.data, "Images"), name="", position=sent.position))
        except UsageError as error:
            raise ApiError(400, str(error), param=sent.param) from None
        except ConfigError as error:
            raise ApiError(503, str(error), "server_error") from None
    return replace(message, sent_media=(), media=tuple(media)) if media else message


def check_media(messages: Sequence[ClientMessage], kinds: frozenset[MediaKind]) -> None:
    """Raise ApiError if the model does not understand the media of a request."""
    unread = {media.kind for message in messages for media in message.media} - kinds
    if unread:
        name = "images" if "image" in unread else "sounds"
        raise ApiError(400, f"This model does not understand {name}.", param="messages")
