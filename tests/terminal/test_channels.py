"""Every attack sequence through every channel from others to the real terminal: no byte of it arrives."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import pytest

from attacks import SEQUENCES
from rkllm_chat.clean import HIDDEN, UNSAFE
from rkllm_chat.places import TRUST_VARIABLE
from stage import PROGRAM, Screen, call_text
from targets import Tell

from .channels import ERRORS_A_CALL, LINES, MARKED
from .session import HERE
from .test_bytes import OURS

LAST = f"q{len(MARKED) - 1:02}"
CALLS_A_TURN = 10
CALLS = range(-(-len(MARKED) // ERRORS_A_CALL))
ANSWER = "\n".join(f"- {text}" for text in MARKED)
ARGUMENTS = {f"a{number:02}": text for number, text in enumerate(MARKED)}

# Channel -> what is typed, each with what is waited for.
STEPS: dict[str, list[tuple[str, str]]] = {
    "results": [("/call act\r", LAST), ("/history\r", "")],
    "resources": [("/resources\r", LAST)],
    "prompts": [("/prompts\r", LAST), ("/prompt ask\r", "Send it?"), ("n", "")],
    "descriptions": [("/tools\r", LAST)],
    "names": [(f"go {first}\r", f"Done {first}.") for first in range(0, len(MARKED), CALLS_A_TURN)],
    "titles": [("/tools\r", LAST)],
    "server instructions": [("/mcp\r", "MCP 2025"), ("/tools\r", "act"), ("/mcp log channels\r", "")],
    "errors": [("/call act\r", LAST), *((f"/call act what={number}\r", "answered with error") for number in CALLS)],
    "stderr": [("/mcp log channels\r", LAST)],
    "elicitation": [("/call act\r", "Answer it?"), ("y", "may be left empty"), ("\x03", "")],
    "model output": [("/thinking show\r", "Thinking"), ("say it\r", LAST), ("again\r", LAST)],
    "arguments echoed": [("do it\r", "[q] stop:"), ("n", "Declined.")],
}
REPLIES: dict[str, list[str]] = {
    "names": [
        reply
        for first in range(0, len(MARKED), CALLS_A_TURN)
        for reply in ("\n".join(map(call_text, MARKED[first : first + CALLS_A_TURN])), f"Done {first}.")
    ],
    "model output": [ANSWER, f"<think>{LINES}</think>{LINES}\n\n```\n{LINES}\n```\n\n> {LINES}"],
    "arguments echoed": [call_text("act", **ARGUMENTS), "Declined."],
}
LONE_STEP = re.compile("(?<!\x08)\x08(?!\x08)")  # how prompt_toolkit goes one cell back
UNSHOWN = {"server instructions"}
"""Nothing of these is shown anywhere."""


@dataclass
class Talk:
    """What the terminal was given, or why the talk did not come to its end."""

    data: bytes = b""
    trouble: str = ""


@pytest.fixture(scope="module")
def hear(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """Channel -> all that the terminal was given in a talk in which that channel is hostile; each is held once."""

    @cache
    def talk(channel: str) -> Talk:
        folder = tmp_path_factory.mktemp("work")
        command = {"command": sys.executable, "args": [str(HERE / "channels.py"), channel]}
        server = {**command, "env": {"PYTHONPATH": str(HERE.parent)}}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"channels": server}}), encoding="utf-8")
        (folder / "replies.json").write_text(json.dumps(REPLIES.get(channel, ["Hello."])), encoding="utf-8")
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
        environment = {**kept, "HOME": str(folder), "LANG": "C.UTF-8", "TERM": "xterm", TRUST_VARIABLE: "1"}
        screen = Screen(("--model", "replies.json"), environment, folder, (300, 100), PROGRAM)
        try:
            return Talk(play(screen, STEPS[channel]))
        except AssertionError as error:
            return Talk(trouble=str(error))
        finally:
            screen.close()

    def data_of(channel: str) -> bytes:
        held = talk(channel)
        assert held.data, held.trouble
        return held.data

    return data_of


def play(screen: Screen, steps: list[tuple[str, str]]) -> bytes:
    screen.wait_for("lists the commands")
    screen.wait_for_prompt()
    for keys, text in steps:
        seen = partial(was_given, screen, len(screen.bytes), text.encode())
        screen.type(keys)
        screen.wait_until(seen, text)
        screen.wait_for_rest(0.1)
    screen.type("\x03\x04")
    assert screen.wait_for_end() == 0
    assert screen.emulator.title == "" and not screen.emulator.mode & {1049 << 5, 47 << 5}
    return screen.bytes


def was_given(screen: Screen, start: int, word: bytes) -> bool:
    return word in screen.bytes[start:]


def steering(data: bytes) -> list[str]:
    """The characters of a stretch of output that steer, turn or hide; a newline is ours."""
    text = data.decode("utf-8", errors="surrogateescape").replace("\r", "")
    text = LONE_STEP.sub("", text)
    return [found[0] for pattern in (UNSAFE, HIDDEN) for found in pattern.finditer(text)]


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("channel", STEPS)
def test_no_byte_of_a_sequence_reaches_the_terminal(
    channel: str, name: str, hear: Callable[[str], bytes], figure: Tell
) -> None:
    number = list(SEQUENCES).index(name)
    data = hear(channel)
    shown = re.findall(rb"k%02d:((?:(?!k\d\d:)[^\n]){0,300}?)(?::q%02d|\n)" % (number, number), data)
    assert bool(shown) == (channel not in UNSHOWN), "it must be seen that it came"
    through = [found for stretch in shown for found in steering(OURS.sub(b"", stretch))]
    figure(10, len(through), of=1)
    assert through == []
    assert MARKED[number].encode() not in data


@pytest.mark.parametrize("channel", STEPS)
def test_all_that_reaches_the_terminal_is_ours_or_plain(channel: str, hear: Callable[[str], bytes]) -> None:
    assert steering(OURS.sub(b"", hear(channel))) == []


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence_that_came_through_would_be_seen(name: str) -> None:
    assert steering(f"k00:{SEQUENCES[name]}:q00\r\n".encode()) != [] or name == "carriage return"
