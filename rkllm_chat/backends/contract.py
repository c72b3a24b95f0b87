"""The contract of engines, as a test that plugins import: they run `check_contract` on a backend of their own.

It needs no test framework; a broken promise is an AssertionError that says which one it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress

from ..config.settings import Generation
from ..core.events import Usage
from ..core.messages import Message
from .base import Backend

_LIMIT_S = 60.0
"""A stream that was stopped or closed, and a count, end in this time."""
_ATTRIBUTES = ("name", "template", "family", "profile", "native_tools", "supports_grammar", "media_kinds")


async def check_contract(backend: Backend, prompt: Sequence[Message], max_tokens: int = 16) -> None:
    """Check what every engine promises: usage, limits, stopping, counts, and use beside a running reply.

    Args:
        backend: An open backend; it is closed at the end.
        prompt: A prompt that it answers with at least four pieces of text.
        max_tokens: Limit of the replies.

    Raises:
        AssertionError: A promise is broken.
    """
    generation = Generation(temperature=0.0, max_tokens=max_tokens)
    try:
        for name in _ATTRIBUTES:
            assert hasattr(backend, name), f"it has no attribute {name}"
        assert backend.context_tokens > 0, "context_tokens is positive"
        usage = await _check_reply(backend, prompt, generation)
        await _check_limit(backend, prompt, usage)
        await _check_stop(backend, prompt, generation)
        await _check_close(backend, prompt, generation)
        await _check_counts(backend, prompt, generation)
    finally:
        await asyncio.wait_for(backend.aclose(), _LIMIT_S)


async def _read(backend: Backend, prompt: Sequence[Message], generation: Generation) -> tuple[str, Usage]:
    """Return the text of a reply and its usage, which must be the last item."""
    items = [item async for item in backend.stream(prompt, generation)]
    usages = [item for item in items if isinstance(item, Usage)]
    assert len(usages) == 1 and items[-1] is usages[0], "the last item of a stream is its only Usage"
    return "".join(item for item in items if isinstance(item, str)), usages[0]


async def _check_reply(backend: Backend, prompt: Sequence[Message], generation: Generation) -> Usage:
    text, usage = await _read(backend, prompt, generation)
    assert text.strip(), "a reply has text"
    assert usage.prompt_tokens > 0, "the prompt has tokens"
    assert usage.reused_tokens + usage.prefilled_tokens == usage.prompt_tokens, "tokens are reused or evaluated"
    assert 0 < usage.generated_tokens <= generation.max_tokens, "max_tokens limits the reply"
    assert min(usage.prefill_s, usage.generate_s, usage.first_token_s) >= 0, "times are not negative"
    return usage


async def _check_limit(backend: Backend, prompt: Sequence[Message], usage: Usage) -> None:
    if usage.generated_tokens > 1:
        _, cut = await _read(backend, prompt, Generation(temperature=0.0, max_tokens=1))
        assert cut.generated_tokens <= 1 and cut.hit_limit, "a reply that is cut off says so"


async def _check_stop(backend: Backend, prompt: Sequence[Message], generation: Generation) -> None:
    stream = backend.stream(prompt, generation)
    usages: list[Usage] = []

    async def read() -> None:
        async for item in stream:
            if isinstance(item, str):
                stream.stop()
            elif isinstance(item, Usage):
                usages.append(item)

    await asyncio.wait_for(read(), _LIMIT_S)
    assert len(usages) == 1, "a stream that was stopped still yields its Usage"


async def _check_close(backend: Backend, prompt: Sequence[Message], generation: Generation) -> None:
    text, _ = await _read(backend, prompt, generation)
    async with aclosing(backend.stream(prompt, generation)) as stream:
        async for item in stream:
            if isinstance(item, str):
                break
    reading = asyncio.ensure_future(_read(backend, prompt, generation))
    await asyncio.sleep(0)
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.wait_for(reading, _LIMIT_S)
    again, _ = await _read(backend, prompt, generation)
    assert text == again, "a closed or cancelled stream leaves the engine as it was"


async def _check_counts(backend: Backend, prompt: Sequence[Message], generation: Generation) -> None:
    longer = [*prompt[:-1], Message(prompt[-1].role, prompt[-1].text * 4)]
    stream = backend.stream(prompt, generation)
    async with aclosing(stream):
        await anext(stream)  # other threads count while a reply is generated
        counting = (asyncio.to_thread(backend.count_tokens, messages) for messages in (prompt, longer))
        short, long = await asyncio.wait_for(asyncio.gather(*counting), _LIMIT_S)
    assert 0 < short < long, "a longer prompt has more tokens"
    cached = backend.count_cached_tokens(prompt)
    assert cached is None or 0 <= cached <= short, "no more is cached than there is"
    assert await backend.prefill(prompt) >= 0, "prefill returns a number of tokens"
