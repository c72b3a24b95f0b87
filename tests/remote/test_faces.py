"""A model behind a URL as people meet it: in the chat, and in what the doctor says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from remote.service import REPLY, Service
from stage import Screen

Start = Callable[..., Service]


def test_a_talk_at_the_terminal_goes_on_with_another_service(start: Start, open_screen: Callable[..., Screen]) -> None:
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


def test_a_service_that_goes_down_ends_a_turn_and_not_the_chat(
    start: Start, open_screen: Callable[..., Screen]
) -> None:
    service = start()
    screen = open_screen("--model", service.url, "--no-servers")
    screen.wait_for_prompt()
    service.mode = "cut"
    screen.type("Hello!\r")
    screen.wait_for("broke its answer off")
    screen.wait_for_prompt()
    service.mode = "ok"
    screen.type("/retry\r")
    screen.wait_for(REPLY)


def test_the_doctor_says_whether_the_service_answers(start: Start, program: Callable[..., Any]) -> None:
    service = start()

    def ask(code: int) -> dict[str, Any]:
        done = program("doctor", "--json", "--model", service.url, code=code)
        lines = json.loads(done.stdout)["result"]["lines"]
        return next(line for line in lines if line["name"] == "service")

    told = ask(0)
    assert told["state"] == "ok"
    assert told["value"] == f"{service.url}: vLLM, model qwen3-small, 4096 tokens of context, prompts are ours"
    assert not service.asked
    service.hang_up()
    told = ask(1)
    assert told["state"] == "wrong" and "does not answer" in told["value"] and "running there" in told["advice"]


def test_the_wait_for_a_service_is_foretold_by_the_speed_that_was_learnt(
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


def test_of_a_service_that_tells_nothing_of_its_cache_only_the_size_is_foretold(
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
