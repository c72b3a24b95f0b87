"""The HTTP application: its endpoints, and how it is served."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from difflib import get_close_matches
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..backends import Backend
from ..backends.base import TextTokenizer
from ..chat.model_loading import name_model
from ..config.loader import state_folder
from ..config.settings import Settings
from ..core.errors import NotSupportedError, TimeLimitError
from ..core.events import Usage
from ..core.messages import MediaKind
from ..core.sanitize import shorten_line
from ..core.thread_end import run_to_end
from ..core.version import __version__
from ..mcp_client.toolbox import Toolbox
from ..mcp_servers.http import Guard, list_allowed_hosts, serve_app
from ..mcp_servers.http_limits import HalfClosingProtocol
from ..storage.media import MediaStore
from . import Limits
from .body_limits import MAX_BODY_BYTES, find_max_characters
from .body_reader import BodyReader
from .chat_request import ChatRequest
from .client_media import MAX_STORED_BYTES, store_media
from .download import run_download
from .embeddings import EmbeddingBody, OllamaEmbedBody, OllamaPromptBody, TextsBody, embed_texts
from .errors import ApiError, to_api_error
from .generation import ReplyEnded, ReplyEvent, ReplyGenerator, add_usages, generate_replies
from .mcp_tools import open_servers
from .model_host import ModelHost, simplify_name
from .ollama_api import (
    API_VERSION,
    OllamaBody,
    OllamaChat,
    OllamaChatBody,
    OllamaGenerate,
    OllamaGenerateBody,
    OllamaShowBody,
    describe_error,
    describe_loaded_model,
    describe_model,
    describe_model_details,
)
from .openai_api import ChatCompletion
from .openai_schema import Body, ChatCompletionBody, RequestBody, dump_json
from .reply_histories import ReplyHistories
from .reply_response import Produce, ReplyResponse, ReplySink, ReplyWriter
from .request_queue import RequestQueue
from .responses_api import ResponseBody, ResponseWriter
from .text_completions import (
    ContinuationBody,
    TextCompletion,
    TextCompletionBody,
    TokenizeBody,
    continue_texts,
)

HEALTH = "/health"
QUEUE_HEADER, MODEL_HEADER = "x-queue-position", "x-model"
"""Headers: how many requests are before this one, and which model answers where the client named another one."""
_MAX_QUOTED_PATH = 100
_MAX_UNKNOWN_NAMES = 100
_log = logging.getLogger(__name__)
_COUNTED = {
    "prompt_tokens": "prompt_tokens",
    "cached_tokens": "reused_tokens",
    "generated_tokens": "generated_tokens",
    "prefill_seconds": "prefill_s",
    "generate_seconds": "generate_s",
}
"""Names of the totals of GET /metrics -> fields of `Usage`."""
_REFUSALS = {401: "authentication_error", 403: "permission_error"}

Handler = Callable[[Request], Awaitable[Response]]
RenderError = Callable[[ApiError], Response]
Pull = Callable[[str, str], Sequence[str]]
"""Returns the command that downloads the model of a name into a folder, as `run_download` runs it."""
Generate = Callable[[Backend], AsyncGenerator[ReplyEvent, None]]


class ApiServer:
    """The endpoints over one model."""

    def __init__(self, settings: Settings, limits: Limits, pull: Pull | None = None) -> None:
        self._settings, self._limits, self._pull = settings, limits, pull
        # one download at a time, whoever asks for it
        self._pull_lock = asyncio.Lock()
        queue = RequestQueue(limits.max_waiting)
        self._host = ModelHost(settings, state_folder(), queue, limits.idle_s, limits.states_bytes)
        self._embedder = ModelHost(settings, state_folder(), queue, limits.idle_s)
        self._bodies = BodyReader()
        self._histories: dict[str, ReplyHistories] = {}
        self._media = MediaStore(MAX_STORED_BYTES)
        self._media_lock = asyncio.Lock()
        self._servers: Toolbox | None = None
        self._replies, self._usage = 0, Usage()
        self._unknown_names: set[str] = set()

    def make_app(self) -> Starlette:
        """Return the application, without its guard."""
        openai: list[tuple[str, str, Handler]] = [  # some clients leave out /v1
            ("GET", "/models", self.list_models),
            ("GET", "/models/{name:path}", self.show_model),
            ("POST", "/chat/completions", self.complete_chat),
            ("POST", "/completions", self.complete_text),
            ("POST", "/responses", self.create_response),
            ("POST", "/embeddings", partial(self.embed, kind=EmbeddingBody, render=_render_error)),
        ]
        ollama: list[tuple[str, str, Handler]] = [
            ("GET", "/", self.show_name),
            ("POST", "/api/chat", self.chat_as_ollama),
            ("POST", "/api/generate", self.generate_as_ollama),
            ("POST", "/api/embed", partial(self.embed, kind=OllamaEmbedBody, render=_render_ollama_error)),
            ("POST", "/api/embeddings", partial(self.embed, kind=OllamaPromptBody, render=_render_ollama_error)),
            ("GET", "/api/tags", self.list_ollama_models),
            ("GET", "/api/ps", self.list_loaded_models),
            ("POST", "/api/show", self.show_ollama_model),
            ("GET", "/api/version", self.show_version),
            ("POST", "/api/pull", self.pull_as_ollama),
        ]
        llama: list[tuple[str, str, Handler]] = [
            ("GET", HEALTH, self.show_health),
            ("GET", "/props", self.show_properties),
            ("POST", "/tokenize", self.tokenize),
            ("GET", "/metrics", self.show_metrics),
        ]
        rows = [*((method, f"/v1{path}", handler) for method, path, handler in openai), *openai, *ollama, *llama]
        routes = [Route(path, handler, methods=[method]) for method, path, handler in rows]
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
            stack.push_async_callback(self._embedder.aclose)
            if self._limits.uses_servers:
                self._servers = await stack.enter_async_context(open_servers(self._settings, state_folder()))
                self._servers.media_store = self._media
            yield

    async def list_models(self, _request: Request) -> Response:
        """Answer GET /v1/models."""
        models = await asyncio.to_thread(self._host.list_models)
        return _respond({"object": "list", "data": [_describe_name(name) for name in models]})

    async def show_model(self, request: Request) -> Response:
        """Answer GET /v1/models/NAME."""
        return _respond(_describe_name(name_model(await self._find_model(request.path_params["name"]))))

    async def _find_model(self, name: str | None) -> Settings:
        """Return the settings of the model of a name; without one, of the model that was used last. Raises ApiError."""
        found = await self._choose_model(name)
        if _is_other(name, name_model(found)):
            message = f'There is no model "{(name or "")[:100]}"; GET /v1/models lists those of this server.'
            raise ApiError(404, message, param="model", code="model_not_found")
        return found

    async def _choose_model(self, name: str | None) -> Settings:
        """Return the settings of the model of a name; of an unknown one, those of the model that was used last."""
        found = await asyncio.to_thread(self._host.find_model, name) if name else None
        return found or self._host.settings

    async def complete_chat(self, request: Request) -> Response:
        """Answer POST /v1/chat/completions."""
        body = await self._read(request, ChatCompletionBody)
        return await self._reply(body, partial(ChatCompletion, includes_usage=body.includes_usage), _render_error)

    async def complete_text(self, request: Request) -> Response:
        """Answer POST /v1/completions."""
        return await self._continue(await self._read(request, TextCompletionBody), TextCompletion, _render_error)

    async def _continue(
        self,
        body: ContinuationBody,
        write_as: Callable[[str], ReplyWriter],
        render: RenderError,
        idle_s: float | None = None,
    ) -> Response:
        """Return the response to a request without a chat template. Raises ApiError."""
        settings, request = await self._choose_model(body.model), body.read_continuation()
        generate = partial(continue_texts, settings=settings, request=request)
        return self._respond_with(settings, generate, body, write_as(name_model(settings)), render, idle_s)

    async def create_response(self, request: Request) -> Response:
        """Answer POST /v1/responses."""
        body = await self._read(request, ResponseBody)
        return await self._reply(body, partial(ResponseWriter, body=body), _render_error)

    async def embed(self, request: Request, kind: type[TextsBody], render: RenderError) -> Response:
        """Answer POST /v1/embeddings, /api/embed and /api/embeddings."""
        body = await self._read(request, kind)
        # vectors of another model could not be compared with those of this one
        settings = await self._find_model(body.model)
        body.check_texts()

        async def write(sink: ReplySink, backend: Backend) -> None:
            embeddings = await embed_texts(backend, body)
            name = body.model or name_model(settings)
            sink.respond(await asyncio.to_thread(lambda: _respond(body.describe(name, embeddings))))

        is_beside = settings != self._host.settings and self._embedder.can_hold_beside(settings)
        host = self._embedder if is_beside else self._host
        return ReplyResponse(self._limit_time(write, settings, host=host), render)

    async def tokenize(self, request: Request) -> Response:
        """Answer POST /tokenize."""
        body = await self._read(request, TokenizeBody)

        async def write(sink: ReplySink, backend: Backend) -> None:
            if not isinstance(backend, TextTokenizer):
                raise NotSupportedError("This engine does not show the tokens of its model.")
            # awaited also where the client leaves: the next request may unload the model that the thread reads
            sink.respond(_respond({"tokens": await run_to_end(partial(backend.tokenize, body.content))}))

        return ReplyResponse(self._limit_time(write), _render_error)

    async def chat_as_ollama(self, request: Request) -> Response:
        """Answer POST /api/chat."""
        body = await self._read(request, OllamaChatBody)
        return await self._reply_as_ollama(body, OllamaChat, not body.messages)

    async def generate_as_ollama(self, request: Request) -> Response:
        """Answer POST /api/generate."""
        body = await self._read(request, OllamaGenerateBody)
        if body.suffix or (body.raw and body.prompt):
            write_as = partial(self._write_as_ollama, body, OllamaGenerate)
            return await self._continue(body, write_as, _render_ollama_error, body.idle_s)
        return await self._reply_as_ollama(body, OllamaGenerate, not body.prompt)

    async def _reply_as_ollama(self, body: OllamaBody, kind: type[OllamaChat], is_empty: bool) -> Response:
        """Return the response to a request; one without a message only loads the model, or unloads it."""
        write_as = partial(self._write_as_ollama, body, kind)
        idle_s, host = body.idle_s, self._host
        if not is_empty:
            return await self._reply(body, write_as, _render_ollama_error, idle_s)
        settings = await self._choose_model(body.model)

        async def load(sink: ReplySink) -> None:
            answer = _respond(write_as(name_model(settings)).describe_loaded(is_unloaded=idle_s == 0))
            if idle_s == 0 and not (host.is_loaded and settings == host.settings):
                sink.respond(answer)
                return
            async with host.acquire(settings, idle_s):
                sink.respond(answer)

        return ReplyResponse(load, _render_ollama_error)

    def _write_as_ollama(self, body: OllamaBody, kind: type[OllamaChat], name: str) -> OllamaChat:
        """Return the writer of a reply, under the name that the client used for the model."""
        return kind(name if _is_other(body.model, name) else body.model or name)

    async def list_ollama_models(self, _request: Request) -> Response:
        """Answer GET /api/tags."""
        models = await asyncio.to_thread(self._host.list_models)
        return _respond({"models": [describe_model(settings, name) for name, settings in models.items()]})

    async def list_loaded_models(self, _request: Request) -> Response:
        """Answer GET /api/ps."""
        loaded = [
            describe_loaded_model(host.settings, host.name, host.context_tokens, host.unloads_in_s)
            for host in (self._host, self._embedder)
            if host.is_loaded
        ]
        return _respond({"models": loaded})

    async def show_ollama_model(self, request: Request) -> Response:
        """Answer POST /api/show."""
        body = await self._read(request, OllamaShowBody)
        settings, host = await self._find_model(body.model or body.name), self._host
        known = (host.context_tokens, host.media_kinds) if settings == host.settings else (0, frozenset[MediaKind]())
        return _respond(await asyncio.to_thread(describe_model_details, settings, name_model(settings), *known))

    async def pull_as_ollama(self, request: Request) -> Response:
        """Answer POST /api/pull; a download ends when its client leaves, and is continued by the next one."""
        body = await self._read(request, OllamaShowBody)
        pull, name, is_streamed = self._pull, body.model or body.name or "", body.stream is not False
        if not pull:
            raise ApiError(403, "This server downloads no models; start it with --allow-pull.", "permission_error")

        def tell(sink: ReplySink, text: str) -> None:
            if is_streamed:
                sink.write(dump_json({"status": text}) + b"\n")

        async def write(sink: ReplySink) -> None:
            async with self._pull_lock:
                await run_download(pull(name, self._settings.models_folder), partial(tell, sink))
            self._host.forget_listing()
            done = {"status": "success"}
            sink.write(dump_json(done) + b"\n") if is_streamed else sink.respond(_respond(done))

        writer = OllamaChat("") if is_streamed else None
        return ReplyResponse(write, _render_ollama_error, stream=writer, limits=self._limits)

    async def show_name(self, _request: Request) -> Response:
        """Answer GET and HEAD /, by which programs look for a server."""
        return PlainTextResponse(f"rkllm-chat {__version__} is running")

    async def show_version(self, _request: Request) -> Response:
        """Answer GET /api/version."""
        return _respond({"version": API_VERSION})

    async def show_health(self, _request: Request) -> Response:
        """Answer GET /health, which needs no token."""
        return _respond({"status": "error"}, 503) if self._host.has_failed else _respond({"status": "ok"})

    async def show_properties(self, _request: Request) -> Response:
        """Answer GET /props as llama.cpp's server does."""
        kinds = self._host.media_kinds
        return _respond(
            {
                "default_generation_settings": {"n_ctx": self._host.context_tokens},
                "total_slots": 1,
                "model_alias": self._host.name,
                "modalities": {"vision": "image" in kinds, "audio": "audio" in kinds},
                "build_info": f"rkllm-chat {__version__}",
            }
        )

    async def show_metrics(self, _request: Request) -> Response:
        """Answer GET /metrics in the text format of Prometheus."""
        figures = {
            "replies_total": self._replies,
            **{f"{name}_total": getattr(self._usage, field) for name, field in _COUNTED.items()},
            "queue_size": self._host.queue_size,
            "model_loaded": int(self._host.is_loaded),
        }
        lines = [
            f"# TYPE rkllm_chat_{name} {'counter' if name.endswith('_total') else 'gauge'}\nrkllm_chat_{name} {value:g}"
            for name, value in figures.items()
        ]
        return PlainTextResponse("\n".join([*lines, ""]))

    async def _read(self, request: Request, kind: type[Body]) -> Body:
        """Receive, parse and validate the body of a request. Raises ApiError."""
        is_conversation = not issubclass(kind, TextsBody)  # each text of an embedding has the window to itself
        most = find_max_characters(self._host.context_tokens) if is_conversation else MAX_BODY_BYTES
        return await self._bodies.read(request, kind, most)

    async def _reply(
        self,
        body: RequestBody,
        write_as: Callable[[str], ReplyWriter],
        render: RenderError,
        idle_s: float | None = None,
    ) -> Response:
        """Return the response to a chat request. Raises ApiError for a picture that cannot be read."""
        settings = await self._choose_model(body.model)
        name = name_model(settings)
        request = await self._bodies.run(body.read_request)
        if any(message.sent_media for message in request.messages):
            async with self._media_lock:  # decoding takes memory
                request = await asyncio.to_thread(store_media, request, self._media)

        def generate(backend: Backend) -> AsyncGenerator[ReplyEvent, None]:
            histories = self._histories.setdefault(name, ReplyHistories())

            async def start(varied: ChatRequest) -> ReplyGenerator:
                is_left = threading.Event()
                prepare = partial(ReplyGenerator, backend, settings, varied, histories, self._servers, is_left.is_set)
                # A thread cannot be cancelled. It counted tokens in a model that the next request had unloaded, which
                # ended the server with SIGSEGV; now it is asked to end and awaited before the turn passes on.
                return await run_to_end(prepare, on_cancel=is_left.set)

            return generate_replies(request, settings.generation.seed, start)

        beginning = (request.system, [tool.name for tool in request.tools])
        return self._respond_with(settings, generate, body, write_as(name), render, idle_s, beginning)

    def _respond_with(
        self,
        settings: Settings,
        generate: Generate,
        body: RequestBody,
        writer: ReplyWriter,
        render: RenderError,
        idle_s: float | None = None,
        beginning: Sequence[object] = (),
    ) -> Response:
        """Return a response that waits for the model, generates the reply and writes it."""

        async def read(events: AsyncIterator[ReplyEvent]) -> AsyncIterator[ReplyEvent]:
            async for event in events:
                if isinstance(event, ReplyEnded):
                    self._replies += 1
                    self._usage = add_usages([self._usage, event.usage])
                yield event

        async def write(sink: ReplySink, backend: Backend) -> None:
            async with aclosing(generate(backend)) as events:
                if body.is_streamed:
                    async for part in writer.stream(read(events)):
                        sink.write(part)
                else:
                    sink.respond(_respond(await writer.collect(read(events))))

        headers = {QUEUE_HEADER: str(self._host.queue_size)}
        if _is_other(body.model, name := name_model(settings)):
            headers[MODEL_HEADER] = name
            self._log_unknown_name(body.model or "", name)
        stream = writer if body.is_streamed else None
        produce = self._limit_time(write, settings, idle_s, beginning)
        return ReplyResponse(produce, render, headers, stream, self._limits)

    def _log_unknown_name(self, wanted: str, used: str) -> None:
        """Log once that a model answers in place of another one."""
        if wanted not in self._unknown_names and len(self._unknown_names) < _MAX_UNKNOWN_NAMES:
            self._unknown_names.add(wanted)
            _log.warning('there is no model "%s"; %s answers', shorten_line(wanted), used)

    def _limit_time(
        self,
        write: Callable[[ReplySink, Backend], Awaitable[None]],
        settings: Settings | None = None,
        idle_s: float | None = None,
        beginning: Sequence[object] = (),
        host: ModelHost | None = None,
    ) -> Produce:
        """Return a function that waits for the model and writes a response with it, for a limited time."""

        async def produce(sink: ReplySink) -> None:
            async with (host or self._host).acquire(settings, idle_s, beginning) as backend:
                try:
                    # from the turn on; how long the requests before it take is not the fault of this one
                    await asyncio.wait_for(write(sink, backend), self._limits.max_reply_s)
                except asyncio.TimeoutError:
                    message = f"The reply was not finished within {self._limits.max_reply_s:g} s."
                    raise TimeLimitError(message) from None

        return produce


def _is_other(name: str | None, used: str) -> bool:
    """Return whether a client named another model than the one that is used."""
    return bool(name) and simplify_name(name or "") != simplify_name(used)


def _describe_name(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "rkllm-chat"}


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
    path, headers = request.url.path[:_MAX_QUOTED_PATH], error.headers or {}
    text = f"{error.detail}."
    if error.status_code == 404:
        known = [route.path for route in request.app.routes if isinstance(route, Route)]
        near = get_close_matches(path, known, n=1)
        text = f"There is no path {path}." + (f" Did you mean {near[0]}?" if near else "")
    elif error.status_code == 405:
        allowed = [name for name in headers.get("Allow", "").split(", ") if name != "HEAD"]
        text = f"{request.method} is not allowed at {path}. Use {' or '.join(sorted(allowed))}."
    response = _choose_rendering(request)(ApiError(error.status_code, text))
    response.headers.update(headers)
    return response


async def _answer_error(request: Request, error: Exception) -> Response:
    return _choose_rendering(request)(to_api_error(error))


def _render_refusal(request: Request, refusal: Response) -> Response:
    """Return a refusal of the guard in the shape of the API at that path, with its headers."""
    kind = _REFUSALS.get(refusal.status_code, "invalid_request_error")
    response = _choose_rendering(request)(ApiError(refusal.status_code, bytes(refusal.body).decode(), kind))
    if challenge := refusal.headers.get("www-authenticate"):
        response.headers["www-authenticate"] = challenge
    return response


async def serve_api(
    settings: Settings, limits: Limits, listener: socket.socket, token: str, pull: Pull | None = None
) -> int:
    """Serve the API until cancelled.

    Args:
        settings: Settings of the model.
        limits: Limits of the server.
        listener: The listening socket.
        token: The bearer token that requests need; "" for none.
        pull: Returns the command that downloads a model; None if clients must not.
    """
    server = ApiServer(settings, limits, pull)
    names = [*list_allowed_hosts(limits.host), *limits.allowed_hosts]
    app: ASGIApp = Guard(server.make_app(), names, token, _render_refusal, limits.origins, [HEALTH])
    if limits.origins:
        app = CORSMiddleware(app, limits.origins, allow_methods=["*"], allow_headers=["*"], expose_headers=["*"])
    return await serve_app(app, listener, server.run(), HalfClosingProtocol)
