"""Calls that start while the model is still writing, and what becomes of them however the reply ends.

The server is a real process; its tool tells a socket of the test what it was called with, and may wait there for leave
to end. The engine writes its next words only once something has happened, so an order is proved without a clock.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rkllm_chat import language
from rkllm_chat.backends.scripted import Scripted, cut
from rkllm_chat.chat import Chat
from rkllm_chat.config import Generation, ServerConfig, Settings
from rkllm_chat.errors import GenerationError
from rkllm_chat.events import CallFound, CallsDetected, Event, Text, ToolFinished, ToolStarted, TurnEnded, Usage
from rkllm_chat.messages import Message, Tool, ToolResult
from rkllm_chat.policy import Consent, Policy
from rkllm_chat.rounds import OnProgress
from rkllm_chat.servers.toolbox import Toolbox
from stage import Box, Screen, call_text, collect, make_chat, take_turn

OpenScreen = Callable[..., Screen]
Step = str | Exception | Callable[[], Awaitable[object]]

LOOKOUT = '''
import asyncio, sys
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("lookout")


async def report(word: str, waits: bool) -> None:
    reader, writer = await asyncio.open_unix_connection(sys.argv[1])
    try:
        writer.write(word.encode() + b"\\n")
        if waits:
            await reader.readline()
    except asyncio.CancelledError:
        writer.write(b"cancelled\\n")
        raise
    finally:
        writer.close()


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
async def look(place: str, waits: bool = False) -> str:
    """Looks at a place."""
    await report(place, waits)
    return f"{place} is quiet"


@server.tool()
async def move(place: str) -> str:
    """Moves something."""
    await report("moved", False)
    return f"moved to {place}"


server.run("stdio")
'''


class Paced(Scripted):
    """Writes texts, waits for what must have happened, fails: step by step, one list of steps a reply."""

    def __init__(self, *replies: Sequence[Step]) -> None:
        super().__init__([])
        self.steps = list(replies)

    async def stream(self, *_: Any) -> AsyncGenerator[str | Usage, None]:
        for step in self.steps.pop(0):
            if isinstance(step, Exception):
                raise step
            if not isinstance(step, str):
                await asyncio.wait_for(step(), 5)
                continue
            for piece in cut(step):
                yield piece
        yield Usage()


class Post:
    """Where the tools of the server report: what they said, in order, and their connections."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said: list[str] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._changed = asyncio.Condition()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        while line := await reader.readline():
            async with self._changed:
                self.said.append(line.decode().strip())
                self._changed.notify_all()
        writer.close()

    def have(self, *words: str) -> Callable[[], Awaitable[None]]:
        """Waits until all of these words were said."""

        async def wait() -> None:
            async with self._changed:
                await self._changed.wait_for(lambda: set(words) <= set(self.said))

        return wait

    async def let_go(self) -> None:
        """Lets the tools that wait come to their end."""
        for writer in self._writers:
            writer.write(b"go\n")


@dataclass
class Watched:
    """A toolbox of which one knows when a call has ended."""

    box: Toolbox
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def tools(self) -> Sequence[Tool]:
        return self.box.tools

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: OnProgress) -> ToolResult:
        result = await self.box.call(tool, arguments, on_progress)
        self.ended.set()
        return result


class Mixed(Box):
    """As Box; a tool called `move` may change something."""

    @property
    def tools(self) -> Sequence[Tool]:
        return [Tool(name, "", {}, "box", read_only=name != "move", trusted=True) for name in self.functions]


def lookout(post: Path) -> ServerConfig:
    return ServerConfig("lookout", command=sys.executable, args=("-c", LOOKOUT, str(post)), trust="trusted")


@asynccontextmanager
async def open_lookout(folder: Path) -> AsyncIterator[tuple[Post, Toolbox]]:
    post = Post(folder / "post")
    listening = await asyncio.start_unix_server(post.take, post.path)
    async with listening, Toolbox([lookout(post.path)], folder) as box:
        assert not box.failures, box.failures
        yield post, box


def talk(backend: Paced, box: Any, **settings: Any) -> Chat:
    return Chat(backend, box, Settings(**settings), language.load())


def results(chat: Chat) -> list[tuple[str, str]]:
    """Of each call that the history holds a result for: how it ended, and its text."""
    return [(one.result.status, one.result.text) for one in chat.history if one.result]


def calls_under_way() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("call of ")]


ALL = Policy(approve="all")
STOPPED = ("stopped", "The call was stopped before it ended.")


def test_the_server_is_called_before_the_model_has_written_its_last_word(tmp_path: Path) -> None:
    async def ask() -> tuple[Chat, list[Event]]:
        async with open_lookout(tmp_path) as (post, box):
            reply: list[Step] = [
                call_text("look", place="Husum"),
                post.have("Husum"),
                " and ",
                call_text("look", place="Leer"),
            ]
            backend = Paced([*reply, post.have("Leer"), " I wait."], ["Quiet."])
            chat = talk(backend, box)
            return chat, await collect(chat.send("Look around."))

    chat, events = asyncio.run(ask())
    kinds = [type(event) for event in events if not isinstance(event, ToolFinished | Text)]
    assert kinds == [CallFound, CallFound, CallsDetected, ToolStarted, ToolStarted, TurnEnded]
    assert results(chat) == [("completed", "Husum is quiet"), ("completed", "Leer is quiet")]


def test_results_come_in_the_order_of_the_calls_whichever_ended_first(tmp_path: Path) -> None:
    async def ask() -> tuple[Chat, list[Event]]:
        async with open_lookout(tmp_path) as (post, box):
            first, second = call_text("look", place="Husum", waits=True), call_text("look", place="Leer")
            chat = talk(Paced([first, second, post.have("Husum", "Leer"), post.let_go, " So."], ["Quiet."]), box)
            return chat, await collect(chat.send("Look around."))

    chat, events = asyncio.run(ask())
    assert [status for status, _ in results(chat)] == ["completed", "completed"]
    assert [text for _, text in results(chat)] == ["Husum is quiet", "Leer is quiet"]
    assert len([event for event in events if isinstance(event, ToolFinished)]) == 2


def test_a_call_that_may_change_something_waits_for_the_end_and_so_do_those_behind_it() -> None:
    async def work(**_: Any) -> str:
        return "done"

    box, begun = Mixed({"look": work, "move": work}), list[list[str]]()

    async def note() -> None:
        await asyncio.create_task(work())  # what was started before has begun when this has
        begun.append([name for name, _ in box.called])

    first: list[Step] = [call_text("look", at=1), note, call_text("move"), note, call_text("look", at=2), note]
    asyncio.run(collect(talk(Paced(first, ["Done."]), box, policy=ALL).send("Move it.")))
    assert begun == [["look"], ["look"], ["look"]]
    assert [name for name, _ in box.called] == ["look", "move", "look"]


def test_an_engine_that_fails_loses_no_result_and_leaves_nothing_running(tmp_path: Path) -> None:
    async def ask() -> Chat:
        async with open_lookout(tmp_path) as (post, box):
            calls = [call_text("look", place="Husum"), call_text("look", place="Leer", waits=True), call_text("move")]
            watched = Watched(box)
            happened: list[Step] = [post.have("Husum", "Leer"), watched.ended.wait, GenerationError("It broke.")]
            chat = talk(Paced([*calls, *happened]), watched)
            with pytest.raises(GenerationError, match="It broke"):
                await collect(chat.send("Look around."))
            assert calls_under_way() == []
            await asyncio.wait_for(post.have("cancelled")(), 5)
            return chat

    chat = asyncio.run(ask())
    assert results(chat) == [("completed", "Husum is quiet"), STOPPED, STOPPED]
    assert [message.role for message in chat.history] == ["user", "assistant", "tool", "tool", "tool"]


def test_walking_away_in_the_middle_keeps_what_was_there_and_leaves_nothing_running() -> None:
    async def ask() -> Chat:
        reached, looked = asyncio.Event(), asyncio.Event()

        async def look() -> str:
            looked.set()
            return "quiet"

        async def endless() -> str:
            await asyncio.Event().wait()
            return ""

        async def reach() -> None:
            await looked.wait()
            reached.set()
            await asyncio.Event().wait()

        chat = talk(Paced([call_text("look") + call_text("endless"), reach]), Box({"look": look, "endless": endless}))
        turn = asyncio.create_task(collect(chat.send("Look.")))
        await asyncio.wait_for(reached.wait(), 5)
        turn.cancel()
        await asyncio.wait([turn])
        assert turn.cancelled() and calls_under_way() == []
        return chat

    assert results(asyncio.run(ask())) == [("completed", "quiet"), STOPPED]


def test_stopping_at_a_question_keeps_and_tells_of_what_had_run() -> None:
    async def look() -> str:
        return "quiet"

    async def endless() -> str:
        await asyncio.Event().wait()
        return ""

    async def stop(*_: Any) -> Consent:
        return "stop"

    box = Mixed({"look": look, "endless": endless, "move": look})
    chat = make_chat([call_text("look") + call_text("endless") + call_text("move") + " So."], box, stop)
    events = take_turn(chat, "Move it.")
    assert results(chat) == [("completed", "quiet"), STOPPED, STOPPED]
    told = [
        (type(event), event.tool if isinstance(event, ToolStarted) else event.result.tool)
        for event in events
        if isinstance(event, ToolStarted | ToolFinished)
    ]
    assert told == [
        (ToolFinished, "move"),
        (ToolStarted, "look"),
        (ToolFinished, "look"),
    ]
    assert isinstance(events[-1], TurnEnded) and events[-1].reason == "stopped"


def test_where_no_calls_are_left_none_starts_early() -> None:
    async def look() -> str:
        return "quiet"

    async def answer(_rounds: int) -> Any:
        return "answer"

    box = Box({"look": look})
    chat = make_chat([call_text("look"), call_text("look") + " I wait."], box, max_steps=1)
    chat.at_limit = answer
    take_turn(chat, "Look.")
    assert len(box.called) == 1


FRAGMENTS = st.sampled_from(
    [
        *(call_text("look", at=1), call_text("look", at=2), call_text("move", at=1), call_text("nothing")),
        *("[TOOL_CALL]\n{broken\n[END_TOOL_CALL]", call_text("more", handle="r1"), " and ", call_text("denied")),
    ]
)


@given(
    replies=st.lists(st.lists(FRAGMENTS, min_size=1, max_size=6).map("".join), min_size=1, max_size=4),
    mode=st.sampled_from(["ask", "all", "none"]),
    most=st.sampled_from([2, 5, 100]),
    tokens=st.sampled_from([30, 1000]),
)
def test_early_or_not_the_same_comes_of_a_turn(replies: list[str], mode: Any, most: int, tokens: int) -> None:
    def play(starts_early: bool) -> tuple[list[Message], list[str], list[str], int]:
        async def tell(**arguments: Any) -> str:
            return f"told {arguments}"

        async def yes(*_: Any) -> Consent:
            return "once"

        box = Mixed(dict.fromkeys(("look", "move", "denied"), tell))
        policy, generation = Policy(mode, deny=("denied",), max_calls=most), Generation(max_tokens=tokens)
        chat = make_chat([*replies, "Done."], box, yes, policy=policy, generation=generation)
        chat.starts_early = starts_early
        events = take_turn(chat, "Look.")
        return chat.history, sorted(map(str, box.called)), sorted(map(str, events)), chat.called

    assert play(starts_early=True) == play(starts_early=False)


def test_ctrl_c_while_a_reply_and_its_call_are_under_way_stops_both(
    open_screen: OpenScreen, script: Callable[..., str], folder: Path, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as post:
        post.bind(str(tmp_path / "post"))
        post.listen()
        post.settimeout(10)
        (folder / "server.py").write_text(LOOKOUT, encoding="utf-8")
        command, given = json.dumps(sys.executable), json.dumps(["server.py", str(tmp_path / "post")])
        own = f'[[servers]]\nname = "lookout"\ntrust = "trusted"\ncommand = {command}\nargs = {given}\n'
        (folder / "own.toml").write_text(own, encoding="utf-8")
        reply = "I look. " + call_text("look", place="Husum", waits=True) + " And then I"
        model = script({"text": reply, "wait": True}, "Gladly.")
        screen = open_screen("--config", "own.toml", "--model", model)
        screen.wait_for_prompt()
        screen.type("Look around.\r")
        tool, _ = post.accept()
        tool.settimeout(10)
        with tool, tool.makefile("rb") as heard:
            assert heard.readline() == b"Husum\n"  # the model has not ended, and never will
            screen.wait_for("And then I")
            screen.type("\x03")
            assert heard.readline() == b"cancelled\n"
        screen.wait_for_prompt()
        screen.type("/history 1\r")
        screen.wait_for("The call was stopped before it ended.")
        screen.wait_for_prompt()
        screen.type("Thanks.\r")
        screen.wait_for("Gladly.")
        screen.wait_for_prompt()
        children = Path(f"/proc/{screen.process.pid}/task/{screen.process.pid}/children").read_text(encoding="ascii")
        assert children.split()
        screen.type("\x04")
        assert screen.wait_for_end() == 0
        assert [pid for pid in children.split() if Path(f"/proc/{pid}").exists()] == []
