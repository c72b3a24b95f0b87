"""The llm server through our own client: over HTTP with a token, once over stdio; with written replies and models."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from backends.openai.service import REPLY, Service
from mcp_client.chaos_http import serving
from mcp_servers.serving import END_S, Caller, connect, serve
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.messages import ToolResult

TOKEN = "correct-horse-battery-staple"
QUESTION = "What is 12 * 34?"

Play = Callable[["Talk"], Awaitable[None]]
Start = Callable[..., None]


class Talk(Caller):
    async def ask(self, prompt: str, **arguments: Any) -> tuple[str, str]:
        result = await self.call("ask", prompt=prompt, **arguments)
        return result.status, result.text


@pytest.fixture
def talk(folder: Path, environment: dict[str, str]) -> Start:
    """Plays with a server over HTTP that wants a token."""

    def start(play: Play, *options: str) -> None:
        with serve("llm", "--token-env", "KEY", *options, env={**environment, "KEY": TOKEN}, cwd=folder) as served:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            connect(ServerConfig("llm", url=served.url, transport="http", headers=headers), folder / "logs", play, Talk)

    return start


@pytest.fixture
def script(folder: Path) -> Callable[..., tuple[str, str]]:
    """Writes the replies of the model; gives the options that choose them."""

    def write(*replies: str | dict[str, Any]) -> tuple[str, str]:
        (folder / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
        return "--model", "replies.json"

    return write


Script = Callable[..., tuple[str, str]]


@pytest.mark.slow
def test_an_answer_has_its_cost_and_progress_and_can_be_cancelled_over_stdio(
    folder: Path, environment: dict[str, str], script: Script
) -> None:
    call_text = '[TOOL_CALL]\n{"name": "x"}\n[END_TOOL_CALL]'
    replies = ("<think>noon</think>It is noon.", "one two three", {"text": "I begin and ", "wait": True}, call_text)

    async def play(call: Talk) -> None:
        result = await call.call("ask", prompt="What time is it?", system="Be short.")
        structured = result.structured
        assert structured.pop("seconds") == 0
        assert (result.status, result.text) == ("completed", "It is noon.")
        assert structured == {"text": "It is noon.", "complete": True, "prompt_tokens": 11, "generated_tokens": 8}
        cut = await call.call("ask", prompt="Count.", max_tokens=2)
        assert (cut.text, cut.structured["complete"]) == ("one two", False)
        running = asyncio.create_task(call.ask("Go on."))
        await call.wait_for_progress("3 pieces: I begin and ")
        running.cancel()
        assert await call.ask("And now?") == ("completed", call_text)

    args = ("serve", "llm", *script(*replies))
    server = ServerConfig("llm", command="rkllm-chat", args=args, env=environment, cwd=str(folder))
    connect(server, folder / "logs", play, Talk)


@pytest.mark.slow
def test_questions_are_answered_in_order_and_a_cancelled_one_leaves_the_queue(talk: Start, script: Script) -> None:
    async def play(call: Talk) -> None:
        first = asyncio.create_task(call.ask("1"))
        await call.wait_for_progress("never ends")
        others = []
        for number in (1, 2, 3):
            others.append(asyncio.create_task(call.ask(str(number + 1))))
            await call.wait_for_progress(f"waits for {number} before it")
        assert (await call.call("model_info")).structured["waiting"] == 4
        others[1].cancel()
        first.cancel()
        assert await others[0] == ("completed", "second")
        assert await others[2] == ("completed", "fourth")
        assert (await call.call("model_info")).structured["waiting"] == 0

    talk(play, *script({"text": "never ends", "wait": True}, "second", "fourth"))


@pytest.mark.slow
@pytest.mark.model
def test_a_client_that_leaves_while_its_text_is_split_ends_the_server_in_order(
    folder: Path, environment: dict[str, str]
) -> None:
    """The engine is freed when the server ends, and the thread that counts with it must have ended before."""
    asked = {"name": "summarize", "arguments": {"text": "word " * 50_000}, "_meta": {"progressToken": 1}}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    requests: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "model_info", "arguments": {}}},
        {"id": 3, "method": "tools/call", "params": asked},
    ]
    command = [sys.executable, "-m", "rkllm_chat", "serve", "llm"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, env=environment, **pipes) as served:
        assert served.stdin and served.stdout and served.stderr
        for request in requests:
            served.stdin.write(json.dumps({"jsonrpc": "2.0", **request}) + "\n")
            served.stdin.flush()
            if "id" in request:
                assert "error" not in json.loads(served.stdout.readline())
        served.stdin.close()
        assert (served.wait(END_S), served.stderr.read()) == (0, "")


@pytest.mark.slow
def test_a_model_behind_a_url_gets_the_named_key_and_its_tools_are_not_read_only(
    folder: Path, environment: dict[str, str]
) -> None:
    key = "sk-the-secret-of-husum"

    async def play(call: Talk) -> None:
        assert [tool.name for tool in call.toolbox.tools if tool.read_only] == ["count_tokens", "model_info"]
        assert await call.ask("What is 6 * 7?", system="Be short.", max_tokens=20) == ("completed", REPLY)
        service.mode = "unauthorized"
        status, text = await call.ask("And now?")
        assert status == "failed" and "KEY" in text and key not in text

    with serving(Service()) as service:
        former = ("remote", "--url", f"{service.url}/chat/completions/", "--model", "qwen3-small")
        for args in (("llm", "--model", f"{service.url}#qwen3-small"), former):
            service.mode = "ok"
            server = ServerConfig(
                "llm",
                command="rkllm-chat",
                args=("serve", *args, "--key-env", "KEY"),
                env={**environment, "KEY": key},
                cwd=str(folder),
            )
            connect(server, folder / "logs", play, Talk)
    assert {request.headers["authorization"] for request in service.asked} == {f"Bearer {key}"}
    assert [request.body["model"] for request in service.asked] == ["qwen3-small"] * len(service.asked)
    assert key not in (folder / "logs/llm.log").read_text(encoding="utf-8")


def test_tools_are_listed_before_the_model_is_loaded_and_its_absence_is_an_error(
    talk: Start, shipped_model: Path, folder: Path
) -> None:
    async def play(call: Talk) -> None:
        tools = [tool.name for tool in call.toolbox.tools if tool.read_only]
        assert tools == ["ask", "summarize", "count_tokens", "model_info"]
        for name, arguments in (("ask", {"prompt": "Hello"}), ("count_tokens", {"text": "Hello"}), ("model_info", {})):
            missing = await call.call(name, **arguments)
            assert missing.status == "failed"
            assert "later.gguf: No such file" in missing.text and "--model" in missing.text
        (folder / "later.gguf").symlink_to(shipped_model)
        assert (await call.call("model_info")).structured["model"] == "later.gguf"

    talk(play, "--model", "later.gguf")


@pytest.mark.slow
@pytest.mark.model
def test_llama_and_npu_give_the_same_greedy_answer(
    talk: Start, folder: Path, compiled: Callable[[str], Path], npu_model: Path
) -> None:
    (folder / "npu.toml").write_text(f'[rkllm]\nlibrary = "{compiled("G")}"\ntemplate = "chatml"\n', encoding="utf-8")
    answers: list[ToolResult] = []

    async def play(call: Talk) -> None:
        answers.append(await call.call("ask", prompt=QUESTION, system="", max_tokens=40))
        counted = await call.call("count_tokens", text="one two three")
        assert 0 < counted.structured["tokens"] < counted.structured["prompt_tokens"]

    talk(play, "--temperature", "0", "--context", "2048")
    talk(play, "--temperature", "0", "--context", "2048", "--config", "npu.toml", "--model", str(npu_model))
    assert [answer.status for answer in answers] == ["completed", "completed"]
    assert answers[0].text == answers[1].text != ""
    assert answers[0].structured["generated_tokens"] > 0


@pytest.mark.model
def test_the_model_is_described_and_tokens_are_counted(talk: Start) -> None:
    async def play(call: Talk) -> None:
        assert (await call.call("model_info")).structured == {
            "model": "tiny-tools.gguf",
            "backend": "llama",
            "context_tokens": 1024,
            "max_tokens": 50,
            "waiting": 0,
        }
        texts = ("", "a b", "a b " * 50)
        empty, short, long = [(await call.call("count_tokens", text=text)).structured for text in texts]
        assert empty["tokens"] == 0 < short["tokens"] < long["tokens"] < long["prompt_tokens"]
        assert long["context_tokens"] == 1024
        status, text = await call.ask("word " * 3000)
        assert status == "failed" and "1024" in text

    talk(play, "--context", "1024", "--max-tokens", "50")


def test_a_text_longer_than_the_context_is_summarized_in_parts(talk: Start, script: Script, folder: Path) -> None:
    (folder / "notes.txt").write_text("Husum has a harbour.", encoding="utf-8")

    async def play(call: Talk) -> None:
        # the scripted backend counts four characters as a token: 3000 of them, 1024 / 2 in a part
        done = await call.call("summarize", text="tide " * 1200)
        assert done.structured == {"text": "all", "parts": 3, "complete": True}
        done = await call.call("summarize", uri=(folder / "notes.txt").as_uri())
        assert done.structured == {"text": "short", "parts": 1, "complete": True}

    talk(play, *script("first", "second", "third", "all", "short"), "--context", "1024", "--folder", ".")


@pytest.mark.slow
def test_what_cannot_be_answered_is_an_error(talk: Start, script: Script, folder: Path) -> None:
    (folder.parent / "secret.txt").write_text("secret", encoding="utf-8")
    outside = (folder.parent / "secret.txt").as_uri()
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("ask", {"prompt": " "}, "empty"),
        ("ask", {"prompt": "x", "max_tokens": 0}, "max_tokens"),
        ("ask", {"prompt": "x" * ((1 << 20) + 1)}, "1048577"),
        ("summarize", {}, "either text or uri"),
        ("summarize", {"text": "a", "uri": "b"}, "either text or uri"),
        ("summarize", {"uri": "https://example.org/"}, "'https://example.org/' is no file"),
        ("summarize", {"uri": "file://other/etc/passwd"}, "'file://other/etc/passwd' is no file"),
        ("summarize", {"uri": outside}, f"outside the folders {folder}"),
        ("summarize", {"text": "x" * 300_000}, "75000 tokens"),
        ("ask", {"prompt": "x"}, "0 replies"),
    ]

    async def play(call: Talk) -> None:
        for name, arguments, words in refused:
            result = await call.call(name, **arguments)
            assert result.status == "failed" and words in result.text, result.text

    talk(play, *script(), "--context", "1024", "--folder", ".")

    async def without_folder(call: Talk) -> None:
        assert "--folder" in (await call.call("summarize", uri=outside)).text

    talk(without_folder, *script())
