"""The llm server through our own client: over stdio and over HTTP with a token, with written replies and models."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.config import ServerConfig
from rkllm_chat.messages import ToolResult
from rkllm_chat.servers.toolbox import Toolbox
from stage import PROGRAM

LIMIT_S = 40.0  # a busy machine; each wait inside has its own, shorter one
TOKEN = "correct-horse-battery-staple"
QUESTION = "What is 12 * 34?"

Play = Callable[["Talk"], Awaitable[None]]


class Talk:
    """A client that is connected. `told` has the progress of all calls, in words."""

    def __init__(self, box: Toolbox) -> None:
        self.box = box
        self.told: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, name: str, **arguments: Any) -> ToolResult:
        tool = next(tool for tool in self.box.tools if tool.name == name)
        return await self.box.call(tool, arguments, lambda _done, _total, text: self.told.put_nowait(text))

    async def ask(self, prompt: str, **arguments: Any) -> tuple[str, str]:
        result = await self("ask", prompt=prompt, **arguments)
        return result.status, result.text

    async def wait_for(self, text: str) -> None:
        async def wait() -> None:
            while text not in await self.told.get():
                pass

        await asyncio.wait_for(wait(), 5)


class Lent:
    """A folder with what a server of the model needs."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment

    def write_script(self, *replies: str | dict[str, Any]) -> tuple[str, str]:
        (self.folder / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
        return "--model", "replies.json"

    def talk(self, play: Play, *options: str) -> None:
        """With a server of its own, over stdio."""
        args = ("serve", "llm", *options)
        self.run(
            play, [ServerConfig("llm", command="rkllm-chat", args=args, env=self.environment, cwd=str(self.folder))]
        )

    def run(self, play: Play, servers: Sequence[ServerConfig]) -> None:
        async def go() -> None:
            async with Toolbox(servers, self.folder / "logs") as box:
                assert not box.failures
                await play(Talk(box))

        asyncio.run(asyncio.wait_for(go(), LIMIT_S))

    @contextmanager
    def serve(self, *options: str) -> Iterator[ServerConfig]:
        """A server over HTTP that wants a token, while it runs."""
        process = subprocess.Popen(
            [*PROGRAM, "serve", "llm", "--http", "0", "--token-env", "KEY", *options],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**self.environment, "KEY": TOKEN},
            cwd=self.folder,
        )
        try:
            assert process.stderr
            url = process.stderr.readline().split()[-1]
            yield ServerConfig("llm", url=url, transport="http", headers={"Authorization": f"Bearer {TOKEN}"})
        finally:
            process.terminate()
            process.communicate(timeout=10)


@pytest.fixture
def lent(folder: Path, environment: dict[str, str]) -> Lent:
    return Lent(folder, environment)


def test_the_model_answers_and_is_told_of_while_it_writes(lent: Lent) -> None:
    async def play(call: Talk) -> None:
        result = await call("ask", prompt="What time is it?", system="Be short.")
        structured = result.structured
        assert structured.pop("seconds") == 0
        assert (result.status, result.text) == ("completed", "It is noon.")
        assert structured == {"text": "It is noon.", "complete": True, "prompt_tokens": 11, "generated_tokens": 8}
        cut = await call("ask", prompt="Count.", max_tokens=2)
        assert (cut.text, cut.structured["complete"]) == ("one two", False)
        running = asyncio.create_task(call.ask("Go on."))
        await call.wait_for("writes, 3 pieces: I begin and ")
        running.cancel()
        assert await call.ask("And now?") == ("completed", '[TOOL_CALL]\n{"name": "x"}\n[END_TOOL_CALL]')

    replies = ("<think>noon</think>It is noon.", "one two three", {"text": "I begin and ", "wait": True})
    call_text = '[TOOL_CALL]\n{"name": "x"}\n[END_TOOL_CALL]'
    lent.talk(play, *lent.write_script(*replies, call_text))


def test_questions_are_answered_one_at_a_time_in_their_order_and_who_gives_up_leaves(lent: Lent) -> None:
    script = lent.write_script({"text": "never ends", "wait": True}, "second", "fourth")

    async def play(call: Talk) -> None:
        first = asyncio.create_task(call.ask("1"))
        await call.wait_for("never ends")
        others = []
        for number in (1, 2, 3):
            others.append(asyncio.create_task(call.ask(str(number + 1))))
            await call.wait_for(f"waits for {number} before it")
        assert (await call("model_info")).structured["waiting"] == 4
        others[1].cancel()
        first.cancel()
        assert await others[0] == ("completed", "second")
        assert await others[2] == ("completed", "fourth")

    lent.talk(play, *script)


def test_over_http_with_a_token_a_caller_that_goes_away_frees_the_model_for_the_next(lent: Lent) -> None:
    with lent.serve(*lent.write_script({"text": "never ends", "wait": True}, "for the other")) as server:

        async def play(call: Talk) -> None:
            first = asyncio.create_task(call.ask("1"))
            await call.wait_for("never ends")
            async with Toolbox([server], lent.folder / "other") as box:
                other = Talk(box)
                second = asyncio.create_task(other.ask("2"))
                await other.wait_for("waits for 1 before it")
                first.cancel()
                assert await second == ("completed", "for the other")

        lent.run(play, [server])

        async def refused() -> str:
            async with Toolbox([ServerConfig("llm", url=server.url, transport="http")], lent.folder / "none") as box:
                return str(box.failures["llm"])

        assert "wants a login" in asyncio.run(refused())


def test_whoever_lists_the_tools_does_not_wait_for_the_model_and_its_absence_is_told(
    lent: Lent, shipped_model: Path
) -> None:
    async def play(call: Talk) -> None:
        hints = [(tool.name, tool.read_only) for tool in call.box.tools]
        assert hints == [("ask", True), ("summarize", True), ("count_tokens", True), ("model_info", True)]
        for name, arguments in (("ask", {"prompt": "Hello"}), ("count_tokens", {"text": "Hello"}), ("model_info", {})):
            missing = await call(name, **arguments)
            assert missing.status == "failed"
            assert missing.text == "later.gguf: No such file or directory. Give a .gguf file with --model."
        (lent.folder / "later.gguf").symlink_to(shipped_model)
        assert (await call("model_info")).structured["model"] == "later.gguf"

    lent.talk(play, "--model", "later.gguf")


@pytest.mark.model
def test_every_engine_gives_the_same_greedy_answer(
    lent: Lent, compiled: Callable[[str], Path], npu_model: Path
) -> None:
    (lent.folder / "npu.toml").write_text(
        f'[rkllm]\nlibrary = "{compiled("G")}"\ntemplate = "chatml"\n', encoding="utf-8"
    )
    answers: list[ToolResult] = []

    async def play(call: Talk) -> None:
        answers.append(await call("ask", prompt=QUESTION, system="", max_tokens=40))
        counted = await call("count_tokens", text="one two three")
        assert 0 < counted.structured["tokens"] < counted.structured["prompt_tokens"]

    lent.talk(play, "--temperature", "0", "--context", "2048")
    lent.talk(play, "--temperature", "0", "--context", "2048", "--config", "npu.toml", "--model", str(npu_model))
    assert [answer.status for answer in answers] == ["completed", "completed"]
    assert answers[0].text == answers[1].text != ""
    assert answers[0].structured["generated_tokens"] > 0


@pytest.mark.model
def test_the_model_says_who_it_is_and_counts_tokens(lent: Lent) -> None:
    async def play(call: Talk) -> None:
        assert (await call("model_info")).structured == {
            "model": "tiny-tools.gguf",
            "backend": "llama",
            "context_tokens": 1024,
            "max_tokens": 50,
            "waiting": 0,
        }
        empty, short, long = [(await call("count_tokens", text=text)).structured for text in ("", "a b", "a b " * 50)]
        assert empty["tokens"] == 0 < short["tokens"] < long["tokens"] < long["prompt_tokens"]
        assert long["context_tokens"] == 1024
        too_long = await call("ask", prompt="word " * 3000)
        assert too_long.status == "failed"
        assert too_long.text.endswith(" tokens long, the context holds 1024.")

    lent.talk(play, "--context", "1024", "--max-tokens", "50")


def test_a_text_that_is_longer_than_the_context_is_summed_up_in_parts(lent: Lent) -> None:
    script = lent.write_script("first", "second", "third", "all", "short")
    (lent.folder / "notes.txt").write_text("Husum has a harbour.", encoding="utf-8")

    async def play(call: Talk) -> None:
        # the scripted backend counts four characters as a token: 3000 of them, 1024 / 2 in a part
        done = await call("summarize", text="tide " * 1200)
        assert done.structured == {"text": "all", "parts": 3, "complete": True}
        uri = (lent.folder / "notes.txt").as_uri()
        assert (await call("summarize", uri=uri)).structured == {"text": "short", "parts": 1, "complete": True}

    lent.talk(play, *script, "--context", "1024", "--folder", ".")


def test_what_cannot_be_answered_is_told_why(lent: Lent) -> None:
    (lent.folder.parent / "secret.txt").write_text("secret", encoding="utf-8")
    outside = (lent.folder.parent / "secret.txt").as_uri()
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("ask", {"prompt": " "}, "The prompt is empty."),
        ("ask", {"prompt": "x", "max_tokens": 0}, "max_tokens must be 1 or more."),
        ("ask", {"prompt": "x" * ((1 << 20) + 1)}, "The prompt is 1048577 characters long; at most 1048576 are read."),
        ("summarize", {}, "Give either text or uri."),
        ("summarize", {"text": "a", "uri": "b"}, "Give either text or uri."),
        ("summarize", {"uri": "https://example.org/"}, "'https://example.org/' is no file: URI of this machine"),
        ("summarize", {"uri": "file://other/etc/passwd"}, "'file://other/etc/passwd' is no file: URI of this machine"),
        ("summarize", {"uri": outside}, f"'{lent.folder.parent}/secret.txt' is outside the folders {lent.folder}."),
        ("summarize", {"text": "x" * 300_000}, "The text is 75000 tokens long; at most 32768 can be summed up"),
        ("ask", {"prompt": "x"}, "The script has 0 replies and was asked for one more."),
    ]

    async def play(call: Talk) -> None:
        for name, arguments, cause in refused:
            result = await call(name, **arguments)
            assert (result.status, result.text[: len(cause)]) == ("failed", cause)

    lent.talk(play, *lent.write_script(), "--context", "1024", "--folder", ".")

    async def without_folder(call: Talk) -> None:
        result = await call("summarize", uri=outside)
        assert result.text == "This server was started without --folder, so it reads no file."

    lent.talk(without_folder, *lent.write_script())


@pytest.mark.parametrize(
    ("options", "code", "cause"),
    [
        (["--backend", "no"], 2, 'There is no backend "no".'),
        (["--context", "-1"], 3, "context_tokens must be from 0"),
        (["--max-tokens", "0"], 3, "max_tokens must be from 1"),
        (["--folder", "/no/such"], 2, "There is no folder /no/such"),
        (["--config", "no.toml"], 3, "no.toml: No such file"),
    ],
)
def test_a_wrong_command_line_is_told_in_words(options: list[str], code: int, cause: str, program: Any) -> None:
    done = program("serve", "llm", *options, code=code)
    assert cause in done.stderr and "Traceback" not in done.stderr
