"""Estimate the cost of a message before it is sent: tokens of the prompt, how many are cached, and the prefill time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.messages import Message
from .context import add_tool_signatures, build_prompt, compute_prompt_budget

if TYPE_CHECKING:
    from .conversation import Conversation
    from .prefill_speed import PrefillSpeed


@dataclass(frozen=True)
class CostEstimate:
    """Estimate for a prompt.

    Attributes:
        total_tokens: Tokens of the prompt.
        budget_tokens: Token budget of the prompt; if it is exceeded, older turns are dropped first and `cached_tokens`
            is unknown.
        cached_tokens: Tokens in the KV cache; None if unknown.
        prefill_s: Time to the first token; 0.0 if unknown.
    """

    total_tokens: int
    budget_tokens: int
    cached_tokens: int | None = None
    prefill_s: float = 0.0

    @property
    def new_tokens(self) -> int | None:
        """Tokens to prefill; None if unknown."""
        return None if self.cached_tokens is None else self.total_tokens - self.cached_tokens

    @property
    def is_within_budget(self) -> bool:
        """Whether the prompt is within the budget."""
        return self.total_tokens <= self.budget_tokens


def estimate_cost(chat: Conversation, text: str, speed: PrefillSpeed) -> CostEstimate:
    """Estimate the prompt with a new message, built as the turn builds it; an empty text adds no tool signatures.

    Raises:
        ChatError: The chat template accepts no user message now.
    """
    messages = [Message("user", text)]
    if text:
        messages = add_tool_signatures(chat, messages)
    prompt = build_prompt(chat, [*chat.visible_messages, *messages])
    total, budget = chat.backend.count_tokens(prompt), compute_prompt_budget(chat)
    cached = chat.backend.count_cached_tokens(prompt) if total <= budget else None
    if cached is None:
        return CostEstimate(total, budget)
    cached = min(cached, total - 1)  # the last token is always evaluated
    return CostEstimate(total, budget, cached, speed.estimate_s(total - cached, cached))
