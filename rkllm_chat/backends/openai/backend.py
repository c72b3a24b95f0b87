"""Models behind a URL: llama.cpp's server, vLLM, Ollama, rkllama and other services with OpenAI's API.

If the service uses prompts literally and the model's family is known, prompts are rendered here and sent to
/completions; otherwise messages are sent, with native tools also the tools. Of several services the one with the
fewest active requests is used, and of equals the one that has the beginning of the prompt in its cache. If one is
down, the next is tried; a reply that has begun is never requested again.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from urllib.parse import quote

from ...calls.grammar import CallGrammar, NoCalls
from ...calls.model_families import find_family
from ...config.settings import Generation, Settings, Thinking
from ...core.errors import ChatError, ConfigError, ContextOverflowError, GenerationError, ModelError
from ...core.events import Sentence
from ...core.messages import MediaKind, Message, Tool
from ..base import ModelStream, StoppableStream, StreamItem
from .addresses import parse_service_urls, read_api_key
from .exchange import Exchange
from .requests import ServiceRequest, make_chat_request, make_completion_request, make_native_request
from .responses import CutOffError, ServiceBusyError, UnreachableError
from .service import Service

CONTEXT_TOKENS = 4096
"""Context window if no service reports its own."""
_MIN_CONTEXT_TOKENS, _MAX_CONTEXT_TOKENS = 256, 1_000_000
"""A smaller or larger context window is not believed."""
_MAX_TRIES = 4
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0


@dataclass(frozen=True)
class _Task:
    """What `stream` was asked for; `stop` is set to end the reply early."""

    prompt: Sequence[Message]
    generation: Generation
    tools: Sequence[Tool]
    stop: asyncio.Event
    forbids_calls: bool


class OpenaiBackend:
    """A model behind one URL or several.

    Attributes:
        services: The services.
        context_tokens: Size of the context window of each service: prompt and reply together.
        is_context_assumed: Whether neither a service nor the settings say how large it is.
        name: Name of the model.
        template: Name of the chat template; "messages" if the service renders prompts.
        native_tools: Whether tools are sent beside the messages.
        family: Model family, from the name and the template.
        media_kinds: Kinds of media that the models of all services understand.
    """

    profile = ""
    supports_grammar = False

    def __init__(self, services: Sequence[Service], settings: Settings) -> None:
        """Combine services of which at least one was probed."""
        self.services = services
        infos = [service.info for service in services if service.info]
        reported = [info.context_tokens for info in infos if info.context_tokens]
        configured = settings.context_tokens
        self.context_tokens = min([*reported, configured] if configured else reported or [CONTEXT_TOKENS])
        self.is_context_assumed = not (configured or reported)
        self.name = PurePosixPath(infos[0].model).name
        self.template = infos[0].template_name
        self.native_tools = all(info.native_tools for info in infos)
        family = find_family([settings.family, infos[0].model], infos[0].template_source)
        # native calls are converted to the format `json` (see render_native_call), and corrections show that format
        self.family = replace(family, preferred_format="json") if self.native_tools else family
        self.media_kinds: frozenset[MediaKind] = frozenset.intersection(*(info.media_kinds for info in infos))
        self.set_thinking(settings.thinking)
        self._tools: Sequence[Tool] = ()

    def set_thinking(self, thinking: Thinking) -> None:
        """Switch reasoning from the next reply on, at services that have the switch."""
        self._thinking = {"on": True, "off": False}.get(thinking)

    def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        tools: Sequence[Tool] = (),
        grammar: CallGrammar | NoCalls | None = None,
    ) -> ModelStream:
        """Generate a reply: yield text chunks, then its Usage.

        Also yields Readings during prefill, and a Sentence before a wait. Closing the stream closes the request. Of
        grammars, only the prohibition of calls reaches a service: one that knows it and is sent tools.

        Raises:
            GenerationError: The services failed.
            AuthError: The key is not accepted.
        """
        self._tools = tools or self._tools
        stop = asyncio.Event()
        return StoppableStream(
            self._retry(_Task(prompt, generation, tools, stop, isinstance(grammar, NoCalls))), stop.set
        )

    async def prefill(self, _prompt: Sequence[Message], _tools: Sequence[Tool] = ()) -> int:
        """Return 0 without a request: a service may charge for it, and others wait there."""
        return 0

    def render_request(self, prompt: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
        """Return the rendered prompt, or the body of the request as JSON, without sampling parameters."""
        service = next(service for service in self.services if service.info)
        body = self._make_request(service, prompt, tools).body
        return str(body["prompt"]) if "prompt" in body else json.dumps(body, ensure_ascii=False, indent=2)

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """Return the length of the prompt in tokens: measured for its beginning, estimated for the rest."""
        service = next(service for service in self.services if service.info)
        return service.token_counts.count(self._make_request(service, prompt, self._tools).text)

    def count_cached_tokens(self, prompt: Sequence[Message]) -> int | None:
        """Return how many tokens of the prompt were sent before; None if the service does not report what it caches."""
        service = self._rank_services(prompt)[0]
        if not service.info or service.caches_prompts is None:
            return None
        prefix = service.token_counts.find_known_prefix(self._make_request(service, prompt, self._tools).text)
        return service.token_counts.count(prefix) if service.caches_prompts and prefix else 0

    async def aclose(self) -> None:
        """Close the connections."""
        for service in self.services:
            await service.aclose()

    def _rank_services(self, prompt: Sequence[Message]) -> list[Service]:
        """Return the services in the order to try them; those that failed recently come last."""

        def rank(service: Service) -> tuple[bool, int, int]:
            text = self._make_request(service, prompt, self._tools).text if service.info else ""
            return service.is_avoided, service.active_requests, -len(service.token_counts.find_known_prefix(text))

        return sorted(self.services, key=rank) if len(self.services) > 1 else list(self.services)

    def _make_request(
        self, service: Service, prompt: Sequence[Message], tools: Sequence[Tool], forbids_calls: bool = False
    ) -> ServiceRequest:
        assert service.info
        if self.native_tools:
            return make_native_request(prompt, tools, service.info.kind, self._thinking, forbids_calls)
        if service.info.template and not any(message.media for message in prompt):
            return make_completion_request(prompt, service.info.template, service.info.bos, self._thinking)
        return make_chat_request(prompt, service.info.kind, self._thinking)

    async def _retry(self, task: _Task) -> AsyncGenerator[StreamItem, None]:
        """Try all services, and try them again after a wait while one of them is busy."""
        for attempt in range(_MAX_TRIES):
            try:
                async with aclosing(self._fail_over(task)) as items:
                    async for item in items:
                        yield item
                return
            except _AllServicesFailedError as failed:
                wait_s = _find_wait(failed.errors, attempt)
                if wait_s is None:
                    raise _join_errors(failed.errors) from failed
            yield Sentence("remote.busy", {"seconds": f"{wait_s:.0f}"})
            await asyncio.sleep(wait_s)

    async def _fail_over(self, task: _Task) -> AsyncGenerator[StreamItem, None]:
        """Generate the reply with the first service that responds. Raises _AllServicesFailedError if none does."""
        errors: list[UnreachableError | ServiceBusyError] = []
        for service in self._rank_services(task.prompt):
            try:
                async with aclosing(self._generate_with(service, task)) as items:
                    async for item in items:
                        yield item
                return
            except (UnreachableError, ServiceBusyError) as error:
                service.record_failure(error.wait_s if isinstance(error, ServiceBusyError) else None)
                errors.append(error)
        raise _AllServicesFailedError(errors)

    async def _generate_with(self, service: Service, task: _Task) -> AsyncGenerator[StreamItem, None]:
        """Generate the reply with one service.

        Raises UnreachableError and ServiceBusyError only if nothing of the reply was received.
        """
        with service.track_request():
            if not service.info:
                await _probe_again(service)
            request = self._make_request(service, task.prompt, task.tools, task.forbids_calls)
            is_assumed = self.is_context_assumed
            exchange = Exchange(
                service, request, task.generation, self.context_tokens, task.stop, is_assumed=is_assumed
            )
            try:
                async with aclosing(exchange.run()) as items:
                    async for item in items:
                        yield item
                self._raise_assumed_context(service.accepted_tokens)
            except ContextOverflowError as overflow:
                raise self._learn_context(service, request, overflow) from None
            except (UnreachableError, CutOffError):
                if found := await exchange.find_overflow() if is_assumed else None:
                    raise self._learn_context(service, request, found) from None
                raise

    def _raise_assumed_context(self, accepted_tokens: int) -> None:
        """Assume the next power of two if a service has accepted more than the context that is assumed."""
        if self.is_context_assumed and accepted_tokens > self.context_tokens:
            self.context_tokens = min(_MAX_CONTEXT_TOKENS, 1 << (accepted_tokens - 1).bit_length())

    def _learn_context(
        self, service: Service, request: ServiceRequest, overflow: ContextOverflowError
    ) -> ContextOverflowError:
        """Use the sizes that a service named, or half the context if its size is unknown; return the error unchanged.

        An assumed context stays at least as large as what the service has accepted.
        """
        if overflow.prompt_tokens:
            service.token_counts.record(request.text, overflow.prompt_tokens)
        halved_tokens = max(self.context_tokens // 2, service.accepted_tokens) if self.is_context_assumed else 0
        learned_tokens = overflow.context_tokens or halved_tokens
        if _MIN_CONTEXT_TOKENS <= learned_tokens < self.context_tokens:
            self.context_tokens = learned_tokens
        self.is_context_assumed = self.is_context_assumed and not overflow.context_tokens
        return overflow


class _AllServicesFailedError(Exception):
    """No service responded. `errors`: why, in the order in which they were tried."""

    def __init__(self, errors: Sequence[UnreachableError | ServiceBusyError]) -> None:
        super().__init__()
        self.errors = errors


async def _probe_again(service: Service) -> None:
    """Probe a service that was down. Raises UnreachableError if it is still down or unsuitable."""
    try:
        await asyncio.to_thread(service.probe)
    except ServiceBusyError:
        raise
    except ChatError as error:
        raise UnreachableError(error.message, error.hint) from error


def _find_wait(errors: Sequence[GenerationError], attempt: int) -> float | None:
    """Return how many seconds to wait for a busy service; None if there is none, or none worth waiting for."""
    fallback = _FIRST_WAIT_S * 2**attempt
    busy = (error for error in errors if isinstance(error, ServiceBusyError))
    waits = [fallback if error.wait_s is None else error.wait_s for error in busy]
    if not waits or attempt == _MAX_TRIES - 1 or min(waits) > _LONGEST_WAIT_S:
        return None
    return min(waits)


def _join_errors(errors: Sequence[GenerationError]) -> GenerationError:
    """Combine all errors into one."""
    return GenerationError(" ".join(error.message for error in errors), errors[0].hint)


def open_openai(settings: Settings) -> OpenaiBackend:
    """Probe the services of the settings. Those that are down are tried again later, if one is up.

    Raises:
        ModelError: No service is usable.
        AuthError: The key is not accepted.
        ConfigError: The settings are invalid.
    """
    services = make_services(settings, os.environ)
    if len(services) == 1:  # in this thread, because the program would wait for an executor's at its end
        results = [probe_with_retries(services[0])]
    else:
        with ThreadPoolExecutor(len(services), thread_name_prefix="openai") as threads:
            results = list(threads.map(probe_with_retries, services))
    errors = [error for error in results if error]
    if len(errors) == len(services):
        raise errors[0]
    return OpenaiBackend(services, settings)


def check_openai(settings: Settings) -> None:
    """Raise ConfigError if the settings of the services are invalid; a service that is down may come up later."""
    make_services(settings, os.environ)


def make_services(settings: Settings, environment: Mapping[str, str]) -> list[Service]:
    """Return the services of the settings, before any request.

    Raises:
        ConfigError: The settings are invalid.
    """
    options = settings.openai
    if options.native_tools and options.api == "completions":
        raise ConfigError('[openai] native_tools needs api = "chat" or "auto".', "Change one of them.")
    api_key = read_api_key(options.key_env, environment)
    return [Service(url, model, options, api_key) for url, model in parse_service_urls(settings.model, options.model)]


def list_service_models(settings: Settings) -> list[str]:
    """Return the models of the services of the settings as `URL#NAME`; a service that fails has none.

    Names are percent-encoded, so that a name can neither add an address nor a blank.

    Raises:
        ConfigError: The settings are invalid.
    """
    targets: list[str] = []
    for service in make_services(settings, os.environ):
        with suppress(ChatError):
            targets += [f"{service.url}#{quote(name, safe='/:')}" for name in service.list_models()]
    return targets


def probe_with_retries(service: Service, tries: int = _MAX_TRIES) -> ChatError | None:
    """Probe a service, with retries while it is loading; return its error, or None."""
    for attempt in range(_MAX_TRIES - tries, _MAX_TRIES):
        try:
            service.probe()
            return None
        except ServiceBusyError as error:
            wait_s = _find_wait([error], attempt)
            if wait_s is None:
                service.record_failure(error.wait_s)
                return ModelError(error.message, error.hint, url=service.url)
            time.sleep(wait_s)
        except ChatError as error:
            service.record_failure()
            return error
    return None
