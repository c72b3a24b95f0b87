"""The screen of an emulator as a picture, with its colours."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape, unescape
from io import StringIO
from itertools import groupby
from typing import Any

import pyte
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

HEX = re.compile(r"[0-9a-f]{6}")
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
TEXT = re.compile(
    r'(?P<start><text [^>]*)x="(?P<x>[\d.]+)"(?P<y>[^>]*)textLength="[\d.]+"(?P<end>[^>]*>)(?P<text>[^<]*)</text>'
)
CELL = 12.2
NAMES = {"brown": "yellow", "default": None}


def draw(emulator: pyte.Screen, clean: Callable[[str], str], title: str) -> str:
    """Return the screen as SVG; `clean` replaces in a line what differs from run to run."""
    console = Console(record=True, file=StringIO(), width=emulator.columns, force_terminal=True, legacy_windows=False)
    last = max(row for row in range(emulator.lines) if emulator.display[row].strip())
    for row in range(last + 1):
        console.print(read_row(emulator, row, clean), no_wrap=True, crop=True, highlight=False)
    drawn = console.export_svg(title=title, unique_id="screen")
    return TEXT.sub(_place_wide, FONT.sub("", drawn))  # the font would be loaded from the network


def _place_wide(match: re.Match[str]) -> str:
    """Return a text as one for each run of wide or narrow characters: rich draws a wide one in a single cell."""
    runs, x = list[str](), float(match["x"])
    for _, characters in groupby(unescape(match["text"]), cell_len):
        run = "".join(characters)
        size, text = CELL * cell_len(run), escape(run).replace("\xa0", "&#160;")
        runs.append(f'{match["start"]}x="{x:g}"{match["y"]}textLength="{size:g}"{match["end"]}{text}</text>')
        x += size
    return "".join(runs)


def read_row(emulator: pyte.Screen, row: int, clean: Callable[[str], str]) -> Text:
    """Return a line with its styles; one that `clean` changes gets the style of its first character."""
    cells = [emulator.buffer[row][column] for column in range(emulator.columns)]
    plain = "".join(cell.data for cell in cells).rstrip()
    if clean(plain) != plain:
        return Text(clean(plain), style=style_of(cells[0]))
    line = Text()
    for style, group in groupby(cells, style_of):
        line.append("".join(cell.data for cell in group), style)
    return line


def style_of(cell: Any) -> Style:
    """Return the style of a cell; the emulator shows dim text as a colour."""
    colors = [NAMES.get(color, color) for color in (cell.fg, cell.bg)]
    front, back = (f"#{color}" if color and HEX.fullmatch(color) else color for color in colors)
    front = front.replace("bright", "bright_") if front else front
    return Style(color=front, bgcolor=back, bold=cell.bold, italic=cell.italics, underline=cell.underscore)
