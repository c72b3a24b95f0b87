"""A model behind a URL in the chat and in the report of the doctor."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.openai.service import REPLY, Service
from stage import OpenScreen, Run, Script

Start = Callable[..., Service]


def test_the_first_reason_of_a_service_for_the_end_counts(start: Start, program: Run) -> None:
    done = program("-p", "Hi", "--model", start(mode="ends twice").url, "--no-servers", "--output-format", "json")
    result = json.loads(done.stdout)["result"]
    assert (result["text"], result["reason"]) == (REPLY, "length")


def test_text_that_turns_out_to_be_a_thought_is_not_shown_as_the_answer_before(start: Start, program: Run) -> None:
    service = start(mode="only the end of a thought", names=["deepseek-r1-distill-qwen-1.5b"])
    done = program("-p", "Hi", "--model", service.url, "--no-servers", "--output-format", "stream-json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    said = {kind: "".join(event["text"] for event in events if event["type"] == kind) for kind in ("thought", "text")}
    assert {kind: text.strip() for kind, text in said.items()} == {"thought": "It says 3.", "text": "It is 3."}


@pytest.mark.slow
def test_a_talk_at_the_terminal_continues_with_another_service(start: Start, open_screen: OpenScreen) -> None:
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


def test_the_models_of_a_service_the_files_and_the_shipped_one_are_offered(
    start: Start, open_screen: OpenScreen, folder: Path
) -> None:
    """A name of the service that looks like a second address adds none."""
    service, other = start(names=["qwen3-small", "qwen3-big"]), start()
    service.answers["/v1/models"]["data"].append({"id": f"odd {other.url}"})
    (folder / "models").mkdir()
    (folder / "models/mine.gguf").write_bytes(b"no model")
    screen = open_screen("--model", f"{service.url}#qwen3-small", "--no-servers", size=(120, 40))
    screen.wait_for_prompt()
    screen.say("/model\r", "Models  1/11", "Esc closes")
    listed = [line for line in screen.lines() if line.endswith((service.url, "mine.gguf", "tiny-tools"))]
    rows = [line.split() for line in listed]
    assert rows[0] == ["❯", "*", "qwen3-small", service.url]
    assert rows[1:3] == [["qwen3-big", service.url], ["odd", other.url, service.url]]
    assert [row[0] for row in rows[3:]] == ["mine.gguf", "tiny-tools"]
    screen.say("big\r", "Model: qwen3-big (4096 tokens of context).")
    screen.enter("Hello!", REPLY)
    assert service.asked[-1].body["model"] == "qwen3-big"
    screen.enter("/model qwen3-smal", 'There is no model "qwen3-smal". Did you mean qwen3-small?')
    screen.say("/model odd\r", 'There is no model "odd".')
    screen.say("/model\r", "Models  2/11")
    screen.say("odd", "Models  1/1")
    screen.say("\r", "Model: v1 (4096 tokens of context).")
    screen.wait_for_prompt()
    screen.enter("And now?", "> And now?")
    assert service.asked[-1].body["model"] == f"odd {other.url}" and not other.asked


def test_a_service_with_several_models_offers_them_behind_its_address(
    start: Start, open_screen: OpenScreen, script: Script
) -> None:
    screen = open_screen("--model", script("Hello."), "--no-servers")
    screen.wait_for_prompt()
    screen.say(f"/model {start(names=['qwen3-small', 'qwen3-big']).url}\r", "Models  1/2")
    screen.say("big\r", "Model: qwen3-big (4096 tokens of context).")
    screen.wait_for_prompt()
    screen.enter("Hello!", REPLY)


@pytest.mark.model
def test_the_shipped_model_has_a_name_and_says_what_it_is(start: Start, open_screen: OpenScreen, program: Run) -> None:
    assert program("-p", "Hello!", "--model", "tiny-tools", "--no-servers").stdout == "Hello! How can I help you?\n"
    screen = open_screen("--model", "tiny-tools", "--no-servers", size=(200, 30))
    screen.wait_for("it calls tools and knows nothing else. /model gets a real one.")
    screen.wait_for_prompt()
    screen.enter(f"/model {start().url}", "Model: qwen3-small (4096")
    screen.say("/model ti", "tiny-tools")  # the menu
    screen.say("ny-tools\r", "Model: tiny-tools.gguf (2048")
    screen.wait_for_prompt()
    screen.enter("Hello!", "◆ Hello! How can I help you?")


def test_a_call_that_is_being_written_is_shown_with_its_length(
    start: Start, open_screen: OpenScreen, folder: Path
) -> None:
    service = start("half a call")
    (folder / "own.toml").write_text("[openai]\nnative_tools = true\n", encoding="utf-8")
    screen = open_screen("--model", service.url, "--config", "own.toml", "--no-servers")
    screen.wait_for_prompt()
    screen.say("Write a file.\r", "writing a call of 'write_file' … 1013 characters")
    screen.say("\x03", "[Stopped]")
    screen.wait_for_prompt()
    assert not [line for line in screen.lines() if "writing a call" in line]


def test_a_service_that_goes_down_ends_only_the_turn(start: Start, open_screen: OpenScreen) -> None:
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


def test_the_doctor_reports_whether_the_service_answers(start: Start, program: Run) -> None:
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
    start: Start, open_screen: OpenScreen, environment: dict[str, str]
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


@pytest.mark.slow
def test_parts_of_the_context_that_do_not_add_up_to_the_total_are_called_estimates(
    start: Start, open_screen: OpenScreen
) -> None:
    """The service counts 30 tokens for each prompt, as one that leaves the tools out."""
    screen = open_screen("--model", start().url)
    screen.wait_for("1/1 server")
    screen.say("/context\r", "next message")
    assert not any("estimated one by one" in line for line in screen.wait_for_prompt()), "all is estimated alike"
    screen.say("Hello!\r", REPLY)
    screen.wait_for_prompt()
    screen.say("/context\r", "The parts are estimated one by one and add up to")
    *parts, total = [int(line.split()[-3]) for line in screen.wait_for_prompt() if "░░░" in line][-6:]
    added = re.search(r"add up to ([\d,]+) tokens", " ".join(screen.lines()))
    assert added and int(added[1].replace(",", "")) == sum(parts) > 2 * total


def test_the_total_of_a_prompt_stays_while_it_is_read(start: Start, open_screen: OpenScreen) -> None:
    """The service reports more cached tokens than were expected; they count as done."""
    service = start("half read")
    screen = open_screen("--model", service.url, "--no-servers")
    screen.wait_for_prompt()

    def read_counts() -> tuple[str, str]:
        found = re.findall(r"processing prompt \S+ (\S+) / (\S+) tokens", "\n".join(screen.lines()))
        return found[0] if found else ("", "")

    screen.type(f"{'tide ' * 400}\r")
    screen.wait_until(lambda: read_counts()[0] == "0", "the expected total")
    expected = read_counts()[1]
    service.go_on.set()
    screen.wait_until(lambda: read_counts()[0] not in ("", "0"), "the progress of the service")
    assert read_counts()[1] == expected
    screen.say("\x1b", "[Stopped]")


@pytest.mark.slow
def test_the_cached_part_of_a_prompt_is_shown_where_the_service_reports_it(
    start: Start, open_screen: OpenScreen
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
        screen.say("\x15Hello again, at some length, so that there is something that could have been cached!\r", REPLY)
        screen.wait_for_prompt()
        screen.say("/context cache\r", "reused")
        screen.wait_for_prompt()
