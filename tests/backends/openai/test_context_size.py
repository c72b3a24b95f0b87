"""The size of a context window that a service does not report is learned from how it refuses a long prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from backends.openai.service import REPLY, Service
from backends.openai.talks import chat_with, talk, write
from rkllm_chat.backends.openai.backend import OpenaiBackend
from rkllm_chat.core.errors import ContextOverflowError, GenerationError
from rkllm_chat.core.events import Notice
from rkllm_chat.core.messages import Message

Run = Callable[..., Any]
Open = Callable[..., OpenaiBackend]
LONG = "word " * 900
LIMIT_CHARACTERS = 8000
"""More than one LONG, less than two."""

# the service's own words -> the context window from then on
REFUSALS: dict[str, tuple[dict[str, Any], int]] = {
    "llama-cpp-python": ({}, 2048),
    "llama.cpp": (
        {
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 2300,
            "n_ctx": 2048,
        },
        2048,
    ),
    "llama.cpp later": (
        {"message": "request (2300 tokens) exceeds the available context size (2048 tokens), try increasing it"},
        2048,
    ),
    "vLLM": (
        {
            "message": "This model's maximum context length is 2048 tokens. However, you requested 3324 tokens "
            "(2300 in the messages, 1024 in the completion). Please reduce the length of the messages or completion."
        },
        2048,
    ),
    "rkllm-chat": (
        {"message": "The prompt is 2300 tokens long, the context holds 2048.", "code": "context_length_exceeded"},
        2048,
    ),
    "LM Studio": (
        {"message": "Trying to keep 2300 tokens, but the model is loaded with a context length of only 2048 tokens"},
        2048,
    ),
    "a window too small to be true": ({"message": "context length exceeded: the context window is 100"}, 4096),
    "no number": ({"message": "context length exceeded"}, 2048),
}


def open_unknown(service: Service, open_remote: Open, context_tokens: int = 0) -> OpenaiBackend:
    """Open the backend on a service that takes LIMIT_CHARACTERS and does not say so."""
    service.mode, service.limit_characters = "small context", LIMIT_CHARACTERS
    service.answers["/v1/models"] = {"data": [{"id": "qwen3-small", "owned_by": "vllm"}]}
    return open_remote(service.url, context_tokens=context_tokens)


@pytest.mark.parametrize("name", REFUSALS)
def test_the_window_is_learned_and_the_message_sent_again(
    name: str, service: Service, open_remote: Open, run: Run
) -> None:
    backend = open_unknown(service, open_remote)
    service.refusal, context_tokens = REFUSALS[name]
    assert backend.context_tokens == 4096
    chat = chat_with(backend)
    run(asyncio.wait_for(talk(chat, f"first {LONG}"), 15))
    if context_tokens == 4096:
        with pytest.raises(ContextOverflowError):
            run(asyncio.wait_for(talk(chat, f"second {LONG}"), 15))
        return
    (events,) = run(asyncio.wait_for(talk(chat, f"second {LONG}"), 15))
    assert backend.context_tokens == context_tokens
    notices = [event.text for event in events if isinstance(event, Notice)]
    halved = "The service's context window seems to be smaller than assumed; 2048 tokens are used from now on"
    found = "The service's context window has only 2048 tokens; the message is sent again."
    assert notices[0].startswith(halved if name == "no number" else found)
    assert "older turn" in notices[1]
    assert [message.text[:6] for message in chat.history] == ["first ", REPLY[:6], "second", REPLY[:6]]
    assert "first" not in service.asked[-1].body["prompt"] and "second" in service.asked[-1].body["prompt"]


def test_a_configured_window_is_lowered_but_not_halved(service: Service, open_remote: Open, run: Run) -> None:
    backend = open_unknown(service, open_remote, 3000)
    service.refusal = {"message": "context length exceeded"}
    with pytest.raises(ContextOverflowError, match=r"the prompt is too long: context length exceeded\. Shorten"):
        run(write(backend, [Message("user", 2 * LONG)]))
    assert backend.context_tokens == 3000
    service.refusal = {"message": "the context window is 2048", "code": "context_length_exceeded"}
    with pytest.raises(ContextOverflowError):
        run(write(backend, [Message("user", 2 * LONG)]))
    assert backend.context_tokens == 2048


def test_an_assumed_window_grows_to_what_was_accepted_and_never_shrinks_below(
    service: Service, open_remote: Open, run: Run
) -> None:
    backend = open_unknown(service, open_remote)
    service.mode = "any length"
    run(write(backend, [Message("user", 3 * LONG)]))
    assert (backend.context_tokens, backend.is_context_assumed) == (4096, True)
    run(write(backend, [Message("user", "word " * 5000)]))
    assert (backend.context_tokens, backend.is_context_assumed) == (8192, True)
    service.mode, service.refusal = "small context", {"message": "context length exceeded"}
    with pytest.raises(ContextOverflowError):
        run(write(backend, [Message("user", "word " * 7000)]))
    accepted = backend.services[0].accepted_tokens
    assert 4096 < accepted == backend.context_tokens < 8192


def test_a_configured_window_is_never_raised(service: Service, open_remote: Open, run: Run) -> None:
    backend = open_unknown(service, open_remote, 3000)
    service.mode = "any length"
    run(write(backend, [Message("user", "word " * 3000)]))
    assert (backend.context_tokens, backend.is_context_assumed) == (3000, False)


def test_a_short_prompt_that_fails_is_not_sent_again(service: Service, open_remote: Open, run: Run) -> None:
    backend = open_unknown(service, open_remote)
    service.limit_characters = 1
    with pytest.raises(GenerationError, match="does not respond"):
        run(write(backend))
    assert (len(service.asked), backend.context_tokens) == (1, 4096)


def test_a_prompt_far_above_a_known_window_is_not_sent(service: Service, open_remote: Open, run: Run) -> None:
    backend = open_remote(service.url)
    with pytest.raises(GenerationError, match=r"tokens long, the context holds 2048"):
        run(write(backend, [Message("user", "word " * 5000)]))
    assert not service.asked
    assert run(write(backend, [Message("user", "word " * 2000)])) == REPLY, "the service decides about a close one"


def test_the_list_of_models_reports_the_window(service: Service, open_remote: Open) -> None:
    entry = {"id": "some-model.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 99999, "n_ctx": 1536}}
    service.answers["/v1/models"] = {"data": [entry]}
    assert open_remote(service.url, context_tokens=0).context_tokens == 1536
