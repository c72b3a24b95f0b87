"""Chat and SyncChat: a conversation with tools, for programs that use this package as a library.

    from rkllm_chat import Chat

    async with Chat("qwen3-4b.gguf", "mcp.json", allow=["time__*"]) as chat:
        reply = await chat.ask("What time is it in Tokyo?")
        print(reply.text)

Scripts without an event loop use `with Chat.sync(...)` and no `await`. All errors are `MCPException` or derived from
it. Nothing is printed, and nothing is saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from typing_extensions import Self

from ..backends import Backend, open_backend
from ..config.named_settings import make_settings
from ..core.errors import ChatError, UsageError
from ..core.events import Event, Usage
from ..core.i18n import load
from ..core.messages import Media, Message, Tool, ToolResult
from ..core.protocols import CallPosition, Consent
from ..core.thread_end import wait_for_end
from ..mcp_client.library import BlockingContext, MCPClient, Servers
from ..storage.media import MAX_MEDIA_BYTES, MediaStore
from .answer import Answer
from .conversation import Conversation
from .setting_choices import check_setting_choices
from .turn import Turn

__all__ = ["Chat", "Reply", "SyncChat", "load_backend"]

_NO_SERVERS: Mapping[str, Any] = MappingProxyType({})
Approve = Callable[[Tool, Mapping[str, Any]], Awaitable[Consent]]
"""Asks about a call of a tool with its arguments."""


@dataclass(frozen=True)
class Reply:
    """What one turn brought.

    Attributes:
        text: The answer.
        calls: The tool calls of the turn with their results, in the order of their ends.
        reason: Why the turn ended: "answered"; "length": the answer was cut off by `max_tokens`; "repetition":
            it was ended because it repeated itself; "steps": there is no
            answer, because all `max_steps` rounds called tools; "stopped".
        usage: Tokens and seconds of each model request.
    """

    text: str
    calls: tuple[ToolResult, ...]
    reason: str
    usage: tuple[Usage, ...]


def load_backend(model: str = "", **settings: Any) -> Backend:
    """Load a model; blocks while it loads. The caller ends it by `await backend.aclose()`.

    Args:
        model: A .gguf or .rkllm file, or the URL of an OpenAI-compatible service; "" for the small model that ships.
        settings: As for `Chat`.

    Raises:
        MCPException: The model cannot be loaded, or a setting is invalid.
    """
    options = make_settings({"model": model, **settings}, "load_backend()")
    check_setting_choices(options)
    return open_backend(options)


class Chat:
    """A conversation with a model and the tools of MCP servers. Use it with `async with`.

    Calls run by the policy of the settings: without a setting, only those that `allow` names. `approve` is asked about
    the others; without it they are declined, and the model is told so.
    """

    def __init__(
        self, model: str = "", servers: Servers = _NO_SERVERS, approve: Approve | None = None, **settings: Any
    ) -> None:
        """Create a conversation; nothing is loaded or started before it is entered.

        Args:
            model: As for `load_backend`.
            servers: MCP servers, as for `MCPClient`.
            approve: Coroutine function `(tool, arguments) -> "once" | "always" | "no" | "stop"`.
            settings: Keys of `[chat]`, `[generation]` and `[policy]` of the configuration file: `system`,
                `context_tokens`, `max_steps`, `temperature`, `max_tokens`, `seed`, `allow`, `deny` ...

        Raises:
            MCPException: A setting or the configuration of the servers is invalid.
        """
        self._settings = make_settings({"model": model, **settings}, "Chat()")
        check_setting_choices(self._settings)
        self._client = MCPClient(servers)
        self._approve = approve
        self._stack = AsyncExitStack()
        self._media = self._client.toolbox.media_store = MediaStore()
        self._chat: Conversation | None = None

    async def _authorize(self, tool: Tool, arguments: Mapping[str, Any], _position: CallPosition) -> Consent:
        return await self._approve(tool, arguments) if self._approve else "no"

    @staticmethod
    def sync(
        model: str = "", servers: Servers = _NO_SERVERS, approve: Approve | None = None, **settings: Any
    ) -> SyncChat:
        """Create a conversation with blocking methods, for `with`; arguments as for the class."""
        return SyncChat(Chat(model, servers, approve, **settings))

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._client)
            loading = asyncio.ensure_future(asyncio.to_thread(open_backend, self._settings))
            stack.push_async_callback(_close_loaded, loading)
            # nothing interrupts a load; where this is cancelled, the stack waits for it and closes the model
            backend = await asyncio.shield(loading)
            words = load()
            words.set_language(self._settings.language)
            toolbox = self._client.toolbox
            self._chat = Conversation(backend, toolbox, self._settings, words, self._authorize)
            self._chat.get_folders = toolbox.find_folders
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the model and all servers."""
        self._chat = None
        await self._stack.aclose()
        self._media.close()

    @property
    def servers(self) -> MCPClient:
        """The servers of the conversation; those that could not be opened are in its `failures`."""
        return self._client

    @property
    def history(self) -> tuple[Message, ...]:
        """All messages so far."""
        return tuple(self._open_chat().history)

    async def ask(self, text: str, images: Sequence[bytes | str | Path] = ()) -> Reply:
        """Say something and return the answer; calls that the policy permits are run meanwhile.

        Cancelling this stops the model and the tools; what was generated stays in the history.

        Args:
            text: The text.
            images: Pictures, or sounds, as bytes or as paths of files.

        Raises:
            MCPException: The engine failed, the text is too long for the context, or the model does not understand
                pictures.
        """
        answer = Answer()
        async with aclosing(self.stream(text, images)) as events:
            async for event in events:
                answer.add(event)
        return Reply(answer.text, tuple(answer.results), answer.end.reason, answer.end.usage)

    async def stream(self, text: str, images: Sequence[bytes | str | Path] = ()) -> AsyncGenerator[Event, None]:
        """Say something and yield the events of the turn (`rkllm_chat.core.events`); the last is TurnEnded.

        Raises:
            MCPException: As for `ask`.
        """
        chat = self._open_chat()
        media = tuple([await asyncio.to_thread(self._read_image, image) for image in images])
        if any(medium.kind not in chat.backend.media_kinds for medium in media):
            raise UsageError(f"The model {chat.backend.name} does not understand pictures or sounds of that kind.")
        async with aclosing(Turn(chat).run([Message("user", text, media=media)])) as turn:
            async for event in turn:
                yield event

    def _read_image(self, image: bytes | str | Path) -> Media:
        if isinstance(image, bytes):
            return self._media.add(image, "image")
        path = Path(image)
        try:
            with path.open("rb") as file:
                return self._media.add(file.read(MAX_MEDIA_BYTES + 1), path.name)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}.") from None

    def _open_chat(self) -> Conversation:
        if self._chat is None:
            raise ChatError("The conversation is not open.", "Use it in an async with statement.")
        return self._chat


async def _close_loaded(loading: asyncio.Future[Backend]) -> None:
    """Close a model, which may still be loading: nothing interrupts that."""
    await wait_for_end(loading)
    if not loading.exception():
        await loading.result().aclose()


class SyncChat(BlockingContext):
    """A Chat without `await`. Use it with `with`."""

    def __init__(self, chat: Chat) -> None:
        """Wrap a conversation that has not been entered."""
        self._chat = chat
        super().__init__(chat)

    @property
    def history(self) -> tuple[Message, ...]:
        """All messages so far."""
        return self._chat.history

    def ask(self, text: str, images: Sequence[bytes | str | Path] = ()) -> Reply:
        """Say something and return the answer; as `Chat.ask`."""
        return self._call(self._chat.ask, text, images)
