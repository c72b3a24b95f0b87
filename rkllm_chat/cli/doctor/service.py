"""Check model services behind URLs: reachability, properties and the transport of the API key."""

from __future__ import annotations

from collections.abc import Iterator

from ...backends import choose_backend
from ...core.errors import ChatError
from .board import Board, Finding, ok, warn, wrong


def check_services(board: Board) -> Iterator[Finding]:
    """Yield a line for each URL. A service is queried only when this machine is examined."""
    if choose_backend(board.settings) != "openai":
        return
    from ...backends.openai.addresses import is_loopback
    from ...backends.openai.backend import make_services, probe_with_retries

    try:
        services = make_services(board.settings, board.environment)
    except ChatError as error:
        yield wrong(error.message, error.hint)
        return
    for service in services:
        if service.api_key and service.url.startswith("http:") and not is_loopback(service.url):
            advice = "Others on the network can read it: use https or a tunnel."
            yield warn(f"sent to {service.url} unencrypted", advice, "key")
        if not board.is_this_machine:
            yield ok(f"{service.url}: not contacted for another machine")
        elif failure := probe_with_retries(service, tries=1):
            yield wrong(failure.message, failure.hint)
        elif facts := service.info:
            context = f"{facts.context_tokens} tokens of context" if facts.context_tokens else "unknown context size"
            renders = "rkllm-chat" if facts.template else "the service"
            yield ok(
                f"{service.url}: {facts.kind_name}, model {facts.model}, {context}, prompts are rendered by {renders}"
            )
