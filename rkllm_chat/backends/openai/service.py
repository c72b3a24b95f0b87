"""One OpenAI-compatible service: its program and model, its load, and the requests to it.

No redirect is followed, so that the key reaches only the configured address; no compressed response is accepted, so
that a small response cannot expand to a huge one.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import anyio
import httpx2

from ...config.settings import Openai
from ...core.errors import AuthError, ConfigError, GenerationError, ModelError
from ...core.messages import MediaKind
from ...prompt.chat_templates import TEMPLATES, choose_template
from ...prompt.jinja_template import compile_template
from ...prompt.pieces import Template
from ...storage.session_records import hash_text
from ..shared.token_counts import MeasuredTokenCounts
from .addresses import is_loopback, load_template
from .requests import SERVICE_KINDS, ServiceKind
from .responses import (
    ADDRESS_HINT,
    NotFoundError,
    ServiceBusyError,
    ServiceIdentity,
    UnreachableError,
    get_nested,
    get_number,
    get_object,
    get_text,
    is_web_page,
    to_error,
    to_error_body,
    unknown_model_error,
)

_CONNECT_S, _WRITE_S = 10.0, 30.0
_PROBE_S = 5.0
"""How long a service may take to describe itself."""
_COUNT_S = 2.0
_MAX_RESPONSE_BYTES = 4_000_000
_MAX_EVENT_BYTES = 1_000_000
_FIRST_AVOIDANCE_S, _MAX_AVOIDANCE_S = 5.0, 60.0
_OLLAMA_CONTEXT = 4096
"""The context that Ollama (0.6 and later) gives a model that does not ask for another, whatever it was trained on."""
_CONTEXT_KEYS = ("max_model_len", "loaded_context_length", "context_length", "max_context_length", "n_ctx")

_MEDIA_NAMES: dict[str, MediaKind] = {"vision": "image", "image": "image", "audio": "audio"}
"""How services name what a model understands -> kind of media."""
_OWN_NAME = "rkllm-chat"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServiceInfo:
    """What a service reports about itself.

    Attributes:
        kind: The row of KINDS.
        kind_name: Its name in KINDS.
        model: Name of the model at the service.
        context_tokens: Size of the context window; 0 if it is not reported.
        template: Chat template for prompts rendered here; None if the service renders them.
        bos: The token that it puts before a prompt by itself.
        template_name: Name of the template, as in other backends; "messages" without one.
        template_source: Text of the model's own template, if the service reports it.
        native_tools: Whether tools are to be sent beside the messages.
        media_kinds: Kinds of media that the model understands.
    """

    kind: ServiceKind
    kind_name: str
    model: str
    context_tokens: int = 0
    template: Template | None = None
    bos: str = ""
    template_name: str = "messages"
    template_source: str = ""
    native_tools: bool = False
    media_kinds: frozenset[MediaKind] = frozenset()


@dataclass(eq=False)
class Service:
    """A service and the state of its use.

    Attributes:
        url: Its URL, which ends in /v1.
        configured_model: Name of the model; "" for the only one.
        options: The settings.
        api_key: The key.
        info: What it reports about itself; None before the first probe.
        active_requests: Number of active requests.
        failures: Number of consecutive failures.
        avoided_until: Until when it is avoided after a failure, of the monotonic clock.
        prefill_tokens_per_s: Measured prefill speed in tokens a second.
        caches_prompts: Whether it caches prompts; None if unknown.
        token_counts: Measured token counts.
        accepted_tokens: The largest number of tokens that it reported for a prompt and its reply.
    """

    url: str
    configured_model: str
    options: Openai
    api_key: str = field(default="", repr=False)
    info: ServiceInfo | None = None
    active_requests: int = 0
    failures: int = 0
    avoided_until: float = 0.0
    prefill_tokens_per_s: float = 0.0
    caches_prompts: bool | None = None
    token_counts: MeasuredTokenCounts = field(default_factory=MeasuredTokenCounts, repr=False)
    accepted_tokens: int = 0
    _client: httpx2.AsyncClient | None = field(default=None, repr=False)
    _model_names: tuple[str, ...] = ()

    @property
    def root_url(self) -> str:
        """The URL of what OpenAI's API does not have."""
        return self.url.removesuffix("/v1")

    @property
    def identity(self) -> ServiceIdentity:
        """The service as error messages need it."""
        model = self.info.model if self.info else self.configured_model
        return ServiceIdentity(self.url, model, self._model_names, self.options.key_env, self.api_key)

    @property
    def is_avoided(self) -> bool:
        """Whether the service is avoided after a failure."""
        return time.monotonic() < self.avoided_until

    def record_failure(self, wait_s: float | None = None) -> None:
        """Avoid the service for a while: 5 s, then 10, 20 ... 60, or as long as it asks for."""
        avoid_s = min(_MAX_AVOIDANCE_S, _FIRST_AVOIDANCE_S * 2**self.failures)
        self.failures = min(self.failures + 1, 10)
        self.avoided_until = time.monotonic() + (avoid_s if wait_s is None else min(wait_s, _MAX_AVOIDANCE_S))

    def record_success(self) -> None:
        """Stop avoiding the service."""
        self.failures, self.avoided_until = 0, 0.0

    @contextmanager
    def track_request(self) -> Iterator[None]:
        """Count a request as active."""
        self.active_requests += 1
        try:
            yield
        finally:
            self.active_requests -= 1

    def probe(self) -> ServiceInfo:
        """Request what the service reports about itself; blocks a few times `_PROBE_S` at most.

        Raises:
            ModelError: It is no such service, or does not have the model.
            AuthError: It does not accept the key.
            ServiceBusyError: It asks to retry later.
        """
        with httpx2.Client(**self._client_options(_PROBE_S)) as client:
            try:
                listed = self._request_json(client, "GET", f"{self.url}/models")
            except (AuthError, ServiceBusyError):
                raise
            except GenerationError as error:
                if not self.configured_model or not isinstance(error, NotFoundError):
                    raise ModelError(error.message, error.hint, url=self.url) from error
                listed = {"data": [{"id": self.configured_model}]}  # some services do not list their models
            self.info = self._read_info(client, listed)
        log.info("%s is %s, model %s", self.url, self.info.kind_name, self.info.model)
        return self.info

    def list_models(self) -> tuple[str, ...]:
        """Request the names of the models; blocks `_PROBE_S` at most. Raises AuthError and GenerationError."""
        with httpx2.Client(**self._client_options(_PROBE_S)) as client:
            entries = get_nested(self._request_json(client, "GET", f"{self.url}/models"), "data")
        return tuple(filter(None, (get_text(entry, "id") for entry in entries))) if isinstance(entries, list) else ()

    def _read_info(self, client: httpx2.Client, listed: Any) -> ServiceInfo:
        entries = get_nested(listed, "data")
        if not isinstance(entries, list):
            raise ModelError(f"{self.url} is not an OpenAI-compatible service.", ADDRESS_HINT, url=self.url)
        entries = [entry for entry in entries if get_text(entry, "id")]
        self._model_names = tuple(get_text(entry, "id") for entry in entries)
        entry = self._choose_entry(entries)
        model = get_text(entry, "id")
        props = self._try_request(client, "GET", f"{self.root_url}/props")
        program = self._recognize_kind(client, entry, props)
        keys = (*((key,) for key in _CONTEXT_KEYS), ("meta", "n_ctx"))
        context = next((number for key in keys if (number := get_number(entry, *key))), 0)
        if program == "llama.cpp":
            context = get_number(props, "default_generation_settings", "n_ctx") or context
        shown = None
        if program in ("Ollama", "rkllama"):
            shown = self._try_request(client, "POST", f"{self.root_url}/api/show", {"model": model})
            context = _read_ollama_context(shown)
        native_tools = self._wants_native_tools(props, shown)
        writes, template = (
            ("messages", None) if native_tools else self._find_template(SERVICE_KINDS[program], model, props)
        )
        bos = self._find_bos(client, SERVICE_KINDS[program], model, template, props)
        source = get_text(props, "chat_template")
        media_kinds = self._read_media_kinds(entry, props, shown)
        return ServiceInfo(
            SERVICE_KINDS[program], program, model, context, template, bos, writes, source, native_tools, media_kinds
        )

    def _read_media_kinds(self, entry: Any, props: Any, shown: Any) -> frozenset[MediaKind]:
        """Return the kinds of media that the model understands: pictures by the settings, else what is reported.

        Args:
            entry: The model's entry in the list of models; OpenRouter and Mistral have it there.
            props: What llama.cpp's server reports at /props.
            shown: What Ollama reports at /api/show.
        """
        names = _list_texts(get_nested(shown, "capabilities"))
        names += _list_texts(get_nested(entry, "architecture", "input_modalities"))
        sources = (get_object(props, "modalities"), get_object(entry, "capabilities"))
        names += [name for source in sources for name, value in source.items() if value is True]
        kinds = {_MEDIA_NAMES[name] for name in names if name in _MEDIA_NAMES}
        if self.options.images is not None:
            kinds = kinds | {"image"} if self.options.images else kinds - {"image"}
        return frozenset(kinds)

    def _wants_native_tools(self, props: Any, shown: Any) -> bool:
        """Return whether tools are sent beside the messages: by the settings, else if the service reports support.

        Args:
            props: What llama.cpp's server reports at /props.
            shown: What Ollama reports at /api/show.
        """
        if self.options.native_tools is not None:
            return self.options.native_tools
        if self.options.api == "completions" or self.options.template != "auto":
            return False
        caps, capabilities = get_object(props, "chat_template_caps"), get_nested(shown, "capabilities")
        has_tool_template = caps.get("supports_tools") is True and caps.get("supports_tool_calls") is True
        return has_tool_template or (isinstance(capabilities, list) and "tools" in capabilities)

    def _choose_entry(self, entries: list[Any]) -> Any:
        """Return the entry of the configured model: by its name, without its tag or folder, or the only one."""
        if not self.configured_model and len(entries) == 1:
            return entries[0]
        if not self.configured_model:
            names = ", ".join(self._model_names[:20])
            hint = f"Select one with --model {self.url}#NAME." + (f" Available: {names}." if names else "")
            raise ModelError(f"{self.url} has {len(entries)} models.", hint, available=list(self._model_names))
        for entry in entries:
            name = get_text(entry, "id")
            if self.configured_model in (
                name,
                name.removesuffix(":latest"),
                PurePosixPath(name).name,
                PurePosixPath(name).stem,
            ):
                return entry
        # a tag may ask for a variant that is not listed
        if self.configured_model.partition(":")[0] in self._model_names or not entries:
            return {"id": self.configured_model}
        unknown = unknown_model_error(self.identity)
        raise ModelError(unknown.message, unknown.hint, url=self.url, **unknown.details)

    def _recognize_kind(self, client: httpx2.Client, entry: Any, props: Any) -> str:
        """Return the row of KINDS, by what only that program has."""
        if get_text(entry, "owned_by") == _OWN_NAME:  # it also has what llama.cpp's server has
            return _OWN_NAME
        if get_object(props, "default_generation_settings"):
            return "llama.cpp"
        owner = get_text(entry, "owned_by")
        if (
            owner == "me"
            and self._count_now(client, SERVICE_KINDS["llama-cpp-python"], get_text(entry, "id"), "a") is None
        ):
            owner = ""
        template_setting = next((name for name, kind in SERVICE_KINDS.items() if owner and kind.owned_by == owner), "")
        if template_setting and template_setting != "llama.cpp":
            return template_setting
        return (
            "Ollama"
            if get_text(self._try_request(client, "GET", f"{self.root_url}/api/version"), "version")
            else "unknown"
        )

    def _find_template(self, kind: ServiceKind, model: str, props: Any) -> tuple[str, Template | None]:
        """Return the name of the template and the template; None if the service renders prompts. Raises ConfigError."""
        template_setting, api = self.options.template, self.options.api
        if api == "chat" or (api == "auto" and template_setting == "auto" and not kind.accepts_rendered_prompts):
            return "messages", None
        if template_setting != "auto":
            return template_setting, load_template(template_setting)
        source = get_text(props, "chat_template")
        if source:
            try:
                bos, eos = get_text(props, "bos_token"), get_text(props, "eos_token")
                return f"gguf:{hash_text(source)}", compile_template(source, bos=bos, eos=eos, today=date.today())
            except ModelError as error:
                log.warning("%s: %s", self.url, error)
        builtin_template = choose_template("auto", model)
        if not builtin_template and api == "completions":
            hint = f'Set template under [openai]: {", ".join(TEMPLATES)}, or a Jinja file; or api = "chat".'
            raise ConfigError(f"No template is known for the model name {model}.", hint)
        return next((name for name, row in TEMPLATES.items() if row is builtin_template), "messages"), builtin_template

    def _find_bos(
        self, client: httpx2.Client, kind: ServiceKind, model: str, template: Template | None, props: Any
    ) -> str:
        """Return the token that begins a text, if the template writes it and the service adds it by itself."""
        bos = get_text(props, "bos_token") or getattr(template, "bos", "")
        if not template or not bos:
            return ""
        added_tokens = self._count_now(client, kind, model, "") if kind.tokenize_path else None
        return "" if added_tokens == 0 else bos

    def _count_now(self, client: httpx2.Client, kind: ServiceKind, model: str, text: str) -> int | None:
        return _read_count(
            self._try_request(client, "POST", self.root_url + kind.tokenize_path, _count_body(text, model))
        )

    def _try_request(self, client: httpx2.Client, method: str, url: str, body: Any = None) -> Any:
        """Request as `_request_json`; None if that fails."""
        try:
            return self._request_json(client, method, url, body)
        except (GenerationError, AuthError):
            return None

    def _request_json(self, client: httpx2.Client, method: str, url: str, body: Any = None) -> Any:
        """Request JSON. Raises AuthError and GenerationError."""
        # the client's limit is for each read: a service that sends a byte now and then would hold the probe for ever
        until = time.monotonic() + _PROBE_S
        content = bytearray()
        with self._translate_errors(), client.stream(method, url, json=body) as response:
            for chunk in response.iter_raw():
                content += chunk
                if len(content) > _MAX_RESPONSE_BYTES or time.monotonic() > until:
                    raise GenerationError(f"{self.url} sent too large a response, or too slowly.", ADDRESS_HINT)
        if not response.is_success:
            raise to_error(self.identity, response.status_code, response.headers, bytes(content))
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            what = "a web page" if is_web_page(content.decode("utf-8", errors="replace")) else "invalid JSON"
            raise GenerationError(f"{self.url} responded with {what}.", ADDRESS_HINT) from None

    def _unreachable_error(self, error: httpx2.HTTPError) -> UnreachableError:
        reason = str(error) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()
        return UnreachableError(
            f"{self.url} does not respond: {reason.rstrip('.')}.", "Check that the service is running."
        )

    def _client_options(self, read_s: float) -> dict[str, Any]:
        return {
            "headers": {
                # some compressed bytes unpack to any size, and sizes are limited as they are received
                "accept-encoding": "identity",
                **({"authorization": f"Bearer {self.api_key}"} if self.api_key else {}),
            },
            "timeout": httpx2.Timeout(min(_CONNECT_S, read_s), read=read_s, write=_WRITE_S, pool=None),
            # the key was given for this address alone
            "follow_redirects": False,
            "verify": _ssl_context(),
            "trust_env": not is_loopback(self.url),  # proxies from the environment
        }

    def _open_client(self) -> httpx2.AsyncClient:
        if self._client is None:
            # a connection kept alive may be closed by the server at the moment it is reused
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
            self._client = httpx2.AsyncClient(limits=limits, **self._client_options(self.options.first_s))
        return self._client

    async def count_tokens(self, text: str) -> int | None:
        """Return the service's count of a prompt; None if it does not count, or not now."""
        if not self.info or not self.info.kind.tokenize_path:
            return None
        with anyio.move_on_after(_COUNT_S):
            try:
                url = self.root_url + self.info.kind.tokenize_path
                answer = await self._open_client().post(url, json=_count_body(text, self.info.model))
                tokens = _read_count(answer.json())
            except (httpx2.HTTPError, ValueError) as error:
                log.debug("%s does not count: %s", self.url, type(error).__name__)
                return None
            if tokens is not None:
                self.token_counts.record(text, tokens)
            return tokens
        return None

    @asynccontextmanager
    async def open_stream(self, path: str, body: dict[str, Any]) -> AsyncIterator[AsyncGenerator[str, None]]:
        """Send a request; the context yields the data of the response's events, and closes the request at its end.

        Raises:
            ChatError: As `responses.to_error` converts an unsuccessful response.
        """
        async with AsyncExitStack() as stack:
            sending = self._open_client().stream("POST", self.url + path, json=body)
            with self._translate_errors():
                response = await stack.enter_async_context(sending)
            if not response.is_success:
                raise to_error(
                    self.identity, response.status_code, response.headers, await _read_all(response, _PROBE_S)
                )
            if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
                raise GenerationError(f"{self.url} sent a compressed response, which was not requested.")
            yield self._read_events(response)

    async def _read_events(self, response: httpx2.Response) -> AsyncGenerator[str, None]:
        """Yield the data of each event; the response of a service that does not stream is one event."""
        with self._translate_errors():
            if response.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream":
                async for event in httpx2.EventSource(response, max_event_size=_MAX_EVENT_BYTES):
                    yield to_error_body(event.data) if event.event == "error" else event.data
                return
            text = (await _read_all(response, self.options.first_s)).decode("utf-8", errors="replace")
        if is_web_page(text):
            raise GenerationError(f"{self.url} responded with a web page.", ADDRESS_HINT)
        yield text

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate errors of the HTTP client."""
        try:
            yield
        except httpx2.SSEError as error:
            raise GenerationError(f"{self.url} sent an invalid event stream: {error}") from error
        except httpx2.HTTPError as error:
            raise self._unreachable_error(error) from error

    async def aclose(self) -> None:
        """Close the HTTP client."""
        if self._client:
            await self._client.aclose()


async def _read_all(response: httpx2.Response, limit_s: float) -> bytes:
    """Return the body, as far as it comes within the limits of time and size."""
    content = bytearray()
    with anyio.move_on_after(limit_s):
        async for chunk in response.aiter_raw():
            content += chunk
            if len(content) > _MAX_RESPONSE_BYTES:
                break
    return bytes(content)


def _count_body(text: str, model: str) -> dict[str, Any]:
    """Return a request for counting that every service with a counter understands."""
    return {"content": text, "prompt": text, "input": text, "model": model, "add_special": True}


def _read_count(answer: Any) -> int | None:
    """Return the count in a response, in the shapes of the known services."""
    tokens = get_nested(answer, "tokens")
    return len(tokens) if isinstance(tokens, list) else get_number(answer, "count")


def _list_texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _read_ollama_context(shown: Any) -> int:
    """Return the context of a model of Ollama: what its file asks for or the default, at most the trained one."""
    configured = re.search(r"num_ctx\s+(\d+)", get_text(shown, "parameters"))
    trained = (
        get_number(shown, "model_info", key) for key in get_object(shown, "model_info") if "context_length" in key
    )
    return min(filter(None, (int(configured[1]) if configured else _OLLAMA_CONTEXT, *trained)))


@cache
def _ssl_context() -> Any:
    """Create an SSL context once: it reads all certificates of the system."""
    return httpx2.create_ssl_context()
