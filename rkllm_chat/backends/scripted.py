"""A backend that plays written replies, for tests and demonstrations. It needs no model.

    rkllm-chat --set backend=scripted --model replies.json

`replies.json` is a list, or `{"model": NAME, "replies": list}` for replies in the format of the model of that name,
which determines its family; with `"media": ["image"]` the model takes pictures. Each entry of the list is the text of a
reply, or {"text": ..., "wait": true} for a reply that stays open after its text until it is stopped. Each request to
the model plays the next entry.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from ..calls.grammar import CallGrammar, NoCalls
from ..calls.model_families import UNKNOWN, Family, find_family
from ..config.settings import Generation, Settings
from ..core.errors import GenerationError, ModelError
from ..core.events import Usage
from ..core.messages import Media, MediaKind, Message, Tool
from .base import ModelStream, StoppableStream, StreamItem
from .shared.stop_sequences import end_reply

CHARACTERS_PER_TOKEN = 4
_PIXELS_PER_TOKEN = 28 * 28
_MODEL_MEDIA: tuple[MediaKind, ...] = ("image", "audio")
_MAX_PROMPTS = 20
"""Number of prompts that are kept; all prompts of a long conversation would take most of its memory."""


@dataclass(frozen=True)
class ScriptedReply:
    """A scripted reply.

    Attributes:
        text: The text of the reply.
        wait: Whether the reply then stays open until it is stopped.
        error: Message of the GenerationError that ends the reply; "" for none.
        usage: What the reply costs; None to count it.
    """

    text: str
    wait: bool = False
    error: str = ""
    usage: Usage | None = None


class ScriptedBackend:
    """Plays replies in pieces of four characters; a "token" is four characters of the prompt or the reply.

    Attributes:
        replies: The script.
        context_tokens: Size of the context window.
        family: The model family that wrote the replies.
        media_kinds: The kinds of media that it takes; a picture counts a token for each 28 by 28 pixels.
        played: Number of replies that were requested.
        prompts: The newest prompts, so that tests can assert what the model received.
    """

    name = "scripted"
    template = ""
    native_tools = False
    profile = ""
    supports_grammar = False

    def __init__(
        self, replies: Sequence[ScriptedReply | str], context_tokens: int = 4096, family: Family = UNKNOWN
    ) -> None:
        self.replies = [reply if isinstance(reply, ScriptedReply) else ScriptedReply(reply) for reply in replies]
        self.context_tokens = context_tokens
        self.family = family
        self.media_kinds = frozenset[MediaKind]()
        self.played = 0
        self.prompts: list[list[Message]] = []
        self._cached: list[str] = []

    def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        _tools: Sequence[Tool] = (),
        _grammar: CallGrammar | NoCalls | None = None,
    ) -> ModelStream:
        """Play the next reply, then its Usage; one that only repeats itself is ended, as those of engines are.

        Raises:
            GenerationError: The script has no more replies, or the reply ends with an error.
        """
        stop = asyncio.Event()
        return end_reply(StoppableStream(self._play_next(prompt, generation, stop), stop.set))

    async def _play_next(
        self, prompt: Sequence[Message], generation: Generation, stop: asyncio.Event
    ) -> AsyncGenerator[StreamItem, None]:
        if self.played >= len(self.replies):
            raise GenerationError(f"The script has {len(self.replies)} replies, but one more was requested.")
        reply = self.replies[self.played]
        self.played += 1
        self.prompts = [*self.prompts[1 - _MAX_PROMPTS :], list(prompt)]
        pieces = split_tokens(reply.text)
        prompt_pieces = split_tokens(render_script_prompt(prompt))
        reused = self._count_same(prompt_pieces)
        played = 0
        for piece in pieces if reply.usage else pieces[: generation.max_tokens]:
            # as behind a token of an engine, other tasks run and a cancellation is delivered
            await asyncio.sleep(0)
            played += 1
            yield piece
            if stop.is_set():
                break
        self._cached = prompt_pieces + pieces[:played]
        if reply.wait:
            await stop.wait()
        if reply.error and not stop.is_set():
            raise GenerationError(reply.error)
        if reply.usage:
            yield reply.usage
            return
        hit_limit = played < len(pieces) and not stop.is_set()
        yield Usage(len(prompt_pieces), reused, len(prompt_pieces) - reused, played, hit_limit=hit_limit)

    async def prefill(self, _prompt: Sequence[Message], _tools: Sequence[Tool] = ()) -> int:
        """Return 0: there is nothing to evaluate."""
        return 0

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """Return the length of the prompt in tokens of four characters, without roles."""
        media_tokens = sum(_count_media(media) for message in prompt for media in message.media)
        return sum(len(message.text) for message in prompt) // CHARACTERS_PER_TOKEN + media_tokens

    def count_cached_tokens(self, prompt: Sequence[Message]) -> int:
        """Return how many tokens of the prompt a reply would reuse, without roles, as `count_tokens` counts."""
        remaining = CHARACTERS_PER_TOKEN * self._count_same(split_tokens(render_script_prompt(prompt)))
        reused = 0
        for message in prompt:
            available, text = remaining - len(render_script_prompt([replace(message, text="")])), message.text
            reused += min(len(text), max(0, available))
            remaining = available - len(text)
        return reused // CHARACTERS_PER_TOKEN

    def _count_same(self, prompt_pieces: Sequence[str]) -> int:
        return sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._cached, prompt_pieces, strict=False))
        )

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""
        return


def render_script_prompt(prompt: Sequence[Message]) -> str:
    """Render a prompt as text, one message a line; media by their hashes."""
    return "".join(f"{message.role}: {''.join(map(_render_part, message.parts))}\n" for message in prompt)


def _render_part(part: str | Media) -> str:
    return part if isinstance(part, str) else f"<{part.kind} {part.sha256}>"


def _count_media(media: Media) -> int:
    return max(1, media.width * media.height // _PIXELS_PER_TOKEN)


def split_tokens(text: str) -> list[str]:
    """Split a text into pieces of four characters."""
    return [text[i : i + CHARACTERS_PER_TOKEN] for i in range(0, len(text), CHARACTERS_PER_TOKEN)]


def open_scripted(settings: Settings) -> ScriptedBackend:
    """Read the script that `settings.model` names.

    Raises:
        ModelError: The file cannot be read or is not a script.
    """
    path = Path(settings.model)
    try:
        script: Any = json.loads(path.read_text(encoding="utf-8"))
        model, kinds = "", frozenset[MediaKind]()
        if isinstance(script, dict):
            kinds = frozenset(kind for kind in _MODEL_MEDIA if kind in script.get("media", ()))
            model, script = str(script.get("model", "")), script["replies"]
        replies = [ScriptedReply(**entry) if isinstance(entry, dict) else ScriptedReply(str(entry)) for entry in script]
    except OSError as error:
        raise ModelError(f"{settings.model}: {error.strerror}.", "A script is a JSON list of replies.") from None
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{settings.model}: not a list of replies: {error}.") from None
    backend = ScriptedBackend(replies, settings.context_tokens or 4096, find_family([model]))
    backend.media_kinds = kinds
    return backend
