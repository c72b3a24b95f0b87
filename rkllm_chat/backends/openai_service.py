"""One OpenAI-compatible service: what it is and has, how busy it is, and the requests that go to it.

It knows no conversation. No redirect is followed, so the key reaches the address it is meant for and no other; nothing
is unpacked, so that little cannot become much.
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

from ..config import Openai
from ..errors import AuthError, ConfigError, GenerationError, ModelError
from ..records import hash_text
from ..templates import TEMPLATES, Template, choose_template, jinja_template
from .counts import Counts
from .openai_addresses import is_loopback, read_template
from .openai_answers import (
    ADDRESS_HINT,
    BusyError,
    Speaker,
    UnreachableError,
    dig,
    is_page,
    judge,
    number_at,
    table_at,
    text_at,
    unknown_model,
)
from .openai_requests import KINDS, Kind

CONNECT_S, WRITE_S = 10.0, 30.0
LOOK_S = 5.0
"""How long a service may take to say what it has."""
COUNT_S = 2.0
LARGEST_ANSWER = 4_000_000
LARGEST_EVENT = 1_000_000
FIRST_REST_S, LONGEST_REST_S = 5.0, 60.0
OLLAMA_CONTEXT = 4096
"""What Ollama gives a model that does not ask for another (0.6 and later), whatever the model was trained on."""
CONTEXT_KEYS = ("max_model_len", "loaded_context_length", "context_length", "max_context_length", "n_ctx")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Facts:
    """What a service says of itself. `model` is the name it goes by there; `context_tokens` 0 where it does not say.

    `template` None: it has to write the prompts itself. `bos`: what it puts before a prompt of ours. `writes`: the name
    of the template, as other backends name theirs; `source` the text of the model's own, where the service shows it.
    """

    kind: Kind
    program: str
    model: str
    context_tokens: int = 0
    template: Template | None = None
    bos: str = ""
    writes: str = "messages"
    source: str = ""


@dataclass(eq=False)
class Service:
    """A service at `url`, which ends in /v1. `wanted` is the name of the model, "" for the only one there is.

    `outstanding` counts its requests under way; after a failure it rests until `rests_until` (monotonic). `caches`: it
    keeps what it has read, None while it has not told.
    """

    url: str
    wanted: str
    options: Openai
    secret: str = field(default="", repr=False)
    facts: Facts | None = None
    outstanding: int = 0
    failures: int = 0
    rests_until: float = 0.0
    speed: float = 0.0
    caches: bool | None = None
    counts: Counts = field(default_factory=Counts, repr=False)
    _client: httpx2.AsyncClient | None = field(default=None, repr=False)
    _names: tuple[str, ...] = ()

    @property
    def root(self) -> str:
        """Where a service has what OpenAI does not."""
        return self.url.removesuffix("/v1")

    @property
    def speaker(self) -> Speaker:
        model = self.facts.model if self.facts else self.wanted
        return Speaker(self.url, model, self._names, self.options.key_env, self.secret)

    @property
    def is_resting(self) -> bool:
        return time.monotonic() < self.rests_until

    def note_failure(self, wait_s: float | None = None) -> None:
        """It is asked again when nothing else is left, or after a while: 5 s, 10, 20 ... 60, or as it says."""
        rest_s = min(LONGEST_REST_S, FIRST_REST_S * 2**self.failures)
        self.failures = min(self.failures + 1, 10)
        self.rests_until = time.monotonic() + (rest_s if wait_s is None else min(wait_s, LONGEST_REST_S))

    def note_success(self) -> None:
        self.failures, self.rests_until = 0, 0.0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self.outstanding += 1
        try:
            yield
        finally:
            self.outstanding -= 1

    def look(self) -> Facts:
        """Asks what it is and has; blocks, at most some LOOK_S. Raises ModelError, AuthError, or BusyError."""
        with httpx2.Client(**self._client_options(LOOK_S)) as client:
            try:
                listed = self._ask(client, "GET", f"{self.url}/models")
            except (AuthError, BusyError):
                raise
            except GenerationError as error:
                if not self.wanted or "HTTP 404" not in error.message:
                    raise ModelError(error.message, error.hint, url=self.url) from error
                listed = {"data": [{"id": self.wanted}]}
            self.facts = self._read_facts(client, listed)
        log.info("%s is %s, model %s", self.url, self.facts.program, self.facts.model)
        return self.facts

    def _read_facts(self, client: httpx2.Client, listed: Any) -> Facts:
        entries = [entry for entry in dig(listed, "data") or () if text_at(entry, "id")]
        if not isinstance(dig(listed, "data"), list):
            raise ModelError(f"{self.url} is no OpenAI-compatible service.", ADDRESS_HINT, url=self.url)
        self._names = tuple(text_at(entry, "id") for entry in entries)
        entry = self._choose(entries)
        model = text_at(entry, "id")
        props = self._try(client, "GET", f"{self.root}/props")
        program = self._recognize(client, entry, props)
        context = next((number for key in CONTEXT_KEYS if (number := number_at(entry, key))), 0)
        if program == "llama.cpp":
            context = number_at(props, "default_generation_settings", "n_ctx") or context
        elif program in ("Ollama", "rkllama"):
            context = read_ollama_context(self._try(client, "POST", f"{self.root}/api/show", {"model": model}))
        writes, template = self._find_template(KINDS[program], model, props)
        bos = self._find_bos(client, KINDS[program], model, template, props)
        source = text_at(props, "chat_template")
        return Facts(KINDS[program], program, model, context, template, bos, writes, source)

    def _choose(self, entries: list[Any]) -> Any:
        """The entry of the wanted model: by its name, without its tag or its folder, or the only one."""
        if not self.wanted and len(entries) == 1:
            return entries[0]
        if not self.wanted:
            names = ", ".join(self._names[:20])
            hint = f"Name one: --model {self.url}#NAME." + (f" It has {names}." if names else "")
            raise ModelError(f"{self.url} has {len(entries)} models.", hint, available=list(self._names))
        for entry in entries:
            name = text_at(entry, "id")
            if self.wanted in (name, name.removesuffix(":latest"), PurePosixPath(name).name, PurePosixPath(name).stem):
                return entry
        # a tag may ask for a variant that is not listed
        if self.wanted.partition(":")[0] in self._names or not entries:
            return {"id": self.wanted}
        unknown = unknown_model(self.speaker)
        raise ModelError(unknown.message, unknown.hint, url=self.url, **unknown.details)

    def _recognize(self, client: httpx2.Client, entry: Any, props: Any) -> str:
        """The row of KINDS, by what only that program has."""
        if table_at(props, "default_generation_settings"):
            return "llama.cpp"
        owner = text_at(entry, "owned_by")
        if owner == "me" and self._count_of(client, KINDS["llama-cpp-python"], text_at(entry, "id"), "a") is None:
            owner = ""
        named = next((name for name, kind in KINDS.items() if owner and kind.owner == owner), "")
        if named and named != "llama.cpp":
            return named
        return "Ollama" if text_at(self._try(client, "GET", f"{self.root}/api/version"), "version") else "unknown"

    def _find_template(self, kind: Kind, model: str, props: Any) -> tuple[str, Template | None]:
        """How prompts are to be written, and its name; None where the service does that. Raises ConfigError."""
        named, api = self.options.template, self.options.api
        if self.options.native_tools or api == "chat" or (api == "auto" and named == "auto" and not kind.takes_prompts):
            return "messages", None
        if named != "auto":
            return named, read_template(named)
        source = text_at(props, "chat_template")
        if source:
            try:
                bos, eos = text_at(props, "bos_token"), text_at(props, "eos_token")
                return f"gguf:{hash_text(source)}", jinja_template(source, bos=bos, eos=eos, today=date.today())
            except ModelError as error:
                log.warning("%s: %s", self.url, error)
        found = choose_template("auto", model)
        if not found and api == "completions":
            hint = f'Set template under [openai]: {", ".join(TEMPLATES)}, or a Jinja file; or api = "chat".'
            raise ConfigError(f"The name {model} does not tell its template.", hint)
        return next((name for name, row in TEMPLATES.items() if row is found), "messages"), found

    def _find_bos(self, client: httpx2.Client, kind: Kind, model: str, template: Template | None, props: Any) -> str:
        """The token that begins a text, if the template writes it and the service puts it there by itself."""
        bos = text_at(props, "bos_token") or getattr(template, "bos", "")
        if not template or not bos:
            return ""
        own = self._count_of(client, kind, model, "") if kind.counts_at else None
        return "" if own == 0 else bos

    def _count_of(self, client: httpx2.Client, kind: Kind, model: str, text: str) -> int | None:
        return read_count(self._try(client, "POST", self.root + kind.counts_at, count_body(text, model)))

    def _try(self, client: httpx2.Client, method: str, url: str, body: Any = None) -> Any:
        """Like `_ask`; None where the service does not have it."""
        try:
            return self._ask(client, method, url, body)
        except (GenerationError, AuthError):
            return None

    def _ask(self, client: httpx2.Client, method: str, url: str, body: Any = None) -> Any:
        """The JSON of an answer. Raises AuthError and GenerationError."""
        until = time.monotonic() + LOOK_S
        content = bytearray()
        with self._translated(), client.stream(method, url, json=body) as response:
            for chunk in response.iter_raw():
                content += chunk
                if len(content) > LARGEST_ANSWER or time.monotonic() > until:
                    raise GenerationError(f"{self.url} answers too much or too slowly.", ADDRESS_HINT)
        if not response.is_success:
            raise judge(self.speaker, response.status_code, response.headers, bytes(content))
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            what = "a web page" if is_page(content.decode("utf-8", errors="replace")) else "what is not JSON"
            raise GenerationError(f"{self.url} answers with {what}.", ADDRESS_HINT) from None

    def _unreachable(self, error: httpx2.HTTPError) -> UnreachableError:
        reason = str(error) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()
        return UnreachableError(f"{self.url} does not answer: {reason.rstrip('.')}.", "Is the service running there?")

    def _client_options(self, read_s: float) -> dict[str, Any]:
        return {
            "headers": {
                "accept-encoding": "identity",
                **({"authorization": f"Bearer {self.secret}"} if self.secret else {}),
            },
            "timeout": httpx2.Timeout(min(CONNECT_S, read_s), read=read_s, write=WRITE_S, pool=None),
            "follow_redirects": False,
            "verify": ssl_context(),
            "trust_env": not is_loopback(self.url),  # which is its proxies
        }

    def _open_client(self) -> httpx2.AsyncClient:
        if self._client is None:
            # a connection that was kept may be closed by the other end in the moment it is used again
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
            self._client = httpx2.AsyncClient(limits=limits, **self._client_options(self.options.first_s))
        return self._client

    async def count(self, text: str) -> int | None:
        """The service's own count of a prompt; None where it does not count, or not now."""
        if not self.facts or not self.facts.kind.counts_at:
            return None
        with anyio.move_on_after(COUNT_S):
            try:
                url = self.root + self.facts.kind.counts_at
                answer = await self._open_client().post(url, json=count_body(text, self.facts.model))
                tokens = read_count(answer.json())
            except (httpx2.HTTPError, ValueError) as error:
                log.debug("%s does not count: %s", self.url, type(error).__name__)
                return None
            if tokens is not None:
                self.counts.note(text, tokens)
            return tokens
        return None

    @asynccontextmanager
    async def send(self, path: str, body: dict[str, Any]) -> AsyncIterator[AsyncGenerator[str, None]]:
        """The data of the events that answer; leaving closes the request. Raises what `judge` gives."""
        async with AsyncExitStack() as stack:
            sending = self._open_client().stream("POST", self.url + path, json=body)
            with self._translated():
                response = await stack.enter_async_context(sending)
            if not response.is_success:
                raise judge(self.speaker, response.status_code, response.headers, await read_all(response, LOOK_S))
            if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
                raise GenerationError(f"{self.url} packs its answer, which was not asked for.")
            yield self._read_events(response)

    async def _read_events(self, response: httpx2.Response) -> AsyncGenerator[str, None]:
        """The data of each event; the answer of a service that does not stream comes as one."""
        with self._translated():
            if response.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream":
                async for event in httpx2.EventSource(response, max_event_size=LARGEST_EVENT):
                    yield event.data
                return
            text = (await read_all(response, self.options.first_s)).decode("utf-8", errors="replace")
        if is_page(text):
            raise GenerationError(f"{self.url} answers with a web page.", ADDRESS_HINT)
        yield text

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Errors of the network as ours."""
        try:
            yield
        except httpx2.SSEError as error:
            raise GenerationError(f"{self.url} sent what cannot be taken: {error}") from error
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error

    async def aclose(self) -> None:
        if self._client:
            await self._client.aclose()


async def read_all(response: httpx2.Response, limit_s: float) -> bytes:
    """The body, as far as it comes in time and is of use."""
    content = bytearray()
    with anyio.move_on_after(limit_s):
        async for chunk in response.aiter_raw():
            content += chunk
            if len(content) > LARGEST_ANSWER:
                break
    return bytes(content)


def count_body(text: str, model: str) -> dict[str, Any]:
    """In the words of all services that count; each reads its own."""
    return {"content": text, "prompt": text, "input": text, "model": model, "add_special": True}


def read_count(answer: Any) -> int | None:
    """How many tokens, in the shapes of the services that count."""
    tokens = dig(answer, "tokens")
    return len(tokens) if isinstance(tokens, list) else number_at(answer, "count")


def read_ollama_context(shown: Any) -> int:
    """The context of a model of Ollama: as its file asks for, else the default, and not more than it was trained on."""
    asked = re.search(r"num_ctx\s+(\d+)", text_at(shown, "parameters"))
    trained = (number_at(shown, "model_info", key) for key in table_at(shown, "model_info") if "context_length" in key)
    return min(filter(None, (int(asked[1]) if asked else OLLAMA_CONTEXT, *trained)))


@cache
def ssl_context() -> Any:
    """Made once: it reads all certificates there are."""
    return httpx2.create_ssl_context()
