"""Text of servers, models and pasted text at the real terminal: none of its control sequences arrives."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attacks import SEQUENCES
from rkllm_chat.core.messages import Message
from rkllm_chat.core.sanitize import UNSAFE, ZERO_WIDTH
from rkllm_chat.storage.session_files import SessionDirectory
from stage import NO_BOARD, Screen, call_text

from .channels import LINES, MARKED, PER_MESSAGE
from .server_configs import write_servers

OpenChat = Callable[..., Screen]
LAST = f"q{len(MARKED) - 1:02}"
CALLS_PER_TURN = 5
STARTS = range(0, len(MARKED), CALLS_PER_TURN)
CALLS = range(-(-len(MARKED) // PER_MESSAGE))
ANSWER = "\n".join(f"- {text}" for text in MARKED)
ARGUMENTS = {f"a{number:02}": text for number, text in enumerate(MARKED)}

# Channel -> what is typed, and the text to wait for. Keys of one or two characters answer a question.
STEPS: dict[str, list[tuple[str, str]]] = {
    "results": [
        ("/call act\r", "Ctrl+O shows them"),
        ("\x0f", LAST),
        ("act\r", "[q] stop:"),
        ("y", "Done."),
        ("/history 1\r", LAST),
        ("\x0f", LAST),
        ("/context\r", "total"),
    ],
    "resources": [("/resources\r", LAST)],
    "prompts": [("/prompts\r", LAST), ("/prompt ask who=me\r", "Send it?"), ("n", "[y/N] n")],
    "prompt arguments": [("/prompt ask\r", LAST), ("x\r", "Send it?"), ("n", "[y/N] n")],
    "descriptions": [("/tools list\r", LAST)],
    "schemas": [("/mcp schema act\r", LAST)],
    "names": [("go\r", f"Done {first}.") for first in STARTS],
    "titles": [("/tools list\r", LAST)],
    "server instructions": [("/mcp list\r", "MCP 2025"), ("/tools list\r", "act"), ("/mcp channels\r", LAST)],
    "errors": [
        ("/call act\r", "shows them"),
        ("\x0f", LAST),
        *((f"/call act what={number}\r", "answered with error") for number in CALLS),
    ],
    "logs": [("/call act\r", "completed")],
    "stderr": [("/mcp log channels\r", LAST)],
    "elicitation": [("/call act\r", "Answer it?"), ("", "progress k00:"), ("y", "optional"), ("\x03", "completed")],
    "model output": [("/thinking show\r", "Thinking"), ("say it\r", LAST), ("again\r", LAST)],
    "arguments echoed": [("do it\r", "[q] stop:"), ("n", "Why not?"), ("\x03", "as you said no")],
    "arguments edited": [("do it\r", "[q] stop:"), ("e", f'{LAST}"}}'), ("\x03", LAST), ("\x03", "not run")],
}
REPLIES: dict[str, list[str]] = {
    "results": [call_text("act"), "Done."],
    "names": [
        reply
        for first in STARTS
        for reply in ("\n".join(map(call_text, MARKED[first : first + CALLS_PER_TURN])), f"Done {first}.")
    ],
    "model output": [ANSWER, f"<think>{LINES}</think>{LINES}\n\n```\n{LINES}\n```\n\n> {LINES}"],
    "arguments echoed": [call_text("act", **ARGUMENTS)],
    "arguments edited": [call_text("act", **ARGUMENTS)],
}
# What the program itself sends: cursor, clearing, colours, cursor shape, wrapping, pasting, synchronized updates.
OURS = re.compile(
    rb"\x1b\[0m \x08"  # a step back over a blank at the end
    rb"|\x1b\[\d*[ABCDJK]|\x1b\[[\d;]*[Hm]|\x1b\[\?(?:1|7|12|25|2004|2026)[hl]|\x1b\[\d? q"
    rb"|\x1b\[\?(?:1000|1003|1006|1015)l"
)
COPIED = re.compile(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07")
LONE_STEP = re.compile("(?<!\x08)\x08(?!\x08)")  # how prompt_toolkit goes one cell back


def configure(folder: Path, channel: str) -> None:
    """Write a configuration with a server that is hostile in one channel."""
    server = str(Path(__file__).with_name("channels.py"))
    write_servers(folder, "mcp_config.toml", {"channels": [sys.executable, server, channel]})
    with (folder / "mcp_config.toml").open("a", encoding="utf-8") as file:
        file.write(f"{NO_BOARD}[chat]\nbell = false\n")  # the program's own bell: any other one is found


def find_steering(data: bytes) -> list[str]:
    """Return the control, bidirectional and hidden characters that a terminal was given, except newlines."""
    text = LONE_STEP.sub("", data.decode("utf-8", errors="surrogateescape").replace("\r", ""))
    return [match[0] for pattern in (UNSAFE, ZERO_WIDTH) for match in pattern.finditer(text)]


def find_foreign(data: bytes) -> list[str]:
    """Like `find_steering`, without what the program itself sends."""
    return find_steering(OURS.sub(b"", data))


def type_and_wait(screen: Screen, keys: str, text: str) -> None:
    """Type keys and wait until the text is sent to the terminal, or shown by changing other cells of its line."""
    start = len(screen.bytes) if keys else 0
    shown_before = sum(text in line for line in screen.lines())
    screen.type(keys)
    screen.wait_until(
        lambda: text.encode() in screen.bytes[start:] or sum(text in line for line in screen.lines()) > shown_before,
        text,
    )


@pytest.mark.slow
@pytest.mark.parametrize("channel", STEPS)
def test_no_byte_of_a_sequence_reaches_the_terminal(channel: str, open_chat: OpenChat, folder: Path) -> None:
    configure(folder, channel)
    screen = open_chat("", *REPLIES.get(channel, ["Hello."]), size=(300, 100))
    for keys, text in STEPS[channel]:
        if len(keys) > 2:
            screen.wait_for_prompt()
        type_and_wait(screen, keys, text)
    screen.wait_for_prompt()
    screen.leave()
    assert screen.emulator.title == "" and not screen.emulator.mode & {1049 << 5, 47 << 5}
    assert find_foreign(screen.bytes) == []
    assert [text for text in MARKED if text.encode() in screen.bytes] == []
    shown = {int(number) for number in re.findall(rb"k(\d\d):", screen.bytes)}
    assert shown == set(range(len(MARKED)))


def test_a_sequence_that_came_through_would_be_found() -> None:
    missed = [name for name, text in SEQUENCES.items() if not find_steering(f"k00:{text}:q00\r\n".encode())]
    assert missed == ["carriage return"]
    for evil in ("\x1b]0;owned\x07", "\x1b[?1049h", "\x1bP1$r\x1b\\", "\x9b31m", "\x07", "\x1bc"):
        assert find_foreign(f"before{evil}after".encode()) != [], evil
    assert find_foreign(b"\x1b[2;3H\x1b[0;1mplain\x1b[0m\x1b[?25l\x1b[5D\x1b[K\r\n") == []


def test_a_dumb_terminal_gets_no_sequence_at_all(open_chat: OpenChat, folder: Path) -> None:
    configure(folder, "elicitation")
    screen = open_chat("", call_text("act", **ARGUMENTS), f"said {LINES}", size=(300, 100), TERM="dumb")
    screen.say("do it\r", LAST, "[q] stop:")
    screen.say("y\r", "progress k00:", "Answer it?")
    screen.say("y\r", "optional")
    screen.say("me\r", f"said k00:{SEQUENCES['window title'].encode('unicode_escape').decode()}", LAST)
    screen.leave()
    assert find_steering(screen.bytes) == []


def test_completions_contain_no_sequence(open_chat: OpenChat, folder: Path) -> None:
    configure(folder, "completions")
    (folder / "file\x1b]0;owned\x07").touch()
    screen = open_chat("", "Hello.", size=(200, 40))
    lines = {"@ev": "evil://00", "@fi": "> @fi", "/prompt a": "ask", "/prompt ask who=va": "who=value"}
    for line, text in lines.items():
        screen.say(line, text)
        screen.say("\t", text)
        screen.type("\x03")
        screen.wait_for_prompt()
    assert find_foreign(screen.bytes) == []


def test_the_clipboard_gets_an_answer_only_on_request(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", f"Copied {LINES} 潮")
    screen.enter("hi", "Copied", "潮")
    assert COPIED.findall(screen.bytes) == []
    screen.enter("/copy", "Copied 929 characters")
    (copied,) = COPIED.findall(screen.bytes)
    assert base64.b64decode(copied).decode() == f"Copied {LINES} 潮"
    screen.leave()
    assert find_foreign(COPIED.sub(b"", screen.bytes)) == []


def test_hidden_characters_in_pasted_text_are_shown_and_sent_unchanged(
    open_chat: OpenChat, shelf: SessionDirectory
) -> None:
    """The cursor moves by characters of the text, not of the escapes."""
    screen = open_chat("--no-servers", "Well.", size=(120, 30))
    screen.say("\x1b[200~pay\u202e gnp\U000e0041\u200b ❤ now\x1b[201~", "> pay\\u202e gnp\\U000e0041\\u200b")
    screen.say("\x1b[D\x1b[D\x1b[D\x7fX", "Xnow")
    screen.enter("", "Well.")
    screen.leave()
    assert "pay\\u202e gnp\\U000e0041\\u200b" in "\n".join(screen.lines())
    assert not {"\u202e", "\U000e0041", "\u200b"} & set(screen.bytes.decode(errors="replace"))
    entries = shelf.read(shelf.list_ids()[0]).entries
    sent = [entry.record.text for entry in entries if isinstance(entry.record, Message)]
    assert sent == ["pay\u202e gnp\U000e0041\u200b ❤Xnow", "Well."]
