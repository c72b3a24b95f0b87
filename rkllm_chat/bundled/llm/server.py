"""The llm server: the local model as tools for other agents. It loads nothing before it is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict
from urllib.parse import urlsplit
from urllib.request import url2pathname

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations

from ... import __version__
from ...config import Settings
from ...errors import ChatError
from ...messages import Message
from ..textfiles import FileError, read_text
from ..turns import BusyError, Doing, telling
from .model import Model
from .summary import sum_up

TICK_S = 0.5
LARGEST_TEXT = 1 << 20


class Answer(TypedDict):
    text: str
    complete: bool
    prompt_tokens: int
    generated_tokens: int
    seconds: float


class Summary(TypedDict):
    text: str
    parts: int
    complete: bool


class Count(TypedDict):
    tokens: int
    prompt_tokens: int
    context_tokens: int


class Info(TypedDict):
    model: str
    backend: str
    context_tokens: int
    max_tokens: int
    waiting: int


class RefusedError(Exception):
    """The arguments do not do; the text says why."""


def writing_tools(model: Model, folders: Sequence[Path]) -> list[Callable[..., Any]]:
    """The tools for which the model writes."""

    async def ask(
        prompt: str, context: Context, system: str = "", max_tokens: int | None = None
    ) -> Annotated[CallToolResult, Answer]:
        """Ask the local model; it remembers nothing of earlier questions."""

        async def answer(doing: Doing) -> CallToolResult:
            check_text("prompt", prompt + system)
            if max_tokens is not None and max_tokens < 1:
                raise RefusedError("max_tokens must be 1 or more.")
            async with model.turn(doing) as backend:
                reply = await model.write(backend, model.make_prompt(backend, prompt, system), doing.say, max_tokens)
            usage = reply.usage
            seconds = round(usage.prefill_s + usage.generate_s, 3)
            structured = Answer(
                text=reply.text,
                complete=not usage.hit_limit,
                prompt_tokens=usage.prompt_tokens,
                generated_tokens=usage.generated_tokens,
                seconds=seconds,
            )
            return show(reply.text, structured)

        return await attempt(answer, context)

    async def summarize(context: Context, text: str = "", uri: str = "") -> Annotated[CallToolResult, Summary]:
        """Sum up a text, or the file that a file: URI names. It may be longer than the model's context."""

        async def answer(doing: Doing) -> CallToolResult:
            if bool(text) == bool(uri):
                raise RefusedError("Give either text or uri.")
            read = text or read_uri(folders, uri)
            check_text("text", read)
            async with model.turn(doing) as backend:
                done = await sum_up(model, backend, read, doing.say)
            return show(done.text, Summary(text=done.text, parts=done.parts, complete=done.complete))

        return await attempt(answer, context)

    return [ask, summarize]


def looking_tools(model: Model) -> list[Callable[..., Any]]:
    """The tools for which it does not write."""

    async def count_tokens(text: str, context: Context) -> Annotated[CallToolResult, Count]:
        """How many tokens a text is for the local model, and how many with what stands around a prompt."""

        async def answer(doing: Doing) -> CallToolResult:
            check_text("text", text, may_be_empty=True)
            async with model.turn(doing) as backend:
                around = backend.count_tokens([Message("user", "")])
                tokens = await anyio.to_thread.run_sync(backend.count_tokens, [Message("user", text)])
            counted = Count(tokens=tokens - around, prompt_tokens=tokens, context_tokens=backend.context_tokens)
            return show(f"{tokens - around} tokens; the context holds {backend.context_tokens}.", counted)

        return await attempt(answer, context)

    async def model_info(context: Context) -> Annotated[CallToolResult, Info]:
        """Which model answers, how much it can read and write, and how many wait for it."""

        async def answer(doing: Doing) -> CallToolResult:
            backend = await model.open(doing)
            info = Info(
                model=backend.name,
                backend=model.backend_name,
                context_tokens=backend.context_tokens,
                max_tokens=model.settings.generation.max_tokens,
                waiting=model.turns.present,
            )
            text = f"{info['model']} ({info['backend']}): {info['context_tokens']} tokens of context, at most "
            return show(f"{text}{info['max_tokens']} in one reply; {info['waiting']} questions under way.", info)

        return await attempt(answer, context)

    return [count_tokens, model_info]


async def attempt(answer: Callable[[Doing], Awaitable[CallToolResult]], context: Context) -> CallToolResult:
    """What a tool answers, told of meanwhile; what cannot be done is a failed call that says why."""
    doing = Doing("begins")
    async with telling(context.report_progress, doing, TICK_S):
        try:
            return await answer(doing)
        except (ChatError, RefusedError, FileError, BusyError) as error:
            return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True)


def check_text(name: str, text: str, may_be_empty: bool = False) -> None:
    if not text.strip() and not may_be_empty:
        raise RefusedError(f"The {name} is empty.")
    if len(text) > LARGEST_TEXT:
        raise RefusedError(f"The {name} is {len(text)} characters long; at most {LARGEST_TEXT} are read.")


def read_uri(folders: Sequence[Path], uri: str) -> str:
    """The text of a file: URI, below the folders. Raises RefusedError, FileError."""
    try:
        parts = urlsplit(uri)
        is_file = parts.scheme == "file" and parts.netloc in ("", "localhost")
    except ValueError:
        is_file = False
    if not is_file:
        raise RefusedError(f"'{uri[:100]}' is no file: URI of this machine, and no other is read.")
    if not folders:
        raise RefusedError("This server was started without --folder, so it reads no file.")
    return read_text(folders, url2pathname(parts.path))


def show(text: str, structured: object) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)


def build_server(settings: Settings, folders: Sequence[Path]) -> MCPServer:
    """The server with its four tools; the model is closed when it ends."""
    model = Model(settings)

    @asynccontextmanager
    async def keep(_server: MCPServer) -> AsyncIterator[None]:
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await model.aclose()

    about = "Asks the model on this machine."
    server = MCPServer("llm", version=__version__, instructions=about, lifespan=keep)
    harmless = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    for tool in [*writing_tools(model, folders), *looking_tools(model)]:
        server.add_tool(tool, annotations=harmless)
    return server
