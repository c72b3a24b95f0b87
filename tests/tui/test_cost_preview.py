"""The estimated cost of a message in the status line while it is typed, on a real pseudo terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from rkllm_chat.core.events import Usage
from rkllm_chat.storage.session_files import SessionDirectory
from stage import Screen

from .server_configs import write_late

pytestmark = pytest.mark.model
OpenChat = Callable[..., Screen]
PRICE = re.compile(r"([\d,]+) tokens, ([\d,]+) cached, ([\d,]+) new")
LONG_S = 0.6
"""Longer than counting the input takes."""


def price_of(screen: Screen) -> tuple[int, ...]:
    """Return total, cached and new tokens, once the status line shows them."""
    screen.wait_until(lambda: bool(PRICE.search(screen.lines()[-1])), "a price")
    found = PRICE.search(screen.lines()[-1])
    assert found
    return tuple(int(figure.replace(",", "")) for figure in found.groups())


def spent(shelf: SessionDirectory) -> list[Usage]:
    (name,) = shelf.list_ids()
    return [entry.record for entry in shelf.read(name).entries if isinstance(entry.record, Usage)]


@pytest.mark.slow
def test_the_estimate_equals_the_cost(open_chat: OpenChat, shelf: SessionDirectory, folder: Path) -> None:
    """Including the signatures of tools that are added to a question."""
    (folder / "mcp_config.toml").write_text(
        '[chat]\nprompt_profile = "tiny-tools"\nprefill_ahead = false\n', encoding="utf-8"
    )
    screen = open_chat()
    estimates: list[tuple[int, ...]] = []
    for line in ("What time is it in Tokyo?", "こんにちは、元気？"):
        screen.type(line)
        estimates.append(price_of(screen))
        screen.type("\r")
        screen.wait_until(lambda: "\n".join(screen.lines()).count("◆") == len(estimates), "the reply")
        screen.wait_for_prompt(40)
    first, *_, last = [(usage.prompt_tokens, usage.reused_tokens, usage.prefilled_tokens) for usage in spent(shelf)]
    assert estimates == [first, last]
    assert estimates[0][1] == 0 < estimates[1][1]


@pytest.mark.slow
def test_the_estimate_has_the_tools_of_a_server_as_soon_as_it_has_started(open_chat: OpenChat, folder: Path) -> None:
    (folder / "wait").touch()
    screen = open_chat(write_late(folder), "So.")
    screen.type("How high is the tide?")
    before = price_of(screen)[0]
    (folder / "wait").unlink()
    screen.wait_until(lambda: price_of(screen)[0] > before + 50, "the estimate with the tools")


@pytest.mark.slow
def test_a_text_that_returns_at_once_has_its_estimate_again(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "So.")
    for _ in range(4):  # within the pause after the count, or behind it
        screen.type("x")
        price = price_of(screen)
        screen.type("\x7f")
        screen.wait_until(lambda: not PRICE.search(screen.lines()[-1]), "no price")
        screen.type("x")
        assert price_of(screen) == price
        screen.type("\x7f")
        screen.wait_until(lambda: not PRICE.search(screen.lines()[-1]), "no price")


@pytest.mark.slow
def test_the_time_is_shown_once_measured_and_after_a_restart(open_chat: OpenChat, environment: dict[str, str]) -> None:
    screen = open_chat("--no-servers")
    screen.type("Hello!")
    price_of(screen)
    assert "about" not in screen.lines()[-1]
    screen.enter("", "How can I help you?")  # may be too fast for a speed
    screen.say("And now?", "new, about")
    screen.type("\x03")
    screen.enter("/context", "new, about")
    screen.leave()
    stored = json.loads((Path(environment["HOME"]) / ".local/state/rkllm-chat/measured.json").read_text("utf-8"))
    assert [len(sample) for sample in stored["read tiny-tools.gguf"]] == [3]
    open_chat("--no-servers").say("Hello!", "new, about")


@pytest.mark.slow
def test_a_longer_line_costs_more_and_a_command_has_no_estimate(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "Well met.")
    usual = screen.wait_for("ctx 0 / 4.1k")[-1]
    screen.type("Hello")
    total, _, _ = price_of(screen)
    screen.type(" and more" * 8)
    screen.wait_until(lambda: price_of(screen)[0] == total + 18, "the price of 72 characters more")
    screen.type("\x03")
    screen.wait_until(lambda: screen.lines()[-1] == usual, "the usual line")
    for line in ("/context", "!ls"):
        screen.say(line, f"> {line}")
        screen.wait_for_rest(LONG_S)
        assert not PRICE.search("\n".join(screen.lines()))
        screen.type("\x03")
        screen.wait_for_prompt()


@pytest.mark.slow
def test_a_mentioned_file_is_counted_unless_it_is_large(open_chat: OpenChat, folder: Path) -> None:
    (folder / "small.txt").write_text("word " * 400, encoding="utf-8")
    (folder / "large.txt").write_text("word " * 40_000, encoding="utf-8")
    screen = open_chat("--no-servers", "Well met.")
    screen.type("What is in @small.txt ?")
    screen.wait_until(lambda: price_of(screen)[0] > 500, "the price with the file")
    screen.say("\x03What is in @large.txt ?", "@large.txt ?")
    screen.wait_for_rest(LONG_S)
    assert not PRICE.search(screen.lines()[-1])


@pytest.mark.parametrize(
    ("columns", "text", "language", "end"),
    [
        (60, "a" * 56, "en", "tokens, 0 cached,"),
        (10, "a" * 6, "en", " new"),
        (60, "東京は今何時ですか", "ja", "トークン、キャッシュ済み"),
    ],
)
def test_the_estimate_fits_the_terminal_in_each_language(
    columns: int, text: str, language: str, end: str, open_screen: OpenChat, script: Callable[..., str]
) -> None:
    size = (columns, 30)
    screen = open_screen("--model", script("Well met."), "--no-servers", "--language", language, size=size)
    screen.wait_for("/help", 40)
    screen.wait_for_prompt()
    screen.type(text)
    screen.wait_until(lambda: end in re.sub("(?<=[^\x00-\x7f]) ", "", screen.lines()[-1]), "the estimate")
    assert cell_len(screen.lines()[-1]) <= columns
    assert len(screen.lines()) == len(set(screen.lines()))  # nothing was scrolled up


@pytest.mark.slow
def test_a_pasted_megabyte_does_not_block_the_keys(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "Well met.")
    screen.type("Hello")
    price_of(screen)
    screen.type("\x03")
    for text in ("ship " * 40_000, "ship " * 200_000):  # shorter than the longest countable text, and longer
        screen.type("\x1b[200~")
        for start in range(0, len(text), 4000):
            screen.type(text[start : start + 4000])
            screen.read_some(0)
        screen.type("\x1b[201~the end")
        screen.wait_for("the end", 40)
        screen.type("\x03")
        screen.wait_for_prompt()


@pytest.mark.slow
def test_no_estimate_is_shown_during_a_turn(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", {"text": "I think that", "wait": True}, "Well met.")
    screen.say("Hello\r", "I think that")
    screen.say("typed ahead", "+ typed ahead")
    screen.wait_for_rest(LONG_S)
    assert not PRICE.search("\n".join(screen.lines()))
    screen.say("\x1b", "[Stopped]")
    price_of(screen)


def test_a_message_over_the_limit_is_rejected_with_both_sizes(open_chat: OpenChat, folder: Path) -> None:
    (folder / "large.txt").write_text("word " * 1_000_000, encoding="utf-8")
    screen = open_chat("--no-servers")
    screen.say(f"\x1b[200~{'ship ' * 1400}\x1b[201~", " tokens, limit 1,536")
    lines = screen.say("\r", "Shorten the message")
    assert any(re.search(r"prompt is 42\d\d tokens long, the context holds 2048\.", line) for line in lines)
    screen.wait_for_prompt()
    screen.wait_for("ctx 0 / 2.0k (0%)")  # it is no part of the conversation
    sent = "Read @large.txt please"
    screen.say(f"{sent}\r", "Not sent: large.txt has 5000000 bytes; the limit for an attachment is 4194304.")
    screen.wait_until(lambda: screen.lines()[-2] == f"> {sent}", "the message in the line")
