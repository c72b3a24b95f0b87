"""Pictures of tools on the screen by each protocol, and what the user does with them: attach, drop, list, save."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from base64 import b64decode
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pictures import BLUE, GREEN, RED, draw, encode, take_photo
from rkllm_chat.tui.pasted_text import mention_dropped_files
from rkllm_chat.tui.terminal_pictures import choose_protocol
from stage import Screen, call_text

OpenScreen = Callable[..., Screen]
SERVER = Path(__file__).parents[1] / "picture_server.py"
PASTE = "\x1b[200~{}\x1b[201~"


@pytest.fixture
def open_chat(open_screen: OpenScreen, folder: Path) -> OpenScreen:
    """Open the chat with a scripted model and the server with pictures."""

    def open_one(*replies: str, media: tuple[str, ...] = ("image",), arguments: str = "", **variables: str) -> Screen:
        (folder / "look.png").write_bytes(encode(draw(120, 80)))
        (folder / "replies.json").write_text(json.dumps({"replies": replies, "media": media}), encoding="utf-8")
        config = {"mcpServers": {"cam": {"command": sys.executable, "args": [str(SERVER), str(folder)]}}}
        (folder / "cam.json").write_text(json.dumps(config), encoding="utf-8")
        model = ("--backend", "scripted", "--model", "replies.json")
        screen = open_screen(*model, "--config", "cam.json", "--allow", "*", *arguments.split(), **variables)
        screen.wait_for("Ctrl+D")
        screen.wait_for_prompt()
        return screen

    return open_one


def is_drawn(picture: Image.Image) -> bool:
    """Whether a picture is that of `draw`, whatever its size."""
    width, height = picture.size
    places = (
        (width // 4, height // 2, RED),
        (3 * width // 4, height // 12, GREEN),
        (3 * width // 4, height // 2, BLUE),
    )
    found = [picture.convert("RGB").getpixel((x, y)) for x, y, _ in places]
    return all(color == pytest.approx(expected, abs=30) for color, (_, _, expected) in zip(found, places, strict=True))


def look(screen: Screen) -> bytes:
    """What the terminal got while a tool looked."""
    before = len(screen.bytes)
    screen.say("look\r", "◆ Noon.")
    screen.wait_for_prompt()
    return screen.bytes[before:]


def open_png(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(b64decode(data)))


def test_kitty_gets_a_png_in_chunks(open_chat: OpenScreen) -> None:
    shown = look(open_chat(call_text("look"), "Noon.", TERM="xterm-kitty"))
    sequences = re.findall(rb"\x1b_G([^;]*);([^\x1b]*)\x1b\\", shown)
    assert sequences[0][0].startswith(b"a=T,f=100,c=40,q=2,") and all(len(data) <= 4096 for _, data in sequences)
    assert [b"m=1" in head for head, _ in sequences] == [True] * (len(sequences) - 1) + [False]
    assert is_drawn(open_png(b"".join(data for _, data in sequences)))


def test_iterm2_gets_an_inline_file(open_chat: OpenScreen) -> None:
    shown = look(open_chat(call_text("look"), "Noon.", LC_TERMINAL="iTerm2"))
    (found,) = re.findall(rb"\x1b\]1337;File=inline=1;size=(\d+);width=40;preserveAspectRatio=1:([^\x07]*)\x07", shown)
    assert len(b64decode(found[1])) == int(found[0])
    assert is_drawn(open_png(found[1]))


def read_sixel(data: str) -> Image.Image:
    """Read a picture in sixels, as DEC STD 070 describes them."""
    width, height = map(int, data.partition('"1;1;')[2].partition("#")[0].split(";"))
    picture = Image.new("RGB", (width, height))
    colors: dict[str, tuple[int, ...]] = {}
    x = y = 0
    color = ""
    for token in re.findall(
        r"#\d+(?:;2;\d+;\d+;\d+)?|!\d+.|[?-~]|[$-]", data.partition(";".join(("1", "1", str(width))))[2]
    ):
        if token[0] == "#":
            color, *values = token[1:].split(";")
            if values:
                colors[color] = tuple(round(int(value) * 2.55) for value in values[1:])
        elif token == "$":
            x = 0
        elif token == "-":
            x, y = 0, y + 6
        else:
            count = int(token[1:-1]) if token[0] == "!" else 1
            rows = [y + row for row in range(6) if (ord(token[-1]) - 63) >> row & 1]
            for column, row in product(range(x, x + count), rows):
                picture.putpixel((column, row), colors[color])
            x += count
    return picture


def test_a_sixel_terminal_gets_sixels(open_chat: OpenScreen) -> None:
    shown = look(open_chat(call_text("look"), "Noon.", TERM="foot"))
    (data,) = re.findall(r"\x1bP0;1;0q(.*?)\x1b\\", shown.decode("ascii", errors="ignore"), re.DOTALL)
    assert is_drawn(read_sixel(data))


def test_other_terminals_show_half_blocks_at_40_columns(open_chat: OpenScreen) -> None:
    screen = open_chat(call_text("look"), "Noon.", COLORTERM="truecolor")
    look(screen)
    rows = [row for row in screen.emulator.display if "▀" in row]
    assert [row.rstrip() for row in rows] == ["▀" * 40] * 13
    assert any("[image/png, " in row and "not shown" not in row for row in screen.emulator.display)


@pytest.mark.parametrize("arguments", ["--no-color", "--theme none"])
def test_without_colors_the_picture_is_named(arguments: str, open_chat: OpenScreen) -> None:
    screen = open_chat(call_text("look"), "Noon.", arguments=arguments)
    look(screen)
    text = "\n".join(screen.emulator.display)
    assert "▀" not in text and re.search(r"\[image/png, \d+ bytes, not shown\]", text)


PROTOCOLS: list[tuple[dict[str, str], str]] = [
    ({"TERM": "xterm-ghostty"}, "kitty"),
    ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
    ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm2"),
    ({"TERM": "xterm-sixel"}, "sixel"),
    ({"TERM": "xterm-256color"}, "blocks"),
    ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1", "TMUX": "x"}, "blocks"),
]


@pytest.mark.parametrize(("variables", "protocol"), PROTOCOLS)
def test_the_environment_says_what_a_terminal_can(variables: dict[str, str], protocol: str) -> None:
    assert choose_protocol("auto", variables, has_color=True) == protocol
    assert choose_protocol("sixel", variables, has_color=True) == "sixel"


@pytest.mark.slow
def test_plain_output_has_no_picture_and_the_files_are_saved(
    program: Callable[..., Any], folder: Path, environment: dict[str, str]
) -> None:
    environment["TERM"] = "xterm-kitty"
    (folder / "look.png").write_bytes(encode(draw()))
    (folder / "replies.json").write_text(json.dumps([call_text("look"), "Noon."]), encoding="utf-8")
    config = {"mcpServers": {"cam": {"command": sys.executable, "args": [str(SERVER), str(folder)]}}}
    (folder / "cam.json").write_text(json.dumps(config), encoding="utf-8")
    model = ("--backend", "scripted", "--model", "replies.json", "--config", "cam.json", "--allow", "*")
    done = program("-p", "look", *model, "--output-dir", "out")
    assert done.stdout == "Noon.\n" and "\x1b" not in done.stdout + done.stderr
    assert (folder / "out" / "look-1.png").read_bytes() == (folder / "look.png").read_bytes()
    assert f"Saved {folder / 'out' / 'look-1.png'}." in done.stderr
    (folder / "replies.json").write_text(json.dumps([call_text("look"), "Noon."]), encoding="utf-8")
    done = program("-p", "look", *model, "--output-dir", "out", "--output-format", "json")
    (call,) = json.loads(done.stdout)["result"]["calls"]
    assert [(medium["kind"], medium["path"]) for medium in call["media"]] == [
        ("image", str(folder / "out" / "look-2.png"))
    ]


def test_pictures_are_listed_saved_and_opened(open_chat: OpenScreen, folder: Path) -> None:
    os.mkfifo(folder / "opened")
    browser = folder / "browser"
    browser.write_text('#!/bin/sh\necho "$1" > opened\n', encoding="utf-8")
    browser.chmod(0o755)
    screen = open_chat(call_text("report"), "Done.", BROWSER=str(browser), arguments="--no-color")
    screen.enter("/image", "has no pictures")
    screen.enter("report", "◆ Done.")
    lines = screen.enter("/attach", "3  report")
    assert [re.sub(r" +", " ", line) for line in lines if re.match(r"[123]  ", line)] == [
        "1 cam://report application/pdf, 16 bytes",
        "2 report audio/wav, 23 bytes",
        f"3 report image/png, 120 × 80, {(folder / 'look.png').stat().st_size} bytes",
    ]
    screen.enter("/attach 1 report.pdf", "Saved report.pdf.")
    assert (folder / "report.pdf").read_bytes() == b"%PDF-1.4 nothing"
    screen.enter("/image 1 report.pdf", "report.pdf exists.")
    screen.enter("/image 3 .", "report-1.png.")
    assert (folder / "report-1.png").read_bytes() == (folder / "look.png").read_bytes()
    screen.enter("/image 3", "Opened report.")
    assert (folder / "opened").read_text(encoding="utf-8").startswith("file:///")  # waits for the browser
    screen.enter("/image 9", 'There is no picture "9"')


def test_a_dropped_file_becomes_a_mention_and_a_blind_model_is_asked_about(open_chat: OpenScreen, folder: Path) -> None:
    (folder / "my photo.jpg").write_bytes(take_photo())
    screen = open_chat("I see nothing.", media=())
    screen.type(PASTE.format(str(folder / "my photo.jpg").replace(" ", "\\ ")))
    screen.say("what is it?\r", "does not understand this", "[y/N]")
    screen.say("y", "◆ I see nothing.")


def test_attach_says_what_it_attaches(open_chat: OpenScreen, folder: Path) -> None:
    (folder / "photo.jpg").write_bytes(take_photo())
    screen = open_chat("A flag.")
    screen.enter("/attach photo.jpg", "[Attached: photo.jpg] image/jpeg, 48 × 64", "It will be attached")
    screen.enter("What is it?", "◆ A flag.")
    screen.enter("/attach nosuch.jpg", "nosuch.jpg is not a file")


def test_retry_sends_the_picture_again_and_edit_attaches_it(open_chat: OpenScreen, folder: Path) -> None:
    (folder / "photo.jpg").write_bytes(take_photo())
    screen = open_chat("A flag.", "Still a flag.", "An edited flag.", EDITOR="true")
    screen.enter("What is on @photo.jpg?", "◆ A flag.")
    screen.enter("/retry", "◆ Still a flag.")
    screen.type("/edit\r")
    screen.wait_until(lambda: "> What is on @photo.jpg?" in screen.lines()[-2:], "the message in the input line")
    screen.say("\x15Sure?\r", "◆ An edited flag.")
    screen.wait_for_prompt()
    (session,) = folder.parent.rglob("sessions/*.jsonl")
    records = [json.loads(line) for line in session.read_text(encoding="utf-8").splitlines()]
    said = [record for record in records if record.get("role") == "user"]
    assert [(record["text"], [medium["name"] for medium in record["media"]]) for record in said] == [
        ("What is on @photo.jpg?", ["photo.jpg"]),
        ("What is on @photo.jpg?", ["photo.jpg"]),
        ("Sure?", ["photo.jpg"]),
    ]


def test_a_prompt_of_a_server_sends_its_picture(open_chat: OpenScreen) -> None:
    screen = open_chat("A flag.")
    screen.say("/prompt describe\r", "user: Describe this:", "user: [image/png, ", "[y/N]")
    screen.say("y", "◆ A flag.")


def test_only_paths_of_pictures_are_mentioned(tmp_path: Path) -> None:
    photo, spaced = tmp_path / "a.jpg", tmp_path / "b c.png"
    photo.write_bytes(take_photo())
    spaced.write_bytes(encode(draw()))
    (tmp_path / "text.png").write_text("text", encoding="utf-8")
    assert mention_dropped_files(f"{photo}\n") == f"@{photo}"
    assert mention_dropped_files(f"'{spaced}' {photo}") == f'@"{spaced}" @{photo}'
    assert mention_dropped_files(spaced.as_uri()) == f'@"{spaced}"'
    for text in (
        f"see {photo}",
        "a.jpg",
        str(tmp_path / "text.png"),
        f"{photo} /etc/passwd",
        "/" * 9999,
        "/nosuch.png",
    ):
        assert mention_dropped_files(text) == ""
