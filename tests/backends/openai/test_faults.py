"""The remote backend on a faulty service: one line names the fault, and the next message works."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from backends.openai.service import MODES, REPLY, Service
from backends.openai.talks import HELLO, chat_with, take, talk, usage_of, write
from cpu_time import allow_s
from rkllm_chat.backends.openai.backend import OpenaiBackend, list_service_models
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core.errors import AuthError, ChatError, ConfigError, GenerationError, ModelError
from rkllm_chat.core.events import Sentence
from rkllm_chat.core.messages import EMPTY_REPLY
from stage import GREEDY

Run = Callable[..., Any]
Open = Callable[..., OpenaiBackend]
Start = Callable[..., Service]
Program = Callable[..., "subprocess.CompletedProcess[str]"]
KEY = "sk-0815-not-for-your-eyes"

AUTH, FAILED = AuthError, GenerationError
# mode of the service -> error and words of it
BAD: dict[str, tuple[type[ChatError], str]] = {
    "unauthorized": (AUTH, r"HTTP 401.*Incorrect API key .*environment variable"),
    "no such model": (FAILED, r'no model "qwen3-small".*Available: qwen3-small'),
    "too long": (FAILED, r"prompt is too long.*/clear"),
    "not here": (FAILED, r"HTTP 404: Not Found.*/v1"),
    "busy for long": (FAILED, r"HTTP 429.*Quota exceeded"),
    "busy for ever": (FAILED, r"HTTP 503.*No slot"),
    "a bad gateway": (FAILED, r"unavailable \(HTTP 502"),
    "broken": (FAILED, r"HTTP 500: CUDA error"),
    "a page": (FAILED, r"a web page"),
    "on to elsewhere": (FAILED, r"http://127\.0\.0\.1:\d+/v1/completions"),
    "closed at once": (FAILED, r"does not respond"),
    "closed behind the head": (FAILED, r"does not respond"),
    "cut": (FAILED, r"in the middle.*/retry"),
    "cut cleanly": (FAILED, r"in the middle"),
    "silent": (FAILED, r"nothing for 0.3 s before"),
    "no head": (FAILED, r"does not respond: read timeout"),
    "silent in the middle": (FAILED, r"nothing for 0.3 s in the middle"),
    "pings": (FAILED, r"nothing for 0.3 s in the middle"),
    "empty events": (FAILED, r"nothing for 0.3 s in the middle"),
    "an endless line": (FAILED, r"invalid event stream: .*limit"),
    "bad JSON": (FAILED, r"invalid JSON"),
    "an error in the middle": (FAILED, r"EngineDead"),
    "an event called error": (FAILED, r"failed: slot lost"),
    "packed": (FAILED, r"compressed"),
}
GOOD = {"whole": REPLY, "no done": REPLY, "done without a reason": REPLY, "busy by date": REPLY, "wrong types": ""}


@pytest.mark.parametrize("mode", BAD)
def test_a_fault_is_one_line_and_the_next_message_is_answered(
    mode: str, start: Start, open_remote: Open, run: Run
) -> None:
    elsewhere, service = start(), start()
    backend = open_remote(service.url, timeout_s=0.3, first_s=0.3)
    service.mode, service.elsewhere = mode, elsewhere.url + "/completions"
    chat = chat_with(backend)
    kind, words = BAD[mode]
    with pytest.raises(kind, match=words) as caught:
        run(asyncio.wait_for(talk(chat, "Hello!"), 15))
    assert "\n" not in str(caught.value) and "Traceback" not in str(caught.value)
    assert "token=abc" not in str(caught.value) and not elsewhere.asked
    service.mode = "ok"
    run(asyncio.wait_for(talk(chat, "Hello!"), 15))
    assert [message.text for message in chat.history if message.role == "user"] == ["Hello!", "Hello!"]
    answers = [message.text for message in chat.history if message.role == "assistant"]
    assert answers[-1] == REPLY and EMPTY_REPLY not in answers  # of a reply that did not begin, nothing is kept
    assert backend.services[0].active_requests == 0


@pytest.mark.parametrize("mode", GOOD)
def test_unusual_replies_are_accepted(mode: str, service: Service, backend: OpenaiBackend, run: Run) -> None:
    service.mode = mode
    items = run(asyncio.wait_for(take(backend), 15))
    assert "".join(item for item in items if isinstance(item, str)) == GOOD[mode]
    assert usage_of(items).prompt_tokens > 0 and not usage_of(items).hit_limit


def test_every_mode_has_a_test() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [mode for mode in MODES if f'"{mode}"' not in text] == []


OPENING = {
    "unauthorized everywhere": (AuthError, "HTTP 401"),
    "a page everywhere": (ModelError, "a web page.*/v1"),
    "on to elsewhere everywhere": (ModelError, r"http://127.0.0.1:\d+/v1/models"),
}


@pytest.mark.parametrize("mode", OPENING)
def test_an_address_without_a_service_is_an_error_when_it_is_opened(mode: str, start: Start, open_remote: Open) -> None:
    elsewhere, service = start(), start(mode)
    service.elsewhere = elsewhere.url + "/models"
    kind, words = OPENING[mode]
    with pytest.raises(kind, match=words):
        open_remote(service.url)
    assert not elsewhere.others


def test_a_closed_port_exits_with_an_error(service: Service, program: Program) -> None:
    service.hang_up()
    done = program("-p", "Hello!", "--model", service.url, "--no-servers", code=5)
    assert "Connection refused" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("answer", [{"hello": "world"}, {"data": None}, {"data": 5}])
def test_another_json_service_is_rejected_and_offers_no_models(
    answer: dict[str, Any], service: Service, open_remote: Open
) -> None:
    service.answers["/v1/models"] = answer
    with pytest.raises(ModelError, match="not an OpenAI-compatible service"):
        open_remote(service.url)
    assert list_service_models(Settings(model=service.url)) == []


@pytest.mark.slow  # it waits for a second
def test_a_service_that_is_loading_is_waited_for(start: Start, open_remote: Open, run: Run) -> None:
    assert run(write(open_remote(start("loading").url))) == REPLY


def test_a_busy_service_is_asked_again_after_the_time_it_asks_for(
    service: Service, backend: OpenaiBackend, run: Run
) -> None:
    service.mode = "busy"
    items = run(take(backend))
    assert [item for item in items if isinstance(item, Sentence)] == [Sentence("remote.busy", {"seconds": "0"})]
    assert len(service.asked) == 2


@pytest.mark.parametrize(("mode", "tries"), [("busy for long", 1), ("busy for ever", 4)])
def test_a_service_that_stays_busy_is_given_up(
    mode: str, tries: int, service: Service, backend: OpenaiBackend, run: Run
) -> None:
    service.mode = mode
    with pytest.raises(GenerationError):
        run(write(backend))
    assert len(service.asked) == tries


@pytest.mark.parametrize("mode", ["cut", "silent in the middle"])
def test_a_reply_that_has_begun_is_never_requested_again(mode: str, start: Start, open_remote: Open, run: Run) -> None:
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


def test_the_first_word_may_take_longer_than_the_others(service: Service, open_remote: Open, run: Run) -> None:
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


@pytest.mark.parametrize("mode", ["silent in the middle", "no head"])
def test_cancelling_closes_the_request_at_once(mode: str, service: Service, backend: OpenaiBackend, run: Run) -> None:
    service.mode = mode

    async def walk_away() -> float:
        asking = asyncio.ensure_future(write(backend))
        await asyncio.to_thread(service.asked_now.wait, 5)
        asking.cancel()
        begun = time.monotonic()
        await asyncio.wait([asking])
        assert asking.cancelled()
        return time.monotonic() - begun

    assert run(walk_away()) < allow_s(2 / 3)
    assert service.gone.wait(5), "the service was left waiting"
    assert backend.services[0].active_requests == 0


def test_a_service_that_ignores_the_limit_is_stopped_at_it(service: Service, backend: OpenaiBackend, run: Run) -> None:
    service.mode = "an endless reply"
    items = run(asyncio.wait_for(take(backend, generation=Generation(max_tokens=50)), 10))
    assert usage_of(items).hit_limit and sum(isinstance(item, str) for item in items) == 51
    assert service.gone.wait(5)


def test_a_repeating_reply_is_ended(service: Service, backend: OpenaiBackend, run: Run) -> None:
    service.mode = "circles"
    items = run(asyncio.wait_for(take(backend, generation=Generation(max_tokens=4000)), 10))
    cost = usage_of(items)
    assert cost.was_repeating and not cost.hit_limit and cost.generated_tokens < 500
    assert [item for item in items if isinstance(item, Sentence)] == [Sentence("chat.circle")]


@pytest.mark.slow  # it waits for two seconds
def test_figures_behind_the_end_are_not_waited_for_long(service: Service, backend: OpenaiBackend, run: Run) -> None:
    service.mode = "silent behind the end"
    assert run(asyncio.wait_for(write(backend), 10)) == REPLY


@pytest.mark.parametrize("mode", ["unauthorized", "broken"])
def test_the_key_is_sent_only_to_the_service(
    mode: str, service: Service, program: Program, environment: dict[str, str], folder: Path
) -> None:
    service.mode = mode
    environment["OUR_KEY"] = KEY
    (folder / "own.toml").write_text(
        f'[chat]\nmodel = "{service.url}"\n[openai]\nkey_env = "OUR_KEY"\n', encoding="utf-8"
    )
    done = program(
        "-p",
        "Hello!",
        "--config",
        "own.toml",
        "--no-servers",
        "-v",
        "--log-file",
        "log",
        code=4 if mode == "unauthorized" else 1,
    )
    assert [asked.headers["authorization"] for asked in service.asked] == [f"Bearer {KEY}"]
    log = (folder / "log").read_text(encoding="utf-8")
    assert "/v1/models" in log and KEY not in log
    assert KEY not in done.stdout + done.stderr and "[redacted]" in done.stderr
    assert all(KEY not in path.read_text(errors="replace") for path in folder.parent.rglob("*") if path.is_file())


def test_a_template_that_is_not_utf8_is_an_error(service: Service, open_remote: Open, folder: Path) -> None:
    path = folder / "latin.jinja"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(ConfigError, match=r"latin\.jinja cannot be read"):
        open_remote(service.url, template=str(path))


def test_no_repr_has_the_key(start: Start, open_remote: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", KEY)
    backend = open_remote(start().url, key_env="OUR_KEY")
    service = backend.services[0]
    assert service.api_key == KEY
    assert KEY not in f"{backend!r} {service!r} {service.identity!r} {vars(backend)!r}"


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("http://h:99999/v1", {}, "number 1 of the model is not the URL"),
        ("http://good/v1 ftp://bad/v1", {}, "number 2 of the model is not the URL"),
        ("http://", {}, "number 1 of the model is not the URL"),
        ("https://me:secret@host/v1", {}, "host contains a password"),
        ("http://h/v1?key=secret", {}, "number 1 of the model is not the URL"),
        ("http://h/v1", {"key_env": "OUR_KEY"}, "variable OUR_KEY is not set"),
        ("http://h/v1", {"key_env": "sk-secret"}, "not the name"),
        ("http://h/v1", {"key_env": "hf_secret"}, r"that \[openai\] key_env names is not set"),
        ("http://h/v1", {"native_tools": True, "api": "completions"}, "native_tools"),
    ],
)
def test_invalid_settings_are_rejected(model: str, options: dict[str, Any], words: str, open_remote: Open) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        open_remote(model, **options)
    assert "secret" not in str(caught.value)
