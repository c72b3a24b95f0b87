"""The HTTP application: its endpoints, and how it is served."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ..backends import Backend
from ..config.loader import state_folder
from ..config.settings import Settings
from ..core.errors import TimeLimitError
from ..core.version import __version__
from ..mcp_client.toolbox import Toolbox
from ..mcp_servers.http import Guard, list_allowed_hosts, serve_app
from ..storage.media import MediaStore
from . import Limits
from .body_limits import MAX_BODY_BYTES, find_max_characters
from .body_reader import BodyReader
from .chat_request import ChatRequest
from .client_media import MAX_STORED_BYTES, store_media
from .embeddings import EmbeddingBody, OllamaEmbedBody, TextsBody, embed_texts
from .errors import ApiError, to_api_error
from .generation import ReplyEvent, ReplyGenerator
from .mcp_tools import open_servers
from .model_host import ModelHost
from .ollama_api import (
    OllamaChat,
    OllamaChatBody,
    OllamaGenerate,
    OllamaGenerateBody,
    OllamaShowBody,
    describe_error,
    describe_model,
    describe_model_details,
)
from .openai_api import ChatCompletion
from .openai_schema import Body, ChatCompletionBody, dump_json
from .reply_histories import ReplyHistories
from .reply_response import Produce, ReplyResponse, ReplySink, ReplyWriter, write_stream
from .responses_api import ResponseBody, ResponseWriter
from .text_completions import TextCompletion, TextCompletionBody, complete_text

_SUFFIXES = (".gguf", ".rkllm")
_LATEST = ":latest"
_REFUSALS = {401: "authentication_error", 403: "permission_error"}

RenderError = Callable[[ApiError], Response]
Generate = Callable[[Backend], AsyncGenerator[ReplyEvent, None]]


class ApiServer:
    """The endpoints over one model."""

    def __init__(self, settings: Settings, limits: Limits) -> None:
        self._settings, self._limits = settings, limits
        self._host = ModelHost(settings, state_folder(), limits.max_waiting, limits.idle_s, limits.states_bytes)
        self._bodies = BodyReader()
        self._histories = ReplyHistories()
        self._media = MediaStore(MAX_STORED_BYTES)
        self._media_lock = asyncio.Lock()
        self._servers: Toolbox | None = None

    def make_app(self) -> Starlette:
        """Return the application, without its guard."""
        routes = [
            Route("/", self.show_name, methods=["GET"]),
            Route("/v1/models", self.list_models, methods=["GET"]),
            Route("/v1/models/{name:path}", self.show_model, methods=["GET"]),
            Route("/v1/chat/completions", self.complete_chat, methods=["POST"]),
            Route("/v1/completions", self.complete_text, methods=["POST"]),
            Route("/v1/responses", self.create_response, methods=["POST"]),
            Route("/v1/embeddings", self.create_embeddings, methods=["POST"]),
            Route("/api/chat", self.chat_as_ollama, methods=["POST"]),
            Route("/api/generate", self.generate_as_ollama, methods=["POST"]),
            Route("/api/embed", self.embed_as_ollama, methods=["POST"]),
            Route("/api/tags", self.list_ollama_models, methods=["GET"]),
            Route("/api/ps", self.list_loaded_models, methods=["GET"]),
            Route("/api/show", self.show_ollama_model, methods=["POST"]),
            Route("/api/version", self.show_version, methods=["GET"]),
        ]
        handlers: dict[Any, Any] = {
            HTTPException: _answer_http_error,
            Exception: _answer_error,
            ApiError: _answer_error,
        }
        return Starlette(routes=routes, exception_handlers=handlers)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Open the MCP servers, if they are wanted; close them and the model at the end."""
        async with AsyncExitStack() as stack:
            stack.enter_context(self._media)
            stack.push_async_callback(self._host.aclose)
            if self._limits.uses_servers:
                self._servers = await stack.enter_async_context(open_servers(self._settings, state_folder()))
                self._servers.media_store = self._media
            yield

    async def list_models(self, _request: Request) -> Response:
        """Answer GET /v1/models."""
        return _respond({"object": "list", "data": [self._describe_model()]})

    async def show_model(self, request: Request) -> Response:
        """Answer GET /v1/models/NAME."""
        self._check_model(request.path_params["name"])
        return _respond(self._describe_model())

    def _describe_model(self) -> dict[str, Any]:
        return {"id": self._host.name, "object": "model", "created": 0, "owned_by": "rkllm-chat"}

    def _check_model(self, name: str | None) -> None:
        """Raise ApiError if the name is not that of the model; without a name the model is meant."""
        if name and _simplify_name(name) != _simplify_name(self._host.name):
            message = f'There is no model "{name[:100]}"; this server has "{self._host.name}".'
            raise ApiError(404, message, param="model", code="model_not_found")

    async def complete_chat(self, request: Request) -> Response:
        """Answer POST /v1/chat/completions."""
        body = await self._read(request, ChatCompletionBody)
        self._check_model(body.model)
        writer = ChatCompletion(self._host.name, body.includes_usage)
        return await self._reply(body.read_request, writer, bool(body.stream), _render_error)

    async def complete_text(self, request: Request) -> Response:
        """Answer POST /v1/completions."""
        body = await self._read(request, TextCompletionBody)
        self._check_model(body.model)
        generate = partial(complete_text, settings=self._settings, body=body)
        return self._respond_with(generate, TextCompletion(self._host.name), bool(body.stream), _render_error)

    async def create_response(self, request: Request) -> Response:
        """Answer POST /v1/responses."""
        body = await self._read(request, ResponseBody)
        self._check_model(body.model)
        writer = ResponseWriter(self._host.name, body)
        return await self._reply(body.read_request, writer, bool(body.stream), _render_error)

    async def create_embeddings(self, request: Request) -> Response:
        """Answer POST /v1/embeddings."""
        return self._embed(await self._read(request, EmbeddingBody), _render_error)

    async def embed_as_ollama(self, request: Request) -> Response:
        """Answer POST /api/embed."""
        return self._embed(await self._read(request, OllamaEmbedBody), _render_ollama_error)

    def _embed(self, body: TextsBody, render: RenderError) -> Response:
        """Return a response with the embeddings of the texts of a request."""
        self._check_model(body.model)
        body.check_texts()

        async def write(sink: ReplySink, backend: Backend) -> None:
            embeddings = await embed_texts(backend, body)
            name = body.model or self._host.name
            sink.respond(await asyncio.to_thread(lambda: _respond(body.describe(name, embeddings))))

        return ReplyResponse(self._limit_time(write), lambda error: dump_json(error.describe()), render)

    async def chat_as_ollama(self, request: Request) -> Response:
        """Answer POST /api/chat."""
        body = await self._read(request, OllamaChatBody)
        return await self._reply_as_ollama(body, OllamaChat(body.model or self._host.name), not body.messages)

    async def generate_as_ollama(self, request: Request) -> Response:
        """Answer POST /api/generate."""
        body = await self._read(request, OllamaGenerateBody)
        return await self._reply_as_ollama(body, OllamaGenerate(body.model or self._host.name), not body.prompt)

    async def _reply_as_ollama(
        self, body: OllamaChatBody | OllamaGenerateBody, writer: OllamaChat, is_empty: bool
    ) -> Response:
        """Return the response to a request; one without a message only loads the model."""
        self._check_model(body.model)
        if not is_empty:
            return await self._reply(body.read_request, writer, body.is_streamed, _render_ollama_error)

        async def load(sink: ReplySink) -> None:
            async with self._host.acquire():
                sink.respond(_respond(writer.describe_loaded()))

        return ReplyResponse(load, writer.write_error, _render_ollama_error)

    async def list_ollama_models(self, _request: Request) -> Response:
        """Answer GET /api/tags."""
        return _respond({"models": [describe_model(self._settings, self._host.name)]})

    async def list_loaded_models(self, _request: Request) -> Response:
        """Answer GET /api/ps."""
        loaded = [describe_model(self._settings, self._host.name)] if self._host.is_loaded else []
        return _respond({"models": loaded})

    async def show_ollama_model(self, request: Request) -> Response:
        """Answer POST /api/show."""
        body = await self._read(request, OllamaShowBody)
        self._check_model(body.model or body.name)
        return _respond(describe_model_details(self._settings, self._host.name, self._host.media_kinds))

    async def show_name(self, _request: Request) -> Response:
        """Answer GET and HEAD /, by which programs look for a server."""
        return PlainTextResponse(f"rkllm-chat {__version__} is running")

    async def show_version(self, _request: Request) -> Response:
        """Answer GET /api/version."""
        return _respond({"version": __version__})

    async def _read(self, request: Request, kind: type[Body]) -> Body:
        """Receive, parse and validate the body of a request. Raises ApiError."""
        is_conversation = not issubclass(kind, TextsBody)  # each text of an embedding has the window to itself
        most = find_max_characters(self._host.context_tokens) if is_conversation else MAX_BODY_BYTES
        return await self._bodies.read(request, kind, most)

    async def _reply(
        self, read_request: Callable[[], ChatRequest], writer: ReplyWriter, is_streamed: bool, render: RenderError
    ) -> Response:
        """Return the response to a chat request. Raises ApiError for a picture that cannot be read."""
        request = await self._bodies.run(read_request)
        if any(message.sent_media for message in request.messages):
            async with self._media_lock:  # decoding takes memory
                request = await asyncio.to_thread(store_media, request, self._media)

        async def generate(backend: Backend) -> AsyncGenerator[ReplyEvent, None]:
            generator = await asyncio.to_thread(
                ReplyGenerator, backend, self._settings, request, self._histories, self._servers
            )
            async with aclosing(generator.stream()) as events:
                async for event in events:
                    yield event

        return self._respond_with(generate, writer, is_streamed, render)

    def _respond_with(
        self, generate: Generate, writer: ReplyWriter, is_streamed: bool, render: RenderError
    ) -> Response:
        """Return a response that waits for the model, generates the reply and writes it."""

        async def write(sink: ReplySink, backend: Backend) -> None:
            async with aclosing(generate(backend)) as events:
                if is_streamed:
                    await write_stream(sink, writer, events)
                else:
                    sink.respond(_respond(await writer.collect(events)))

        return ReplyResponse(self._limit_time(write), writer.write_error, render)

    def _limit_time(self, write: Callable[[ReplySink, Backend], Awaitable[None]]) -> Produce:
        """Return a function that waits for the model and writes a response with it, for a limited time."""

        async def produce(sink: ReplySink) -> None:
            async with self._host.acquire() as backend:
                try:
                    await asyncio.wait_for(write(sink, backend), self._limits.max_reply_s)
                except asyncio.TimeoutError:
                    message = f"The reply was not finished within {self._limits.max_reply_s:g} s."
                    raise TimeLimitError(message) from None

        return produce


def _simplify_name(name: str) -> str:
    name = name.removesuffix(_LATEST)
    return next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)


def _respond(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(dump_json(value), status, headers, "application/json")


def _render_error(error: ApiError) -> Response:
    return _respond(error.describe(), error.status, error.headers)


def _render_ollama_error(error: ApiError) -> Response:
    return _respond(describe_error(error), error.status, error.headers)


def _choose_rendering(request: Request) -> RenderError:
    """Return how errors are written at the path of a request."""
    return _render_ollama_error if request.url.path.startswith("/api/") else _render_error


async def _answer_http_error(request: Request, error: HTTPException) -> Response:
    response = _choose_rendering(request)(ApiError(error.status_code, f"{error.detail}."))
    response.headers.update(error.headers or {})
    return response


async def _answer_error(request: Request, error: Exception) -> Response:
    return _choose_rendering(request)(to_api_error(error))


def _render_refusal(refusal: Response) -> Response:
    """Return a refusal of the guard in OpenAI's shape, with its headers."""
    kind = _REFUSALS.get(refusal.status_code, "invalid_request_error")
    response = _render_error(ApiError(refusal.status_code, bytes(refusal.body).decode(), kind))
    if challenge := refusal.headers.get("www-authenticate"):
        response.headers["www-authenticate"] = challenge
    return response


async def serve_api(settings: Settings, limits: Limits, listener: socket.socket, token: str) -> int:
    """Serve the API until cancelled.

    Args:
        settings: Settings of the model.
        limits: Limits of the server.
        listener: The listening socket.
        token: The bearer token that requests need; "" for none.
    """
    server = ApiServer(settings, limits)
    names = [*list_allowed_hosts(limits.host), *limits.allowed_hosts]

    return await serve_app(Guard(server.make_app(), names, token, _render_refusal), listener, server.run())
