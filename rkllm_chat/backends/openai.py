"""Models behind a URL: llama.cpp's server, vLLM, Ollama, rkllama and what else speaks OpenAI's API. It knows no tools.

The prompt is ours, by /completions, where the service takes it as it is and the model's family is known; else the
service is sent messages, and with `native_tools` the tools beside them. Of several services the one with the fewest
requests under way is asked, and of equals the one that has read the beginning of the prompt. When one is down the next
is asked; an answer that has begun is never asked for again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import anyio

from ..config import Generation, Settings
from ..errors import ChatError, ConfigError, GenerationError, ModelError, too_long
from ..events import Reading, Sentence, Usage
from ..families import find_family
from ..grammar import CallGrammar
from ..messages import Message, Tool
from .openai_addresses import read_addresses, read_secret
from .openai_answers import BusyError, Chunk, UnreachableError, number_at, read_chunk
from .openai_reply import Reply
from .openai_requests import Request, sampling_of, write_chat, write_completion, write_native
from .openai_service import Service
from .stops import Stops

CONTEXT_TOKENS = 4096
"""Where no service says how much it holds."""
TRIES = 4
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
SURE_SHARE = 0.7
"""An estimated prompt that fills more of its room than this is counted by the service, where it counts."""
CLOSE_S = 0.3
LEAST_READ = 32

Item = str | Usage | Sentence | Reading


class Openai:
    """A model behind one URL or several. `name` is the model's; `context_tokens` what each of the services holds."""

    prompt_language = ""
    tools_share: float | None = None
    few_tools: bool | None = None
    constrains = False

    def __init__(self, services: Sequence[Service], settings: Settings) -> None:
        self.services = services
        facts = [service.facts for service in services if service.facts]
        known = [fact.context_tokens for fact in facts if fact.context_tokens]
        asked = settings.context_tokens
        self.context_tokens = min([*known, asked] if asked else known or [CONTEXT_TOKENS])
        self.name = PurePosixPath(facts[0].model).name
        self.template = facts[0].writes
        self.native_tools = settings.openai.native_tools
        family = find_family([facts[0].model], facts[0].source)
        # a native call comes as one in the seed form (see show_call), and a remark on one says it in that form
        self.family = replace(family, asks="json") if self.native_tools else family
        self._options = settings.openai
        self._thinking = {"on": True, "off": False}.get(settings.thinking)
        self._tools: Sequence[Tool] = ()

    async def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        tools: Sequence[Tool] = (),
        _grammar: CallGrammar | None = None,
    ) -> AsyncGenerator[Item, bool | None]:
        """Pieces of the reply as they come, then its Usage; Readings while it reads, a Sentence before a wait.

        Raises GenerationError, or AuthError where the key is not taken. Closing the stream closes the request.
        """
        self._tools = tools or self._tools
        enough = asyncio.Event()
        for attempt in range(TRIES):
            troubles: list[GenerationError] = []
            for service in self._in_order(prompt):
                try:
                    async with aclosing(self._write(service, prompt, generation, tools, enough)) as pieces:
                        async for piece in pieces:
                            if (yield piece):
                                enough.set()
                    return
                except (UnreachableError, BusyError) as error:
                    service.note_failure(error.wait_s if isinstance(error, BusyError) else None)
                    troubles.append(error)
            wait_s = find_wait(troubles, attempt)
            if wait_s is None:
                raise join_troubles(troubles)
            yield Sentence("remote.busy", {"seconds": f"{wait_s:.0f}"})
            await asyncio.sleep(wait_s)

    async def prefill(self, _prompt: Sequence[Message], _tools: Sequence[Tool] = ()) -> int:
        """Asks for nothing: a service may want money for it, and others wait there."""
        return 0

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """How many tokens the prompt is: what services told of its beginning, and an estimate for the rest."""
        service = next(service for service in self.services if service.facts)
        return service.counts.count(self._request(service, prompt, self._tools).text)

    def count_held(self, prompt: Sequence[Message]) -> int | None:
        """How much of the prompt was sent before, where the service that is asked next tells what it had cached."""
        service = self._in_order(prompt)[0]
        if not service.facts or service.caches is None:
            return None
        beginning = service.counts.beginning(self._request(service, prompt, self._tools).text)
        return service.counts.count(beginning) if service.caches and beginning else 0

    async def aclose(self) -> None:
        """Closes the connections."""
        for service in self.services:
            await service.aclose()

    def _in_order(self, prompt: Sequence[Message]) -> list[Service]:
        """The services, the one to ask first; those that failed lately come last."""

        def rank(service: Service) -> tuple[bool, int, int]:
            text = self._request(service, prompt, self._tools).text if service.facts else ""
            return service.is_resting, service.outstanding, -len(service.counts.beginning(text))

        return sorted(self.services, key=rank) if len(self.services) > 1 else list(self.services)

    def _request(self, service: Service, prompt: Sequence[Message], tools: Sequence[Tool]) -> Request:
        assert service.facts
        if self.native_tools:
            return write_native(prompt, tools, service.facts.kind, self._thinking)
        if service.facts.template:
            return write_completion(prompt, service.facts.template, service.facts.bos, self._thinking)
        return write_chat(prompt, service.facts.kind, self._thinking)

    async def _write(
        self,
        service: Service,
        prompt: Sequence[Message],
        generation: Generation,
        tools: Sequence[Tool],
        enough: asyncio.Event,
    ) -> AsyncGenerator[Item, None]:
        """One reply of one service. Raises UnreachableError and BusyError only if nothing of the reply has come."""
        with service.at_work():
            if not service.facts:
                await look_again(service)
            request = self._request(service, prompt, tools)
            reply = await self._plan(service, request, generation)
            held = len(service.counts.beginning(request.text))
            yield Reading(0, max(1, service.counts.count(request.text[held:])), service.speed)
            body = self._body(service, request, generation, reply.room)
            async with (
                service.send(request.path, body) as data,
                aclosing(self._listen(service, data, reply, enough)) as pieces,
            ):
                async for piece in pieces:
                    yield piece
            service.note_success()
            if rest := reply.close():
                yield rest
            yield await self._account(service, reply)

    async def _plan(self, service: Service, request: Request, generation: Generation) -> Reply:
        """Counts the prompt, exactly where it comes close to the limit. Raises GenerationError where it is too long."""
        tokens, is_exact = service.counts.count(request.text), service.counts.is_known(request.text)
        most = self.context_tokens - generation.max_tokens
        if not is_exact and tokens > SURE_SHARE * most and request.path == "/completions":
            counted = await service.count(request.text)
            tokens, is_exact = (tokens, False) if counted is None else (counted, True)
        room = min(generation.max_tokens, self.context_tokens - tokens)
        if room <= 0 and is_exact:
            raise too_long(tokens, self.context_tokens)
        # an estimate turns nobody away: the service knows better
        return Reply(request, tokens, room if room > 0 else generation.max_tokens, Stops(request.ends))

    def _body(self, service: Service, request: Request, generation: Generation, room: int) -> dict[str, Any]:
        assert service.facts
        progress = {"return_progress": True} if service.facts.program == "llama.cpp" else {}
        return {
            "model": service.facts.model,
            **request.body,
            **sampling_of(replace(generation, max_tokens=room), service.facts.kind),
            "stream": True,
            "stream_options": {"include_usage": True},
            **progress,
        }

    async def _listen(
        self, service: Service, data: AsyncGenerator[str, None], reply: Reply, enough: asyncio.Event
    ) -> AsyncGenerator[Item, None]:
        """The pieces of a reply until it is over or `enough`, each waited for no longer than it may take."""
        async with aclosing(read_chunks(service, data)) as chunks:
            while (chunk := await self._next(service, chunks, reply)) is not None:
                if chunk.progress:
                    yield read_progress(chunk, time.monotonic() - reply.begun)
                if shown := reply.take(chunk):
                    yield shown
                if reply.is_over or enough.is_set():
                    break
        if reply.stops.ending == "circle":
            yield Sentence("chat.circle")

    async def _next(self, service: Service, chunks: AsyncGenerator[Chunk, None], reply: Reply) -> Chunk | None:
        """The next chunk of use; None at the end. Raises UnreachableError while the reply has not begun."""
        limit_s = reply.find_limit(self._options.first_s, self._options.timeout_s)
        try:
            with anyio.fail_after(limit_s):
                async for chunk in chunks:
                    if chunk.is_last:
                        await read_out(chunks)
                        break
                    if chunk.is_of_use:
                        return chunk
        except TimeoutError:
            if not reply.ended:
                service.note_failure()
                what = "between two words" if reply.pieces else "before its first word"
                raise GenerationError(f"{service.url} was silent for {limit_s:g} s {what}.", "Try it again.") from None
        except UnreachableError as error:
            if not reply.ended:
                raise (cut_error(service) if reply.pieces else error) from error
        if not reply.ended:
            raise cut_error(service)
        return None

    async def _account(self, service: Service, reply: Reply) -> Usage:
        """What the reply cost; what the service told or counts is remembered."""
        text = reply.request.text
        if reply.cached_told is not None:
            service.caches = reply.cached_told > 0 or not service.counts.beginning(text)
        if reply.prompt_told is not None:
            service.counts.note(text, reply.prompt_told)
        elif not service.counts.is_known(text) and (counted := await service.count(text)):
            reply.prompt_tokens = counted
        usage = reply.usage()
        if reply.told.get("timings") and usage.prefilled_tokens >= LEAST_READ and usage.prefill_s > 0:
            service.speed = usage.prefilled_tokens / usage.prefill_s
        if reply.request.path == "/completions":
            said = "".join(reply.text)
            service.counts.note(text + said, usage.prompt_tokens + usage.generated_tokens)
        return usage


async def read_chunks(service: Service, data: AsyncGenerator[str, None]) -> AsyncGenerator[Chunk, None]:
    speaker = service.speaker
    async with aclosing(data):
        async for text in data:
            if text.strip():
                yield Chunk(is_last=True) if text.strip() == "[DONE]" else read_chunk(text, speaker)


async def read_out(chunks: AsyncGenerator[Chunk, None]) -> None:
    """Reads to the end of the connection: what is left in the middle would be cleaned up later, all at once."""
    with anyio.move_on_after(CLOSE_S):
        async for _ in chunks:
            pass


def read_progress(chunk: Chunk, seconds: float) -> Reading:
    """How far llama.cpp's server has read the prompt."""
    total, cached, done = (number_at(chunk.progress, key) or 0 for key in ("total", "cache", "processed"))
    read = max(0, done - cached)
    return Reading(read, max(1, total - cached), read / seconds if seconds > 0 else 0.0)


def cut_error(service: Service) -> GenerationError:
    service.note_failure()
    return GenerationError(f"{service.url} broke its answer off in the middle.", "Ask again: /retry.")


async def look_again(service: Service) -> None:
    """Asks a service that was down before what it has. Raises UnreachableError when it still is, or is no good."""
    try:
        await asyncio.to_thread(service.look)
    except BusyError:
        raise
    except ChatError as error:
        raise UnreachableError(error.message, error.hint) from error


def find_wait(troubles: Sequence[GenerationError], attempt: int) -> float | None:
    """How long to wait for a service that is busy; None where there is none, or none that is worth it."""
    fallback = FIRST_WAIT_S * 2**attempt
    waits = [fallback if one.wait_s is None else one.wait_s for one in troubles if isinstance(one, BusyError)]
    if not waits or attempt == TRIES - 1 or min(waits) > LONGEST_WAIT_S:
        return None
    return min(waits)


def join_troubles(troubles: Sequence[GenerationError]) -> GenerationError:
    """One error for all that was tried."""
    return GenerationError(" ".join(error.message for error in troubles), troubles[0].hint)


def open_openai(settings: Settings) -> Openai:
    """Asks the services of the settings what they have. One that is down is asked again later, as long as one is up.

    Raises ModelError, AuthError or ConfigError.
    """
    services = find_services(settings, os.environ)
    if len(services) == 1:  # in this very thread, which the end of the program does not wait for
        found = [look(services[0])]
    else:
        with ThreadPoolExecutor(len(services), thread_name_prefix="openai") as threads:
            found = list(threads.map(look, services))
    troubles = [trouble for trouble in found if trouble]
    if len(troubles) == len(services):
        raise troubles[0]
    return Openai(services, settings)


def find_services(settings: Settings, environment: Mapping[str, str]) -> list[Service]:
    """The services of the settings, not yet asked anything. Raises ConfigError."""
    options = settings.openai
    if options.native_tools and options.api == "completions":
        raise ConfigError('[openai] native_tools needs api = "chat" or "auto".', "Change one of them.")
    secret = read_secret(options.key_env, environment)
    return [Service(url, model, options, secret) for url, model in read_addresses(settings.model, options.model)]


def look(service: Service, tries: int = TRIES) -> ChatError | None:
    """Waits for a service that is still loading, not for long; gives what is wrong with it."""
    for attempt in range(TRIES - tries, TRIES):
        try:
            service.look()
            return None
        except BusyError as error:
            wait_s = find_wait([error], attempt)
            if wait_s is None:
                service.note_failure(error.wait_s)
                return ModelError(error.message, error.hint, url=service.url)
            time.sleep(wait_s)
        except ChatError as error:
            service.note_failure()
            return error
    return None
