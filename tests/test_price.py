"""The price of a message stands in the bottom line while it is typed, on a real pseudo terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rkllm_chat.events import Usage
from rkllm_chat.journal import Shelf, read_session
from stage import Screen

pytestmark = pytest.mark.model
OpenScreen = Callable[..., Screen]
Script = Callable[..., str]
PRICE = re.compile(r"([\d,]+) tokens, ([\d,]+) cached, ([\d,]+) new")


def open_ready(open_screen: OpenScreen, *arguments: str, **options: object) -> Screen:
    screen = open_screen(*arguments, **options)
    screen.wait_for("/help", 40)
    screen.wait_for_prompt()
    return screen


def price_of(screen: Screen) -> tuple[int, ...]:
    """Total, cached and new, once the last line tells them."""
    screen.wait_until(lambda: bool(PRICE.search(screen.lines()[-1])), "a price")
    found = PRICE.search(screen.lines()[-1])
    assert found
    return tuple(int(figure.replace(",", "")) for figure in found.groups())


def spent(shelf: Shelf) -> list[Usage]:
    (path,) = shelf.path.glob("*.jsonl")
    return [entry.record for entry in read_session(path) if isinstance(entry.record, Usage)]


def test_what_is_typed_costs_what_it_was_said_to_cost(open_screen: OpenScreen, shelf: Shelf, folder: Path) -> None:
    (folder / "mcp_config.toml").write_text("[chat]\nprefill_ahead = false\n", encoding="utf-8")
    screen = open_ready(open_screen, "--no-servers")
    foretold: list[tuple[int, ...]] = []
    for line in ("Hello!", "Thank you!", "こんにちは、元気？"):
        screen.type(line)
        price_of(screen)
        screen.wait_for_rest(0.5)
        foretold.append(price_of(screen))
        screen.type("\r")
        screen.wait_until(lambda: "\n".join(screen.lines()).count("◆") == len(foretold), "the reply")
        screen.wait_for_prompt()
    assert foretold == [(one.prompt_tokens, one.reused_tokens, one.prefilled_tokens) for one in spent(shelf)]
    assert foretold[0][1] == 0 < foretold[1][1]


def test_the_tools_that_come_with_a_question_are_in_its_price(
    open_screen: OpenScreen, shelf: Shelf, folder: Path
) -> None:
    (folder / "mcp_config.toml").write_text("[chat]\ntools_share = 0\nprefill_ahead = false\n", encoding="utf-8")
    screen = open_ready(open_screen)
    screen.type("What time is it in Tokyo?")
    price_of(screen)
    screen.wait_for_rest(0.5)
    foretold = price_of(screen)
    screen.type("\r")
    screen.wait_for("◆", 40)
    screen.wait_for_prompt(40)
    assert foretold == (spent(shelf)[0].prompt_tokens, 0, spent(shelf)[0].prefilled_tokens)


def test_the_time_is_told_once_it_was_learnt_and_at_the_next_start(
    open_screen: OpenScreen, environment: dict[str, str]
) -> None:
    screen = open_ready(open_screen, "--no-servers")
    screen.type("Hello!")
    price_of(screen)
    assert "about" not in screen.lines()[-1]
    screen.type("\r")
    screen.wait_for("tok/s")
    screen.wait_for_prompt()
    screen.type("And now?")
    screen.wait_for("new, about")
    screen.type("\x03\x04")
    assert screen.wait_for_end() == 0
    kept = json.loads((Path(environment["HOME"]) / ".local/state/rkllm-chat/measured.json").read_text("utf-8"))
    assert [len(sample) for sample in kept["read tiny-tools.gguf"]] == [3]
    again = open_ready(open_screen, "--no-servers")
    again.type("Hello!")
    again.wait_for("new, about")


def test_no_line_and_no_message_leave_the_usual_line(open_screen: OpenScreen, script: Script) -> None:
    screen = open_ready(open_screen, "--model", script("Well met."), "--no-servers")
    usual = screen.wait_for("ctx 0 / 4.1k")[-1]
    for line in ("/context", "!ls", "／help"):
        screen.type("Hello")
        price_of(screen)
        screen.type("\x03")
        screen.wait_until(lambda: screen.lines()[-1] == usual, "the usual line")
        screen.type(line)
        screen.wait_for(f"> {line}")
        screen.wait_for_rest(0.6)
        assert not PRICE.search("\n".join(screen.lines()))
        screen.type("\x03")
        screen.wait_until(lambda: screen.lines()[-1] == usual, "the usual line")


def test_a_longer_line_has_a_higher_price(open_screen: OpenScreen, script: Script) -> None:
    screen = open_ready(open_screen, "--model", script("Well met."), "--no-servers")
    screen.type("Hello")
    total, _, _ = price_of(screen)
    screen.type(" and more" * 8)
    screen.wait_until(lambda: price_of(screen)[0] == total + 18, "the price of 72 characters more")


def test_a_file_that_is_named_is_counted_and_a_large_one_is_not_guessed(
    open_screen: OpenScreen, script: Script, folder: Path
) -> None:
    (folder / "small.txt").write_text("word " * 400, encoding="utf-8")
    (folder / "large.txt").write_text("word " * 40_000, encoding="utf-8")
    screen = open_ready(open_screen, "--model", script("Well met."), "--no-servers")
    screen.type("What is in @small.txt ?")
    screen.wait_until(lambda: price_of(screen)[0] > 500, "the price with the file")
    screen.type("\x03What is in @large.txt ?")
    screen.wait_for("@large.txt ?")
    screen.wait_for_rest(0.6)
    assert not PRICE.search(screen.lines()[-1])


@pytest.mark.parametrize(
    ("columns", "last"),
    [(60, "tokens, 0 cached,"), (20, " new"), (10, " new")],
)
def test_a_narrow_terminal_is_told_less_of_the_price(
    columns: int, last: str, open_screen: OpenScreen, script: Script
) -> None:
    screen = open_ready(open_screen, "--model", script("Well met."), "--no-servers", size=(columns, 30))
    screen.type("a" * (columns - 4))
    screen.wait_until(lambda: last in screen.lines()[-1], "the price")
    assert len(screen.lines()[-1]) <= columns


@pytest.mark.parametrize(("language", "told"), [("ja", "トークン、キャッシュ済み"), ("zh", "token，已缓存")])
def test_the_price_is_told_in_the_language_of_the_person(
    language: str, told: str, open_screen: OpenScreen, script: Script
) -> None:
    screen = open_ready(open_screen, "--model", script("はい。"), "--no-servers", "--language", language, size=(60, 24))
    screen.type("東京は今何時ですか")
    screen.wait_until(lambda: told in screen.lines()[-1].replace(" ", ""), "the price")
    assert len(screen.lines()) == len(set(screen.lines()))  # nothing was pushed up and left behind


def test_a_message_that_cannot_fit_is_said_to(open_screen: OpenScreen, script: Script) -> None:
    screen = open_ready(open_screen, "--model", script("Well met."), "--no-servers", "--context", "300")
    screen.type(f"\x1b[200~{'word ' * 400}\x1b[201~")
    screen.wait_for("tokens, 225 fit")


def test_a_pasted_megabyte_leaves_the_keys_alone(open_screen: OpenScreen, script: Script) -> None:
    screen = open_ready(open_screen, "--model", script("Well met."), "--no-servers")
    screen.type("Hello")
    price_of(screen)
    screen.type("\x03")
    for text in ("ship " * 40_000, "ship " * 200_000):  # below what may fit by its length, and above
        screen.type("\x1b[200~")
        for start in range(0, len(text), 4000):
            screen.type(text[start : start + 4000])
            screen.read_some(0)
        screen.type("\x1b[201~")
        screen.type("the end")
        screen.wait_for("the end")
        screen.type("\x03")
        screen.wait_for_prompt()


def test_while_something_runs_there_is_no_price(open_screen: OpenScreen, script: Script) -> None:
    screen = open_ready(
        open_screen, "--model", script({"text": "I think that", "wait": True}, "Well met."), "--no-servers"
    )
    screen.type("Hello\r")
    screen.wait_for("I think that")
    screen.type("typed ahead")
    screen.wait_for("+ typed ahead")
    screen.wait_for_rest(0.6)
    assert not PRICE.search("\n".join(screen.lines()))
    screen.type("\x1b")
    screen.wait_for("[Stopped]")
    price_of(screen)


def test_what_fills_the_context_says_what_the_next_message_costs(open_screen: OpenScreen) -> None:
    screen = open_ready(open_screen, "--no-servers")
    screen.type("Hello!\r")
    screen.wait_for("tok/s")
    screen.wait_for_prompt()
    screen.type("/context\r")
    screen.wait_for("new, about")
    screen.wait_for("tokens a second behind")


def test_what_cannot_be_sent_is_told_with_what_it_needs_and_what_there_is(
    open_screen: OpenScreen, folder: Path
) -> None:
    (folder / "large.txt").write_text("word " * 1_000_000, encoding="utf-8")
    screen = open_ready(open_screen, "--no-servers")
    screen.type(f"\x1b[200~{'ship ' * 1400}\x1b[201~")
    screen.wait_for(" tokens, 1,536 fit")
    screen.type("\r")
    told = screen.wait_until(lambda: any("Say less at once" in line for line in screen.lines()), "what to try")
    assert any(re.search(r"The prompt is 42\d\d tokens long, the context holds 2048\.", line) for line in told)
    screen.wait_for_prompt()
    screen.type("Read @large.txt please\r")
    screen.wait_for("Not sent: large.txt is 5000000 bytes long, a message holds 4194304. Have a tool read it.")
