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
from ...core.messages import Media, Message, Tool
from ...prompt.pieces import Piece, find_reply_prefix, join_text, neutralize_control_tokens, neutralize_value
from ..shared.prompt_tokens import PromptTokenizer, common_prefix
from ..shared.token_counts import TokenEstimator
from .vision_families import PICTURE_TAG

_DROPPED_PICTURE = "[image]"


def keep_newest_pictures(prompt: Sequence[Message], limit: int) -> list[Message]:
    """Replace all pictures but the newest by a note, for releases that take only some in one run."""
    kept: list[Message] = []
    for message in reversed(prompt):
        number = min(limit, len(message.media))
        limit -= number
        dropped = len(message.media) - number
        kept.insert(0, _note_pictures(message, dropped) if dropped else message)
    return kept


def _note_pictures(message: Message, number: int) -> Message:
    """Replace the first pictures of a message by a note."""
    text, shift, start = "", 0, 0
    for media in message.media[:number]:
        text += f"{message.text[start : media.position]}{_DROPPED_PICTURE}"
        start, shift = media.position, shift + len(_DROPPED_PICTURE)
    rest = tuple(replace(media, position=media.position + shift) for media in message.media[number:])
    return replace(message, text=text + message.text[start:], media=rest)


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
        pictures: The pictures of `prompt`, which is a text then, in the order of their tags.
    """

    prompt: str | list[int]
    prompt_tokens: int
    role: str = "user"
    keep_history: bool = False
    clears_cache: bool = False
    reply_prefix: str = ""
    tools: tuple[str, str] | None = None
    pictures: tuple[Media, ...] = ()


class RenderedPromptPlanner:
    """Prompts that are rendered with our template.

    The runtime takes pictures only in a text, so a prompt with pictures is sent as text also where there is a
    tokenizer.

    Attributes:
        picture_tokens: Number of tokens of a picture, with its markers.
    """

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
        self.picture_tokens = 0
        self._cached: str | list[int] = ""
        self._last_prompt: str | list[int] = ""
        self._cached_pictures: tuple[Media, ...] = ()
        self._last_pictures: tuple[Media, ...] = ()

    def plan(self, prompt: Sequence[Message], _tools: Sequence[Tool]) -> RunPlan:
        """Plan the run of a prompt."""
        pieces = self._template(prompt)
        full, pictures = self._write(pieces)
        # it is not known whether the runtime tells two pictures apart when it compares a prompt with its KV cache
        has_others = bool(pictures) and pictures[: len(self._last_pictures)] != self._last_pictures
        self._last_prompt, self._last_pictures = full, pictures
        count, reply_prefix = self._count_pieces(pieces), find_reply_prefix(pieces)
        if not self._only_new:
            return RunPlan(full, count, clears_cache=has_others, reply_prefix=reply_prefix, pictures=pictures)
        cached_length, cached_pictures = len(self._cached), len(self._cached_pictures)
        extends_cache = (
            bool(cached_length)
            and full[:cached_length] == self._cached
            and pictures[:cached_pictures] == self._cached_pictures
            and len(full) > cached_length
        )
        return RunPlan(
            full[cached_length:] if extends_cache else full,
            count,
            keep_history=True,
            clears_cache=not extends_cache,
            reply_prefix=reply_prefix,
            pictures=pictures[cached_pictures:] if extends_cache else pictures,
        )

    def render(self, prompt: Sequence[Message], _tools: Sequence[Tool]) -> str:
        """Return the whole prompt as text."""
        return self._join(self._template(prompt))

    def _write(self, pieces: Sequence[Piece]) -> tuple[Any, tuple[Media, ...]]:
        """Return what is sent for a prompt, and its pictures."""
        pictures = tuple(piece.media for piece in pieces if piece.media)
        return self._tokens.encode(pieces) if self._tokens and not pictures else self._join(pieces), pictures

    def write_prompt(self, prompt: Sequence[Message]) -> str | list[int]:
        """Return what is sent for a prompt, of which nothing is in the KV cache; empty if there are pictures."""
        full, pictures = self._write(self._template(prompt))
        return "" if pictures else full

    def write_text(self, text: str) -> tuple[str | list[int], int]:
        """Return what is sent for a text without a template, and its length in tokens, as far as that is known."""
        written, _ = self._write([Piece(text, special=False)])
        return written, self.count(written)

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """Return the length of a prompt in tokens: exact with a tokenizer, else estimated."""
        return self._count_pieces(self._template(prompt))

    def _count_pieces(self, pieces: Sequence[Piece]) -> int:
        texts = [piece for piece in pieces if not piece.media]
        pictures = self.picture_tokens * (len(pieces) - len(texts))
        return pictures + self.count(self._tokens.encode(texts) if self._tokens else self._join(texts))

    def count_cached_tokens(self, prompt: Sequence[Message]) -> int | None:
        """Return how many tokens of a prompt are in the KV cache; None if its content is unknown."""
        full, pictures = self._write(self._template(prompt))
        if not self._cached:
            return None if self._last_prompt else 0
        if pictures or self._cached_pictures:  # the runtime does not say what it reuses of a prompt with pictures
            return None
        common_length = len(common_prefix(list(full), list(self._cached)))
        if self._only_new and common_length < len(self._cached):
            return 0
        return self.count(full[:common_length]) if common_length else 0

    def system_prefix(self, prompt: Sequence[Message]) -> str | list[int]:
        """Return the beginning of the prompt that no message changes: everything before its first user message."""
        return self.stable_prefix([message for message in prompt[:1] if message.role == "system"])

    def stable_prefix(self, messages: Sequence[Message], is_new: bool = False) -> str | list[int]:
        """Return the part of rendered messages that no next user message changes.

        Empty if no user message may follow, or if there are pictures.

        Args:
            messages: The messages.
            is_new: Tokenize replies as a program that has not generated them.
        """
        if any(message.media for message in messages):
            return ""
        try:
            one, other = (self._template([*messages, Message("user", text)]) for text in "ab")
        except ModelError:
            return ""
        if self._tokens:
            return common_prefix(self._tokens.encode(one, is_new), self._tokens.encode(other, is_new))
        return "".join(common_prefix(list(self._join(one)), list(self._join(other))))

    def count_new_tokens(self, prompt: str | list[int]) -> int:
        """Return how many tokens are not in the KV cache, as far as that is known."""
        common_length = (
            len(common_prefix(list(prompt), list(self._cached))) if type(prompt) is type(self._cached) else 0
        )
        return self.count(prompt[common_length:]) if common_length < len(prompt) else 0

    def record_prefill(self, prompt: str | list[int]) -> None:
        """Record that the KV cache contains this prompt."""
        self._cached, self._cached_pictures = prompt, ()

    def record_reply(self, plan: RunPlan, text: str, ids: Sequence[int], is_complete: bool) -> None:
        """Record the content of the KV cache after a run; `is_complete`: the reply ended by itself."""
        if self._tokens:
            self._tokens.remember_reply(plan.reply_prefix, text, ids)
        reply: Any = list(ids) if isinstance(self._last_prompt, list) else text
        # after truncation the last token may or may not be cached: better evaluate all again than have one token wrong
        self._cached = self._last_prompt + reply if is_complete else ""
        self._cached_pictures = self._last_pictures if is_complete else ()

    def calibrate(self, tokens: int) -> None:
        """Adjust the estimate to the runtime's count of the last prompt."""
        if isinstance(self._last_prompt, str) and not self._last_pictures:
            self._estimator.calibrate(self._last_prompt, tokens)

    def record_cache_loss(self) -> None:
        """Record that the KV cache is empty."""
        self._cached = self._last_prompt = ""
        self._cached_pictures = self._last_pictures = ()

    def count(self, prompt: str | list[int]) -> int:
        """Return the length in tokens of what is sent: exact for token ids, else estimated."""
        return self._estimator.count(prompt) if isinstance(prompt, str) else len(prompt)


class RolePromptPlanner:
    """Prompts that the runtime's own template renders: it is sent the newest turn and keeps the rest (keep_history 1).

    The prompt is text in which control tokens of others are neutralized.

    Attributes:
        reply_prefix: The beginning of each reply that the template is assumed to write: a thought that it opens.
        picture_tokens: Number of tokens of a picture, with its markers.
    """

    def __init__(self, native: bool, reply_prefix: str = "", controls: Sequence[str] = ()) -> None:
        """Create a planner with an empty KV cache.

        Args:
            native: Whether tools are set by rkllm_set_function_tools. That requires the runtime's template, because a
                template of ours disables its tools (rkllm.h from 1.2.1 on). Results are sent as one JSON array then.
            reply_prefix: The beginning of each reply that the template is assumed to write: a thought that it opens.
            controls: Texts of the model's pictures, which are neutralized too.
        """
        self._native, self.reply_prefix, self._controls = native, reply_prefix, controls
        self.picture_tokens = 0
        self._estimator = TokenEstimator()
        self._cached: list[Message] = []
        self._last_prompt: list[Message] = []
        self._current_tools: tuple[str, str] | None = None

    def plan(self, prompt: Sequence[Message], tools: Sequence[Tool]) -> RunPlan:
        """Plan the run of a prompt."""
        prompt = [self._neutralize(message) for message in prompt]
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
        pictures = tuple(media for message in new for media in message.media)
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
            pictures=pictures,
        )

    def render(self, prompt: Sequence[Message], tools: Sequence[Tool]) -> str:
        """Return messages and tools as JSON; a run has those that the runtime does not keep from before."""
        messages = [{"role": message.role, "content": self._neutralize(message).text} for message in prompt]
        described = {"tools": json.loads(_write_tools(tools))} if self._native and tools else {}
        return json.dumps({"messages": messages, **described}, ensure_ascii=False, indent=2)

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """Estimate the length of a prompt in tokens."""
        return sum(
            self._estimator.count(message.text) + 8 + self.picture_tokens * len(message.media) for message in prompt
        )

    def count_cached_tokens(self, prompt: Sequence[Message]) -> int:
        """Estimate how many tokens of a prompt are in the KV cache: the whole history, or none."""
        neutralized = [self._neutralize(message) for message in prompt]
        return (
            self.count_tokens(self._cached) if self._cached and neutralized[: len(self._cached)] == self._cached else 0
        )

    def record_reply(self, plan: RunPlan, text: str, _ids: Sequence[int], is_complete: bool) -> None:
        """Record the content of the KV cache after a run."""
        self._cached = (
            [*self._last_prompt, self._neutralize(Message("assistant", plan.reply_prefix + text))]
            if is_complete
            else []
        )

    def calibrate(self, tokens: int) -> None:
        """Adjust the estimate to the runtime's count of the last prompt, which includes its template."""
        if not any(message.media for message in self._last_prompt):
            self._estimator.calibrate("".join(message.text for message in self._last_prompt), tokens)

    def record_cache_loss(self) -> None:
        """Record that the KV cache is empty."""
        self._cached, self._current_tools = [], None

    def _neutralize(self, message: Message) -> Message:
        """Return a message with tags for its pictures, in which control tokens are broken."""
        if not (message.media or self._controls):
            return replace(message, text=neutralize_control_tokens(message.text))
        pieces = [
            Piece(part, special=False) if isinstance(part, str) else Piece(PICTURE_TAG, special=True)
            for part in message.parts
        ]
        return replace(message, text=join_text(pieces, more_controls=self._controls))

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
