"""A backend that plays written replies back: for tests, demonstrations and bug reports. It needs no model.

    rkllm-chat --backend scripted --model replies.json

`replies.json` is a list; each entry is the text of a reply, or {"text": ..., "wait": true} for a reply that stays
open after its text until it is stopped. A call of the model plays the next entry.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from ..config import Generation, Settings
from ..errors import GenerationError, ModelError
from ..events import Usage
from ..messages import Message, Tool

PIECE = 4


@dataclass(frozen=True)
class Reply:
    """What is said; `wait`: and then nothing, until somebody stops it."""

    text: str
    wait: bool = False


class Scripted:
    """Plays replies in pieces of four characters. A "token" here is four characters of the prompt or the reply.

    `prompts` keeps what each call was given, so that a test can say what the model saw.
    """

    name = "scripted"
    native_tools = False

    def __init__(self, replies: Sequence[Reply | str], context_tokens: int = 4096) -> None:
        self.replies = [reply if isinstance(reply, Reply) else Reply(reply) for reply in replies]
        self.context_tokens = context_tokens
        self.prompts: list[list[Message]] = []
        self._held: list[str] = []

    async def stream(
        self, prompt: Sequence[Message], generation: Generation, _tools: Sequence[Tool] = ()
    ) -> AsyncGenerator[str | Usage, None]:
        """The next reply, then its Usage. Raises GenerationError when there is none left."""
        if len(self.prompts) >= len(self.replies):
            raise GenerationError(f"The script has {len(self.replies)} replies and was asked for one more.")
        reply = self.replies[len(self.prompts)]
        self.prompts.append(list(prompt))
        pieces = cut(reply.text)
        asked = cut("".join(f"{message.role}: {message.text}\n" for message in prompt))
        reused = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._held, asked, strict=False)))
        self._held = asked + pieces
        for piece in pieces[: generation.max_tokens]:
            await asyncio.sleep(0)
            yield piece
        if reply.wait:
            await asyncio.Event().wait()
        hit_limit = len(pieces) > generation.max_tokens
        yield Usage(len(asked), reused, len(asked) - reused, len(pieces), hit_limit=hit_limit)

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        return sum(len(message.text) for message in prompt) // PIECE

    async def aclose(self) -> None:
        return


def cut(text: str) -> list[str]:
    return [text[i : i + PIECE] for i in range(0, len(text), PIECE)]


def open_scripted(settings: Settings) -> Scripted:
    """Reads the script that `settings.model` names."""
    try:
        entries: Any = json.loads(Path(settings.model).read_text(encoding="utf-8"))
        replies = [Reply(**entry) if isinstance(entry, dict) else Reply(str(entry)) for entry in entries]
    except OSError as error:
        raise ModelError(f"{settings.model}: {error.strerror}.", "A script is a JSON list of replies.") from None
    except (ValueError, TypeError) as error:
        raise ModelError(f"{settings.model}: not a list of replies: {error}.") from None
    return Scripted(replies, settings.context_tokens or 4096)
