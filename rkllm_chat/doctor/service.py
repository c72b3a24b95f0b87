"""Checks of a model behind a URL: whether the service answers, what it is, and how the key travels."""

from __future__ import annotations

from collections.abc import Iterator

from ..backends import choose
from ..errors import ChatError
from .board import Board, Line


def check_services(board: Board) -> Iterator[Line]:
    """A line for each URL. Only from the machine itself can be said whether one answers."""
    if choose(board.settings) != "openai":
        return
    from ..backends.openai import find_services, look
    from ..backends.openai_addresses import is_loopback

    try:
        services = find_services(board.settings, board.environment)
    except ChatError as error:
        yield Line("service", "wrong", error.message, error.hint)
        return
    for service in services:
        if service.secret and service.url.startswith("http:") and not is_loopback(service.url):
            advice = "Anybody on the way can read it: use https, or a tunnel."
            yield Line("key", "look", f"it travels to {service.url} as plain text", advice)
        if not board.is_here:
            yield Line("service", "ok", f"{service.url}: not asked from this machine")
        elif trouble := look(service, tries=1):
            yield Line("service", "wrong", trouble.message, trouble.hint)
        elif facts := service.facts:
            context = (
                f"{facts.context_tokens} tokens of context" if facts.context_tokens else "it does not say its context"
            )
            way = "prompts are ours" if facts.template else "it writes the prompts itself"
            yield Line("service", "ok", f"{service.url}: {facts.program}, model {facts.model}, {context}, {way}")
