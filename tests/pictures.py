"""Pictures for tests: valid ones and hostile ones."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

from PIL import Image, ImageDraw, PngImagePlugin

RED, GREEN, BLUE = (220, 20, 20), (20, 200, 40), (20, 40, 220)
_ORIENTATION = 0x112


def encode(picture: Image.Image, format_name: str = "PNG", **options: Any) -> bytes:
    """Return a picture as the bytes of a file."""
    stream = io.BytesIO()
    picture.save(stream, format_name, **options)
    return stream.getvalue()


def draw(width: int = 64, height: int = 48, mode: str = "RGB") -> Image.Image:
    """Return a picture whose left half is red, and the right one blue with a green top."""
    picture = Image.new("RGB", (width, height), BLUE)
    pen = ImageDraw.Draw(picture)
    pen.rectangle((width // 2, 0, width, height // 4), GREEN)
    pen.rectangle((0, 0, width // 2 - 1, height), RED)
    return picture.convert(mode)


def take_photo(width: int = 64, height: int = 48) -> bytes:
    """Return a JPEG of a camera that was turned by 90 degrees, with the place where it was taken."""
    exif = Image.Exif()
    exif[_ORIENTATION] = 6
    exif.get_ifd(0x8825)[1] = "N"
    return encode(draw(width, height), "JPEG", exif=exif, quality=95)


def make_png(width: int, height: int, data: bytes = b"", color_type: int = 2, bits: int = 8) -> bytes:
    """Return a PNG with a header that says anything."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, bits, color_type, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def _make_text_bomb() -> bytes:
    text = PngImagePlugin.PngInfo()
    text.add_text("x", "a" * 50_000_000, zip=True)
    return encode(draw(), pnginfo=text)


def _make_many_passes() -> bytes:
    jpeg = encode(draw(), "JPEG", progressive=True)
    last_scan = jpeg[jpeg.rindex(b"\xff\xda") : -2]
    return jpeg[:-2] + last_scan * 1000 + jpeg[-2:]


def _truncate(format_name: str) -> bytes:
    return encode(Image.effect_noise((300, 300), 80), format_name)[:4000]


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "too long": (lambda: encode(Image.new("RGB", (50_000, 1))), "50000 × 1 pixels"),
    "bomb": (lambda: make_png(60_000, 60_000, zlib.compress(bytes(10_000_000))), "too many pixels"),
    "large": (lambda: make_png(5000, 5000, zlib.compress(bytes(75_000_000))), "15 million"),
    "text": (_make_text_bomb, "is damaged"),
    "many passes": (_make_many_passes, "passes"),
    "GIF": (lambda: b"GIF89a" + struct.pack("<HH", 65535, 65535) + bytes(100), "is damaged"),
    "truncated PNG": (lambda: _truncate("PNG"), "is damaged"),
    "truncated JPEG": (lambda: _truncate("JPEG"), "is damaged"),
    "truncated WebP": (lambda: _truncate("WEBP"), "is damaged"),
    "header alone": (lambda: b"\x89PNG\r\n\x1a\n", "is damaged"),
    "HEIC": (lambda: b"\0\0\0\x18ftypheic" + bytes(100), "HEIC"),
    "huge": (lambda: b"\x89PNG\r\n\x1a\n" + bytes(33 << 20), "limit"),
    "another type": (lambda: b"PK\x03\x04" + bytes(100), "neither a picture nor a sound"),
    "empty": (lambda: b"", "neither a picture nor a sound"),
}
"""Pictures that must not be read: what makes them, and a part of the sentence that says why."""
