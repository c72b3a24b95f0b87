"""What reaches the terminal, byte by byte: no sequence that a server or a model wrote, only our own."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rkllm_chat.journal import Shelf
from rkllm_chat.messages import Message
from stage import PROGRAM, Screen, call_text

from .hostile import EVIL
from .session import HERE

OpenScreen = Callable[..., Screen]

# Moving the cursor, clearing, colours; hiding the cursor, its shape, line wrap, pasting and updates in one piece.
OURS = re.compile(
    rb"\x1b\[0m \x08"  # a step back over a blank at the end
    rb"|\x1b\[\d*[ABCDJK]|\x1b\[[\d;]*[Hm]|\x1b\[\?(?:1|7|12|25|2004|2026)[hl]|\x1b\[\d? q"
    rb"|\x1b\[\?(?:1000|1003|1006|1015)l"
)
CONTROL = re.compile(rb"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")
COPIED = re.compile(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07")


def foreign(data: bytes) -> list[bytes]:
    """The control characters that belong to no sequence of ours, with what follows them."""
    left = OURS.sub(b"", data)
    return [left[found.start() : found.start() + 20] for found in CONTROL.finditer(left)]


@pytest.fixture
def hostile(folder: Path) -> Path:
    (folder / "hostile.py").write_text((HERE / "hostile.py").read_text(encoding="utf-8"), encoding="utf-8")
    text = f'[[servers]]\nname = "hostile"\ncommand = "{PROGRAM[0]}"\nargs = ["hostile.py"]\n'
    (folder / "mcp_config.toml").write_text(text, encoding="utf-8")
    return folder


def say(screen: Screen, keys: str, *texts: str) -> None:
    """Types and waits; what a person sees as an escape is looked for without its line breaks."""
    screen.type(keys)
    for text in texts:
        screen.wait_for(text)


TOUR = [
    ("/tools\r", ["describes \\x1b]0;owned"]),
    ("/mcp\r", ["hostile  open"]),
    ("/mcp schema act\r", ["schema \\u001b]0;owned"]),
    ("/mcp log hostile\r", ["stderr \\x1b]0;owned"]),
    ("/resources\r", ["resource \\x1b]0;owned"]),
    ("/resource evil://one\r", ["It goes with the next message"]),
    ("/prompts\r", ["prompt \\x1b]0;owned"]),
    ("/prompt ask\r", ["who (argument \\x1b]0;owned"]),
]


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}], ids=["colour", "NO_COLOR"])
def test_no_sequence_of_a_server_or_a_model_reaches_the_terminal(
    variables: dict[str, str], open_screen: OpenScreen, script: Callable[..., str]
) -> None:
    answer = (
        f"# said {EVIL}\n\n- `{EVIL}`\n\n```\n{EVIL}\n```\n\n| a |\n|---|\n| {EVIL} |\n\n[a]({EVIL}) <{EVIL}>\n\nend"
    )
    model = script(
        "prompted.", call_text("act", what=f"argument {EVIL}"), f"<think>thought {EVIL}</think>{answer}", "fin."
    )
    screen = open_screen("--model", model, size=(300, 60), **variables)
    screen.wait_for("lists the commands")
    for keys, texts in TOUR:
        say(screen, keys, *texts)
    say(screen, "value\r", "prompted \\x1b]0;owned", "Send it?")
    say(screen, "y", "◆ prompted.")
    say(screen, "/thinking show\r", "Thinking: show")
    say(screen, "do it\r", "argument \\u001b]0;owned", "[q] stop:")
    say(screen, "y", "asks \\x1b]0;owned", "progress \\x1b]0;owned", "Answer it?")
    say(screen, "y", "field \\x1b]0;owned")
    say(screen, "me\r", "thought \\x1b]0;owned", "said \\x1b]0;owned", "end")
    say(screen, "/call act what=fail\r", "error \\x1b]0;owned")
    say(screen, "/history 1\r", "result \\x1b]0;owned")
    say(screen, "/context\r", "all of it")
    say(screen, "/retry\r", "◆ fin.")
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    assert foreign(screen.bytes) == []
    assert screen.emulator.title == ""
    assert b"\xe2\x80\xae" not in screen.bytes


def test_a_foreign_sequence_would_be_seen() -> None:
    for evil in (
        b"\x1b]0;owned\x07",
        b"\x1b[?1049h",
        b"\x1bP1$r\x1b\\",
        "\x9b31m".encode(),
        b"\x07",
        b"\x08",
        b"\x1bc",
    ):
        assert foreign(b"before" + evil + b"after") != [], evil
    assert foreign(b"\x1b[2;3H\x1b[0;1mplain\x1b[0m\x1b[?25l\x1b[5D\x1b[K\r\n") == []


def test_the_clipboard_gets_an_answer_only_when_it_is_asked_for(
    open_screen: OpenScreen, script: Callable[..., str]
) -> None:
    screen = open_screen("--model", script(f"Copied {EVIL} 潮"), "--no-servers")
    screen.wait_for("lists the commands")
    say(screen, "hi\r", "Copied", "潮")
    assert COPIED.findall(screen.bytes) == []
    say(screen, "/copy\r", "clipboard")
    (found,) = COPIED.findall(screen.bytes)
    assert base64.b64decode(found).decode() == f"Copied {EVIL} 潮"
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    assert foreign(COPIED.sub(b"", screen.bytes)) == []


@pytest.mark.usefixtures("hostile")
def test_a_dumb_terminal_gets_no_sequence_at_all(open_screen: OpenScreen, script: Callable[..., str]) -> None:
    model = script(call_text("act", what=f"argument {EVIL}"), f"said {EVIL}")
    screen = open_screen("--model", model, size=(300, 60), TERM="dumb")
    screen.wait_for("lists the commands")
    say(screen, "do it\r", "argument \\u001b]0;owned", "[q] stop:")
    say(screen, "y\r", "asks \\x1b]0;owned", "Answer it?")
    say(screen, "y\r", "field \\x1b]0;owned")
    say(screen, "me\r", "said \\x1b]0;owned")
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    assert CONTROL.findall(screen.bytes) == []


@pytest.mark.usefixtures("hostile")
def test_what_a_menu_offers_is_clean(open_screen: OpenScreen, script: Callable[..., str], folder: Path) -> None:
    (folder / "file\x1b]0;owned\x07").touch()
    screen = open_screen("--model", script("Hello."), size=(200, 40))
    screen.wait_for("lists the commands")
    for keys, text in (
        ("@ev", "evil://one"),
        ("@fi", "> @fi"),
        ("/prompt a", "ask"),
        ("/prompt ask who=va", "who=value"),
    ):
        say(screen, keys, text)
        say(screen, "\t", text)
        screen.type("\x03")
        screen.wait_for_prompt()
    assert foreign(screen.bytes) == []


PASTED = "\x1b[200~pay\u202e gnp\U000e0041\u200b ❤ now\x1b[201~"


def test_what_is_pasted_is_seen_whole_and_stays_as_it_is(
    open_screen: OpenScreen, script: Callable[..., str], shelf: Shelf
) -> None:
    """Before Enter and behind it; the cursor finds its place among the escapes."""
    screen = open_screen("--model", script("Well."), "--no-servers", size=(120, 30))
    screen.wait_for("lists the commands")
    say(screen, PASTED, "> pay\\u202e gnp\\U000e0041\\u200b")
    say(screen, "\x1b[D\x1b[D\x1b[D\x7fX", "Xnow")
    say(screen, "\r", "Well.")
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    assert "pay\\u202e gnp\\U000e0041\\u200b" in "\n".join(screen.lines())
    assert not {"\u202e", "\U000e0041", "\u200b"} & set(screen.bytes.decode(errors="replace"))
    said = [entry.record.text for entry in shelf.read(shelf.ids()[0]).entries if isinstance(entry.record, Message)]
    assert said == ["pay\u202e gnp\U000e0041\u200b ❤Xnow", "Well."]
