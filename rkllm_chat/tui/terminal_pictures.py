"""Show pictures in the terminal: by the protocols of kitty, iTerm2 and sixel, or as half blocks.

The terminal says in its environment what it understands; the setting `pictures` decides otherwise. Nothing is asked of
the terminal: an answer would come between the keys that the user types. Multiplexers do not pass the protocols on, so
half blocks are shown inside them. https://sw.kovidgoyal.net/kitty/graphics-protocol/,
https://iterm2.com/documentation-images.html, and DEC STD 070 (sixel).
"""

from __future__ import annotations

import io
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from ..config.settings import PictureDisplay
from ..core.messages import Media

if TYPE_CHECKING:
    from PIL.Image import Image

Protocol = Literal["kitty", "iterm2", "sixel", "blocks", "none"]
COLUMNS = 40
_MAX_ROWS = 20
_CELL_PIXELS = 10
"""Assumed width of a cell; its height is twice as much."""
_KITTY_CHUNK = 4096
_SIXEL_COLORS = 64
_ITERM_PROGRAMS = ("iTerm.app", "WezTerm", "mintty", "Tabby", "vscode", "rio")
_SIXEL_TERMINALS = re.compile(r"sixel|^foot|^mlterm|^contour|^yaft")
_KITTY_TERMINALS = ("xterm-kitty", "xterm-ghostty")
_UPPER_HALF = "▀"
_RUN = re.compile(rb"(.)\1{3,}", re.DOTALL)


def choose_protocol(name: PictureDisplay, variables: Mapping[str, str], *, has_color: bool) -> Protocol:
    """Return how pictures are shown.

    Args:
        name: The setting; "auto" for what the terminal says.
        variables: Environment variables.
        has_color: Whether colours are shown; without them there are no half blocks.
    """
    if name != "auto":
        return name
    term, program = variables.get("TERM", ""), variables.get("TERM_PROGRAM", "")
    if "TMUX" in variables or term.startswith(("screen", "tmux")):
        return "blocks" if has_color else "none"
    if term in _KITTY_TERMINALS or "KITTY_WINDOW_ID" in variables or program == "ghostty":
        return "kitty"
    if program in _ITERM_PROGRAMS or variables.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    if _SIXEL_TERMINALS.search(term) or program in ("mlterm", "contour"):
        return "sixel"
    return "blocks" if has_color else "none"


def draw_picture(media: Media, protocol: Protocol, columns: int, variables: Mapping[str, str]) -> list[str]:
    """Return the lines that show a picture, each with its escape sequences; none if it cannot be shown.

    Args:
        media: A picture of a `MediaStore`.
        protocol: How it is shown.
        columns: Width of the terminal in cells.
        variables: Environment variables, for the colours of half blocks.
    """
    if media.kind != "image" or protocol == "none":
        return []
    try:
        from PIL import Image

        with Image.open(media.path, formats=["PNG", "JPEG"]) as opened:
            width, height = _fit(opened.width, opened.height, min(COLUMNS, columns))
            opened.draft("RGB", (width * _CELL_PIXELS, height * 2 * _CELL_PIXELS))
            picture = opened.convert("RGB")
    except (ImportError, OSError):  # Pillow or the file is gone; the line about the result names the picture
        return []
    if protocol == "blocks":
        return [*_draw_blocks(picture.resize((width, height * 2)), _choose_color(variables))]
    picture.thumbnail((width * _CELL_PIXELS, height * 2 * _CELL_PIXELS))
    return [_DRAWERS[protocol](picture, width)]


def _fit(width: int, height: int, columns: int) -> tuple[int, int]:
    """Return the columns and rows of a picture, whose cells are twice as high as wide."""
    rows = height * columns / (2 * width)
    if rows > _MAX_ROWS:
        columns, rows = round(columns * _MAX_ROWS / rows), _MAX_ROWS
    return max(1, columns), max(1, round(rows))


def _encode(picture: Image) -> str:
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return b64encode(stream.getvalue()).decode("ascii")


def _draw_kitty(picture: Image, columns: int) -> str:
    """Transmit and show a PNG (a=T, f=100) without an answer of the terminal (q=2)."""
    data = _encode(picture)
    chunks = [data[start : start + _KITTY_CHUNK] for start in range(0, len(data), _KITTY_CHUNK)]
    sequences = []
    for number, chunk in enumerate(chunks):
        head = f"a=T,f=100,c={columns},q=2," if number == 0 else "q=2,"
        sequences.append(f"\x1b_G{head}m={int(number + 1 < len(chunks))};{chunk}\x1b\\")
    return "".join(sequences)


def _draw_iterm(picture: Image, columns: int) -> str:
    data = _encode(picture)
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return f"\x1b]1337;File=inline=1;size={size};width={columns};preserveAspectRatio=1:{data}\x07"


def _draw_sixel(picture: Image, _columns: int) -> str:
    """Return a picture as sixels: bands of six rows, and in each band one line of bits for each color in it."""
    import numpy as np

    reduced = picture.quantize(_SIXEL_COLORS)
    palette = reduced.getpalette() or []
    pixels = np.asarray(reduced)
    used = [int(color) for color in np.unique(pixels)]
    parts = [f'\x1bP0;1;0q"1;1;{picture.width};{picture.height}']
    for color in used:
        red, green, blue = (round(value * 100 / 255) for value in palette[3 * color : 3 * color + 3])
        parts.append(f"#{color};2;{red};{green};{blue}")
    bands: list[str] = []
    for top in range(0, picture.height, 6):
        band = pixels[top : top + 6]
        weights = (1 << np.arange(len(band), dtype=np.uint8))[:, None]
        lines = []
        for color in np.unique(band):
            bits = ((band == color) * weights).sum(axis=0).astype(np.uint8) + 63
            line = _RUN.sub(lambda run: b"!%d%b" % (len(run[0]), run[1]), bits.tobytes().rstrip(b"?"))
            lines.append(f"#{color}{line.decode('ascii')}")
        bands.append("$".join(lines))
    return "".join(parts) + "-".join(bands) + "\x1b\\"


_DRAWERS: dict[str, Callable[[Image, int], str]] = {"kitty": _draw_kitty, "iterm2": _draw_iterm, "sixel": _draw_sixel}


def _draw_blocks(picture: Image, color: Callable[[tuple[int, int, int]], str]) -> Iterator[str]:
    """Yield lines of half blocks: the upper pixel is the foreground color, the lower one the background."""
    pixels = picture.load()
    assert pixels
    for top in range(0, picture.height, 2):
        cells, last = "", ""
        for column in range(picture.width):
            upper, lower = pixels[column, top], pixels[column, top + 1]
            assert isinstance(upper, tuple) and isinstance(lower, tuple)
            style = f"\x1b[38;{color(upper[:3])};48;{color(lower[:3])}m"  # type: ignore[arg-type]
            cells += (style if style != last else "") + _UPPER_HALF
            last = style
        yield f"{cells}\x1b[0m"


def _choose_color(variables: Mapping[str, str]) -> Callable[[tuple[int, int, int]], str]:
    """Return what writes a color: of 16 million where the terminal says that it has them, else of 216."""
    if variables.get("COLORTERM") in ("truecolor", "24bit"):
        return lambda rgb: "2;{};{};{}".format(*rgb)
    return lambda rgb: f"5;{16 + sum(round(value / 51) * scale for value, scale in zip(rgb, (36, 6, 1), strict=True))}"
