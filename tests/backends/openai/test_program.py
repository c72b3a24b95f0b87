"""A model behind a URL in the chat and in the report of the doctor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.openai.service import REPLY, Service
from stage import Screen

Start = Callable[..., Service]


@pytest.mark.slow
def test_a_talk_at_the_terminal_continues_with_another_service(
    start: Start, open_screen: Callable[..., Screen]
) -> None:
    one, other = start(), start(names=["qwen3-other"])
    screen = open_screen("--model", one.url, "--no-servers")
    screen.wait_for_prompt()
    screen.type("Hello!\r")
    screen.wait_for(REPLY)
    screen.wait_for_prompt()
    screen.type(f"/model {other.url}\r")
    screen.wait_for("qwen3-other")
    screen.wait_for_prompt()
    screen.type("And now?\r")
    screen.wait_for("And now?")
    screen.wait_for_prompt()
    assert (len(one.asked), len(other.asked)) == (1, 1)
    assert REPLY in other.asked[0].body["prompt"], "the talk stays"


def test_a_service_that_goes_down_ends_only_the_turn(start: Start, open_screen: Callable[..., Screen]) -> None:
    service = start()
    screen = open_screen("--model", service.url, "--no-servers")
    screen.wait_for_prompt()
    service.mode = "cut"
    screen.type("Hello!\r")
    screen.wait_for("in the middle of a reply")
    screen.wait_for_prompt()
    service.mode = "ok"
    screen.type("/retry\r")
    screen.wait_for(REPLY)


def test_the_doctor_reports_whether_the_service_answers(start: Start, program: Callable[..., Any]) -> None:
    service = start()

    def ask(code: int) -> dict[str, Any]:
        done = program("doctor", "--json", "--model", service.url, code=code)
        lines = json.loads(done.stdout)["result"]["lines"]
        return next(line for line in lines if line["name"] == "service")

    told = ask(0)
    assert told["state"] == "ok"
    assert all(words in told["value"] for words in (service.url, "vLLM", "qwen3-small", "4096"))
    assert not service.asked
    service.hang_up()
    told = ask(1)
    assert told["state"] == "wrong" and "does not respond" in told["value"] and told["advice"]


def test_the_wait_is_estimated_from_the_measured_speed(
    start: Start, open_screen: Callable[..., Screen], environment: dict[str, str]
) -> None:
    state = Path(environment["HOME"]) / ".local/state/rkllm-chat"
    state.mkdir(parents=True, mode=0o700)
    (state / "measured.json").write_text('{"read qwen3-small": [[100, 0, 60.0]]}', encoding="utf-8")
    service = start(mode="silent")
    screen = open_screen("--model", service.url, "--no-servers")
    screen.wait_for_prompt()
    screen.type("How long will you read this?\r")
    screen.wait_for(" left")
    screen.type("\x03")
    screen.wait_for("[Stopped]")


def test_the_cached_part_of_a_prompt_is_shown_where_the_service_reports_it(
    start: Start, open_screen: Callable[..., Screen]
) -> None:
    for mode, tells in (("no usage", False), ("ok", True)):
        screen = open_screen("--model", start(mode=mode).url, "--no-servers")
        screen.wait_for_prompt()
        screen.type("Hello!\r")
        screen.wait_for(REPLY)
        screen.wait_for_prompt()
        screen.type("And now?")
        line = screen.wait_until(lambda seen=screen: " tokens" in seen.lines()[-1], "a price")[-1]  # type: ignore[misc]
        assert ("cached" in line) == tells
