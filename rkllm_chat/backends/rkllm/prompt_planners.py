"""Plan what the NPU runtime is sent for a prompt: all of it or only new text, as text, as token ids, or by roles.

Each class tracks the content of the runtime's KV cache and plans the next run from it. Nothing is sent here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...calls.schema.simplify import simplify_schema
from ...core.errors import ModelError
from ...core.messages import Message, Tool
from ...prompt.chat_templates import Piece, find_reply_prefix, neutralize_control_tokens, neutralize_value
from ..shared.prompt_tokens import PromptTokenizer, common_prefix
from ..shared.token_counts import TokenEstimator


@dataclass(frozen=True)
class RunPlan:
    """One run.

    Attributes:
        prompt: Text or token ids to send.
        prompt_tokens: Length of the whole prompt.
        role: Role of the message for the runtime's template.
        keep_history: Whether the runtime continues its KV cache.
        clears_cache: Whether the KV cache must be cleared before.
        reply_prefix: The beginning of the reply that the prompt already contains.
        tools: System text and tools (JSON) to set before; None for no change.
    """

    prompt: str | list[int]
    prompt_tokens: int
    role: str = "user"
    keep_history: bool = False
    clears_cache: bool = False
    reply_prefix: str = ""
    tools: tuple[str, str] | None = None


class RenderedPromptPlanner:
    """Prompts that are rendered with our template."""

    def __init__(
        self,
        template: Callable[[Sequence[Message]], list[Piece]],
        join: Callable[[Sequence[Piece]], str],
        tokens: PromptTokenizer | None,
        only_new: bool,
    ) -> None:
        """Create a planner with an empty KV cache.

        Args:
            template: Renders messages to pieces.
            join: Joins pieces to text in which control tokens of others are neutralized.
            tokens: Tokenizer of the prompts; None to send text.
            only_new: Whether the runtime keeps the history and is sent only what follows its KV cache (keep_history
                1); else it is sent everything and reuses a common beginning by itself (keep_history 0).
        """
        self._template, self._join, self._tokens, self._only_new = template, join, tokens, only_new
        self._estimator = TokenEstimator()
        self._cached: str | list[int] = ""
        self._last_prompt: str | list[int] = ""

    def plan(self, prompt: Sequence[Message], _tools: Sequence[Tool]) -> RunPlan:
        """Plan the run of a prompt."""
        pieces = self._template(prompt)
        full: Any = self._tokens.encode(pieces) if self._tokens else self._join(pieces)
        self._last_prompt = full
        count, reply_prefix = self._count(full), find_reply_prefix(pieces)
        if not self._only_new:
            return RunPlan(full, count, reply_prefix=reply_prefix)
        cached_length = len(self._cached)
        extends_cache = bool(cached_length) and full[:cached_length] == self._cached and len(full) > cached_length
        return RunPlan(
            full[cached_length:] if extends_cache else full,
            count,
            keep_history=True,
            clears_cache=not extends_cache,
            reply_prefix=reply_prefix,
        )

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """Return the length of a prompt in tokens: exact with a tokenizer, else estimated."""
        pieces = self._template(prompt)
        return self._count(self._tokens.encode(pieces) if self._tokens else self._join(pieces))

    def count_cached_tokens(self, prompt: Sequence[Message]) -> int | None:
        """Return how many tokens of a prompt are in the KV cache; None if its content is unknown."""
        pieces = self._template(prompt)
        full: Any = self._tokens.encode(pieces) if self._tokens else self._join(pieces)
        if not self._cached:
            return None if self._last_prompt else 0
        common_length = len(common_prefix(list(full), list(self._cached)))
        if self._only_new and common_length < len(self._cached):
            return 0
        return self._count(full[:common_length]) if common_length else 0

    def system_prefix(self, prompt: Sequence[Message]) -> str | list[int]:
        """Return the beginning of the prompt that no message changes: everything before its first user message."""
        return self.stable_prefix([message for message in prompt[:1] if message.role == "system"])

    def stable_prefix(self, messages: Sequence[Message]) -> str | list[int]:
        """Return the part of rendered messages that no next user message changes.

        Empty if no user message may follow.
        """
        try:
            one, other = (self._template([*messages, Message("user", text)]) for text in "ab")
        except ModelError:
            return ""
        if self._tokens:
            return common_prefix(self._tokens.encode(one), self._tokens.encode(other))
        return "".join(common_prefix(list(self._join(one)), list(self._join(other))))

    def count_new_tokens(self, prompt: str | list[int]) -> int:
        """Return how many tokens are not in the KV cache, as far as that is known."""
        common_length = (
            len(common_prefix(list(prompt), list(self._cached))) if type(prompt) is type(self._cached) else 0
        )
        return self._count(prompt[common_length:]) if common_length < len(prompt) else 0

    def record_prefill(self, prompt: str | list[int]) -> None:
        """Record that the KV cache contains this prompt."""
        self._cached = prompt

    def record_reply(self, plan: RunPlan, text: str, ids: Sequence[int], is_complete: bool) -> None:
        """Record the content of the KV cache after a run; `is_complete`: the reply ended by itself."""
        if self._tokens:
            self._tokens.remember_reply(plan.reply_prefix, text, ids)
        reply: Any = list(ids) if self._tokens else text
        # after truncation the last token may or may not be cached: better evaluate all again than have one token wrong
        self._cached = self._last_prompt + reply if is_complete else ""

    def calibrate(self, tokens: int) -> None:
        """Adjust the estimate to the runtime's count of the last prompt."""
        if isinstance(self._last_prompt, str):
            self._estimator.calibrate(self._last_prompt, tokens)

    def record_cache_loss(self) -> None:
        """Record that the KV cache is empty."""
        self._cached = self._last_prompt = ""

    def _count(self, prompt: str | list[int]) -> int:
        return self._estimator.count(prompt) if isinstance(prompt, str) else len(prompt)


class RolePromptPlanner:
    """Prompts that the runtime's own template renders: it is sent the newest turn and keeps the rest (keep_history 1).

    The prompt is text in which control tokens of others are neutralized.
    """

    def __init__(self, native: bool, reply_prefix: str = "") -> None:
        """Create a planner with an empty KV cache.

        Args:
            native: Whether tools are set by rkllm_set_function_tools. That requires the runtime's template, because a
                template of ours disables its tools (rkllm.h from 1.2.1 on). Results are sent as one JSON array then.
            reply_prefix: The beginning of each reply that the template is assumed to write: a thought that it opens.
        """
        self._native, self.reply_prefix = native, reply_prefix
        self._estimator = TokenEstimator()
        self._cached: list[Message] = []
        self._last_prompt: list[Message] = []
        self._current_tools: tuple[str, str] | None = None

    def plan(self, prompt: Sequence[Message], tools: Sequence[Tool]) -> RunPlan:
        """Plan the run of a prompt."""
        prompt = [replace(message, text=neutralize_control_tokens(message.text)) for message in prompt]
        system = prompt[0].text if prompt and prompt[0].role == "system" else ""
        new_tools = (system, _write_tools(tools)) if self._native and tools else None
        self._last_prompt = list(prompt)
        cached_length = len(self._cached)
        extends_cache = (
            bool(cached_length)
            and self._last_prompt[:cached_length] == self._cached
            and new_tools == self._current_tools
        )
        new = self._last_prompt[cached_length if extends_cache else 0 :]
        role, text = self._role_and_text(new, first=not extends_cache, with_system=new_tools is None)
        changed = new_tools if new_tools != self._current_tools else None
        self._current_tools = new_tools
        return RunPlan(
            text,
            self.count_tokens(prompt),
            role,
            keep_history=True,
            clears_cache=not extends_cache,
            reply_prefix=self.reply_prefix,
            tools=changed,
        )

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """Estimate the length of a prompt in tokens."""
        return sum(self._estimator.count(message.text) + 8 for message in prompt)

    def count_cached_tokens(self, prompt: Sequence[Message]) -> int:
        """Estimate how many tokens of a prompt are in the KV cache: the whole history, or none."""
        neutralized = [replace(message, text=neutralize_control_tokens(message.text)) for message in prompt]
        return (
            self.count_tokens(self._cached) if self._cached and neutralized[: len(self._cached)] == self._cached else 0
        )

    def record_reply(self, plan: RunPlan, text: str, _ids: Sequence[int], is_complete: bool) -> None:
        """Record the content of the KV cache after a run."""
        self._cached = (
            [*self._last_prompt, Message("assistant", neutralize_control_tokens(plan.reply_prefix + text))]
            if is_complete
            else []
        )

    def calibrate(self, tokens: int) -> None:
        """Adjust the estimate to the runtime's count of the last prompt, which includes its template."""
        self._estimator.calibrate("".join(message.text for message in self._last_prompt), tokens)

    def record_cache_loss(self) -> None:
        """Record that the KV cache is empty."""
        self._cached, self._current_tools = [], None

    def _role_and_text(self, new: list[Message], first: bool, with_system: bool) -> tuple[str, str]:
        """Return role and text of a run.

        If the KV cache was lost, earlier messages precede the new one as a transcript.
        """
        results = [message for message in new if message.role == "tool"]
        if not first and results and len(results) == len(new):
            return "tool", json.dumps([_result_value(message.text) for message in results], ensure_ascii=False)
        system_texts = [new.pop(0).text] if new and new[0].role == "system" else []
        *before, last = new
        transcript = [f"{message.role}: {message.text}" for message in before]
        return "user", "\n\n".join([*(system_texts if with_system else []), *transcript, last.text])


def _write_tools(tools: Sequence[Tool]) -> str:
    """Write tools as the JSON array of rkllm_set_function_tools (as in OpenAI's API), control tokens neutralized."""
    functions = [
        {"name": tool.name, "description": tool.description, "parameters": simplify_schema(tool.schema)}
        for tool in tools
    ]
    written = [{"type": "function", "function": function} for function in neutralize_value(functions)]
    return json.dumps(written, ensure_ascii=False)


def _result_value(text: str) -> Any:
    """Parse a result as JSON; a result that is none stays text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
