"""Render the instructions of servers as sections of the system text (MCP 2025-11-25, lifecycle: `instructions`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..core.i18n import Words
from .budget import INSTRUCTIONS_FRACTION, MAX_INSTRUCTIONS_TOKENS, truncate_middle
from .untrusted_text import choose_fence, neutralize, neutralize_line

_MIN_PARAMETERS = 2_000_000_000
_MIN_CONTEXT_TOKENS = 8192


def has_room_for_instructions(parameter_count: int, context_tokens: int) -> bool:
    """Return whether a model is large enough to follow the instructions of servers beside the user's question.

    Smaller ones answer the instructions instead (Qwen2.5-Coder 0.5B: "Server instructions are working!").

    Args:
        parameter_count: Number of parameters of the model; 0 if it is unknown.
        context_tokens: Size of the context window.
    """
    return (parameter_count or _MIN_PARAMETERS) >= _MIN_PARAMETERS and context_tokens >= _MIN_CONTEXT_TOKENS


def render_instructions(
    instructions: Mapping[str, str], words: Words, context_tokens: int, count_tokens: Callable[[str], int]
) -> tuple[str, ...]:
    """Return one section for each server, shortened to the tokens that it may take.

    Args:
        instructions: What each server says, by its name.
        words: Model-facing sentences.
        context_tokens: Size of the context window.
        count_tokens: Counts the tokens of a text within the prompt.
    """
    if not instructions:
        return ()
    share = int(context_tokens * INSTRUCTIONS_FRACTION) // len(instructions)
    limit_tokens = min(MAX_INSTRUCTIONS_TOKENS, share)
    return tuple(
        _render_section(
            words("prompt.instructions", server=neutralize_line(server)),
            neutralize(truncate_middle(text, limit_tokens, count_tokens)),
        )
        for server, text in instructions.items()
    )


def _render_section(heading: str, text: str) -> str:
    """Fence the text: it must not be mistaken for ours, nor end its section."""
    fence = choose_fence(text)
    return f"{heading}\n{fence}\n{text}\n{fence}"
