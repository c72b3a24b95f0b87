"""The remote backend on a service that misbehaves: one sentence that says what is wrong, and the next message works."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from remote.service import MODES, REPLY, Service
from remote.talks import HELLO, chat_with, take, talk, usage_of, write
from rkllm_chat.backends.openai import Openai
from rkllm_chat.config import Generation
from rkllm_chat.errors import AuthError, ChatError, ConfigError, GenerationError, ModelError
from rkllm_chat.events import Sentence
from stage import GREEDY

Run = Callable[..., Any]
Open = Callable[..., Openai]
Start = Callable[..., Service]
Program = Callable[..., "subprocess.CompletedProcess[str]"]
KEY = "sk-0815-not-for-your-eyes"

AUTH, FAILED = AuthError, GenerationError
BAD: dict[str, tuple[type[ChatError], str]] = {
    "unauthorized": (AUTH, r"refuses \(HTTP 401\): Incorrect API key .* environment variable that holds your key"),
    "no such model": (FAILED, r'has no model "qwen3-small"\. It has qwen3-small\.'),
    "too long": (FAILED, r"the prompt is too long: the request exceeds .* start anew with /clear"),
    "not here": (FAILED, r"answers HTTP 404: Not Found\. Is it the right address\? It usually ends in /v1\."),
    "busy for long": (FAILED, r"is busy \(HTTP 429\): Quota exceeded\. Try it again later\."),
    "busy for ever": (FAILED, r"is busy \(HTTP 503\): No slot\."),
    "a bad gateway": (FAILED, r"is not there \(HTTP 502\)"),
    "broken": (FAILED, r"answers HTTP 500: CUDA error"),
    "a page": (FAILED, r"answers with a web page\. Is it the right address\?"),
    "on to elsewhere": (FAILED, r"sends us on to http://127\.0\.0\.1:\d+/v1/completions\. If that is right, name that"),
    "closed at once": (FAILED, r"does not answer: Server disconnected without sending a response\."),
    "closed behind the head": (FAILED, r"does not answer: "),
    "cut": (FAILED, r"broke its answer off in the middle\. Ask again: /retry\."),
    "cut cleanly": (FAILED, r"broke its answer off in the middle\."),
    "silent": (FAILED, r"was silent for 1 s before its first word\. Try it again\."),
    "no head": (FAILED, r"does not answer: read timeout\."),
    "silent in the middle": (FAILED, r"was silent for 1 s between two words\."),
    "pings": (FAILED, r"was silent for 1 s between two words\."),
    "empty events": (FAILED, r"was silent for 1 s between two words\."),
    "an endless line": (FAILED, r"sent what cannot be taken: .*limit"),
    "bad JSON": (FAILED, r"sent what is not JSON: "),
    "an error in the middle": (FAILED, r"failed: EngineDead"),
    "packed": (FAILED, r"packs its answer, which was not asked for\."),
}
GOOD = {
    "ok": REPLY,
    "no usage": REPLY,
    "whole": REPLY,
    "no done": REPLY,
    "busy": REPLY,
    "busy by date": REPLY,
    "busy, says nonsense": REPLY,
    "wrong types": "",
}


@pytest.mark.parametrize("mode", BAD)
def test_a_fault_is_one_sentence_and_the_next_message_is_answered(
    mode: str, start: Start, open_remote: Open, run: Run
) -> None:
    elsewhere, service = start(), start()
    backend = open_remote(service.url, timeout_s=1, first_s=1)
    service.mode, service.elsewhere = mode, elsewhere.url + "/completions"
    chat = chat_with(backend)
    kind, words = BAD[mode]
    with pytest.raises(kind, match=words) as caught:
        run(asyncio.wait_for(talk(chat, "Hello!"), 15))
    assert "\n" not in str(caught.value) and "Traceback" not in str(caught.value)
    assert "token=abc" not in str(caught.value) and not elsewhere.asked
    service.mode = "ok"
    run(asyncio.wait_for(talk(chat, "Hello!"), 15))
    assert [message.role for message in chat.history] == ["user", "assistant", "user", "assistant"]
    assert chat.history[-1].text == REPLY
    assert backend.services[0].outstanding == 0


@pytest.mark.parametrize("mode", GOOD)
def test_what_can_be_taken_is_taken(mode: str, start: Start, open_remote: Open, run: Run) -> None:
    service = start()
    backend = open_remote(service.url)
    service.mode = mode
    items = run(asyncio.wait_for(take(backend), 15))
    assert "".join(item for item in items if isinstance(item, str)) == GOOD[mode]
    assert usage_of(items).prompt_tokens > 0 and not usage_of(items).hit_limit


def test_every_mode_has_a_test() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [mode for mode in MODES if f'"{mode}"' not in text] == []


OPENING: dict[str, tuple[type[ChatError], int, str]] = {
    "unauthorized everywhere": (AuthError, 4, r"refuses \(HTTP 401\)"),
    "a page everywhere": (ModelError, 5, r"answers with a web page\. Is it the right address\? It usually ends in /v1"),
    "on to elsewhere everywhere": (ModelError, 5, r"sends us on to http://127.0.0.1:\d+/v1/models\."),
}


@pytest.mark.parametrize("mode", OPENING)
def test_a_service_that_is_none_is_told_when_it_is_opened(mode: str, start: Start, program: Program) -> None:
    elsewhere = start()
    service = start(mode)
    service.elsewhere = elsewhere.url + "/models"
    kind, code, words = OPENING[mode]
    done = program("-p", "Hello!", "--model", service.url, "--no-servers", code=code)
    assert re.search(words, done.stderr) and done.stderr.count("\n") == 1
    assert kind.exit_code == code and not elsewhere.others


def test_a_port_that_nobody_listens_at_is_told_at_once(start: Start, program: Program) -> None:
    service = start()
    service.hang_up()
    done = program("-p", "Hello!", "--model", service.url, "--no-servers", code=5)
    assert "Connection refused. Is the service running there?" in done.stderr


def test_another_json_service_is_not_taken_for_one(start: Start, open_remote: Open) -> None:
    service = start()
    service.answers["/v1/models"] = {"hello": "world"}
    with pytest.raises(ModelError, match=r"is no OpenAI-compatible service\. Is it the right address\?"):
        open_remote(service.url)


def test_a_service_that_still_loads_is_waited_for(start: Start, open_remote: Open, run: Run) -> None:
    assert run(write(open_remote(start("loading").url))) == REPLY


def test_who_is_busy_is_asked_again_when_it_says(start: Start, open_remote: Open, run: Run) -> None:
    service = start()
    backend = open_remote(service.url)
    service.mode = "busy"
    items = run(take(backend))
    assert [item for item in items if isinstance(item, Sentence)] == [Sentence("remote.busy", {"seconds": "0"})]
    assert len(service.asked) == 2


def test_who_asks_for_an_hour_is_not_waited_for(start: Start, open_remote: Open, run: Run) -> None:
    service = start()
    backend = open_remote(service.url)
    service.mode = "busy for long"
    with pytest.raises(GenerationError):
        run(write(backend))
    assert len(service.asked) == 1


def test_who_is_always_busy_is_given_up(start: Start, open_remote: Open, run: Run) -> None:
    service = start()
    backend = open_remote(service.url)
    service.mode = "busy for ever"
    with pytest.raises(GenerationError):
        run(write(backend))
    assert len(service.asked) == 4


@pytest.mark.parametrize("mode", ["cut", "cut cleanly", "silent in the middle", "an error in the middle"])
def test_an_answer_that_has_begun_is_never_asked_for_again(
    mode: str, start: Start, open_remote: Open, run: Run
) -> None:
    bad, good = start(), start()
    backend = open_remote(bad.url, good.url, timeout_s=0.3)
    bad.mode = mode
    said: list[str] = []

    async def listen() -> None:
        async with aclosing(backend.stream(HELLO, GREEDY)) as stream:
            async for item in stream:
                said.extend([item] if isinstance(item, str) else [])

    with pytest.raises(GenerationError):
        run(listen())
    assert said[0] == "It " and (len(bad.asked), len(good.asked)) == (1, 0)


def test_the_first_word_may_take_longer_than_the_others(start: Start, open_remote: Open, run: Run) -> None:
    service = start()
    backend = open_remote(service.url, timeout_s=0.2, first_s=10)
    service.mode = "slow"

    async def wait_and_let_go() -> str:
        asking = asyncio.ensure_future(write(backend))
        await asyncio.to_thread(service.asked_now.wait, 5)
        done, _ = await asyncio.wait([asking], timeout=0.5)
        assert not done, "it gave up as if a word had come"
        service.go_on.set()
        return await asking

    assert run(wait_and_let_go()) == REPLY


@pytest.mark.parametrize("mode", ["silent", "silent in the middle", "no head", "pings"])
def test_walking_away_closes_the_request_at_once(mode: str, start: Start, open_remote: Open, run: Run) -> None:
    service = start()
    backend = open_remote(service.url)
    service.mode = mode

    async def walk_away() -> float:
        asking = asyncio.ensure_future(write(backend))
        await asyncio.to_thread(service.asked_now.wait, 5)
        asking.cancel()
        begun = time.monotonic()
        await asyncio.wait([asking])
        assert asking.cancelled()
        return time.monotonic() - begun

    assert run(walk_away()) < 2
    assert service.gone.wait(5), "the service was left waiting"
    assert backend.services[0].outstanding == 0


def test_a_service_that_minds_no_limit_is_stopped_at_it(start: Start, open_remote: Open, run: Run) -> None:
    service = start()
    backend = open_remote(service.url)
    service.mode = "an endless reply"
    items = run(asyncio.wait_for(take(backend, generation=Generation(max_tokens=50)), 10))
    assert usage_of(items).hit_limit and sum(isinstance(item, str) for item in items) == 51
    assert service.gone.wait(5)


def test_a_reply_in_circles_is_ended(start: Start, open_remote: Open, run: Run) -> None:
    service = start()
    backend = open_remote(service.url)
    service.mode = "circles"
    items = run(asyncio.wait_for(take(backend, generation=Generation(max_tokens=4000)), 10))
    assert usage_of(items).hit_limit and usage_of(items).generated_tokens < 500
    assert [item for item in items if isinstance(item, Sentence)] == [Sentence("chat.circle")]


def test_figures_behind_the_end_are_not_waited_for_long(start: Start, open_remote: Open, run: Run) -> None:
    service = start()
    backend = open_remote(service.url)
    service.mode = "silent behind the end"
    assert run(asyncio.wait_for(write(backend), 10)) == REPLY


@pytest.mark.parametrize("mode", ["unauthorized", "broken"])
def test_the_key_goes_to_the_service_and_nowhere_else(
    mode: str, start: Start, program: Program, environment: dict[str, str], folder: Path
) -> None:
    service = start()
    service.mode = mode
    environment["OUR_KEY"] = KEY
    (folder / "own.toml").write_text(
        f'[chat]\nmodel = "{service.url}"\n[openai]\nkey_env = "OUR_KEY"\n', encoding="utf-8"
    )
    done = program(
        *("-p", "Hello!", "--config", "own.toml", "--no-servers", "-v", "--log-file", "log"),
        code=4 if mode == "unauthorized" else 1,
    )
    assert [asked.headers["authorization"] for asked in service.asked] == [f"Bearer {KEY}"]
    log = (folder / "log").read_text(encoding="utf-8")
    assert "/v1/models" in log and KEY not in log
    assert KEY not in done.stdout + done.stderr and "[redacted]" in done.stderr
    assert all(KEY not in path.read_text(errors="replace") for path in folder.parent.rglob("*") if path.is_file())


def test_what_is_opened_shows_no_key(start: Start, open_remote: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", KEY)
    backend = open_remote(start().url, key_env="OUR_KEY")
    service = backend.services[0]
    assert service.secret == KEY
    assert KEY not in f"{backend!r} {service!r} {service.speaker!r} {vars(backend)!r}"


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("http://", {}, "number 1 is no URL"),
        ("http://h:99999/v1", {}, "number 1 is no URL"),
        ("http://good/v1 ftp://bad/v1", {}, "number 2 is no URL"),
        ("https://me:secret@host/v1", {}, r"The URL of host holds a password\. Put it into an environment variable"),
        ("http://h/v1?key=secret", {}, "number 1 is no URL"),
        ("http://h/v1", {"key_env": "OUR_KEY"}, "The environment variable OUR_KEY is not set"),
        ("http://h/v1", {"key_env": "sk-secret"}, "key_env is not the name of an environment variable"),
        ("http://h/v1", {"key_env": "hf_secret"}, r"The environment variable that \[openai\] key_env names is not set"),
        ("http://h/v1", {"native_tools": True, "api": "completions"}, "native_tools needs"),
    ],
)
def test_what_is_written_wrong_is_named(model: str, options: dict[str, Any], words: str, open_remote: Open) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        open_remote(model, **options)
    assert "secret" not in str(caught.value)
