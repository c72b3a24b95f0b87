"""Pictures, sounds and other binary data of a conversation: check them and store them in files by their hash.

A picture becomes a file that every engine can read and no reader can be attacked with: PNG or JPEG with 8 bits per
channel, upright, without transparency and metadata (where it was taken), at most MAX_SIDE pixels long. Its size is
checked in its header before anything is decoded. Types are recognized by content; names and declared types are not
believed. Pillow (the extra `vision`) is imported for pictures alone.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import Self

from ..core.errors import ConfigError, UsageError
from ..core.file_writes import replace_file
from ..core.i18n import Words
from ..core.messages import Media, MediaKind
from ..core.private_files import make_folder
from ..core.sanitize import sanitize_line

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_MEDIA_BYTES = 32 << 20
"""Maximum size of a picture or sound."""
MAX_SIDE = 2048
"""Maximum pixels of the longer side; what is larger is scaled down."""
MAX_RATIO = 200
"""Maximum ratio of the sides; vision models reject more."""
_MAX_PIXELS, _MAX_PROGRESSIVE_PIXELS, _MAX_BASELINE_PIXELS = 15_000_000, 25_000_000, 170_000_000
"""Maximum pixels of a picture, of a progressive JPEG, and of other JPEGs. A pixel takes up to eight bytes meanwhile; a
JPEG is decoded at a fraction of its size, but all of a progressive one is kept before."""
_MAX_SCANS = 40
"""Maximum scans of a progressive JPEG; each is a pass over the whole picture."""
_JPEG_QUALITY = 90
_WHITE = (255, 255, 255)
_HEAD_BYTES = 64
VISION_HINT = "Install what reads pictures: pip install 'rkllm-chat[vision]'."

_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "audio/wav": ".wav",
    "audio/mpeg": ".mp3",
    "audio/flac": ".flac",
    "audio/ogg": ".ogg",
}
_READABLE = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP", "image/bmp": "BMP"}
"""Media types that can be read -> Pillow's name of the format."""
_SIGNATURES: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), media_type)
    for pattern, media_type in (
        (rb"\x89PNG\r\n\x1a\n", "image/png"),
        (rb"\xff\xd8\xff", "image/jpeg"),
        (rb"GIF8[79]a", "image/gif"),
        (rb"RIFF.{4}WEBP", "image/webp"),
        (rb"BM.{4}\0\0\0\0", "image/bmp"),
        (rb"II\*\0|MM\0\*", "image/tiff"),
        (rb".{4}ftyp(?:hei[cfmsx]|hev[cx]|mif1|msf1)", "image/heic"),
        (rb".{4}ftypavi[fs]", "image/avif"),
        (rb"\0\0\0\x0cJXL |\xff\x0a", "image/jxl"),
        (rb"RIFF.{4}WAVE", "audio/wav"),
        (rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]", "audio/mpeg"),
        (rb"fLaC", "audio/flac"),
        (rb"OggS", "audio/ogg"),
    )
)
_HASH = re.compile("[0-9a-f]{64}")


def recognize_media_type(data: bytes) -> str:
    """Return the media type of a picture or sound by how it begins; "" for anything else."""
    head = data[:_HEAD_BYTES]
    return next((media_type for pattern, media_type in _SIGNATURES if pattern.match(head)), "")


def file_name_of(media: Media) -> str:
    """Return the name of the file of a medium: its hash and a suffix. Raises ValueError for what is no hash."""
    if not _HASH.fullmatch(media.sha256):
        raise ValueError("not a hash")
    return media.sha256 + _SUFFIXES.get(media.media_type, ".bin")


def describe_media(media: Media, words: Words) -> str:
    """Describe a medium in one line: its type, its pixels and its size."""
    size = f"{media.width} × {media.height}, " if media.width else ""
    return words("images.about", kind=sanitize_line(media.media_type), size=f"{size}{media.size_bytes}")


class MediaStore:
    """Files of media in a private folder that exists as long as the store; use it as a context manager.

    A saved session has copies of its own. Methods may be called in any thread.

    Args:
        max_bytes: Maximum size of all files; the oldest are removed. 0 for no maximum.
    """

    def __init__(self, max_bytes: int = 0) -> None:
        self._max_bytes = max_bytes
        self._folder: Path | None = None
        self._known: dict[tuple[str, bool], Media] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def add(self, data: bytes, name: str) -> Media:
        """Check and store a picture or sound; blocks while a picture is decoded.

        Args:
            data: Its bytes.
            name: What people know it by.

        Raises:
            UsageError: It is none, damaged, or too large.
            ConfigError: Pillow is not installed, or the disk is full.
        """
        return self._add(data, name, is_file=False, make=lambda: _prepare(data, name))

    def add_file(self, data: bytes, media_type: str, name: str) -> Media:
        """Store any data, which the user can save and no model reads.

        Raises:
            UsageError: It is too large.
            ConfigError: The disk is full.
        """
        _check_length(data, name)
        return self._add(data, name, is_file=True, make=lambda: _Prepared(data, "file", media_type))

    def _add(self, data: bytes, name: str, *, is_file: bool, make: Callable[[], _Prepared]) -> Media:
        key = (hashlib.sha256(data).hexdigest(), is_file)
        known = self._known.get(key)
        if known and Path(known.path).is_file():
            self._known[key] = self._known.pop(key)
            return replace(known, name=name)
        prepared = make()
        media = prepared.describe(name)
        with self._lock:
            try:
                if self._folder is None:
                    self._folder = Path(tempfile.mkdtemp(prefix="rkllm-chat-media-"))  # mode 0700
                path = write_media_file(self._folder / file_name_of(media), prepared.data)
            except OSError as error:
                hint = "Make room in the folder for temporary files, or set TMPDIR."
                raise ConfigError(f"{name} cannot be stored: {error.strerror}.", hint) from None
            self._known[key] = stored = replace(media, path=str(path))
            self._remove_oldest()
        return stored

    def _remove_oldest(self) -> None:
        size = sum(media.size_bytes for media in self._known.values())
        while self._max_bytes and size > self._max_bytes and len(self._known) > 1:
            oldest = self._known.pop(next(iter(self._known)))
            size -= oldest.size_bytes
            if not any(media.path == oldest.path for media in self._known.values()):
                Path(oldest.path).unlink(missing_ok=True)


def write_media_file(path: Path, data: bytes) -> Path:
    """Write a file of mode 0600 whose name is its hash, unless it exists; it appears complete. Raises OSError."""
    if path.is_file():
        return path
    make_folder(path.parent)
    replace_file(path, data)
    return path


@dataclass(frozen=True)
class _Prepared:
    """Data as it is stored."""

    data: bytes
    kind: MediaKind
    media_type: str
    width: int = 0
    height: int = 0

    def describe(self, name: str) -> Media:
        digest = hashlib.sha256(self.data).hexdigest()
        return Media(self.kind, "", self.media_type, digest, len(self.data), self.width, self.height, name)


def _check_length(data: bytes, name: str) -> None:
    if len(data) > MAX_MEDIA_BYTES:
        raise UsageError(f"{name} has {len(data)} bytes; the limit for a picture or sound is {MAX_MEDIA_BYTES}.")


def _prepare(data: bytes, name: str) -> _Prepared:
    """Check a picture or sound and convert it to what is stored. Raises UsageError and ConfigError."""
    _check_length(data, name)
    media_type = recognize_media_type(data)
    if media_type.startswith("audio/"):
        return _Prepared(data, "audio", media_type)
    if not media_type:
        raise UsageError(f"{name} is neither a picture nor a sound.", "PNG, JPEG, WebP, GIF and BMP can be read.")
    if media_type not in _READABLE:
        kind = media_type.partition("/")[2].upper()
        raise UsageError(f"{name} is a {kind} picture, which cannot be read.", "Convert it to JPEG or PNG.")
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        raise ConfigError(f"{name} is a picture, and Pillow is not installed.", VISION_HINT) from None
    return _prepare_picture(data, media_type, name)


def _prepare_picture(data: bytes, media_type: str, name: str) -> _Prepared:
    from PIL import Image, ImageOps, UnidentifiedImageError

    is_photo = media_type in ("image/jpeg", "image/webp")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # DecompressionBombWarning: the size is checked here
            with Image.open(io.BytesIO(data), formats=[_READABLE[media_type]]) as opened:
                _check_size(opened, data, name)
                if _is_plain(opened):
                    opened.load()
                    return _Prepared(data, "image", media_type, *opened.size)
                opened.draft("RGB", (MAX_SIDE, MAX_SIDE))  # a JPEG is scaled down while it is decoded
                is_photo = is_photo or max(opened.size) > MAX_SIDE  # a PNG of a photo would be large and slow to write
                picture: Image.Image = opened
                if opened.mode.startswith("I"):  # 16 bits of grey, which conversion would cut off at 255
                    picture = opened.convert("F").point(lambda value: value / 256).convert("L")
                picture.thumbnail((MAX_SIDE, MAX_SIDE))
                picture = _flatten(ImageOps.exif_transpose(picture))
    except UsageError:
        raise
    except Image.DecompressionBombError:
        raise UsageError(f"{name} has too many pixels to be read.", "Scale it down.") from None
    except UnidentifiedImageError:
        raise UsageError(f"{name} is damaged and cannot be read: its header is not that of a picture.") from None
    except Exception as error:  # Pillow's readers raise errors of many types
        reason = re.sub(r"\s+", " ", str(error)).strip().rstrip(".") or type(error).__name__
        raise UsageError(f"{name} is damaged and cannot be read: {reason[:120]}.") from None
    return _encode(picture, "JPEG" if is_photo else "PNG")


def _check_size(picture: Image, data: bytes, name: str) -> None:
    """Raise UsageError for a picture that must not be decoded, by what its header says."""
    width, height = picture.size
    shape = f"{name} has {width} × {height} pixels"
    if max(width, height) > MAX_RATIO * min(width, height):
        raise UsageError(f"{shape}; vision models read nothing that is more than {MAX_RATIO} times as long as wide.")
    is_jpeg, is_progressive = picture.format == "JPEG", bool(picture.info.get("progressive"))
    limit = (_MAX_PROGRESSIVE_PIXELS if is_progressive else _MAX_BASELINE_PIXELS) if is_jpeg else _MAX_PIXELS
    if width * height > limit:
        raise UsageError(f"{shape}; the limit is {limit // 1_000_000} million.", "Scale it down.")
    if is_progressive and data.count(b"\xff\xda") > _MAX_SCANS:
        raise UsageError(f"{name} is a JPEG with more than {_MAX_SCANS} passes, which would take too long to read.")


def _is_plain(picture: Image) -> bool:
    """Return whether a file can be stored as it is: every reader shows the same, and it tells nothing else."""
    known = {"jfif", "jfif_version", "jfif_unit", "jfif_density", "dpi", "progressive", "progression", "gamma", "srgb"}
    return (
        picture.format in ("PNG", "JPEG")
        and picture.mode in ("RGB", "L")
        and max(picture.size) <= MAX_SIDE
        and not getattr(picture, "is_animated", False)
        and set(picture.info) <= known
        and not picture.getexif()
    )


def _flatten(picture: Image) -> Image:
    """Return a picture as RGB or L on white; transparency is not what engines agree about."""
    from PIL import Image

    if picture.mode in ("RGB", "L") and "transparency" not in picture.info:
        return picture
    if picture.mode in ("RGBA", "LA", "PA", "P", "RGB", "L", "1"):
        layer = picture.convert("RGBA")
        flat = Image.new("RGB", picture.size, _WHITE)
        flat.paste(layer, mask=layer.getchannel("A"))
        return flat
    return picture.convert("RGB")


def _encode(picture: Image, format_name: str) -> _Prepared:
    stream = io.BytesIO()
    picture.info.clear()
    picture.save(stream, format_name, quality=_JPEG_QUALITY)
    return _Prepared(stream.getvalue(), "image", f"image/{format_name.lower()}", *picture.size)
