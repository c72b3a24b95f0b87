"""MCP tools of the llm server: the local model for other agents.

The model is loaded at its first use. Docstrings of tools are the descriptions that clients receive.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict
from urllib.parse import urlsplit
from urllib.request import url2pathname

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, ToolAnnotations

from ...backends import find_engine_of
from ...config.settings import Settings
from ...core.errors import ChatError
from ...core.messages import Message
from ...core.version import __version__
from ..job_queue import Activity, BusyError, report_progress
from ..text_files import FileError, read_text
from ..tool_results import make_failure, make_result
from .model import LocalModel
from .summary import summarize_text

_REPORT_INTERVAL_S = 0.5
_MAX_TEXT_CHARS = 1 << 20


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


class _InvalidArgumentError(Exception):
    """An argument is invalid; the message says why."""


def _generating_tools(model: LocalModel, folders: Sequence[Path]) -> list[Callable[..., Any]]:
    """Return the tools that generate text."""

    async def ask(
        prompt: str, context: Context, system: str = "", max_tokens: int | None = None
    ) -> Annotated[CallToolResult, Answer]:
        """Ask the model; it remembers nothing of earlier questions."""

        async def answer(activity: Activity) -> CallToolResult:
            _check_text("prompt", prompt + system)
            if max_tokens is not None and max_tokens < 1:
                raise _InvalidArgumentError("max_tokens must be 1 or more.")
            async with model.acquire_backend(activity) as backend:
                reply = await model.generate(
                    backend, model.make_prompt(backend, prompt, system), activity.report, max_tokens
                )
            usage = reply.usage
            seconds = round(usage.prefill_s + usage.generate_s, 3)
            structured = Answer(
                text=reply.text,
                complete=not usage.is_cut,
                prompt_tokens=usage.prompt_tokens,
                generated_tokens=usage.generated_tokens,
                seconds=seconds,
            )
            return make_result(reply.text, structured)

        return await run_tool(answer, context)

    async def summarize(context: Context, text: str = "", uri: str = "") -> Annotated[CallToolResult, Summary]:
        """Sum up a text, or the file that a file: URI names. It may be longer than the model's context."""

        async def answer(activity: Activity) -> CallToolResult:
            if bool(text) == bool(uri):
                raise _InvalidArgumentError("Give either text or uri.")
            content = text or _read_uri(folders, uri)
            _check_text("text", content)
            async with model.acquire_backend(activity) as backend:
                done = await summarize_text(model, backend, content, activity.report)
            return make_result(done.text, Summary(text=done.text, parts=done.parts, complete=done.complete))

        return await run_tool(answer, context)

    return [ask, summarize]


def _inspecting_tools(model: LocalModel) -> list[Callable[..., Any]]:
    """Return the tools that only inspect the model."""

    async def count_tokens(text: str, context: Context) -> Annotated[CallToolResult, Count]:
        """How many tokens a text is for the local model, and how many with what stands around a prompt."""

        async def answer(activity: Activity) -> CallToolResult:
            _check_text("text", text, may_be_empty=True)
            async with model.acquire_backend(activity) as backend:
                overhead = backend.count_tokens([Message("user", "")])
                tokens = await anyio.to_thread.run_sync(backend.count_tokens, [Message("user", text)])
            counted = Count(tokens=tokens - overhead, prompt_tokens=tokens, context_tokens=backend.context_tokens)
            return make_result(f"{tokens - overhead} tokens; the context holds {backend.context_tokens}.", counted)

        return await run_tool(answer, context)

    async def model_info(context: Context) -> Annotated[CallToolResult, Info]:
        """Which model answers, how much it can read and write, and how many wait for it."""

        async def answer(activity: Activity) -> CallToolResult:
            backend = await model.open(activity)
            info = Info(
                model=backend.name,
                backend=model.backend_name,
                context_tokens=backend.context_tokens,
                max_tokens=model.settings.generation.max_tokens,
                waiting=model.queue.size,
            )
            text = f"{info['model']} ({info['backend']}): {info['context_tokens']} tokens of context, at most "
            return make_result(f"{text}{info['max_tokens']} in one reply; {info['waiting']} questions under way.", info)

        return await run_tool(answer, context)

    return [count_tokens, model_info]


async def run_tool(answer: Callable[[Activity], Awaitable[CallToolResult]], context: Context) -> CallToolResult:
    """Run a tool with progress notifications; expected errors become failed results."""
    activity = Activity("begins")
    async with report_progress(context.report_progress, activity, _REPORT_INTERVAL_S):
        try:
            return await answer(activity)
        except (ChatError, _InvalidArgumentError, FileError, BusyError) as error:
            return make_failure(str(error))


def _check_text(name: str, text: str, may_be_empty: bool = False) -> None:
    """Validate the length of a text. Raises _InvalidArgumentError."""
    if not text.strip() and not may_be_empty:
        raise _InvalidArgumentError(f"The {name} is empty.")
    if len(text) > _MAX_TEXT_CHARS:
        raise _InvalidArgumentError(f"The {name} is {len(text)} characters long; at most {_MAX_TEXT_CHARS} are read.")


def _read_uri(folders: Sequence[Path], uri: str) -> str:
    """Return the text of a `file:` URI inside the folders. Raises _InvalidArgumentError, FileError."""
    try:
        parts = urlsplit(uri)
        is_file = parts.scheme == "file" and parts.netloc in ("", "localhost")
    except ValueError:
        is_file = False
    if not is_file:
        raise _InvalidArgumentError(f"'{uri[:100]}' is no file: URI of this machine, and no other is read.")
    if not folders:
        raise _InvalidArgumentError("This server was started without --folder, so it reads no file.")
    return read_text(folders, url2pathname(parts.path))


def build_server(settings: Settings, folders: Sequence[Path]) -> MCPServer:
    """Return the server with its four tools; the model is closed when the server ends."""
    model = LocalModel(settings)

    @asynccontextmanager
    async def close_model(_server: MCPServer) -> AsyncIterator[None]:
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await model.aclose()

    is_local = not find_engine_of(settings).is_service
    about = "Asks the model on this machine." if is_local else f"Asks {settings.model}, a model elsewhere."
    server = MCPServer("llm", version=__version__, instructions=about, lifespan=close_model)
    read_only = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    # a text that leaves this machine, and may cost money, is not read-only: clients ask first
    sending = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
    for tool in _generating_tools(model, folders):
        server.add_tool(tool, annotations=read_only if is_local else sending)
    for tool in _inspecting_tools(model):
        server.add_tool(tool, annotations=read_only)
    return server
